# SPDX-License-Identifier: Apache-2.0
"""A short training on the project's own documents and sources: it learns, and being stopped leaves no trace.

The model is smaller than the real one; nothing else is."""

import pathlib
import tempfile
import unittest
from unittest import mock

from training_code import ROOT, small_config

import numpy
import torch

import corpus
import options
import precision
import train
from model import Model, bits

STEPS = 120
DOMAINS = {"code": ("src", "*.[ch]pp"), "english": ("docs", "*.md")}


def write_corpus(folder):
    for domain, (where, pattern) in DOMAINS.items():
        texts = [(path.relative_to(ROOT), path.read_bytes()) for path in sorted((ROOT / where).rglob(pattern))]
        passages = [passage for path, raw in texts
                    for passage in corpus.passages_of(str(path), corpus.as_text(path.name, raw))]
        corpus.write_domain(corpus.divided(passages), folder / domain)


def entropy(texts):
    """Bits per byte of a model that knows how frequent each byte is, and nothing else."""
    shares = numpy.bincount(texts, minlength=256) / len(texts)
    return -sum(share * numpy.log2(share) for share in shares if share > 0)


@torch.no_grad()
def heldout_bits(model, texts):
    length = model.config.context
    ids = numpy.zeros((len(texts) // length, length + 1), numpy.int64)
    ids[:, 1:] = texts[:len(ids) * length].reshape(-1, length)
    ids = torch.from_numpy(ids)
    return bits(model(ids[:, :-1]), ids[:, 1:]).mean().item()


class Products(unittest.TestCase):
    def test_bfloat16_is_for_cpus_with_units_for_it(self):
        for flags, wanted in (("fpu avx2", torch.float32), ("fpu avx512_bf16 avx2", torch.bfloat16),
                              ("amx_bf16", torch.bfloat16), ("avx512f", torch.float32)):
            self.assertEqual(precision.type_for(f"model name: amx_bf16\nflags\t\t: {flags}\n"), wanted)
        self.assertEqual(precision.type_for(""), torch.float32)


class Stopped(Exception):
    """Stands for the end of the process."""


class ShortTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        write_corpus(cls.folder)
        cls.texts = corpus.Corpus(cls.folder)
        cls.whole = cls.training("whole")
        cls.whole.run()

    @classmethod
    def training(cls, name, **changes):
        """On from the last kept state of that name."""
        work = cls.folder / name
        work.mkdir(exist_ok=True)
        values = {"steps": STEPS, "rows": 16, "keep-every": STEPS // 4, "work": work, **changes}
        arguments = train.parse([f"--{option}={value}" for option, value in values.items()])
        config = small_config(width=128, context=128, expert_inner=64, shared_inner=64, dense_inner=256)
        made = train.Training(arguments, cls.texts, config)
        made.resume()
        return made

    def run_until(self, training, step):
        def show(done, _):
            if done == step:
                raise Stopped

        with mock.patch.object(training, "show", show), self.assertRaises(Stopped):
            training.run()

    def test_loss_falls_far_below_the_start_and_what_frequencies_of_bytes_give(self):
        self.assertEqual(len(self.whole.curve), STEPS)
        self.assertLess(self.whole.curve[-1], 0.6 * self.whole.curve[0])
        for domain, heldout in zip(self.texts.domains, self.texts.heldout):
            self.assertLess(heldout_bits(self.whole.model, heldout), entropy(heldout) - 0.5, domain)

    def test_stopped_and_resumed_it_ends_as_if_it_had_not_been(self):
        self.run_until(self.training("stopped"), STEPS // 2 + 7)
        resumed = self.training("stopped")
        self.assertEqual(len(resumed.curve), STEPS // 2)
        resumed.run()
        self.assertEqual(resumed.curve, self.whole.curve)
        for name, value in self.whole.model.state_dict().items():
            self.assertTrue(torch.equal(resumed.model.state_dict()[name], value), name)

    def test_state_of_another_training_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "'seed': 1.*'seed': 2"):
            self.training("whole", seed=2)


class Balance(unittest.TestCase):
    def test_bias_of_busy_experts_falls_and_of_idle_ones_rises(self):
        experts = Model(small_config()).expert_layers()[0]
        experts.chosen = torch.tensor([[0, 1], [0, 2], [0, 3], [0, 1]])  # Eight of eight experts: one each is even.
        experts.rebalance(0.01)
        steps = torch.tensor([-0.01, -0.01, 0.0, 0.0, 0.01, 0.01, 0.01, 0.01])
        torch.testing.assert_close(experts.bias, steps - steps.mean())


class Threads(unittest.TestCase):
    def test_gradients_are_the_same_every_time(self):
        """Sums over a byte's places in a batch have one order, though threads share the work."""
        torch.set_num_threads(2)
        self.addCleanup(torch.set_num_threads, 1)
        torch.manual_seed(1)
        model = Model(small_config(width=128, context=128))
        ids = torch.randint(97, 123, (64, 129))
        seen = set()
        for _ in range(4):
            model.zero_grad()
            bits(model(ids[:, :-1]), ids[:, 1:]).mean().backward()
            seen.add(b"".join(parameter.grad.numpy().tobytes() for parameter in model.parameters()))
        self.assertEqual(len(seen), 1)


class Rates(unittest.TestCase):
    def test_rate_rises_to_its_highest_then_falls(self):
        arguments = train.parse(["--work", "w"])
        rates = [train.rate_at(step, arguments) for step in range(arguments.steps)]
        top = rates.index(max(rates))
        self.assertAlmostEqual(max(rates), options.IDENTITY["rate"])
        self.assertEqual(rates[:top], sorted(rates[:top]))
        self.assertEqual(rates[top:], sorted(rates[top:], reverse=True))
        self.assertLess(rates[-1], 0.03 * max(rates))


if __name__ == "__main__":
    unittest.main()
