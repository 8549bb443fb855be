# SPDX-License-Identifier: Apache-2.0
"""What the matrix products of a training step take: bfloat16 where the CPU has units for it, which are several times as
fast; elsewhere it would be emulated, and float32 is."""

import pathlib

import torch

UNITS = frozenset(("amx_bf16", "avx512_bf16"))


def type_for(cpu):
    """`cpu` is what Linux says of it in /proc/cpuinfo."""
    flags = next((line.split() for line in cpu.splitlines() if line.startswith("flags")), [])
    return torch.float32 if UNITS.isdisjoint(flags) else torch.bfloat16


STEP = type_for(pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))


def low(tensor):
    return tensor.to(STEP)
