#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Explores the protocol model with spin: every configuration must hold, every mutant must be caught, every transition
of transitions.txt must be in the model and reached. `--all` adds the large configurations."""
import argparse
import dataclasses
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

SPECS = pathlib.Path(__file__).resolve().parent
MODEL = SPECS / "migration.pml"
SMALL_FORWARDS = "-DFORWARDS=1 -DSLACK=0"  # Enough to mix epochs, and a tenth of the states.
RIVALS = "-DRANKS=3 -DVIEWS=1 -DEARLY=2 -DRIVALS -DFORWARDS=0 -DSLACK=0"
MEMORY_MIB = 1800


@dataclasses.dataclass
class Configuration:
    name: str
    flags: str
    is_large: bool = False
    is_liveness: bool = False


CONFIGURATIONS = [
    Configuration("no faults", "-DRANKS=3 -DPROGRAMS=2"),
    Configuration("progress", "-DRANKS=3 -DPROGRAMS=2 -DPROGRESS", is_liveness=True),
    Configuration("two steps", "-DRANKS=2 -DSTEPS=2 -DEARLY=1 -DFAULTS=1"),
    Configuration("fixed ranks, two programs", "-DRANKS=2 -DPROGRAMS=2 -DEARLY=2 -DFAULTS=1"),
    Configuration("fixed ranks, three", "-DRANKS=3 -DEARLY=1 -DFAULTS=1"),
    Configuration("two ranks, one silent", f"-DRANKS=2 -DVIEWS=2 -DEARLY=2 {SMALL_FORWARDS}"),
    Configuration("two ranks, two programs", f"-DRANKS=2 -DVIEWS=1 -DEARLY=1 -DPROGRAMS=2 {SMALL_FORWARDS}"),
    Configuration("a death", "-DRANKS=3 -DVIEWS=1 -DDEATHS=1"),
    Configuration("two deaths", f"-DRANKS=3 -DVIEWS=2 -DDEATHS=2 {SMALL_FORWARDS}"),
    Configuration("a rank thought dead", f"-DRANKS=3 -DVIEWS=1 -DEARLY=1 {SMALL_FORWARDS}"),
    Configuration("a death, two programs", f"-DRANKS=3 -DVIEWS=1 -DDEATHS=1 -DPROGRAMS=2 {SMALL_FORWARDS}"),
    Configuration("fixed ranks, a death", "-DRANKS=3 -DEARLY=1 -DFAULTS=1 -DDEATHS=1", is_large=True),
    Configuration("a death and a silent rank", f"-DRANKS=3 -DVIEWS=2 -DDEATHS=1 -DEARLY=1 {SMALL_FORWARDS}",
                  is_large=True),  # fmt: skip
    Configuration("a promise lost", f"-DRANKS=3 -DVIEWS=1 -DDEATHS=1 -DLOSSES=1 -DEARLY=1 {SMALL_FORWARDS}",
                  is_large=True),  # fmt: skip
    Configuration("rival take-overs", RIVALS, is_large=True),
    Configuration("rival take-overs, a death", f"{RIVALS} -DDEATHS=1", is_large=True),
]

PLAIN = "-DRANKS=2"
FAULTY = "-DRANKS=3 -DEARLY=1 -DFAULTS=1"
TWICE = "-DRANKS=2 -DPROGRAMS=2 -DEARLY=2 -DFAULTS=1"
TAKE_OVER = f"-DRANKS=3 -DVIEWS=1 -DDEATHS=1 -DEARLY=1 {SMALL_FORWARDS}"

# What each breaks is told in README.md.
MUTANTS = {
    "VOTE_IGNORED": FAULTY,
    "MISSING_VOTE_IS_YES": FAULTY,
    "START_EARLY": FAULTY,
    "NO_DRAIN": PLAIN,
    "ADMIT_AT_F": PLAIN,
    "NO_HOLD": PLAIN,
    "OWN_HOLD": PLAIN,
    "TABLE_FIRST": PLAIN,
    "NOT_HELD": PLAIN,
    "EARLY_RELEASE": PLAIN,
    "NO_VOTE": PLAIN,
    "ALONE_AFTER_YES": TWICE,
    "OLD_ATTEMPT": TWICE,
    "STALE_PAYLOAD": TWICE,
    "NO_QUARANTINE": TWICE,
    "AFTER_PROMISE": TAKE_OVER,
    "ALWAYS_ABORT": TAKE_OVER,
    "OLD_BALLOT": RIVALS,
    "ONE_PHASE": RIVALS,
    "FORGETS_ACCEPTED": RIVALS,
    "KNOWN_DEAD": f"{RIVALS} -DDEATHS=1",
}


class Failed(Exception):
    """A check that did not hold, in one line or a few."""


@dataclasses.dataclass
class Exploration:
    errors: int
    states: int
    is_whole: bool
    first_error: str
    reached: set
    seconds: float


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]} ended with status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def explore(flags, is_liveness=False, is_large=False):
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trimtab_spec_") as folder:
        run(["spin", "-a", *flags.split(), str(MODEL)], folder)
        how = [] if is_liveness else ["-DSAFETY"]
        # Optimising takes longer than a small exploration.
        run(["cc", "-O2" if is_large else "-O0", "-w", *how, f"-DMEMLIM={MEMORY_MIB}", "-DVECTORSZ=2048", "-o", "pan", "pan.c"], folder)
        # -b: a run cut off by the depth limit is an error, not a result.
        text = run(["./pan", "-m20000", "-n", "-b", *(["-a"] if is_liveness else [])], folder)
    return Exploration(
        errors=int(re.search(r"errors: (\d+)", text)[1]),
        states=int(re.search(r"(\d+) states, stored", text)[1]),
        is_whole="Search not completed" not in text,
        first_error=next(iter(re.findall(r"^pan:1: (.*)", text, re.M)), ""),
        reached={tuple(line.split()) for line in re.findall(r"^reached (.*)", text, re.M)},
        seconds=time.monotonic() - begun,
    )


def listed_transitions():
    lines = (SPECS / "transitions.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    bad = [row for row in rows if len(row) != 5 or row[4] not in ("code", "views", "model")]
    if bad:
        raise Failed(f"transitions.txt: no transition: {bad[0]}")
    return {tuple(row[:4]) for row in rows}


def modelled_transitions():
    text = MODEL.read_text().split("#define ATTEMPTS", 1)[1]
    named = set(re.findall(r"\bT\((\w+), (\w+), (\w+), (\w+)\)", text))
    return named, {("ignored", role, kind, "any") for role, kind in re.findall(r"// ignores (\w+) (\w+)", text)}


def compare_lists():
    listed = listed_transitions()
    named, ignored = modelled_transitions()
    for row in sorted(listed ^ (named | ignored)):
        where = "transitions.txt" if row in listed else "migration.pml"
        raise Failed(f"only in {where}: {' '.join(row)}")
    return named


def check_configuration(configuration):
    found = explore(configuration.flags, configuration.is_liveness, configuration.is_large)
    print(f"spec: {configuration.name}: {found.states} states, {found.seconds:.1f} s ({configuration.flags})", flush=True)
    if found.errors or not found.is_whole:
        raise Failed(f"{configuration.name}: {found.first_error or 'not explored to the end'}")
    return found.reached


def check_mutant(name, flags):
    found = explore(f"{flags} -DM_{name}")
    print(f"spec: mutant {name}: {'caught' if found.errors else 'SURVIVED'}, {found.seconds:.1f} s", flush=True)
    if not found.errors or "max search depth" in found.first_error:
        raise Failed(f"mutant {name} was not caught under {flags}")
    if f"M_{name}" not in MODEL.read_text():
        raise Failed(f"mutant {name} is unknown to the model")


def check_everything(with_large):
    named = compare_lists()
    reached = set()
    for configuration in CONFIGURATIONS:
        if with_large or not configuration.is_large:
            reached |= check_configuration(configuration)
    for row in sorted(named - reached):
        raise Failed(f"no configuration reaches: {' '.join(row)}")
    for name, flags in MUTANTS.items():
        check_mutant(name, flags)
    unused = set(re.findall(r"\bM_([A-Z_]+)\b", MODEL.read_text())) - set(MUTANTS)
    if unused:
        raise Failed(f"no configuration tries mutant {sorted(unused)[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="also the configurations that take minutes")
    parser.add_argument("--lists", action="store_true", help="only compare transitions.txt with the model")
    options = parser.parse_args()
    begun = time.monotonic()
    try:
        compare_lists() if options.lists else check_everything(options.all)
    except Failed as failed:
        sys.exit(f"spec: FAILED: {failed}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"spec: all held in {time.monotonic() - begun:.0f} s, {peak:.0f} MiB at most")


if __name__ == "__main__":
    main()
