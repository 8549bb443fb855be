# SPDX-License-Identifier: Apache-2.0
"""Files of tensors: the length of a header, the header in JSON, then the bytes. See docs/formats/checkpoint.md.

Types of wider numbers come first, so every tensor is aligned; the same tensors always make the same bytes."""

import json
import struct

import numpy

TYPES = {"F32": numpy.dtype("<f4"), "I32": numpy.dtype("<i4"), "I8": numpy.dtype("i1")}
NAMES = {dtype: name for name, dtype in TYPES.items()}
ALIGNMENT = 8


def order_of(item):
    name, array = item
    return list(NAMES).index(array.dtype), name


def encode(tensors, metadata):
    """Bytes of a file. `tensors` are arrays by name, `metadata` strings by name."""
    header, size = {"__metadata__": dict(sorted(metadata.items()))}, 0
    ordered = sorted(tensors.items(), key=order_of)
    for name, array in ordered:
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [size, size + array.nbytes]}
        size += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return b"".join([struct.pack("<Q", len(text)), text, *(array.tobytes() for _, array in ordered)])


def decode(content):
    """What was encoded: arrays by name, and the metadata."""
    length, = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8:8 + length]), content[8 + length:]
    metadata = header.pop("__metadata__", {})
    return {name: array_of(entry, body) for name, entry in header.items()}, metadata


def array_of(entry, body):
    begin, end = entry["data_offsets"]
    return numpy.frombuffer(body[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
