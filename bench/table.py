# SPDX-License-Identifier: Apache-2.0
"""Turns Google Benchmark's JSON into rows of medians, pairs each with its raw twin, and prints one table."""
import statistics

MIN_REPETITIONS = 10
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
THROUGHPUTS = ("bytes_per_second", "items_per_second")
# What Google Benchmark itself writes beside counters.
OWN_FIELDS = {
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
    "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label",
}  # fmt: skip


class BadRun(Exception):
    """A benchmark failed its own check, or was repeated too rarely to be trusted."""


def percentile(values, fraction):
    """The value that `fraction` of the sorted values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def summarise(name, repetitions, min_repetitions):
    if len(repetitions) < min_repetitions:
        raise BadRun(f"{name}: {len(repetitions)} repetitions, at least {min_repetitions} are needed")
    times = [r["real_time"] * NANOSECONDS[r["time_unit"]] for r in repetitions]
    row = {"name": name, "median_ns": statistics.median(times), "p95_ns": percentile(times, 0.95)}
    for key in THROUGHPUTS:
        if key in repetitions[0]:
            row[key] = statistics.median(r[key] for r in repetitions)
    row["counters"] = {
        key: statistics.median(r[key] for r in repetitions)
        for key, value in repetitions[0].items()
        if key not in OWN_FIELDS and key not in THROUGHPUTS and isinstance(value, (int, float))
    }
    return row


def rows_of(report, min_repetitions=MIN_REPETITIONS):
    """One row for each benchmark of one program's JSON report."""
    repetitions = {}
    for entry in report["benchmarks"]:
        if entry.get("error_occurred"):
            raise BadRun(f"{entry['name']}: {entry.get('error_message', 'failed')}")
        if entry["run_type"] == "iteration":
            repetitions.setdefault(entry["run_name"], []).append(entry)
    return [summarise(name, entries, min_repetitions) for name, entries in repetitions.items()]


def twin_names(name):
    """Where the twin of a row may be, nearest first: "a/b/8" has "a/b/twin/8", "a/b/8/twin", "a/twin"."""
    parts = name.split("/")
    for at in range(len(parts), 0, -1):
        yield "/".join([*parts[:at], "twin", *parts[at:]])
    for at in range(len(parts) - 1, 0, -1):
        yield "/".join([*parts[:at], "twin"])


def pair(rows):
    """Rows that are no twin, each with the row of its twin or None."""
    by_name = {row["name"]: row for row in rows}
    return [
        (row, next((by_name[t] for t in twin_names(row["name"]) if t in by_name), None))
        for row in rows
        if "twin" not in row["name"].split("/")
    ]


def format_time(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def format_throughput(row):
    if "bytes_per_second" in row:
        return f"{row['bytes_per_second'] / 1e9:.3g} GB/s"
    if "items_per_second" in row:
        return f"{row['items_per_second'] / 1e6:.3g} M/s"
    return ""


def format_counters(row, twin):
    """What a benchmark counted, in brackets what its twin did."""

    def one(key, value):
        beside = f" ({twin['counters'][key]:.4g})" if twin and key in twin["counters"] else ""
        return f"{key} {value:.4g}{beside}"

    return ", ".join(one(key, value) for key, value in row["counters"].items())


def cells(row, twin):
    return [
        row["name"],
        format_time(row["median_ns"]),
        format_time(row["p95_ns"]),
        format_throughput(row),
        format_time(twin["median_ns"]) if twin else "",
        f"{row['median_ns'] / twin['median_ns']:.2f}" if twin else "",
        format_counters(row, twin),
    ]


def markdown(rows, machine_line):
    header = ["benchmark", "median", "p95", "rate", "raw twin", "times the twin", "counters (of the twin)"]
    lines = [header, *(cells(row, twin) for row, twin in pair(rows))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return f"{machine_line}\n\n" + "\n".join(text) + "\n"
