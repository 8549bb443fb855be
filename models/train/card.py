# SPDX-License-Identifier: Apache-2.0
"""The model card, written from what was measured: no number in it is typed by hand."""

from options import IDENTITY
from repeats import STRETCH

HEAD = """# The small model

<!-- Written by models/train/evaluate.py from evaluation.json; change card.py, not this. -->

A byte-level causal language model in the manner of DeepSeek-V3, so small that two cores train and serve it. It is made
to show a balancer at work on routing that is real: text of different kinds heats different experts. It is no model to
get text from.

`model.safetensors` holds it as it is served, {size:.1f} MB: matrices of attention and experts in 8 bits (W8A8), gate,
norms, embedding and head in float. `evaluation.json` has the numbers of this page and the loads of each domain.
`prompts/` has a text of each domain, written for this project, to take prompts from.
"""

SHAPE = """## Shape

{table}

Byte 0 begins every text and is in none. Attention with rotary positions; RMS norm; SwiGLU. The gate scores experts by a
sigmoid and chooses by score plus bias: the best {top_groups} groups by their two best experts, in them the best {top_k}
experts, weighted by their scores. The bias balanced the load during training, without a loss for it, and is frozen now.
"""

TRAINING = """## Training

    make model

which is `python3 models/train/train.py --work FOLDER --out models/small{options}`. It fetches the texts, trains,
quantises, evaluates and writes this folder. Stopped, it goes on from the last kept state; the same seed on the same
machine ends the same. This one saw {seen:.1f} million bytes in {done} of {steps} steps of {rows} texts.

![Loss by step](loss.svg)

The texts are from Debian packages, are fetched when needed, and are no part of this project. They are cut into
passages, which are taken in the order of a hash until a domain has {most:.0f} million bytes; one passage in {one_in} is
held out.

{table}
"""

QUALITY = """## Quality

Bits per byte on held-out text. The windows have {context} bytes, begin {stride} apart, and score what no earlier one
has scored. Order-{order} n-grams saw the whole of the training texts: one of them all domains, as the model did, the
other only the domain that it is asked about.

{table}

8 bits cost {cost:+.2f} % on the mean of the domains, at worst {worst:+.2f} %.{behind}

Packages repeat themselves: licences, tables, the same call in many services. These are the bytes among the above that
are part of no stretch of {repeat} bytes in any training text:

{fresh}
"""

ROUTING = """## Routing

Loads of the same {positions} bytes per domain, as the quantised model routes them. Without balancing, the {experts}
experts in order on {ranks} ranks: imbalance (fullest rank over mean) by layer.

{imbalance}

Of the {hottest} hottest experts of a layer, so many are among the {hottest} hottest of another domain too, mean over
layers; any two sets would share {chance:.1f} by chance.

{overlap}

Plans with {slots} slots per rank, made by `trimtab plan` from the first half of one domain (rows) and used on the second
half of another (columns): imbalance with even shares of replicas, mean over layers, in brackets with the exact split.

{planned}
"""

LIMITS = """## Limits

- A context of {context} bytes, and what can be learnt from {seen:.0f} million: spelling, syntax, forms of documents; no
  facts, no sense. Greedy text soon repeats itself.
- Chinese is three bytes a character: the model's context is short there, and a sampled character may be broken.
- Domains are as Debian's packages have them. English is that of manuals, code mostly that of one C library; another
  text of the same kind will cost more bits and may heat other experts.
- Held-out passages are from the same packages as the training texts, often from the same file.
- Float results depend on the machine's libraries, so another machine trains another model. The file is what counts.

## Licence

The weights are under Apache-2.0, as the project is. The texts keep the licences named above.
"""


