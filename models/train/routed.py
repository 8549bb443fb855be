# SPDX-License-Identifier: Apache-2.0
"""The routed experts of a layer: assignments sorted by expert, matrix products expert by expert."""

import torch
from torch.nn import functional

from precision import low

# Rows of an expert are padded to a multiple, because a product of a shape that was there before is not compiled again.
ROWS = 128


class Sorted:
    """The assignments of a batch in rows, expert by expert; `ranges` are the rows of each."""

    def __init__(self, chosen, experts):
        assignments, top_k = chosen.numel(), chosen.shape[1]
        counts = torch.bincount(chosen.flatten(), minlength=experts)
        room = (counts + ROWS - 1) // ROWS * ROWS
        ends = room.cumsum(0)
        order = torch.argsort(chosen.flatten(), stable=True)
        shift = (ends - room) - (counts.cumsum(0) - counts)
        rows = torch.arange(assignments) + shift.repeat_interleave(counts)
        self.shape = chosen.shape
        self.row_of = torch.empty_like(order)  # [assignments]
        self.row_of[order] = rows
        # [rows]: its assignment and its token; of a padding row one behind the last.
        self.assignment_of = torch.full((int(ends[-1]),), assignments)
        self.assignment_of[rows] = order
        self.token_of = self.assignment_of.div(top_k, rounding_mode="floor")
        self.ranges = list(zip([0, *ends.tolist()], ends.tolist()))

    @staticmethod
    def gather(values, rows):
        return functional.pad(values, (0, 0, 0, 1)).index_select(0, rows)

    def by_row(self, tokens):
        return self.gather(tokens, self.token_of)

    def by_row_of_each(self, assignments):
        return self.gather(assignments, self.assignment_of)

    def by_assignment(self, rows):
        """[tokens][top_k][width]"""
        return rows.index_select(0, self.row_of).view(*self.shape, -1)


def products(x, weights, ranges):
    return torch.cat([x[begin:end] @ weight for weight, (begin, end) in zip(weights, ranges)])


class RoutedInAStep(torch.autograd.Function):
    """With a backward of its own: that of indexing adds up row by row, and takes longer than all the rest."""

    @staticmethod
    def forward(context, tokens, chosen, shares, w13, w2):
        tokens, w13, w2 = map(low, (tokens, w13, w2))
        batch = Sorted(chosen, len(w13))
        rows = batch.by_row(tokens)
        hidden = products(rows, w13.transpose(1, 2), batch.ranges)
        gate, up = hidden.chunk(2, -1)
        active = functional.silu(gate) * up
        said = batch.by_assignment(products(active, w2.transpose(1, 2), batch.ranges))
        context.save_for_backward(rows, hidden, active, said, shares, w13, w2)
        context.batch = batch
        return (said * shares.to(said.dtype)[:, :, None]).sum(1)

    @staticmethod
    def backward(context, grad):
        rows, hidden, active, said, shares, w13, w2 = context.saved_tensors
        batch, grad = context.batch, low(grad)
        shares_grad = torch.bmm(said, grad[:, :, None]).float().squeeze(-1)
        said_grad = batch.by_row_of_each((grad[:, None] * shares.to(grad.dtype)[:, :, None]).flatten(0, 1))
        active_grad = products(said_grad, w2, batch.ranges)
        gate, up = hidden.chunk(2, -1)
        silu = functional.silu(gate)
        gate_grad = torch.ops.aten.silu_backward(active_grad * up, gate)
        hidden_grad = torch.cat((gate_grad, active_grad * silu), -1)
        tokens_grad = batch.by_assignment(products(hidden_grad, w13, batch.ranges)).sum(1)
        w13_grad = torch.stack([hidden_grad[b:e].t() @ rows[b:e] for b, e in batch.ranges]).float()
        w2_grad = torch.stack([said_grad[b:e].t() @ active[b:e] for b, e in batch.ranges]).float()
        return tokens_grad.float(), None, shares_grad, w13_grad, w2_grad


def routed(tokens, chosen, shares, w13, w2, linear=None):
    """Sum of the chosen experts' outputs, weighted by `shares`. [tokens][width]

    Without `linear` as a training step does it, with a backward; else in float, every product made by `linear`."""
    if linear is None:
        return RoutedInAStep.apply(tokens, chosen, shares, w13, w2)
    batch = Sorted(chosen, len(w13))
    rows, said = batch.by_row(tokens), []
    for first, second, (begin, end) in zip(w13, w2, batch.ranges):
        gate, up = linear(rows[begin:end], first).chunk(2, -1)
        said.append(linear(functional.silu(gate) * up, second))
    return (batch.by_assignment(torch.cat(said)) * shares[:, :, None]).sum(1)
