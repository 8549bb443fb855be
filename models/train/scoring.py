# SPDX-License-Identifier: Apache-2.0
"""How a model fares on held-out text, byte by byte: how surprising each is, and which experts are chosen for it."""

import dataclasses

import numpy
import torch

from model import bits

STRIDE = 128  # From one window to the next. What they share is context for the later one.
STRETCHES = 16  # Of a domain, evenly spread over its held-out texts.
ROWS = 32  # Windows at a time.


def stretches_of(texts, wanted):
    """Begin and end of each; together about `wanted` bytes, or all there is."""
    length = min(wanted, len(texts)) // STRETCHES // STRIDE * STRIDE
    begins = numpy.linspace(0, len(texts) - length, STRETCHES).astype(int)
    return [(begin, begin + length) for begin in begins.tolist()]


def windows_of(stretch, context):
    """[windows][context + 1]: a byte 0, then bytes of the stretch."""
    count = (len(stretch) - context) // STRIDE + 1
    out = numpy.zeros((count, context + 1), numpy.int64)
    for index, row in enumerate(out):
        row[1:] = stretch[index * STRIDE:index * STRIDE + context]
    return out


def fresh(windows, context):
    """[windows][context]: whether no earlier window has scored the byte."""
    is_fresh = torch.zeros(windows, context, dtype=torch.bool)
    is_fresh[:, context - STRIDE:] = True
    is_fresh[0] = True
    return is_fresh


@dataclasses.dataclass
class Scores:
    """Of a stretch, in the order of its bytes."""

    bits: torch.Tensor  # [bytes]
    chosen: torch.Tensor  # [expert layers][bytes][top_k]: experts chosen when the byte was the next one.


@torch.no_grad()
def scores_of(model, stretch):
    context = model.config.context
    windows = torch.from_numpy(windows_of(stretch, context))
    wanted = fresh(len(windows), context)
    said, chosen = [], []
    for batch, is_fresh in zip(windows.split(ROWS), wanted.split(ROWS)):
        said.append(bits(model(batch[:, :-1]), batch[:, 1:])[is_fresh])
        chosen.append(torch.stack([experts.chosen[is_fresh.flatten()] for experts in model.expert_layers()]))
    return Scores(torch.cat(said), torch.cat(chosen, 1))
