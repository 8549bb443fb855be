#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on what changed since a base, or on everything.

The base is LINT_BASE when set, else where this branch left origin/main, else the first parent of HEAD (a
merge is then checked whole). What is not committed yet counts as changed. A translation unit that was clean is
remembered by what it preprocesses to, and not read again.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIM = ROOT / "scripts/lint/include"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trimtab-tidy"
SOURCE_FOLDERS = ("include/", "src/", "app/", "tests/", "bench/")


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")


def git(*arguments):
    done = run("git", *arguments)
    return done.stdout.strip() if done.returncode == 0 else ""


def base():
    if os.environ.get("LINT_BASE"):
        return os.environ["LINT_BASE"]
    fork = git("merge-base", "HEAD", "origin/main")
    if fork and fork != git("rev-parse", "HEAD"):
        return fork
    return git("rev-parse", "--verify", "--quiet", "HEAD~1")


def all_files():
    return git("ls-files").splitlines()


def changed_files():
    since = base()
    if not since:
        return all_files()
    changed = git("diff", "--name-only", "--diff-filter=d", since).splitlines()
    return changed + git("ls-files", "--others", "--exclude-standard").splitlines()


def commands_of(build):
    """What compiles each unit: the compiler and its arguments, without ccache and the output."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        arguments = shlex.split(entry["command"])
        first = next((i + 1 for i, word in enumerate(arguments) if word.endswith("/ccache")), 0)
        unit = pathlib.Path(entry["directory"], entry["file"]).resolve()
        commands[unit] = arguments[first : arguments.index("-o")]
    return commands


def unit_of(name, build):
    """Where a file is read: a header through the source of its name, or else alone (target check_headers)."""
    if name.endswith(".cpp"):
        return ROOT / name
    source = ROOT / re.sub(r"^include/trimtab/", "src/", name).replace(".hpp", ".cpp")
    return source if source.exists() else (build / "header_check" / f"{name}.cpp").resolve()


def stamp_of(unit, command):
    """Named after all that decides the findings, wherever the clone lies; None when it does not preprocess."""
    text = run(*command, "-E", "-C", str(unit))
    if text.returncode != 0:
        return None
    config = run("clang-tidy", "--dump-config", str(unit)).stdout
    deciding = [text.stdout, config, run("clang-tidy", "--version").stdout, *command]
    return CACHE / hashlib.sha256("\n".join(deciding).replace(str(ROOT), "").encode()).hexdigest()


def findings(unit, command, build):
    """What clang-tidy says of one unit; empty when it is clean."""
    stamp = stamp_of(unit, command)
    if stamp and stamp.exists():
        return ""
    done = run("clang-tidy", "--quiet", f"--extra-arg-before=-isystem{SHIM}",
               "--extra-arg=-Wno-unknown-warning-option",  # The flags are g++'s.
               "-p", str(build), str(unit))
    if done.returncode != 0:
        return done.stdout.strip() or done.stderr.strip()
    if stamp:
        CACHE.mkdir(parents=True, exist_ok=True)
        stamp.touch()
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true", help="check every source, changed or not")
    options = parser.parse_args()

    names = all_files() if options.all else changed_files()
    names = [n for n in names if n.startswith(SOURCE_FOLDERS) and n.endswith((".cpp", ".hpp"))]
    commands = commands_of(options.build)
    units = sorted({unit_of(name, options.build) for name in names} & commands.keys())
    distinct = set()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(lambda unit: findings(unit, commands[unit], options.build), units):
            if found and found not in distinct:
                print(found, flush=True)
                distinct.add(found)
    print(f"clang-tidy: {len(units)} translation units for {len(names)} files, findings in {len(distinct)}")
    sys.exit(1 if distinct else 0)


if __name__ == "__main__":
    main()
