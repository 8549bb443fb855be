#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes experts.safetensors: two experts of a small model, and a tensor that is of none.

    python3 tests/golden/make_safetensors.py [--package]

With --package by huggingface's `safetensors` (and numpy), else by the plain writer below, which needs nothing. The file in the
tree is the plain writer's; the test weights.safetensors_package compares both where the package is installed.
"""
import json
import pathlib
import struct
import sys
import tempfile

METADATA = {"format": "np"}
# The package writes types in this order, the names of one type in their own.
ORDER = ["F32", "I32", "F16", "I8", "U8"]
SIZES = {"F32": 4, "I32": 4, "F16": 2, "I8": 1, "U8": 1}
NUMPY_NAMES = {"F32": "float32", "I32": "int32", "F16": "float16", "I8": "int8", "U8": "uint8"}


def num_bytes(dtype, shape):
    size = SIZES[dtype]
    for extent in shape:
        size *= extent
    return size


def tensors():
    """{name: (dtype, shape, data)}: byte i of the k-th tensor is 37 k + 11 i + 5."""
    shapes = {"model.embed_tokens.weight": ("F16", [3, 2]), "model.scalar": ("I32", []), "model.none": ("F32", [0, 4])}
    for expert in (3, 5):
        prefix = f"model.layers.1.mlp.experts.{expert}."
        shapes[prefix + "w13"] = ("I8", [4, 6])
        shapes[prefix + "w13_scale"] = ("F32", [4])
        shapes[prefix + "w2"] = ("U8", [6, 2])
    made = {}
    for k, (name, (dtype, shape)) in enumerate(sorted(shapes.items())):
        data = bytes((37 * k + 11 * i + 5) & 0xFF for i in range(num_bytes(dtype, shape)))
        made[name] = (dtype, shape, data)
    return made


def plain_save(made, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name in sorted(made, key=lambda name: (ORDER.index(made[name][0]), name)):
        dtype, shape, data = made[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def plain_load(content):
    """(tensors as above, metadata)"""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    body = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    made = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        made[name] = (entry["dtype"], entry["shape"], body[begin:end])
    return made, metadata


# Through its interface for numpy: what lies below has changed between versions.
def package_save(made, metadata):
    import numpy
    import safetensors.numpy

    arrays = {
        name: numpy.frombuffer(data, NUMPY_NAMES[dtype]).reshape(shape) for name, (dtype, shape, data) in made.items()
    }
    return safetensors.numpy.save(arrays, metadata)


def package_load(content):
    import safetensors
    import safetensors.numpy

    names = {numpy_name: dtype for dtype, numpy_name in NUMPY_NAMES.items()}
    made = {
        name: (names[array.dtype.name], list(array.shape), array.tobytes())
        for name, array in safetensors.numpy.load(content).items()
    }
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(content)
        file.flush()
        with safetensors.safe_open(file.name, framework="np") as opened:
            return made, opened.metadata()


if __name__ == "__main__":
    save = package_save if "--package" in sys.argv[1:] else plain_save
    pathlib.Path(__file__).with_name("experts.safetensors").write_bytes(save(tensors(), METADATA))
