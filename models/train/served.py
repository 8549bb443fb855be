# SPDX-License-Identifier: Apache-2.0
"""The model as it is served: matrices of attention and feed-forward quantised, and the file that holds it."""

import dataclasses

import numpy
import torch

import quantise
import safetensors_file
from model import Config, Experts, Model

FORMAT = "trimtab.model/1"


@dataclasses.dataclass(frozen=True)
class Part:
    """One attribute of the model and its name in the file, where {} stands for the expert."""

    owner: torch.nn.Module
    attribute: str
    name: str
    is_quantised: bool = False

    def get(self):
        return getattr(self.owner, self.attribute)

    def replace(self, value):
        """A parameter by something else."""
        delattr(self.owner, self.attribute)
        setattr(self.owner, self.attribute, value)


def parts_of_feed_forward(owner, prefix):
    return [Part(owner, name, prefix + name, is_quantised=True) for name in ("w13", "w2")]


def parts_of_layer(layer, prefix):
    parts = [
        Part(layer, "attention_norm", prefix + "input_layernorm.weight"),
        Part(layer.attention, "qkv", prefix + "self_attn.qkv_proj", is_quantised=True),
        Part(layer.attention, "out", prefix + "self_attn.o_proj", is_quantised=True),
        Part(layer, "norm", prefix + "post_attention_layernorm.weight"),
    ]
    inner, prefix = layer.feed_forward, prefix + "mlp."
    if not isinstance(inner, Experts):
        return parts + parts_of_feed_forward(inner, prefix)
    return parts + [Part(inner, "gate", prefix + "gate.weight"),
                    Part(inner, "bias", prefix + "gate.e_score_correction_bias"),
                    *parts_of_feed_forward(inner.shared, prefix + "shared_experts."),
                    *parts_of_feed_forward(inner, prefix + "experts.{}.")]


def parts_of(model):
    parts = [Part(model, "embedding", "model.embed_tokens.weight"), Part(model, "norm", "model.norm.weight"),
             Part(model, "head", "lm_head.weight")]
    for index, layer in enumerate(model.layers):
        parts += parts_of_layer(layer, f"model.layers.{index}.")
    return parts


def in_float(model):
    """The same weights, computed in float32 throughout."""
    made = Model(model.config, quantise.product)
    made.load_state_dict(model.state_dict())
    return made.requires_grad_(False)


def quantised(model, wanted=lambda part: True):
    """A model that computes with quantised matrices: those of all parts that are `wanted`."""
    made = in_float(model)
    for part in parts_of(made):
        if part.is_quantised and wanted(part):
            part.replace(quantise.matrices(part.get()))
    return made


def tensors_of_matrix(name, matrix):
    return {name: matrix.q.numpy(), name + "_scale": matrix.scale.numpy(), name + "_offset": matrix.offset.numpy()}


def tensors_of(model):
    """Of a quantised model, by their names in the file."""
    tensors = {}
    for part in parts_of(model):
        value = part.get()
        if not part.is_quantised:
            tensors[part.name] = value.detach().numpy()
        elif isinstance(value, list):
            for expert, matrix in enumerate(value):
                tensors.update(tensors_of_matrix(part.name.format(expert), matrix))
        else:
            tensors.update(tensors_of_matrix(part.name, value))
    return tensors


def metadata_of(config):
    numbers = {name: f"{value:g}" if isinstance(value, float) else str(value)
               for name, value in dataclasses.asdict(config).items()}
    return {"format": FORMAT, "weights": "w8a8", **numbers}


def config_of(metadata):
    if metadata.get("format") != FORMAT:
        raise SystemExit(f"served: format is {metadata.get('format')}, not {FORMAT}")
    return Config(**{field.name: field.type(metadata[field.name]) for field in dataclasses.fields(Config)})


def matrix_in(tensors, name):
    return quantise.Matrix(*(torch.from_numpy(numpy.copy(tensors[name + suffix]))
                             for suffix in ("", "_scale", "_offset")))


def encode(model):
    return safetensors_file.encode(tensors_of(model), metadata_of(model.config))


def decode(content):
    """The quantised model that was encoded."""
    tensors, metadata = safetensors_file.decode(content)
    made = Model(config_of(metadata), quantise.product).requires_grad_(False)
    for part in parts_of(made):
        if not part.is_quantised:
            part.get().copy_(torch.from_numpy(numpy.copy(tensors[part.name])))
        elif part.get().dim() == 3:
            part.replace([matrix_in(tensors, part.name.format(expert)) for expert in range(len(part.get()))])
        else:
            part.replace(matrix_in(tensors, part.name))
    return made
