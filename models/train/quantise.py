# SPDX-License-Identifier: Apache-2.0
"""Weights and activations of 8 bits, in the arithmetic of src/moe: exact sums, scales applied afterwards.

A weight is scale * (q - offset), scale and offset by output channel; an activation scale * q, scale by row."""

import torch

LIMIT = 63  # Of a weight's q: with 7 bits no int8 kernel of oneDNN saturates.
ROW_LIMIT = 127  # Of an activation's.
SMALLEST = 1e-30  # A row without any greater value is zero.
EXACT = 2 ** 24  # Whole numbers up to here are floats.


class Matrix:
    """[out][in] of quantised weights."""

    def __init__(self, q, scale, offset):
        self.q, self.scale, self.offset = q, scale, offset
        self.steps = (q.int() - offset[:, None]).float()
        most = int(self.steps.abs().max()) * ROW_LIMIT * q.shape[1]
        if most >= EXACT:
            raise ValueError(f"quantise: a sum may reach {most}; floats are exact below {EXACT} only")

    def real(self):
        return self.scale[:, None] * self.steps


def grid_of(weight):
    """Scale and offset [...] that map each channel's extremes, zero between them, to -LIMIT and LIMIT.

    To clip the extremes was tried: with 7 bits it takes 1 to 2 % off the squares of what is lost, no more."""
    low, high = weight.amin(-1).clamp(max=0.0), weight.amax(-1).clamp(min=0.0)
    scale = ((high - low) / (2 * LIMIT)).clamp(min=SMALLEST)
    return scale, torch.round(-LIMIT - low / scale)


def matrices(weight):
    """A Matrix of [out][in] weights; of [experts][out][in] a list of them."""
    weight = weight.detach()
    scale, offset = grid_of(weight)
    q = (torch.round(weight / scale[..., None]) + offset[..., None]).clamp(-LIMIT, LIMIT).to(torch.int8)
    if weight.dim() == 2:
        return Matrix(q, scale, offset.int())
    return [Matrix(*parts) for parts in zip(q, scale, offset.int())]


def rows(x):
    """q and scale of each row, symmetric, ties to even."""
    largest = x.abs().amax(-1, keepdim=True)
    empty = largest < SMALLEST
    inverse = torch.where(empty, 0.0, ROW_LIMIT / largest).to(x.dtype)
    q = torch.round((x * inverse).clamp(-ROW_LIMIT, ROW_LIMIT))
    return q, torch.where(empty, 0.0, largest / ROW_LIMIT).to(x.dtype)


def product(x, weight):
    """x times a Matrix, transposed; of a plain tensor in float."""
    if not isinstance(weight, Matrix):
        return x @ weight.t()
    q, scale = rows(x)
    return (q @ weight.steps.to(x.dtype).t()) * (scale * weight.scale.to(x.dtype))
