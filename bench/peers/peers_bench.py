#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the peers' own Python on the loads of peers_bench, one thread, and checks its plans against ours.

Writes the rows as Google Benchmark does. A plan can take a minute, so each is repeated up to ten times within ten
seconds and at least once; the counter `runs` says how often. Without torch or the files that setup.py fetches
it says so and ends with status 77.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import peers

SKIPPED = 77
MAX_REPETITIONS = 10
BUDGET_S = 10.0
NAMES = {
    "deepseek": "DeepSeek eplb.py",
    "sglang": "SGLang deepseek.py",
    "sglang_vec": "SGLang deepseek_vec.py",
    "vllm": "vLLM default.py",
}


class Shape:
    """One line of shapes.txt with its loads and our plan."""

    def __init__(self, folder, number, line):
        import numpy

        self.name, *sizes = line.split()
        layers, experts, *self.cluster = map(int, sizes)  # slots, groups, nodes, ranks
        self.loads = numpy.fromfile(folder / f"{number}.loads", "<f8").reshape(layers, experts)
        self.ours = numpy.fromfile(folder / f"{number}.deepseek", "<i4").reshape(layers, self.cluster[0])


def read_shapes(program):
    with tempfile.TemporaryDirectory(prefix="trimtab-peers-") as name:
        folder = pathlib.Path(name)
        subprocess.run([program, f"--export={folder}"], check=True)
        lines = (folder / "shapes.txt").read_text().splitlines()
        return [Shape(folder, number, line) for number, line in enumerate(lines)]


def imbalance(shape, rows):
    """Mean over layers of max / mean rank load under even shares."""
    import numpy

    experts, ranks = shape.loads.shape[1], shape.cluster[3]
    counts = numpy.stack([numpy.bincount(row, minlength=experts) for row in rows])
    shares = numpy.take_along_axis(shape.loads / counts, rows, axis=1)
    rank_loads = shares.reshape(len(rows), ranks, -1).sum(axis=2)
    return float((rank_loads.max(axis=1) / rank_loads.mean(axis=1)).mean())


def quality(shape, rows):
    """The columns of peers_bench: duplicates over all layers, moves per layer from the identity placement."""
    from collections import Counter

    slots, ranks = shape.cluster[0], shape.cluster[3]
    width, experts = slots // ranks, shape.loads.shape[1]
    duplicates = moves = 0
    for row in rows.tolist():
        for first in range(0, slots, width):
            held = Counter(row[first : first + width])
            before = Counter(slot % experts for slot in range(first, first + width))
            duplicates += width - len(held)
            moves += sum((held - before).values())
    return {"imbalance": imbalance(shape, rows), "duplicates": duplicates, "moves": moves / len(rows)}


def check(peer, shape, rows):
    import numpy

    if peer == "deepseek" and not numpy.array_equal(rows, shape.ours):
        return "not our plan"
    if peer == "vllm" and abs(imbalance(shape, rows) / imbalance(shape, shape.ours) - 1) > 1e-4:
        return "not the balance of our plan"
    return None


def measure(peer, plan, shape):
    """One entry for each repetition, or one that carries an error."""
    import torch

    weight = torch.from_numpy(shape.loads)
    times = []
    while len(times) < MAX_REPETITIONS and sum(times) < BUDGET_S:
        start = time.perf_counter()
        outputs = plan(weight, *shape.cluster)
        times.append(time.perf_counter() - start)
    rows = outputs[0].numpy().astype("int64")
    name = f"peers/{shape.name}/{NAMES[peer]}"
    entry = {"name": name, "run_name": name, "run_type": "iteration", "time_unit": "s"}
    if problem := check(peer, shape, rows):
        return [entry | {"error_occurred": True, "error_message": problem}]
    counters = quality(shape, rows) | {"runs": len(times)}
    return [entry | counters | {"real_time": seconds} for seconds in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the built peers_bench")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the JSON goes")
    parser.add_argument("--filter", default=".", help="regular expression over benchmark names")
    options = parser.parse_args()
    entries = []
    try:
        plans = {peer: peers.load(peer) for peer in NAMES}
    except peers.Absent as absent:
        print(absent, file=sys.stderr)
        sys.exit(SKIPPED)
    for shape in read_shapes(options.program):
        for peer, plan in plans.items():
            if re.search(options.filter, f"peers/{shape.name}/{NAMES[peer]}"):
                entries += measure(peer, plan, shape)
    options.out.write_text(json.dumps({"benchmarks": entries}))


if __name__ == "__main__":
    main()
