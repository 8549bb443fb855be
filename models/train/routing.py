# SPDX-License-Identifier: Apache-2.0
"""How the experts' loads differ between domains, and what that does to a plan: the planner is the program's own."""

import json
import pathlib
import subprocess
import tempfile

import numpy

RANKS = 8
SLOTS_PER_RANK = 5  # One more than without replicas.
HOTTEST = 8


def counts_of(chosen, experts):
    """[expert layers][experts] of [expert layers][positions][top_k]."""
    return numpy.stack([numpy.bincount(layer.flatten(), minlength=experts) for layer in chosen.numpy()])


def imbalances(counts):
    """By layer, when the experts lie on the ranks in order."""
    loads = counts.reshape(len(counts), RANKS, -1).sum(-1)
    return (loads.max(-1) / loads.mean(-1)).tolist()


def overlap(one, other):
    """How many of the hottest experts two domains share, mean over layers."""
    hot = [[set(numpy.argsort(-layer, kind="stable")[:HOTTEST].tolist()) for layer in counts]
           for counts in (one, other)]
    return sum(len(a & b) for a, b in zip(*hot)) / len(one)


def load_file(counts, dense_layers):
    """What the program reads: docs/formats/loads.md. Layers without experts are rows of zeros."""
    dense = numpy.zeros((dense_layers, counts.shape[1]), int)
    return json.dumps({"logical_count": numpy.concatenate([dense, counts]).tolist()})


class Planner:
    """The program, in a folder of its own."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise SystemExit(f"routing: {self.program} {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def plan(self, loads, name):
        self.run("plan", loads, "--ranks", RANKS, "--slots-per-rank", SLOTS_PER_RANK, "--output", name)
        return name

    def split(self, loads, placement):
        """Imbalance with even shares of replicas and with the exact split, means over layers."""
        said = self.run("split", loads, "--placement", placement, "--ranks", RANKS, "--slots-per-rank", SLOTS_PER_RANK,
                        "--json", "-")
        summary = json.loads(said)["summary"]
        return summary["even_mean"], summary["exact_mean"]


def used_elsewhere(program, planned, used, dense_layers):
    """{planned domain: {domain: imbalance}} by kind of split. Counts by domain: to plan for, and to run with."""
    with tempfile.TemporaryDirectory() as scratch:
        planner = Planner(program, pathlib.Path(scratch))
        loads = {name: planner.write(f"{name}.loads.json", load_file(counts, dense_layers))
                 for name, counts in used.items()}
        result = {"even": {}, "exact": {}}
        for name, counts in planned.items():
            source = planner.write("planned.json", load_file(counts, dense_layers))
            placement = planner.plan(source, "placement.json")
            pairs = {other: planner.split(path, placement) for other, path in loads.items()}
            result["even"][name] = {other: even for other, (even, _) in pairs.items()}
            result["exact"][name] = {other: exact for other, (_, exact) in pairs.items()}
    return result


def statistics(program, chosen, config):
    """`chosen` is {domain: [expert layers][positions][top_k]}. Plans are made for the first half of the positions and
    used on the second, so that what a domain's own plan can do is not overstated."""
    counts, halves = {}, ({}, {})
    for name, choices in chosen.items():
        middle = choices.shape[1] // 2
        halves[0][name] = counts_of(choices[:, :middle], config.experts)
        halves[1][name] = counts_of(choices[:, middle:], config.experts)
        counts[name] = halves[0][name] + halves[1][name]
    return {
        "ranks": RANKS, "slots_per_rank": SLOTS_PER_RANK, "hottest": HOTTEST,
        "counts": {name: value.tolist() for name, value in counts.items()},
        "imbalance": {name: imbalances(value) for name, value in counts.items()},
        "overlap": {one: {other: overlap(counts[one], counts[other]) for other in counts} for one in counts},
        "planned": used_elsewhere(program, *halves, config.dense_layers),
    }
