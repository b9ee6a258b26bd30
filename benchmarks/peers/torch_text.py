"""Text nets in eager PyTorch over padded batches, with this library's parameter names.

Written for speed without compiling: relative positions by one product with the table
and a view that shifts its rows, maps mixed by ``lerp``, one ``conv2d`` over heads.
Convolutions see zeros outside a text, so padding changes no result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolving_attention.attention import Evolving, Predictive

__all__ = ["TextNet", "Words", "adam"]


class Words:
    """Mask of the words among positions [B, T], in the forms the layers need."""

    def __init__(self, lengths: Tensor, longest: int, dtype: torch.dtype) -> None:
        valid = torch.arange(longest) < lengths[:, None]
        self.lengths = lengths
        self.all = bool(valid.all())
        self.valid = valid[:, :, None].to(dtype)  # [B, T, 1]
        keys = valid[:, None, None, :].to(dtype)
        self.bias = (1.0 - keys) * torch.finfo(dtype).min  # [B, 1, 1, T]
        self.pairs = keys * keys.transpose(-1, -2)  # [B, 1, T, T]

    def states(self, x: Tensor) -> Tensor:
        """Returns x [B, T, d] with zeros at padding."""
        return x if self.all else x * self.valid

    def maps(self, logits: Tensor) -> Tensor:
        """Returns maps [B, heads, T, T] with zeros at padding."""
        return logits if self.all else logits * self.pairs


def shifted(rows: Tensor) -> Tensor:
    """Shifts rows [.., T, 2 T - 1] to [.., T, T]: (i, j) is (i, j - i + T - 1)."""
    length = rows.shape[-2]
    if length == 1:
        return rows
    flat = rows.flatten(-2)[..., length - 1 : -1]
    return flat.unflatten(-1, (length, -1))[..., :length]


class SelfAttention(nn.Module):
    """Attention with relative positions; its map evolves from the second layer on."""

    def __init__(self, config: Any, layer: int) -> None:
        super().__init__()
        width, kind = round(config.attention_ratio * config.hidden_size), None
        self.heads = config.num_attention_heads
        self.farthest = config.max_position_embeddings - 1
        for name in ("query", "key", "value"):
            self.add_module(name, nn.Linear(config.hidden_size, width))
        if config.relative != "none":
            table = torch.zeros(2 * self.farthest + 1, width // self.heads)
            self.relative_positions = nn.Parameter(table)
        if layer and isinstance(config.attention, (Evolving, Predictive)):
            kind = config.attention
            self.alpha = coefficient(kind.alpha, layer, config)
        self.predicts = isinstance(kind, Predictive)
        self.evolving_conv = None
        if self.predicts and kind.num_layers:
            convolutions = [self.convolution() for _ in range(kind.num_layers)]
            one = len(convolutions) == 1
            self.evolving_conv = (
                convolutions[0] if one else nn.Sequential(*convolutions)
            )
        elif isinstance(kind, Evolving):
            self.beta = coefficient(kind.beta, layer, config)
            self.evolving_conv = self.convolution()
        self.evolves = kind is not None

    def convolution(self) -> nn.Conv2d:
        """Returns a convolution over the maps of all heads."""
        return nn.Conv2d(self.heads, self.heads, 3, padding=1)

    def forward(
        self, x: Tensor, carry: Tensor | None, words: Words
    ) -> tuple[Tensor, Tensor]:
        """Returns context [B, T, width]; map [B, heads, T, T] for the next layer."""
        batch, length, _ = x.shape
        q, k, v = (
            f(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        q = q * q.shape[-1] ** -0.5
        logits = q @ k.transpose(-1, -2)
        if hasattr(self, "relative_positions"):
            near = slice(self.farthest + 1 - length, self.farthest + length)
            logits = logits + shifted(q @ self.relative_positions[near].T)
        if self.evolves:
            logits = self.evolve(logits, carry, words)
        seen = logits if words.all else logits + words.bias
        context = seen.softmax(-1) @ v
        return context.transpose(1, 2).reshape(batch, length, -1), logits

    def evolve(self, logits: Tensor, carry: Tensor | None, words: Words) -> Tensor:
        """Applies skip and convolution, or the convolutions of the previous map."""
        if not self.predicts:
            mixed = torch.lerp(logits, carry, self.alpha)
            grown = F.relu_(self.evolving_conv(words.maps(mixed)))
            return torch.lerp(mixed, grown, self.beta)
        found = self.evolving_conv
        several = isinstance(found, nn.Sequential)
        for one in [] if found is None else found if several else [found]:
            carry = F.relu_(one(words.maps(carry)))
        return torch.lerp(logits, carry, self.alpha)


def coefficient(value: Any, layer: int, config: Any) -> float:
    """Returns the layer's α or β."""
    return float(np.broadcast_to(value, config.num_hidden_layers)[layer])


