#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the peers' own planners from their wheels, to be run beside ours; nothing of them is part of trimtab.

Downloads three wheels without their dependencies (pip, about 380 MB) and keeps only the planner files of each:

    deepseek/eplb.py      DeepSeek's EPLB, of which SGLang carried a reformatted copy up to 0.5.10
    sglang/deepseek.py    what SGLang made of it since: bins are summed in double precision
    sglang/deepseek_vec.py
    vllm/default.py

They need torch and numpy to run: Debian's python3-torch is the reference of the bit-compatible planner. Where
DeepSeek's own file is at hand, put it in the place of deepseek/eplb.py.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_FOLDER = ROOT / "build" / "peers"

SGLANG = "sglang/srt/eplb/eplb_algorithms/"
VLLM = "vllm/distributed/eplb/policy/"
PLATFORM = ["--python-version", "3.11", "--platform", "manylinux_2_34_x86_64", "--platform", "manylinux_2_28_x86_64"]
# (requirement, {file in the wheel: file here})
WHEELS = [
    ("sglang==0.5.10", {SGLANG + "deepseek.py": "deepseek/eplb.py"}),
    ("sglang==0.5.23", {SGLANG + name: "sglang/" + name for name in ("deepseek.py", "deepseek_vec.py")}),
    ("vllm==0.33.0", {VLLM + "default.py": "vllm/default.py"}),
]


def fetch(requirement, files, folder):
    with tempfile.TemporaryDirectory(prefix="trimtab-peers-") as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                   *PLATFORM, "--dest", downloads, requirement]  # fmt: skip
        subprocess.run(command, check=True)
        (wheel,) = pathlib.Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for inside, here in files.items():
                target = folder / here
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(inside))
                print(f"{target}: from {wheel.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=DEFAULT_FOLDER, help="default: build/peers")
    options = parser.parse_args()
    for requirement, files in WHEELS:
        fetch(requirement, files, options.folder)


if __name__ == "__main__":
    main()
