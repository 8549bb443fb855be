# SPDX-License-Identifier: Apache-2.0
"""From training to what is published: scores, routing statistics, picture, card, and all of it in one command."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

from training_code import small_config

import numpy
import torch

import card
import corpus
import evaluate
import picture
import repeats
import routing
import scoring
import served
import train
from model import Model, bits

PROGRAM = pathlib.Path(os.environ["TRIMTAB_BINARY"])


def model_with_context(context):
    torch.manual_seed(1)
    return served.in_float(Model(small_config(context=context)))


class Scoring(unittest.TestCase):
    def test_each_byte_is_scored_once_with_the_context_of_its_window(self):
        model = model_with_context(256)
        stretch = numpy.random.default_rng(1).integers(1, 256, 512).astype(numpy.uint8)
        scores = scoring.scores_of(model, stretch)
        self.assertEqual(scores.bits.shape, (512,))
        for at in (0, 1, 127, 255, 256, 300, 383, 384, 511):
            begin = 0 if at < 256 else (at - 128) // 128 * 128  # Of the window that scores it.
            seen = torch.tensor([[0, *stretch[begin:at].tolist()]])
            wanted = bits(model(seen)[:, -1:], torch.tensor([[int(stretch[at])]])).item()
            self.assertAlmostEqual(scores.bits[at].item(), wanted, places=4)
            for layer, experts in enumerate(model.expert_layers()):
                self.assertEqual(scores.chosen[layer, at].tolist(), experts.chosen[-1].tolist())

    def test_stretches_are_spread_over_all_that_is_held_out(self):
        stretches = scoring.stretches_of(numpy.zeros(100_000, numpy.uint8), 65536)
        self.assertEqual({end - begin for begin, end in stretches}, {4096})
        self.assertEqual((stretches[0][0], stretches[-1][1], len(stretches)), (0, 100_000, 16))
        self.assertTrue(all(end <= begin for (_, end), (begin, _) in zip(stretches, stretches[1:])))

    def test_no_more_is_scored_than_there_is(self):
        stretches = scoring.stretches_of(numpy.zeros(5000, numpy.uint8), 65536)
        self.assertEqual({end - begin for begin, end in stretches}, {256})
        self.assertLessEqual(stretches[-1][1], 5000)


class Repeats(unittest.TestCase):
    def test_bytes_of_long_equal_stretches_are_found_and_no_others(self):
        random = numpy.random.default_rng(7)
        one, other, text = (random.integers(1, 256, size).astype(numpy.uint8) for size in (500, 400, 1000))
        text[100:132] = one[468:500]  # Just long enough, at the end.
        text[300:331] = one[50:81]  # A byte too short.
        text[600:700] = other[0:100]
        found = numpy.flatnonzero(repeats.repeated([one, other], text))
        self.assertEqual(found.tolist(), [*range(100, 132), *range(600, 700)])


def choices(weights, positions, top_k=4, layers=2):
    """[layers][positions][top_k]: different experts of a position, drawn by `weights`."""
    random = numpy.random.default_rng(5)
    drawn = random.random((layers, positions, len(weights))) ** (1.0 / numpy.asarray(weights))
    return torch.from_numpy(numpy.argsort(-drawn, -1)[..., :top_k].copy())


class Routing(unittest.TestCase):
    config = small_config(experts=32, top_k=4)
    first = [9.0] * 8 + [1.0] * 24
    last = [1.0] * 24 + [9.0] * 8

    def test_imbalance_is_that_of_experts_in_order_on_eight_ranks(self):
        counts = numpy.array([[1] * 32, [0] * 28 + [2] * 4, [3] * 4 + [1] * 28])
        self.assertEqual(routing.imbalances(counts), [1.0, 8.0, 12 / 5])

    def test_overlap_counts_hot_experts_in_common(self):
        one, other = numpy.arange(32), numpy.full(32, 5)
        other[[0, 1, 2, 27, 28, 29, 30, 31]], other[10:18] = 9, 0
        self.assertEqual(routing.overlap(one[None], one[None]), 8.0)
        self.assertEqual(routing.overlap(one[None], other[None]), 5.0)
        self.assertEqual(routing.overlap(numpy.stack([one, one]), numpy.stack([other, -one])), 2.5)

    def test_plan_of_a_domain_suits_it_and_not_another(self):
        said = routing.statistics(PROGRAM, {"a": choices(self.first, 3000), "b": choices(self.last, 3000)}, self.config)
        self.assertEqual(numpy.sum(said["counts"]["a"], -1).tolist(), [12000, 12000])
        self.assertGreater(said["imbalance"]["a"][0], 1.5)
        for kind in ("even", "exact"):
            planned = said["planned"][kind]
            for own, other in (("a", "b"), ("b", "a")):
                self.assertLess(planned[own][own], 1.15)
                self.assertGreater(planned[other][own], planned[own][own] + 0.2)
                self.assertLess(said["planned"]["exact"][other][own], said["planned"]["even"][other][own])

    def test_failure_of_the_program_is_told(self):
        with self.assertRaisesRegex(SystemExit, "plan failed: .*loads"):
            routing.Planner(PROGRAM, pathlib.Path(".")).plan("no.loads.json", "x.json")


class Picture(unittest.TestCase):
    def test_curve_lies_within_the_axes(self):
        curve = [8.2 * 0.99 ** step + 1.5 for step in range(2600)]
        root = xml.etree.ElementTree.fromstring(picture.loss_picture(curve))
        lines = root.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([line.get("class") for line in lines], ["raw", "smooth"])
        for line in lines:
            points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
            self.assertEqual(len(points), 2600)
            self.assertTrue(all(56 <= x <= 704 and 16 <= y <= 312 for x, y in points))
            self.assertLess(points[0][1], points[-1][1])  # Down the page: less loss.
        labels = [text.text for text in root.findall("{http://www.w3.org/2000/svg}text")]
        self.assertIn("2500", labels)
        self.assertIn("bits per byte", labels)

    def test_smoothing_is_the_mean_of_what_came_before(self):
        self.assertEqual(picture.smoothed([4.0, 2.0, 6.0, 0.0], 2), [4.0, 3.0, 4.0, 3.0])

    def test_ticks_are_round_and_few(self):
        self.assertEqual([picture.tick_step(most) for most in (3, 6, 7, 120, 2600, 10_000)], [1, 1, 2, 20, 500, 2000])


class Card(unittest.TestCase):
    def test_domains_that_ngrams_know_better_are_named(self):
        better, worse = {"int8": 1.9, "ngram": 2.0, "own_ngram": 2.1}, {"int8": 2.0, "ngram": 2.1, "own_ngram": 1.9}
        self.assertEqual(card.behind({"a": better}), "")
        self.assertIn(": b, c.", card.behind({"a": better, "b": worse, "c": worse}))


class OneCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        random = numpy.random.default_rng(3)
        for domain, low in (("lower", 97), ("upper", 65)):
            parts = {name: random.integers(low, low + 26, size).astype(numpy.uint8)
                     for name, size in (("train", 20_000), ("heldout", 6000))}
            corpus.write_domain(parts, self.folder / domain)

    def publish(self, module, *options):
        arguments = module.parse(["--work", str(self.folder / "work"), "--corpus", str(self.folder), "--threads", "1",
                                  "--program", str(PROGRAM), "--score", "8192", "--out", str(self.folder / "out"),
                                  *options])
        config = small_config(context=256, experts=32, top_k=4, top_groups=4, groups=8, expert_inner=16)
        with contextlib.ExitStack() as stack:
            for patched in (train, evaluate):
                stack.enter_context(mock.patch.object(patched, "Config", lambda: config))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            module.main(arguments)
        return {path.name: path.read_bytes() for path in (self.folder / "out").iterdir()}

    def test_training_ends_with_all_that_is_published_and_evaluation_alone_makes_the_same(self):
        files = self.publish(train, "--steps", "6", "--rows", "2")
        self.assertEqual(sorted(files), ["README.md", "evaluation.json", "loss.svg", "model.safetensors"])
        results = json.loads(files["evaluation.json"])
        for domain in ("lower", "upper"):
            entry = results["quality"][domain]
            self.assertEqual((entry["bytes"], entry["fresh_bytes"]), (16 * 256, 16 * 256))
            self.assertEqual(entry["fresh"]["int8"], entry["int8"])
            self.assertAlmostEqual(entry["ngram"], numpy.log2(26), delta=0.5)
            self.assertAlmostEqual(entry["int8"] / entry["float"], 1.0, delta=0.02)
        text = files["README.md"].decode()
        self.assertIn("6 of 6 steps", text)
        self.assertIn(f"{results['quality']['upper']['own_ngram']:.3f}", text)
        self.assertIn("--steps 6 --rows 2", text)
        self.assertEqual(text, card.card(results, len(files["model.safetensors"])))
        self.assertEqual(self.publish(evaluate), files)

    def test_missing_program_is_told_before_training(self):
        arguments = train.parse(["--work", str(self.folder / "work"), "--out", "o", "--program", "/no/trimtab"])
        with self.assertRaisesRegex(SystemExit, "no program /no/trimtab"):
            train.main(arguments)
        self.assertFalse((self.folder / "work").exists())


if __name__ == "__main__":
    unittest.main()
