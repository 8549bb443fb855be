# SPDX-License-Identifier: Apache-2.0
"""A byte-level causal language model in the manner of DeepSeek-V3: a dense layer, then layers of experts.

Each layer: x += attention(norm(x)), then x += feed_forward(norm(x)). Expert layers choose by a sigmoid gate, limited to
the best groups, with a bias that balances load without a loss (arXiv:2408.15664, arXiv:2412.19437)."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional

from precision import low
from routed import routed


@dataclasses.dataclass(frozen=True)
class Config:
    vocabulary: int = 256
    width: int = 256
    layers: int = 5
    dense_layers: int = 1  # The first ones have no experts.
    heads: int = 4
    context: int = 256
    rope_base: float = 10000.0
    dense_inner: int = 512
    expert_inner: int = 128
    shared_inner: int = 128
    experts: int = 32
    groups: int = 8
    top_groups: int = 4
    top_k: int = 4
    norm_epsilon: float = 1e-6

    @property
    def head_width(self):
        return self.width // self.heads


def normal(*shape, inputs):
    return nn.Parameter(torch.randn(*shape) * inputs ** -0.5)


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


class Rotary:
    """Pairs (i, i + half) of each head turn by position * base^(-i / half)."""

    def __init__(self, config):
        half = config.head_width // 2
        rates = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(config.context, dtype=torch.float64)[:, None] * rates
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def turn(self, x):
        """`x` is [batch][heads][positions][head_width]."""
        a, b = x.chunk(2, -1)
        cos, sin = (table[:x.shape[2]].to(x.dtype) for table in (self.cos, self.sin))
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv = normal(3 * config.width, config.width, inputs=config.width)
        self.out = normal(config.width, config.width, inputs=config.width * 2 * config.layers)
        positions = torch.arange(config.context)
        self.register_buffer("later", torch.where(positions[None] > positions[:, None], -1e30, 0.0), persistent=False)

    def forward(self, x, rotary, linear):
        batch, length, width = x.shape
        heads = linear_of(linear)(x, self.qkv).view(batch, length, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = rotary.turn(heads[0]), rotary.turn(heads[1]), heads[2]
        scores = (q * self.config.head_width ** -0.5) @ k.transpose(-1, -2)
        shares = (scores + self.later[:length, :length].to(scores.dtype)).softmax(-1)
        return linear_of(linear)((shares @ v).transpose(1, 2).reshape(batch, length, width), self.out)


class FeedForward(nn.Module):
    """SwiGLU: rows of `w13` are those of the gate, then those of the other factor."""

    def __init__(self, config, inner):
        super().__init__()
        self.w13 = normal(2 * inner, config.width, inputs=config.width)
        self.w2 = normal(config.width, inner, inputs=inner * 2 * config.layers)

    def forward(self, x, linear):
        linear = linear_of(linear)
        gate, up = linear(x, self.w13).chunk(2, -1)
        return linear(functional.silu(gate) * up, self.w2)


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.gate = normal(config.experts, config.width, inputs=config.width)
        self.w13 = normal(config.experts, 2 * config.expert_inner, config.width, inputs=config.width)
        self.w2 = normal(config.experts, config.width, config.expert_inner,
                         inputs=config.expert_inner * 2 * config.layers)
        self.shared = FeedForward(config, config.shared_inner)
        self.register_buffer("bias", torch.zeros(config.experts))
        self.chosen = None  # [tokens][top_k]: experts of the last forward, best first.

    def choose(self, x):
        """[tokens][top_k]: the experts, best first, and what their outputs are weighted by."""
        config = self.config
        scores = torch.sigmoid(x @ self.gate.t())
        with torch.no_grad():
            biased = scores + self.bias
            groups = biased.view(len(x), config.groups, -1)
            best = groups.topk(2, -1).values.sum(-1).topk(config.top_groups, -1).indices
            allowed = torch.zeros(len(x), config.groups, dtype=torch.bool).scatter_(1, best, True)
            masked = groups.masked_fill(~allowed[:, :, None], -1.0e30).view(len(x), -1)
            chosen = masked.topk(config.top_k, -1).indices
            self.chosen = chosen
        weights = scores.gather(1, chosen)
        return chosen, weights / weights.sum(-1, keepdim=True)

    def forward(self, x, linear):
        flat = x.reshape(-1, x.shape[-1])
        chosen, weights = self.choose(flat)
        said = routed(flat, chosen, weights, self.w13, self.w2, linear)
        return said.view(x.shape) + self.shared(x, linear)

    def rebalance(self, rate):
        """One step of the bias towards equal loads, as DeepSeek-V3 is trained."""
        load = torch.bincount(self.chosen.flatten(), minlength=self.config.experts).float()
        self.bias += rate * torch.sign(load.mean() - load)
        self.bias -= self.bias.mean()


class Layer(nn.Module):
    def __init__(self, config, has_experts):
        super().__init__()
        self.attention_norm = nn.Parameter(torch.ones(config.width))
        self.attention = Attention(config)
        self.norm = nn.Parameter(torch.ones(config.width))
        self.feed_forward = Experts(config) if has_experts else FeedForward(config, config.dense_inner)
        self.epsilon = config.norm_epsilon

    def forward(self, x, rotary, linear):
        x = x + self.attention(rms_norm(x, self.attention_norm, self.epsilon), rotary, linear)
        return x + self.feed_forward(rms_norm(x, self.norm, self.epsilon), linear)


def linear_of(linear):
    """None stands for a training step's products."""
    return linear or (lambda x, weight: low(x) @ low(weight).t())


class Model(nn.Module):
    def __init__(self, config, linear=None):
        super().__init__()
        self.config, self.linear = config, linear
        self.embedding = nn.Parameter(torch.randn(config.vocabulary, config.width))
        self.layers = nn.ModuleList(Layer(config, index >= config.dense_layers) for index in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        self.head = nn.Parameter(torch.randn(config.vocabulary, config.width) * 0.1 * config.width ** -0.5)
        self.rotary = Rotary(config)

    def forward(self, ids):
        """[batch][length] bytes to [batch][length][vocabulary] logits of the next."""
        x = functional.embedding(ids, self.embedding)
        for layer in self.layers:
            x = layer(x, self.rotary, self.linear)
        return rms_norm(x, self.norm, self.config.norm_epsilon) @ self.head.t()

    def expert_layers(self):
        return [layer.feed_forward for layer in self.layers if isinstance(layer.feed_forward, Experts)]


def bits(logits, targets):
    """[batch][length] of the target bytes."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(
        targets.shape) / 0.6931471805599453
