"""The (evolving) Transformer in NumPy, for one pair of sequences.

Vaswani et al., NeurIPS 2017, with post-norm layers, and Wang et al., ICML 2021, Eq. 4
and Section 3.5. ``state`` maps names to arrays as ``state_dict()`` does.
"""

from __future__ import annotations

import numpy as np

from reference.evolving import conv_map, masked_softmax


def positions(length, width):
    """PE(t, 2 i) = sin(t / 10000^(2 i / d)), PE(t, 2 i + 1) = cos(...)."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(width) // 2 * 2 / width)
    return np.where(np.arange(width) % 2, np.cos(angle), np.sin(angle))


def shifted(x, weight, bias, shift):
    """Convolves maps x [K, N, M] and shifts them by the kernel's reach; fills with 0.

    diagonal: taps b <= a of row a, column b, moved down and right; query: moved down.
    """
    size = weight.shape[-1]
    reach = size // 2
    if shift == "diagonal":
        weight = weight * np.tril(np.ones((size, size)))
    whole = conv_map(x, weight, bias)
    down, right = reach, reach if shift == "diagonal" else 0
    out = np.zeros_like(whole)
    rows, columns = max(x.shape[1] - down, 0), max(x.shape[2] - right, 0)
    out[:, down:, right:] = whole[:, :rows, :columns]
    return out


def evolve(scores, previous, parameters, kind, allowed):
    """Eq. 4: returns the maps before softmax, which are also carried on."""
    weight, bias = parameters
    keep = np.broadcast_to(allowed, scores.shape)
    scores = scores * keep
    if weight is None or (previous is None and kind.alpha):
        return scores
    mixed = scores
    if kind.alpha:
        mixed = kind.alpha * previous + (1 - kind.alpha) * scores
    if hasattr(kind, "shift"):
        grown = shifted(mixed, weight, bias, kind.shift)
    else:
        grown = conv_map(mixed, weight, bias)
    return (kind.beta * np.maximum(grown, 0) + (1 - kind.beta) * mixed) * keep


class Layers:
    """One stack; ``kinds``: evolve kind by name of its attention (None: vanilla)."""

    def __init__(self, state, prefix, heads, kinds, causal, eps=1e-5):
        self.state, self.prefix, self.heads = state, prefix, heads
        self.kinds, self.causal, self.eps = kinds, causal, eps
        self.maps = {name: [] for name in kinds}

    def affine(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + self.eps)
        return (
            centred / scale * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]
        )

    def split(self, name, x):
        """Splits into [heads, tokens, width of a head]."""
        return self.affine(name, x).reshape(len(x), self.heads, -1).transpose(1, 0, 2)

    def attend(self, layer, kind, x, memory):
        place = f"{self.prefix}.layer.{layer}.{kind}"
        q, k, v = (
            self.split(f"{place}.self.{part}", rows)
            for part, rows in (("query", x), ("key", memory), ("value", memory))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        allowed = np.ones(scores.shape[1:])
        if self.causal and kind == "attention":
            allowed = np.tril(allowed)
        conv = f"{place}.self.evolving_conv"
        parameters = (self.state.get(f"{conv}.{part}") for part in ("weight", "bias"))
        chain = self.maps[kind]
        chain.append(
            evolve(
                scores,
                chain[-1] if chain else None,
                parameters,
                self.kinds[kind],
                allowed,
            )
        )
        p = masked_softmax(chain[-1], allowed.astype(bool))
        mixed = (p @ v).transpose(1, 0, 2).reshape(len(x), -1)
        return self.norm(
            f"{place}.output.LayerNorm",
            x + self.affine(f"{place}.output.dense", mixed),
        )

    def __call__(self, x, layers, memory=None):
        for i in range(layers):
            x = self.attend(i, "attention", x, x)
            if memory is not None:
                x = self.attend(i, "crossattention", x, memory)
            place = f"{self.prefix}.layer.{i}"
            inner = np.maximum(self.affine(f"{place}.intermediate.dense", x), 0)
            fed = self.affine(f"{place}.output.dense", inner)
            x = self.norm(f"{place}.output.LayerNorm", x + fed)
        return x


def forward(state, config, source, target):
    """Returns logits [T, V] and the stacks, whose ``maps`` hold L of every layer."""
    state = {name.removeprefix("transformer."): x for name, x in state.items()}
    words = state["embeddings.word_embeddings.weight"]

    def embed(ids):
        width = words.shape[1]
        return words[ids] * np.sqrt(width) + positions(len(ids), width)

    encoder = Layers(
        state,
        "encoder",
        config.encoder_attention_heads,
        {"attention": config.attention},
        causal=False,
    )
    decoder = Layers(
        state,
        "decoder",
        config.decoder_attention_heads,
        {
            "attention": config.decoder_attention.evolve,
            "crossattention": config.cross_attention,
        },
        causal=True,
    )
    memory = encoder(embed(source), config.encoder_layers)
    hidden = decoder(embed(target), config.decoder_layers, memory)
    return hidden @ words.T, encoder, decoder
