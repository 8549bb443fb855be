# SPDX-License-Identifier: Apache-2.0
"""From a trained state to what is published: `python3 models/train/evaluate.py --work FOLDER --out models/small`.

Writes the quantised model, its measured quality and routing, the loss curve and the model card. What is measured as
int8 is the file as it was written."""

import dataclasses
import json
import pathlib
import shutil
import sys

import numpy
import torch

import corpus
import ngram
import options
import repeats
import routing
import scoring
import served
from card import card
from model import Config, Model
from packages import MIXTURE
from picture import loss_picture


def parse(arguments):
    parser = options.parser_of(__doc__)
    options.add_evaluation(parser)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the model and its card")
    return parser.parse_args(arguments)


def program_of(arguments):
    """Its whole path; missed now rather than after an hour of training."""
    found = shutil.which(arguments.program)
    if not found:
        raise SystemExit(f"evaluate: no program {arguments.program}; `make build` makes it, --program names another")
    return pathlib.Path(found).resolve()


def joined(model, texts, stretches):
    """Scores of all stretches, one behind the other."""
    scores = [scoring.scores_of(model, texts[begin:end]) for begin, end in stretches]
    return scoring.Scores(torch.cat([score.bits for score in scores]),
                          torch.cat([score.chosen for score in scores], 1))


class Quality:
    """Of all that are compared, on the same bytes."""

    def __init__(self, texts, wanted):
        self.texts, self.measured, self.chosen = texts, {name: {} for name in texts.domains}, {}
        self.stretches = [scoring.stretches_of(heldout, wanted) for heldout in texts.heldout]
        self.is_fresh = {}  # By domain: bytes that are part of no long stretch of the training texts.
        for domain, _, heldout, stretches in self.domains():
            is_fresh = ~repeats.repeated(texts.train, heldout)
            self.is_fresh[domain] = numpy.concatenate([is_fresh[begin:end] for begin, end in stretches])
            self.measured[domain] |= {"bytes": len(self.is_fresh[domain]), "fresh": {},
                                      "fresh_bytes": int(self.is_fresh[domain].sum())}

    def note(self, domain, name, bits):
        """`bits` are of each byte scored."""
        self.measured[domain][name] = round(float(bits.mean()), 5)
        self.measured[domain]["fresh"][name] = round(float(bits[self.is_fresh[domain]].mean()), 5)
        print(f"evaluate: {domain}: {name} {bits.mean():.3f} bits per byte", file=sys.stderr, flush=True)

    def domains(self):
        return zip(self.texts.domains, self.texts.train, self.texts.heldout, self.stretches)

    def of_model(self, name, model):
        for domain, _, heldout, stretches in self.domains():
            scores = joined(model, heldout, stretches)
            self.chosen[domain] = scores.chosen
            self.note(domain, name, scores.bits.double().numpy())

    def of_ngram(self, name, model_of):
        for domain, train, heldout, stretches in self.domains():
            bits = model_of(train).bits(heldout)
            self.note(domain, name, numpy.concatenate([bits[begin:end] for begin, end in stretches]))


def quality_of(model, quantised, texts, wanted):
    quality = Quality(texts, wanted)
    of_all = ngram.NGram(texts.train)
    quality.of_ngram("ngram", lambda _: of_all)
    quality.of_ngram("own_ngram", lambda train: ngram.NGram([train]))
    quality.of_model("float", served.in_float(model))
    quality.of_model("int8", quantised)
    return quality


def about_corpus(folder, domains):
    """Where the texts are from, and how much of each domain was learnt from."""
    index = folder / "sources.json"
    said = json.loads(index.read_text(encoding="utf-8")) if index.exists() else {}
    shares = {domain: MIXTURE.get(domain, 1.0) for domain in domains}
    return {"mixture": {domain: share / sum(shares.values()) for domain, share in shares.items()},
            "sources": {domain: said[domain]["sources"] for domain in domains if domain in said},
            "most_bytes": corpus.MOST_BYTES, "one_in": corpus.ONE_IN}


def write_whole(path, content):
    """Under its name only when it is complete."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_bytes(content if isinstance(content, bytes) else content.encode())
    scratch.replace(path)


def main(arguments):
    """Everything in `arguments.out`, from the kept state."""
    program, folder = program_of(arguments), options.corpus_of(arguments)
    torch.set_num_threads(arguments.threads)
    state, texts = torch.load(arguments.work / "state.pt"), corpus.Corpus(folder)
    model = Model(Config())
    model.load_state_dict(state["model"])
    content = served.encode(served.quantised(model))
    quantised = served.decode(content)
    quality = quality_of(model, quantised, texts, arguments.score)
    results = {
        "config": dataclasses.asdict(model.config),
        "training": {"arguments": state["arguments"], "done": len(state["curve"])},
        "corpus": about_corpus(folder, texts.domains), "stride": scoring.STRIDE, "ngram_order": ngram.ORDER,
        "quality": quality.measured, "routing": routing.statistics(program, quality.chosen, model.config),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_whole(arguments.out / "model.safetensors", content)
    write_whole(arguments.out / "loss.svg", loss_picture(state["curve"]))
    write_whole(arguments.out / "evaluation.json", json.dumps(results, indent=1) + "\n")
    write_whole(arguments.out / "README.md", card(results, len(content)))


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
