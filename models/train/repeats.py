# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a text stand in other texts too, as part of a long stretch that is equal."""

import numpy

STRETCH = 32  # Bytes, a power of two.
BASE = 0x9E3779B97F4A7C15


def hashes(text):
    """Of the stretch that begins at each byte. Two that differ have equal ones about once in 2^64."""
    values, length = text.astype(numpy.uint64) + numpy.uint64(1), 1
    while length < STRETCH:
        factor = numpy.uint64(pow(BASE, length, 1 << 64))
        values = values[:-length] * factor + values[length:]
        length *= 2
    return values


def repeated(texts, text):
    """[bytes of `text`]: whether a stretch with this byte occurs in `texts`."""
    known = numpy.unique(numpy.concatenate([hashes(other) for other in texts]))
    own = hashes(text)
    at = numpy.minimum(numpy.searchsorted(known, own), len(known) - 1)
    begins = numpy.zeros(len(text) + 1, numpy.int64)
    found = numpy.flatnonzero(known[at] == own)
    numpy.add.at(begins, found, 1)
    numpy.add.at(begins, found + STRETCH, -1)
    return begins.cumsum()[:-1] > 0
