#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes eplb.json: what DeepSeek's own `rebalance_experts` returns for a few inputs, as numbers.

    /usr/bin/python3 tests/golden/make_eplb.py EPLB_PY        EPLB_PY: deepseek-ai/EPLB's eplb.py

Run with the reference build, torch 1.13 as packaged by Debian 12: equal loads are ordered by its sort, and another
build may order them otherwise. The file was made from eplb.py of commit d52c72d; bench/peers/setup.py fetches the
copy of it that SGLang 0.5.10 carries, which gives the same bytes.
"""
import json
import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import peers  # noqa: E402

# The worked example of the README of deepseek-ai/EPLB.
README = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]


def cases():
    """(name, loads, slots, groups, nodes, ranks)"""
    random = numpy.random.default_rng(20261129)

    def lognormal(layers, experts, sigma=1.0):
        # Decimals of few digits: short to write down, and not exact in binary.
        return numpy.round(random.lognormal(0.0, sigma, (layers, experts)), 3)

    def shuffled(layers, groups, size):
        loads = lognormal(1, size, 0.5)[0]
        return [numpy.concatenate([random.permutation(loads) for _ in range(groups)]) for _ in range(layers)]

    yield "readme", README, 16, 4, 2, 8
    yield "readme flat", README, 16, 1, 1, 8
    yield "zeros", numpy.zeros((1, 8)), 12, 1, 1, 4
    yield "zeros by group", numpy.zeros((1, 16)), 24, 4, 2, 4
    yield "zeros, 33 copies", numpy.zeros((1, 256)), 288, 1, 1, 32
    yield "all equal", numpy.full((1, 40), 7), 64, 1, 1, 8
    yield "all equal by group", numpy.full((1, 96), 7), 128, 24, 4, 16
    yield "one hot expert", [[0] * 5 + [1000] + [0] * 58], 96, 1, 1, 8
    yield "small counts", random.integers(0, 4, (3, 48)), 64, 6, 2, 8
    yield "counts above 2^24", 2**24 + random.integers(0, 5, (2, 32)), 48, 8, 4, 8
    yield "one slot on each rank", lognormal(1, 12), 16, 1, 1, 16
    yield "no spare slot", lognormal(1, 24), 24, 4, 2, 6
    yield "as many groups as nodes", lognormal(1, 24), 32, 4, 4, 8
    yield "nodes do not divide groups", lognormal(1, 24), 32, 4, 3, 8
    yield "nodes do not divide ranks", lognormal(1, 24), 35, 4, 3, 5
    yield "widths differ between layers", numpy.stack([numpy.full(16, 1.0), numpy.arange(16.0) ** 4]), 32, 1, 1, 4
    # Groups of the same loads in another order: which sum is larger shows in what order they were added.
    for size in (3, 5, 6, 7, 9, 16, 33, 40, 64, 100):
        yield f"groups of {size}, shuffled", shuffled(2, 6, size), 6 * size + 6, 6, 2, 6
    yield "groups of 700, shuffled", shuffled(1, 4, 700), 2808, 4, 2, 8
    yield "as DeepSeek-V3 prefill", lognormal(1, 256), 288, 8, 4, 32
    yield "as DeepSeek-V3 decode", numpy.floor(lognormal(1, 256) * 1000), 320, 8, 18, 160


def answer(module, name, loads, slots, groups, nodes, ranks):
    import torch

    loads = numpy.asarray(loads, dtype="float64")
    outputs = peers.rebalance(module, torch.from_numpy(loads), slots, groups, nodes, ranks)
    physical_to_logical, logical_to_physical, logical_count = (tensor.tolist() for tensor in outputs)
    case = {"name": name, "slots": slots, "groups": groups, "nodes": nodes, "ranks": ranks}
    case["loads"] = [[int(x) if x == int(x) else x for x in row] for row in loads.tolist()]
    return case | {
        "physical_to_logical": physical_to_logical,
        "max_copies": outputs[1].shape[2],
        # Without the padding of -1, which reaches from the last copy to max_copies.
        "logical_to_physical": [[trimmed(row) for row in layer] for layer in logical_to_physical],
        "logical_count": logical_count,
    }


def trimmed(row):
    size = row.index(-1) if -1 in row else len(row)
    assert all(slot == -1 for slot in row[size:])
    return row[:size]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch = peers.torch_or_absent()
    module = peers.module_from(pathlib.Path(sys.argv[1]))
    lines = [json.dumps(answer(module, *case), separators=(",", ":")) for case in cases()]
    target = pathlib.Path(__file__).with_name("eplb.json")
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{target}: {len(lines)} cases, torch {torch.__version__}")


if __name__ == "__main__":
    main()
