# SPDX-License-Identifier: Apache-2.0
"""A language model of random weights, small enough for tests of the program: docs/formats/model.md."""

import json
import random
import struct

SHAPE = {"vocabulary": 256, "width": 32, "layers": 3, "dense_layers": 1, "heads": 2, "context": 64, "rope_base": 10000,
         "dense_inner": 32, "expert_inner": 16, "shared_inner": 16, "experts": 8, "groups": 4, "top_groups": 2,
         "top_k": 2, "norm_epsilon": 1e-06}


class Tensors:
    def __init__(self, seed):
        self.random, self.header, self.body = random.Random(seed), {}, bytearray()

    def add(self, name, kind, shape, values):
        begin = len(self.body)
        self.body += struct.pack(f"<{len(values)}{ {'F32': 'f', 'I8': 'b', 'I32': 'i'}[kind]}", *values)
        self.header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, len(self.body)]}

    def reals(self, name, *shape, low=-1.0, high=1.0):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        self.add(name, "F32", shape, [self.random.uniform(low, high) for _ in range(count)])

    def matrix(self, name, channels, inputs):
        self.add(name, "I8", [channels, inputs], [self.random.randint(-63, 63) for _ in range(channels * inputs)])
        self.reals(name + "_scale", channels, low=0.004, high=0.008)
        self.add(name + "_offset", "I32", [channels], [self.random.randint(-5, 5) for _ in range(channels)])

    def feed_forward(self, prefix, width, inner):
        self.matrix(prefix + "w13", 2 * inner, width)
        self.matrix(prefix + "w2", width, inner)

    def encode(self, metadata):
        header = json.dumps({"__metadata__": metadata, **self.header}).encode()
        return struct.pack("<Q", len(header)) + header + self.body


def write_small_model(folder, shape=None, seed=1):
    """@return the path of the file. `shape` replaces what SHAPE says in the metadata alone."""
    tensors, width, experts = Tensors(seed), SHAPE["width"], SHAPE["experts"]
    tensors.reals("model.embed_tokens.weight", 256, width)
    for layer in range(SHAPE["layers"]):
        prefix = f"model.layers.{layer}."
        tensors.reals(prefix + "input_layernorm.weight", width)
        tensors.matrix(prefix + "self_attn.qkv_proj", 3 * width, width)
        tensors.matrix(prefix + "self_attn.o_proj", width, width)
        tensors.reals(prefix + "post_attention_layernorm.weight", width)
        if layer < SHAPE["dense_layers"]:
            tensors.feed_forward(prefix + "mlp.", width, SHAPE["dense_inner"])
            continue
        tensors.feed_forward(prefix + "mlp.shared_experts.", width, SHAPE["shared_inner"])
        tensors.reals(prefix + "mlp.gate.weight", experts, width)
        tensors.reals(prefix + "mlp.gate.e_score_correction_bias", experts, low=-0.1, high=0.1)
        for expert in range(experts):
            tensors.feed_forward(f"{prefix}mlp.experts.{expert}.", width, SHAPE["expert_inner"])
    tensors.reals("model.norm.weight", width)
    tensors.reals("lm_head.weight", 256, width)
    metadata = {name: str(value) for name, value in {**SHAPE, **(shape or {})}.items()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.safetensors"
    path.write_bytes(tensors.encode({"format": "trimtab.model/1", "weights": "w8a8", **metadata}))
    return path
