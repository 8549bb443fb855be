# SPDX-License-Identifier: Apache-2.0
"""Options of the commands, and what a trained state follows from."""

import argparse
import pathlib

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/trimtab"
IDENTITY = {"steps": 1200, "rows": 16, "rate": 2e-3, "bias_rate": 1e-3, "seed": 1, "threads": 1}


def parser_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for corpus, state and loss curve")
    parser.add_argument("--corpus", type=pathlib.Path, help="folder of another corpus: DOMAIN.train, DOMAIN.heldout")
    parser.add_argument("--threads", type=int, default=IDENTITY["threads"], help="another number, other last bits")
    return parser


def add_training(parser):
    parser.add_argument("--steps", type=int, default=IDENTITY["steps"])
    parser.add_argument("--rows", type=int, default=IDENTITY["rows"], help="texts of a step, each of a context")
    parser.add_argument("--rate", type=float, default=IDENTITY["rate"], help="of learning, at its highest")
    parser.add_argument("--bias-rate", type=float, default=IDENTITY["bias_rate"], help="of the experts' bias")
    parser.add_argument("--seed", type=int, default=IDENTITY["seed"])
    parser.add_argument("--keep-every", type=int, default=200, help="steps from one kept state to the next")


def add_evaluation(parser):
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="trimtab, which plans for the domains")
    parser.add_argument("--score", type=int, default=65536, help="held-out bytes of each domain to score")


def corpus_of(arguments):
    return arguments.corpus or arguments.work / "corpus"
