#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark program, prints one table under its machine line, and keeps it in bench/results/."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import machine
import recovery
import table

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS = BENCH / "results"
SKIPPED = 77


def run_program(program, options):
    """The program's rows. Repetitions of its benchmarks are interleaved, so that drift meets all alike."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [
            program,
            f"--benchmark_repetitions={options.repetitions}",
            f"--benchmark_min_time={options.min_time}",
            f"--benchmark_filter={options.filter}",
            "--benchmark_enable_random_interleaving=true",
            f"--benchmark_out={report.name}",
            "--benchmark_out_format=json",
        ]
        print(f"bench: running {pathlib.Path(program).name}", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise table.BadRun(f"{program} ended with status {done.returncode}: {done.stderr.strip()}")
        text = report.read().decode()
    return table.rows_of(json.loads(text)) if text else []


def run_pair(program, options):
    """Rows of a program of two processes, which makes them itself: they take turns with their twins."""
    name = pathlib.Path(program).name
    is_mpi = name.startswith("mpi_")
    if is_mpi and not shutil.which("mpirun"):
        print(f"bench: skipped {name}: no mpirun", file=sys.stderr)
        return []
    print(f"bench: running {name}", file=sys.stderr, flush=True)
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "--oversubscribe", "-n", "2", program] if is_mpi else [program]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | as_root)
    if done.returncode != 0:
        raise table.BadRun(f"{program} ended with status {done.returncode}: {done.stderr.strip()}")
    return [row for row in json.loads(done.stdout) if re.search(options.filter, row["name"])]


def run_recovery(program, options):
    """Rows of services that lose a rank, where ranks are processes."""
    doctor = subprocess.run([program, "doctor"], capture_output=True, text=True)
    if not re.search(r"(?m)^ucx +yes +yes", doctor.stdout):
        print("bench: skipped recoveries: no usable ucx", file=sys.stderr)
        return []
    if not re.search(options.filter, "recovery/no expert lost|recovery/experts from disk"):
        return []
    print("bench: running services that lose a rank", file=sys.stderr, flush=True)
    return recovery.rows_of(program, options.repetitions)


def run_peers(program, options):
    """Rows of the peers' own Python, where there is one with torch; Debian's is the reference."""
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        print("bench: running the peers' own Python", file=sys.stderr, flush=True)
        command = [python, "-B", BENCH / "peers" / "peers_bench.py", "--program", program, "--out", report.name,
                   "--filter", options.filter]  # fmt: skip
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode == SKIPPED:
            print(f"bench: skipped the peers' own Python: {done.stderr.strip()}", file=sys.stderr)
            return []
        if done.returncode != 0:
            raise table.BadRun(f"peers_bench.py ended with status {done.returncode}: {done.stderr.strip()}")
        rows = table.rows_of(json.loads(report.read().decode()), min_repetitions=1)
    return [row | {"is_peer": True} for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder of the release preset")
    parser.add_argument("--repetitions", type=int, default=table.MIN_REPETITIONS)
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds of one repetition")
    parser.add_argument("--filter", default=".", help="regular expression over benchmark names")
    options = parser.parse_args()

    programs = (options.build / "bench/programs.txt").read_text().split()
    try:
        rows = []
        for program in programs:
            is_pair = re.match("(mpi|ucx)_", pathlib.Path(program).name)
            run = run_pair if is_pair else run_program
            rows += run(program, options)
        for program in programs:
            if pathlib.Path(program).name == "peers_bench":
                rows += run_peers(program, options)
        rows += run_recovery(options.build / "bin/trimtab", options)
    except table.BadRun as bad:
        sys.exit(f"bench: {bad}")
    if not rows:
        sys.exit(f"bench: no benchmark matches '{options.filter}'")

    described = machine.describe(options.build)
    text = table.markdown(rows, machine.line(described))
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{described['date']}-{described['commit']}"
    document = {"schema": "trimtab.bench/1", "machine": described, "benchmarks": rows}
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text)
    print(text)
    print(f"bench: kept as {stem}.json and .md", file=sys.stderr)


if __name__ == "__main__":
    main()
