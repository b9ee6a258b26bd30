"""The (evolving) T5 in NumPy, for one pair of sequences.

Raffel et al., JMLR 2020, Section 2.1, with the feed-forward of v1.1 (Shazeer, 2020) and
Wang et al., ICML 2021, Eq. 4. ``state`` maps names to arrays as ``state_dict()`` does.
"""

from __future__ import annotations

import math

import numpy as np

from reference.evolving import masked_softmax
from reference.transformer import evolve


def bucket(distance, number, farthest, both):
    """Returns the table row for a key at this distance after (negative: before)."""
    first = 0
    if both:
        number //= 2
        first = number if distance > 0 else 0
        distance = -abs(distance)
    away, exact = max(-distance, 0), number // 2
    if away < exact:
        return first + away
    growth = np.log(np.float32(away / exact)) / math.log(farthest / exact)
    return first + min(exact + int(growth * (number - exact)), number - 1)


def gelu_new(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Stack:
    """One stack; ``kinds``: the evolve kinds of self- and cross-attention."""

    def __init__(self, state, config, side, kinds):
        self.state, self.config, self.kinds = state, config, kinds
        self.side, self.causal = side, side == "decoder"
        self.maps = ([], [])

    def norm(self, name, x):
        mean = (x**2).mean(-1, keepdims=True) + self.config.layer_norm_epsilon
        return x / np.sqrt(mean) * self.state[f"{name}.weight"]

    def bias(self, n):
        c, first = self.config, f"{self.side}.block.0.layer.0.SelfAttention"
        sizes = (c.relative_attention_num_buckets, c.relative_attention_max_distance)
        rows = [
            [bucket(j - i, *sizes, not self.causal) for j in range(n)] for i in range(n)
        ]
        return self.state[f"{first}.relative_attention_bias.weight"][rows]

    def attend(self, place, x, memory, cross):
        def split(part, rows):
            made = rows @ self.state[f"{place}.{part}.weight"].T
            return made.reshape(len(rows), self.config.num_heads, -1).transpose(1, 0, 2)

        q, k, v = split("q", x), split("k", memory), split("v", memory)
        scores = q @ k.transpose(0, 2, 1)
        if not cross:
            scores = scores + self.bias(len(x)).transpose(2, 0, 1)
        allowed = np.ones(scores.shape[1:])
        if self.causal and not cross:
            allowed = np.tril(allowed)
        parts = (
            self.state.get(f"{place}.evolving_conv.{w}") for w in ("weight", "bias")
        )
        chain = self.maps[cross]
        before = chain[-1] if chain else None
        chain.append(evolve(scores, before, parts, self.kinds[cross], allowed))
        mixed = masked_softmax(chain[-1], allowed.astype(bool)) @ v
        rows = mixed.transpose(1, 0, 2).reshape(len(x), -1)
        return rows @ self.state[f"{place}.o.weight"].T

    def feed(self, place, x):
        w = {n: self.state.get(f"{place}.{n}.weight") for n in ("wi", "wi_0", "wi_1")}
        if w["wi"] is not None:
            inner = np.maximum(x @ w["wi"].T, 0)
        else:
            inner = gelu_new(x @ w["wi_0"].T) * (x @ w["wi_1"].T)
        return inner @ self.state[f"{place}.wo.weight"].T

    def __call__(self, x, layers, memory=None):
        for i in range(layers):
            place, n = f"{self.side}.block.{i}.layer", 1
            y = self.norm(f"{place}.0.layer_norm", x)
            x = x + self.attend(f"{place}.0.SelfAttention", y, y, 0)
            if memory is not None:
                y, n = self.norm(f"{place}.1.layer_norm", x), 2
                x = x + self.attend(f"{place}.1.EncDecAttention", y, memory, 1)
            y = self.norm(f"{place}.{n}.layer_norm", x)
            x = x + self.feed(f"{place}.{n}.DenseReluDense", y)
        return self.norm(f"{self.side}.final_layer_norm", x)


def forward(state, config, source, target):
    """Returns logits [T, V] and the stacks; ``maps``: L of self and cross layers."""
    words = state["shared.weight"]
    encoder = Stack(state, config, "encoder", (config.attention,))
    kinds = (config.decoder_attention, config.cross_attention)
    decoder = Stack(state, config, "decoder", kinds)
    memory = encoder(words[source], config.num_layers)
    hidden = decoder(words[target], config.num_decoder_layers, memory)
    if config.scales_output:
        hidden = hidden / math.sqrt(config.d_model)
    return hidden @ state.get("lm_head.weight", words).T, encoder, decoder
