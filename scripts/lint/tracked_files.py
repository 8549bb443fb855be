#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every tracked file: sources carry a licence line, and none names a path of one machine."""
import pathlib
import subprocess
import sys

SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = {".cpp", ".hpp", ".c", ".h", ".py", ".sh"}
# Spelt in two halves so that this file passes its own check.
FORBIDDEN = ["/wo" "rk/", "shared/fi" "eld"]


def is_source(path, text):
    return path.suffix in SOURCES or path.name == "Makefile" or text.startswith("#!")


def problems_of(path, text):
    if is_source(path, text) and SPDX not in "\n".join(text.splitlines()[:3]):
        yield f"{path}: no line '{SPDX}' at the top"
    for number, line in enumerate(text.splitlines(), 1):
        for word in FORBIDDEN:
            if word in line:
                yield f"{path}:{number}: names '{word}', which exists on one machine only"


def self_test():
    planted = [
        ("a.cpp", "int x;", 1),
        ("a.md", "see /wo" "rk/notes", 1),
        ("run", "#!/bin/sh\necho", 1),
        ("a.hpp", f"// {SPDX}\n", 0),
        ("a.md", "see ../shared/data/loads", 0),
    ]
    for name, text, expected in planted:
        if len(list(problems_of(pathlib.Path(name), text))) != expected:
            sys.exit(f"tracked_files self-test: {name} with {text!r} was judged wrongly")


def main():
    self_test()
    root = pathlib.Path(__file__).resolve().parents[2]
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    problems = []
    for name in filter(None, names.stdout.split("\0")):
        if (root / name).is_file():
            text = (root / name).read_text(errors="replace")
            problems.extend(problems_of(pathlib.Path(name), text))
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
