#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model_logits.safetensors: what models/small says of four short texts, computed by PyTorch.

    /usr/bin/python3 tests/golden/make_model_logits.py

`ids` are the texts, a byte 0 first; at the `positions` of each are the logits of the next byte and, by expert layer,
the experts chosen. `logits` are in the arithmetic of the served model: integers exact, the rest in float64 where the
program has float32. `float32_logits` have float32 there: what then rounds the other way to an integer changes a logit by
more than rounding a float does. `float_logits` do not quantise activations.
"""
import pathlib
import sys

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "train"))
import safetensors_file  # noqa: E402
import served  # noqa: E402

MODEL = ROOT / "models" / "small" / "model.safetensors"
OUT = pathlib.Path(__file__).with_name("model_logits.safetensors")
LENGTH = 96
POSITIONS = [0, 1, 7, 31, 63, 95]
TEXTS = [
    "A table is published when all of its ranks have said that their weights are in place, and never before.",
    "专家被复制到几个设备上，每个设备只处理一部分词元。负载变化时，权重会移动。",
    "static int count_bits(unsigned long word)\n{\n  int count = 0;\n"
    "\n  while (word != 0)\n    word &= word - 1, count++;\n",
    '{\n  "name": "ListPlacements",\n  "http": {\n    "method": "GET",\n    "requestUri": "/placements/{epoch}"\n  }',
]


def ids_of(texts):
    """[texts][LENGTH]"""
    rows = [[0, *text.encode()][:LENGTH] for text in texts]
    if min(map(len, rows)) < LENGTH:
        raise SystemExit(f"make_model_logits: a text has fewer than {LENGTH - 1} bytes")
    return torch.tensor(rows)


def with_real_weights(model):
    """The same weights, computed in float64 throughout."""
    for part in served.parts_of(model):
        value = part.get()
        if part.is_quantised:
            is_list = isinstance(value, list)
            part.replace([matrix.real().double() for matrix in value] if is_list else value.real().double())
    return model.double()


@torch.no_grad()
def said_by(model, ids):
    """Logits [rows][positions][vocabulary], and choices [rows][positions][expert layers][top_k]."""
    logits = model(ids)[:, POSITIONS]
    chosen = torch.stack([experts.chosen.view(*ids.shape, -1)[:, POSITIONS] for experts in model.expert_layers()], 2)
    return logits, chosen


def golden(content):
    """Tensors by name."""
    ids = ids_of(TEXTS)
    logits, chosen = said_by(served.decode(content).double(), ids)
    in_float32, chosen_in_float32 = said_by(served.decode(content), ids)
    in_float, _ = said_by(with_real_weights(served.decode(content)), ids)
    print(f"float32 differs by {(in_float32 - logits).abs().max():.2e} and {(chosen_in_float32 != chosen).sum()} choices; "
          f"without quantised activations by {(in_float - logits).abs().max():.2e}; logits reach {logits.abs().max():.1f}")
    tensors = {"ids": ids, "positions": torch.tensor(POSITIONS), "chosen": chosen}
    tensors = {name: value.numpy().astype(numpy.int32) for name, value in tensors.items()}
    said = {"logits": logits, "float32_logits": in_float32, "float_logits": in_float}
    return tensors | {name: value.float().numpy() for name, value in said.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    OUT.write_bytes(safetensors_file.encode(golden(MODEL.read_bytes()), {}))
