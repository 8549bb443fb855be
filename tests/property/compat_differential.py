# SPDX-License-Identifier: Apache-2.0
"""Compares the compatibility planners with the peers' own Python, case by random case.

deepseek: all three outputs equal. vllm: the imbalance of every layer equal. Needs torch and the files that
bench/peers/setup.py fetches; without them it says so and ends with status 77, which ctest shows as skipped.
"""
import argparse
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import peers  # noqa: E402

SKIPPED = 77
DEEPSEEK, VLLM = 0, 1


class Program:
    """compat_cases, asked one case at a time."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, planner, weight, slots, groups, nodes, ranks):
        head = struct.pack("<7i", planner, *weight.shape, slots, groups, nodes, ranks)
        self.process.stdin.write(head + weight.astype("<f8").tobytes())
        self.process.stdin.flush()

    def take(self, *shape):
        import numpy

        size = int(numpy.prod(shape))
        data = self.process.stdout.read(4 * size)
        if len(data) != 4 * size:
            sys.exit("compat_differential: compat_cases ended early")
        return numpy.frombuffer(data, "<i4").reshape(shape)


def random_shape(random):
    """(experts, slots, groups, nodes, ranks), by group or flat, a few of them large."""
    nodes = int(random.choice([1, 1, 2, 3, 4, 8, 16]))
    by_group = random.random() < 0.6
    groups = nodes * int(random.choice([1, 2, 3, 4, 8])) if by_group else int(random.integers(1, 20))
    is_large = random.random() < 0.05
    most = max(1, (1400 if is_large else 200) // groups)
    experts = groups * int(random.integers(1, most + 1))
    ranks = nodes * int(random.choice([1, 2, 3, 4, 8, 9])) if groups % nodes == 0 else int(random.integers(1, 40))
    least = -(-experts // ranks)
    slots = ranks * (least + int(random.choice([0, 0, 1, 1, 2, 3, 8])))
    return experts, slots, groups, nodes, ranks


def random_row(random, experts, groups):
    import numpy

    kind = random.integers(0, 13)
    if kind == 0:
        return numpy.zeros(experts)
    if kind == 1:
        return numpy.full(experts, float(random.integers(1, 1000)))
    if kind == 2:
        return random.integers(0, 4, experts).astype(float)
    if kind == 3:
        return random.integers(0, 100, experts).astype(float)
    if kind == 4:
        return numpy.floor(random.pareto(1.0, experts) * 10)
    if kind == 5:
        return random.lognormal(0, 1, experts)
    if kind == 6:  # above 2^24 counts round in single precision
        return (2**24 + random.integers(0, 50, experts)).astype(float)
    if kind == 7:
        return numpy.floor(random.lognormal(20, 2, experts))
    if kind == 8:  # sparse
        return numpy.where(random.random(experts) < 0.1, random.integers(1, 50, experts), 0).astype(float)
    if kind == 9:
        return numpy.sort(numpy.floor(random.lognormal(5, 1, experts)))[:: random.choice([1, -1])]
    if kind == 10:  # one hot
        row = numpy.zeros(experts)
        row[random.integers(0, experts)] = random.choice([1.0, 1e6])
        return row
    if kind == 11 and experts % groups == 0:  # groups whose sums differ by rounding alone
        loads = random.lognormal(0, 1, experts // groups)
        return numpy.concatenate([random.permutation(loads) for _ in range(groups)])
    return random.random(experts) * 1e-30


def random_case(random):
    import numpy

    shape = random_shape(random)
    layers = int(random.integers(1, 4))
    return numpy.stack([random_row(random, shape[0], shape[2]) for _ in range(layers)]), shape[1:]


def imbalances(weight, rows, ranks):
    """max / mean rank load of each layer, from the definition."""
    import numpy

    weight = weight.astype("float32").astype("float64")
    values = []
    for loads, row in zip(weight, rows):
        shares = (loads / numpy.bincount(row, minlength=len(loads)))[row]
        rank_loads = shares.reshape(ranks, -1).sum(axis=1)
        values.append(rank_loads.max() / rank_loads.mean() if loads.any() else 1.0)
    return numpy.array(values)


def differs_from_deepseek(program, peer, weight, shape):
    import numpy
    import torch

    theirs = [tensor.numpy() for tensor in peer(torch.from_numpy(weight), *shape)]
    program.ask(DEEPSEEK, weight, *shape)
    (layers, experts), slots = weight.shape, shape[0]
    width = int(program.take(1)[0])
    ours = [program.take(layers, slots), program.take(layers, experts, width), program.take(layers, experts)]
    return not all(numpy.array_equal(a, b) for a, b in zip(ours, theirs))


def has_tied_groups(weight, groups):
    return any(len(set(row.reshape(groups, -1).sum(axis=1).tolist())) < groups for row in weight.astype("float32"))


def differs_from_vllm(program, peer, weight, shape):
    import numpy
    import torch

    if shape[2] > shape[3]:  # A node without a rank: tensors allow it, a topology does not.
        shape = (shape[0], 1, 1, shape[3])
    (theirs,) = peer(torch.from_numpy(weight), *shape)
    program.ask(VLLM, weight, *shape)
    ours = program.take(weight.shape[0], shape[0])
    values = (imbalances(weight, ours, shape[3]), imbalances(weight, theirs.numpy(), shape[3]))
    if numpy.allclose(*values, rtol=1e-9, atol=0):
        return False
    # numpy leaves the order of equal groups open above 16 of them, and other nodes are then balanced otherwise.
    groups, nodes = shape[1:3]
    return not (groups > 16 and groups % nodes == 0 and has_tied_groups(weight, groups))


COMPARISONS = {"deepseek": differs_from_deepseek, "vllm": differs_from_vllm}


def compare(name, options):
    import numpy

    peer = peers.load(name)
    random = numpy.random.default_rng(options.seed)
    program = Program(options.program)
    mismatches = 0
    for number in range(options.cases):
        weight, shape = random_case(random)
        if COMPARISONS[name](program, peer, weight, shape):
            mismatches += 1
            print(f"{name}: case {number} of seed {options.seed} differs: "
                  f"{weight.shape[1]} experts, (slots, groups, nodes, ranks) = {shape}")  # fmt: skip
            if mismatches == 10:
                break
    print(f"{name}: {mismatches} mismatches in {number + 1} cases, seed {options.seed}")
    return mismatches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the built compat_cases")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planner", choices=COMPARISONS, help="default: all")
    options = parser.parse_args()
    try:
        names = [options.planner] if options.planner else COMPARISONS
        mismatches = sum([compare(name, options) for name in names])
    except peers.Absent as absent:
        print(f"compat_differential: skipped: {absent}")
        sys.exit(SKIPPED)
    sys.exit(1 if mismatches else 0)


if __name__ == "__main__":
    main()
