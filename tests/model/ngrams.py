# SPDX-License-Identifier: Apache-2.0
"""The n-gram model against the same formula written for one position at a time."""

import collections
import math
import unittest

import training_code  # noqa: F401

import numpy

import ngram


def texts_of(*words):
    return [numpy.frombuffer(word.encode(), numpy.uint8) for word in words]


def surprise(texts, discounts, order, context, byte):
    """Bits of `byte` behind `context`, by counting in the texts anew."""
    if order < 0:
        return math.log2(ngram.BYTES)
    follow = collections.Counter()
    for text in texts:
        padded = b"\0" * ngram.ORDER + text.tobytes()
        for at in range(ngram.ORDER, len(padded)):
            if padded[at - order:at] == context[len(context) - order:]:
                follow[padded[at]] += 1
    lower = 2.0 ** -surprise(texts, discounts, order - 1, context, byte)
    if not follow:
        return -math.log2(lower)
    discount = discounts[order]
    kept = max(follow[byte] - discount, 0.0) + discount * len(follow) * lower
    return -math.log2(kept / sum(follow.values()))


class AgainstBruteForce(unittest.TestCase):
    texts = texts_of("the cat sat on the mat, the hat sat on the cat", "a mad cat had a hat; a rat had that")

    def setUp(self):
        self.model = ngram.NGram(self.texts)

    def test_every_position_of_known_and_unknown_text(self):
        for text in texts_of("that cat sat", "the xylophone\0the cat", "zz"):
            padded = b"\0" * ngram.ORDER + text.tobytes()
            wanted = [surprise(self.texts, self.model.discounts, ngram.ORDER, padded[at:at + ngram.ORDER], byte)
                      for at, byte in enumerate(text.tobytes())]
            numpy.testing.assert_allclose(self.model.bits(text), wanted, rtol=1e-12)

    def test_probabilities_of_all_next_bytes_add_up_to_one(self):
        for context in ("the", "at ", "xyz", "zth"):
            nexts = [numpy.frombuffer(context.encode() + bytes([byte]), numpy.uint8) for byte in range(ngram.BYTES)]
            total = sum(2.0 ** -self.model.bits(text)[-1] for text in nexts)
            self.assertAlmostEqual(total, 1.0)


class Tuning(unittest.TestCase):
    def test_discounts_suit_the_text_that_was_kept_back(self):
        """One that repeats leaves nothing to shorter contexts, one that does not leaves much."""
        random = numpy.random.default_rng(1)
        repeating = numpy.tile(numpy.frombuffer(b"abcdefghij", numpy.uint8), 2000)
        other = random.integers(0, 12, 4000).astype(numpy.uint8)
        self.assertLess(ngram.NGram([repeating]).discounts[-1], 0.1)
        self.assertGreater(ngram.NGram([other]).discounts[-1], 0.7)

    def test_no_other_discount_of_the_longest_context_would_have_been_better(self):
        text = numpy.random.default_rng(2).integers(0, 6, 2000).astype(numpy.uint8) ** 2
        model = ngram.NGram([text])
        kept = ngram.codes_of(text)[1900:]
        seen = [level.look_up(kept) for level in model.count([text[:1900]])]

        def loss(last):
            return -numpy.log(ngram.probabilities(seen, [*model.discounts[:-1], last])).sum()

        self.assertLessEqual(loss(model.discounts[-1]), min(loss(value) for value in ngram.TRIED) + 1e-9)


if __name__ == "__main__":
    unittest.main()