def table(columns, rows, names=1):
    """In Markdown. The first `names` columns are names, the others numbers."""
    lines = [columns, ["---"] * names + ["---:"] * (len(columns) - names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def square(names, value):
    """A table with a domain's name on both sides."""
    return table(["", *names], [[one, *(value(one, other) for other in names)] for one in names])


def shape(results):
    config = results["config"]
    rows = [[name.replace("_", " "), f"{value:g}" if isinstance(value, float) else value]
            for name, value in config.items()]
    return SHAPE.format(table=table(["", ""], rows), **config)


def options_of(training):
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in training["arguments"].items()
                   if value != IDENTITY[name])


def bytes_seen(results):
    arguments = results["training"]["arguments"]
    return results["training"]["done"] * arguments["rows"] * results["config"]["context"]


def training_part(results):
    corpus, training = results["corpus"], results["training"]
    rows = [[domain, f"{corpus['mixture'][domain]:.0%}", source["package"], source["version"], source["licence"]]
            for domain, sources in corpus["sources"].items() for source in sources]
    return TRAINING.format(
        options=options_of(training), seen=bytes_seen(results) / 1e6, done=training["done"],
        most=corpus["most_bytes"] / 1e6, one_in=corpus["one_in"],
        table=table(["domain", "share", "package", "version", "licence of the texts"], rows, names=5),
        **training["arguments"])


def cost(entry):
    """Of 8 bits, in percent; no minus before a zero."""
    return round(100 * (entry["int8"] / entry["float"] - 1), 2) + 0.0


def behind(measured):
    """What is said of domains that the best n-gram model knows better."""
    names = [name for name, entry in measured.items() if entry["int8"] > min(entry["ngram"], entry["own_ngram"])]
    return f" Behind n-grams, for want of training: {', '.join(names)}." if names else ""


def quality(results):
    measured, rows, fresh = results["quality"], [], []
    for domain, entry in measured.items():
        fresh.append([domain, entry["fresh_bytes"], *(f"{entry['fresh'][name]:.3f}"
                                                      for name in ("int8", "ngram", "own_ngram"))])
        rows.append([domain, entry["bytes"], *(f"{entry[name]:.3f}" for name in ("float", "int8")),
                     f"{cost(entry):+.2f} %", *(f"{entry[name]:.3f}" for name in ("ngram", "own_ngram"))])
    mean = {name: sum(entry[name] for entry in measured.values()) / len(measured) for name in ("float", "int8")}
    columns = ["domain", "bytes scored", "float", "int8", "cost", "n-gram", "n-gram of the domain"]
    of_fresh = ["domain", "bytes", "int8", "n-gram", "n-gram of the domain"]
    return QUALITY.format(table=table(columns, rows), fresh=table(of_fresh, fresh), repeat=STRETCH,
                          behind=behind(measured), cost=cost(mean),
                          worst=max(map(cost, measured.values())), stride=results["stride"], order=results["ngram_order"], **results["config"])


def mean_and_layers(values):
    return [f"{value:.2f}" for value in (sum(values) / len(values), *values)]


def routing(results):
    said, config = results["routing"], results["config"]
    domains = list(said["imbalance"])
    layers = range(config["dense_layers"], config["layers"])
    planned = said["planned"]
    return ROUTING.format(
        imbalance=table(["domain", "mean", *(f"layer {layer}" for layer in layers)],
                        [[name, *mean_and_layers(said["imbalance"][name])] for name in domains]),
        overlap=square(domains, lambda one, other: f"{said['overlap'][one][other]:.1f}"),
        planned=square(domains, lambda one, other:
                       f"{planned['even'][one][other]:.2f} ({planned['exact'][one][other]:.2f})"),
        positions=max(entry["bytes"] for entry in results["quality"].values()), experts=config["experts"],
        ranks=said["ranks"], hottest=said["hottest"], slots=said["slots_per_rank"],
        chance=said["hottest"] ** 2 / config["experts"])


def card(results, size_bytes):
    parts = [HEAD.format(size=size_bytes / 1e6), shape(results), training_part(results), quality(results),
             routing(results), LIMITS.format(seen=bytes_seen(results) / 1e6, **results["config"])]
    return "\n".join(parts)