class Dense(nn.Module):
    """A linear layer under the name ``dense``, optionally followed by a norm."""

    def __init__(self, inner: int, width: int, eps: float | None = None) -> None:
        super().__init__()
        if inner:
            self.dense = nn.Linear(inner, width)
        if eps is not None:
            self.LayerNorm = nn.LayerNorm(width, eps=eps)


class Layer(nn.Module):
    """Dense connections, branches, feed-forward."""

    def __init__(self, config: Any, layer: int) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.layer_norm_eps
        attended = round(config.attention_ratio * width)
        self.drop = config.hidden_dropout_prob
        self.connects = config.dense_connections and layer > 0
        if self.connects:
            self.connection = nn.Linear((layer + 1) * width, width)
        if attended:
            own = {"self": SelfAttention(config, layer)}
            self.attention = nn.ModuleDict(own)
        if attended < width:
            taps = config.kernel_size
            self.convolution = nn.Conv1d(
                width, width - attended, taps, padding=taps // 2
            )
        self.both = 0 < attended < width
        out = Dense(0 if self.both else width, width, eps)
        self.branches = nn.ModuleDict({"output": out})
        self.intermediate = Dense(width, config.intermediate_size)
        self.output = Dense(config.intermediate_size, width, eps)

    def forward(
        self, states: list[Tensor], carry: Tensor | None, words: Words
    ) -> tuple[Tensor, Tensor | None]:
        """Returns hidden states [B, T, d] and the carried map."""
        x = self.connection(torch.cat(states, -1)) if self.connects else states[-1]
        parts = []
        if hasattr(self, "attention"):
            context, carry = self.attention["self"](x, carry, words)
            parts.append(context)
        if hasattr(self, "convolution"):
            channels = words.states(x).transpose(1, 2)
            parts.append(self.convolution(channels).transpose(1, 2))
        out = self.branches["output"]
        mixed = torch.cat(parts, -1) if self.both else out.dense(parts[0])
        h = out.LayerNorm(x + F.dropout(mixed, self.drop, self.training))
        narrow = self.output.dense(F.relu_(self.intermediate.dense(h)))
        narrow = F.dropout(narrow, self.drop, self.training)
        return self.output.LayerNorm(h + narrow), carry


class TextNet(nn.Module):
    """The net of a TextNetConfig with ReLU activation; logits [B, num_labels]."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.drops = config.embedding_dropout_prob, config.hidden_dropout_prob
        words = nn.Embedding(
            config.vocab_size, config.embedding_size, config.pad_token_id
        )
        words.weight.requires_grad = not config.fixed_words
        projection = nn.Linear(config.embedding_size, config.hidden_size)
        embeddings = nn.ModuleDict({"word_embeddings": words, "projection": projection})
        if config.type_vocab_size > 1:
            types = nn.Embedding(config.type_vocab_size, config.hidden_size)
            embeddings["token_type_embeddings"] = types
        layers = [Layer(config, i) for i in range(config.num_hidden_layers)]
        encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        body = {"embeddings": embeddings, "encoder": encoder}
        self.text_net = nn.ModuleDict(body)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def hidden_states(self, ids: Tensor, types: Tensor, words: Words) -> list[Tensor]:
        """Returns the embedding and the states of all layers, each [B, T, d]."""
        embeddings = self.text_net["embeddings"]
        x = embeddings["word_embeddings"](ids)
        x = embeddings["projection"](F.dropout(x, self.drops[0], self.training))
        if "token_type_embeddings" in embeddings:
            x = x + embeddings["token_type_embeddings"](types)
        states, carry = [x], None
        for layer in self.text_net["encoder"]["layer"]:
            x, carry = layer(states, carry, words)
            states.append(x)
        return states

    def forward(self, ids: Tensor, types: Tensor, lengths: Tensor) -> Tensor:
        """Maps padded ids and token types [B, T], and lengths [B], to logits."""
        words = Words(lengths, ids.shape[1], self.classifier.weight.dtype)
        last = self.hidden_states(ids, types, words)[-1]
        pooled = words.states(last).sum(1) / words.lengths[:, None]
        return self.classifier(F.dropout(pooled, self.drops[1], self.training))


def adam(model: nn.Module, lr: float, weight_decay: float) -> torch.optim.Adam:
    """Returns torch's Adam with an L2 penalty, fused if supported on the CPU."""
    trained = [p for p in model.parameters() if p.requires_grad]
    own = {"lr": lr, "weight_decay": weight_decay}
    try:
        return torch.optim.Adam(trained, fused=True, **own)
    except RuntimeError:
        return torch.optim.Adam(trained, foreach=True, **own)
