# SPDX-License-Identifier: Apache-2.0
"""Trains the model from nothing, or on from where it was stopped: `python3 models/train/train.py --work FOLDER`.
With `--out FOLDER` it then quantises and evaluates it and writes what is published.

Whatever is random in a step follows from seed and step, so a run that was stopped ends as one that was not."""

import json
import math
import pathlib
import sys
import time

import numpy
import torch

import corpus
import evaluate
import options
from model import Config, Model, bits
from packages import MIXTURE


def parse(arguments):
    parser = options.parser_of(__doc__)
    options.add_training(parser)
    options.add_evaluation(parser)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the model and its card; without it, only train")
    return parser.parse_args(arguments)


def rate_at(step, arguments):
    """Linear warm-up, then down to a fiftieth along a cosine."""
    warm_up = min(150, arguments.steps // 10 + 1)
    if step < warm_up:
        return arguments.rate * (step + 1) / warm_up
    done = (step - warm_up) / max(1, arguments.steps - warm_up)
    return arguments.rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


class Training:
    def __init__(self, arguments, texts, config):
        self.arguments, self.texts = arguments, texts
        torch.manual_seed(arguments.seed)
        self.model = Model(config)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimiser = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                            {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.95), foreach=True)
        shares = [MIXTURE.get(domain, 1.0) for domain in texts.domains]
        self.mixture = [share / sum(shares) for share in shares]
        self.curve = []  # By step: bits per byte of its texts.
        self.kept = arguments.work / "state.pt"

    def resume(self):
        if self.kept.exists():
            state = torch.load(self.kept)
            if state["arguments"] != self.identity():
                raise SystemExit(f"train: {self.kept} was trained by {state['arguments']}, not {self.identity()}")
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.curve = state["curve"]

    def identity(self):
        return {name: getattr(self.arguments, name) for name in options.IDENTITY}

    def keep(self):
        state = {"arguments": self.identity(), "model": self.model.state_dict(), "curve": self.curve,
                 "optimiser": self.optimiser.state_dict()}
        scratch = self.kept.with_suffix(".new")
        torch.save(state, scratch)
        scratch.replace(self.kept)
        (self.arguments.work / "curve.json").write_text(json.dumps(self.curve) + "\n", encoding="utf-8")

    def step(self):
        step, arguments = len(self.curve), self.arguments
        random = numpy.random.default_rng([arguments.seed, step])
        batch = torch.from_numpy(self.texts.batch(self.mixture, arguments.rows, self.model.config.context, random))
        loss = bits(self.model(batch[:, :-1]), batch[:, 1:]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(step, arguments)
        self.optimiser.step()
        self.optimiser.zero_grad()
        for experts in self.model.expert_layers():
            experts.rebalance(arguments.bias_rate)
        self.curve.append(round(loss.item(), 5))

    def run(self):
        began, first = time.monotonic(), len(self.curve)
        while len(self.curve) < self.arguments.steps:
            self.step()
            done = len(self.curve)
            left = (time.monotonic() - began) / (done - first) * (self.arguments.steps - done)
            self.show(done, left)
            if done % self.arguments.keep_every == 0 or done == self.arguments.steps:
                self.keep()

    def show(self, done, left_s):
        """A bar on a terminal, a line now and then elsewhere."""
        recent = sum(self.curve[-50:]) / len(self.curve[-50:])
        text = f"{done}/{self.arguments.steps}  {recent:.3f} bits per byte  {left_s / 60:.0f} min left"
        if sys.stderr.isatty():
            filled = 30 * done // self.arguments.steps
            print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {text} ", end="", file=sys.stderr, flush=True)
        elif done % 50 == 0 or done == self.arguments.steps:
            print(text, file=sys.stderr, flush=True)


def main(arguments):
    if arguments.out:
        evaluate.program_of(arguments)
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.corpus is None:
        corpus.build(options.corpus_of(arguments))
    torch.set_num_threads(arguments.threads)
    training = Training(arguments, corpus.Corpus(options.corpus_of(arguments)), Config())
    training.resume()
    training.run()
    if arguments.out:
        evaluate.main(arguments)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
