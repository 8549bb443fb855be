#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two result files of bench/run.py. One-sided: being faster is never an error.

A throughput may be 5 % lower, and where a benchmark has none, its median time 15 % higher. A benchmark that
the new file lacks is an error, and so is another machine. Exit status: 0 nothing is worse, 1 something is,
2 the files cannot be compared.
"""
import argparse
import json
import pathlib
import sys

MAX_LATENCY_RATIO = 1.15
MIN_THROUGHPUT_RATIO = 0.95
THROUGHPUTS = ("bytes_per_second", "items_per_second")
SAME_MACHINE = ("cpu", "cores", "compiler", "flags")


def regression(before, after):
    """One line when `after` is worse than allowed, else None."""
    measured = [key for key in THROUGHPUTS if key in before]
    for key in measured:
        if key not in after:
            return f"{before['name']}: {key} is missing"
        ratio = after[key] / before[key]
        if ratio < MIN_THROUGHPUT_RATIO:
            return f"{before['name']}: {key} is {ratio:.3f} of before, the limit is {MIN_THROUGHPUT_RATIO}"
    ratio = after["median_ns"] / before["median_ns"]
    if not measured and ratio > MAX_LATENCY_RATIO:
        return f"{before['name']}: median time is {ratio:.3f} of before, the limit is {MAX_LATENCY_RATIO}"
    return None


def regressions(before, after):
    present = {row["name"]: row for row in after["benchmarks"]}
    found = []
    for row in before["benchmarks"]:
        name = row["name"]
        if "twin" in name.split("/") or row.get("is_peer"):
            continue  # not our code
        found.append(regression(row, present[name]) if name in present else f"{name}: missing")
    return [line for line in found if line]


def machine_difference(before, after):
    """One line when the machines differ, else None."""
    for key in SAME_MACHINE:
        old, new = before["machine"][key], after["machine"][key]
        if old != new:
            return f"another machine or build: {key} was '{old}', is '{new}'"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    options = parser.parse_args()
    try:
        before, after = (json.loads(p.read_text()) for p in (options.before, options.after))
        difference = machine_difference(before, after)
    except (OSError, ValueError, KeyError) as problem:
        difference = f"not two result files: {problem!r}"
    if difference:
        print(f"compare: {difference}", file=sys.stderr)
        sys.exit(2)
    found = regressions(before, after)
    print("\n".join(found) if found else f"nothing is worse in {len(before['benchmarks'])} benchmarks")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
