#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of ours are read by others, and theirs by us.

    safetensors_interoperate.py (plain | package) PROGRAM        PROGRAM: safetensors_cases

`plain` is a reader and a writer of a few lines of Python, `package` huggingface's `safetensors` with numpy; without
them the test is skipped (77).
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import make_safetensors as golden  # noqa: E402


# Of the first slot that safetensors_cases writes.
FIRST_BYTES = bytes((7 * i + 3) & 0xFF for i in range(24))


def lines_of(made, metadata):
    text = [f"metadata {key} {value}" for key, value in sorted(metadata.items())]
    for name, (dtype, shape, data) in sorted(made.items()):
        text.append(f"{name} {dtype} {shape} {data.hex()}".rstrip())
    return text


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{arguments}: {done.stderr}")
    return [line.rstrip() for line in done.stdout.splitlines()]


def require_equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}\nfound:    {found}\nexpected: {expected}")


def main():
    kind, program = sys.argv[1:]
    if kind == "package":
        try:
            import numpy  # noqa: F401
            import safetensors
        except ImportError as missing:
            print(f"skipped: the package {missing.name} is not installed")
            sys.exit(77)
        print(f"safetensors {safetensors.__version__}")
    save, load = (golden.package_save, golden.package_load) if kind == "package" else (golden.plain_save, golden.plain_load)

    with tempfile.TemporaryDirectory() as folder:
        theirs = pathlib.Path(folder) / "theirs.safetensors"
        content = save(golden.tensors(), golden.METADATA)
        theirs.write_bytes(content)
        require_equal("theirs, read by us", run(program, "print", theirs), lines_of(golden.tensors(), golden.METADATA))
        require_equal("the golden file", (ROOT / "tests/golden/experts.safetensors").read_bytes(), content)

        ours = pathlib.Path(folder) / "ours.safetensors"
        run(program, "write", ours)
        made, metadata = load(ours.read_bytes())
        require_equal("ours, read by them", lines_of(made, metadata), run(program, "print", ours))
        require_equal("ours", made["model.layers.1.mlp.experts.5.w13"], ("I8", [4, 6], FIRST_BYTES))
        if len(made) != 6 or len(metadata) != 4:
            sys.exit(f"{len(made)} tensors and {len(metadata)} pairs of metadata, not 6 and 4")


if __name__ == "__main__":
    main()
