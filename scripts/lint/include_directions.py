#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that modules include only what lies below them, and that installed headers need nothing private.

The table is the dependency rule of the design: the planner never learns what a transport is, and nothing in
the library includes a leaf (io, report, moe, …) or the command line.
"""
import pathlib
import re
import sys
import tempfile

# What each module may include besides itself.
BELOW = {
    "core": set(),
    "split": {"core"},
    "plan": {"core", "split"},
    "record": {"core"},
    "route": {"core", "split"},
    "transport": {"core"},
    "weights": {"core"},
    "migrate": {"core", "split", "route", "transport", "weights"},
    "balance": {"core", "split", "plan", "record", "route", "transport", "weights", "migrate"},
}
LIBRARY = set(BELOW)
LEAVES = {"io", "report", "moe", "mutant", "sim", "verify"}
for leaf in LEAVES:
    BELOW[leaf] = LIBRARY
# Broken engines serve the reference runtime and the campaigns that must notice them.
BELOW["moe"] = BELOW["verify"] = LIBRARY | {"mutant"}
BELOW["app"] = LIBRARY | LEAVES

# Installed headers may use the standard library, each other, and these: consumers must have them.
PUBLIC_THIRD_PARTY = {"tl/expected.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """The module that owns a file, given relative to the root; None where the rule does not apply."""
    parts = path.parts
    if parts[:2] == ("include", "trimtab"):
        return parts[2] if len(parts) > 3 else None
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else None
    return "app" if parts[0] == "app" else None


def included_module(target):
    """The module that an include names, or None for foreign headers and those beside the file."""
    parts = target.split("/")
    if parts[0] == "trimtab":
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in BELOW else None


def is_foreign_to_public(bracket, target):
    is_standard = bracket == "<" and "/" not in target and "." not in target
    return not (is_standard or target.startswith("trimtab/") or target in PUBLIC_THIRD_PARTY)


def violations_in(root, path):
    owner = module_of(path)
    if owner is None:
        return
    if owner not in BELOW:
        yield f"{path}: module '{owner}' is not in the table of scripts/lint/include_directions.py"
        return
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        used = included_module(target)
        if used is not None and used != owner and used not in BELOW[owner]:
            yield f"{path}:{number}: {owner} must not include {used} ({target})"
        if path.parts[0] == "include" and is_foreign_to_public(bracket, target):
            yield f"{path}:{number}: an installed header must not need {target}"


def all_violations(root):
    found = []
    for top in ("include", "src", "app"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in {".hpp", ".cpp", ".h", ".c"}:
                found.extend(violations_in(root, file.relative_to(root)))
    return found


def self_test():
    """Each planted line must be found, and each sound one must not."""
    planted = [
        ("src/plan/a.cpp", "#include <trimtab/transport/transport.hpp>", True),
        ("src/plan/a.cpp", '#include "transport/mpi/x.hpp"', True),
        ("include/trimtab/core/a.hpp", "#include <trimtab/plan/planner.hpp>", True),
        ("src/migrate/a.cpp", '#  include "io/loads.hpp"', True),
        ("src/io/a.cpp", '#include "report/table.hpp"', True),
        ("src/core/a.cpp", '#include "app/verb.hpp"', True),
        ("src/nowhere/a.cpp", "#include <vector>", True),
        ("include/trimtab/core/a.hpp", "#include <fmt/format.h>", True),
        ("include/trimtab/transport/a.hpp", "#include <mpi.h>", True),
        ("src/plan/a.cpp", "#include <trimtab/core/ids.hpp>", False),
        ("src/migrate/a.cpp", '#include "transport/frame.hpp"', False),
        ("src/transport/mpi/a.cpp", "#include <mpi.h>", False),
        ("include/trimtab/core/a.hpp", "#include <tl/expected.hpp>", False),
        ("src/mutant/a.cpp", '#include "verify/campaign.hpp"', True),
        ("src/verify/a.cpp", '#include "mutant/mutant.hpp"', False),
        ("app/a.cpp", '#include "moe/service.hpp"', False),
        ("src/plan/a.cpp", "// #include <trimtab/transport/transport.hpp>", False),
    ]
    for name, line, is_violation in planted:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / name
            file.parent.mkdir(parents=True)
            file.write_text(line + "\n")
            if bool(all_violations(pathlib.Path(folder))) != is_violation:
                sys.exit(f"include_directions self-test: {line!r} in {name} was judged wrongly")


def main():
    self_test()
    found = all_violations(pathlib.Path(__file__).resolve().parents[2])
    for violation in found:
        print(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
