# SPDX-License-Identifier: Apache-2.0
"""What the model must beat: the next byte's distribution behind the last three, from counts alone.

Absolute discounting: each count gives up a share, which the distribution behind one byte less of context fills."""

import numpy

ORDER = 3  # Bytes of context.
BYTES = 256
TRIED = numpy.arange(0.05, 1.0, 0.05)  # Discounts.


def codes_of(texts, order=ORDER):
    """At each position the bytes of its context and its own as one number; before the texts lie zeros."""
    padded = numpy.concatenate([numpy.zeros(order, numpy.uint8), texts]).astype(numpy.uint32)
    codes = numpy.zeros(len(texts), numpy.uint32)
    for back in range(order + 1):
        codes |= padded[order - back:len(padded) - back] << numpy.uint32(8 * back)
    return codes


class Level:
    """What was counted behind contexts of `length` bytes."""

    def __init__(self, codes, counts, length):
        self.mask = numpy.uint32(BYTES ** (length + 1) - 1)
        self.codes, place = numpy.unique(codes & self.mask, return_inverse=True)
        self.counts = numpy.bincount(place, counts)
        contexts = self.codes >> 8
        self.totals = numpy.bincount(contexts, self.counts, BYTES ** length)
        self.kinds = numpy.bincount(contexts, minlength=BYTES ** length)

    def look_up(self, codes):
        """By position: how often its byte was seen behind its context, how often any, and how many different."""
        wanted = codes & self.mask
        place = numpy.searchsorted(self.codes, wanted).clip(max=len(self.codes) - 1)
        count = numpy.where(self.codes[place] == wanted, self.counts[place], 0.0)
        return count, self.totals[wanted >> 8], self.kinds[wanted >> 8]


def probabilities(seen, discounts):
    """By position, from what each level has seen, shortest context first."""
    result = 1.0 / BYTES
    for (count, total, kinds), discount in zip(seen, discounts):
        kept = numpy.maximum(count - discount, 0.0) + discount * kinds * result
        result = numpy.where(total > 0, kept / numpy.maximum(total, 1.0), result)
    return result


def tuned(seen):
    """The discounts under which what is seen is least surprising: one after the other, twice."""
    discounts = [0.5] * len(seen)
    for level in [*range(len(seen))] * 2:
        tried = [[*discounts[:level], value, *discounts[level + 1:]] for value in TRIED]
        discounts = min(tried, key=lambda values: -numpy.log(probabilities(seen, values)).sum())
    return [round(float(value), 2) for value in discounts]


class NGram:
    """Counts of all texts; discounts that suit one twentieth of each when the rest was counted."""

    def __init__(self, texts, order=ORDER):
        self.order = order
        first = [len(text) - len(text) // 20 for text in texts]
        levels = self.count([text[:end] for text, end in zip(texts, first)])
        kept = numpy.concatenate([codes_of(text, order)[end:] for text, end in zip(texts, first)])
        self.discounts = tuned([level.look_up(kept) for level in levels])
        self.levels = self.count(texts)

    def count(self, texts):
        codes, counts = numpy.unique(numpy.concatenate([codes_of(text, self.order) for text in texts]),
                                     return_counts=True)
        return [Level(codes, counts, length) for length in range(self.order + 1)]

    def bits(self, texts):
        """[positions]: how surprising each byte is."""
        codes = codes_of(texts, self.order)
        return -numpy.log2(probabilities([level.look_up(codes) for level in self.levels], self.discounts))
