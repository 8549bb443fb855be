# SPDX-License-Identifier: Apache-2.0
"""What a measurement must be read with: machine, compiler, flags, commit and date."""
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def first_value(path, key):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return "unknown"


def output_of(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Short name of the commit, with "-dirty" when tracked files differ from it."""
    return output_of("git", "describe", "--always", "--dirty", "--exclude=*") or "unknown"


def compiler_and_flags(build):
    """As the library itself was compiled."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if "/src/core/" in entry["file"]:
            words = shlex.split(entry["command"])
            words = words[next((i + 1 for i, w in enumerate(words) if w.endswith("/ccache")), 0) :]
            flags = [w for w in words if w.startswith(("-O", "-m", "-f", "-std", "-D", "-g"))]
            return output_of(words[0], "--version").split("\n")[0], " ".join(flags)
    return "unknown", ""


def describe(build):
    compiler, flags = compiler_and_flags(build)
    memory_kib = int(first_value("/proc/meminfo", "MemTotal").split()[0])
    return {
        "cpu": first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "compiler": compiler,
        "flags": flags,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }


def line(machine):
    return (
        "{cpu}, {cores} cores, {memory_gib} GiB, Linux {kernel}, {compiler} {flags}, "
        "commit {commit}, {date}".format(**machine)
    )
