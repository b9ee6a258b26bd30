"""BERT with vanilla or evolving attention in eager PyTorch, with Hugging Face's names.

Written as one would for speed without compiling: scaled_dot_product_attention for the
vanilla kind; for the evolving one fused mixes (``lerp``) and one ``conv2d`` over heads,
and no copies beyond the transposes. Sequences without padding only, so no mask is paid.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of a BERT; ``alpha`` None means vanilla attention."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    labels: int = 2
    dropout: float = 0.1
    alpha: float | None = None
    beta: float = 0.1
    kernel_size: int = 3


class SelfAttention(nn.Module):
    """Multi-head attention; from the second layer on its map evolves."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.shape = shape
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.evolving_conv = None
        if shape.alpha is not None and shape.beta and layer > 0:
            k, heads = shape.kernel_size, shape.heads
            self.evolving_conv = nn.Conv2d(heads, heads, k, padding=k // 2)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Context [B, T, width], and the map [B, heads, T, T] for the next layer."""
        batch, length, width = x.shape
        split = (batch, length, self.shape.heads, width // self.shape.heads)
        q, k, v = (
            f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        drop = self.shape.dropout if self.training else 0.0
        if self.shape.alpha is None:
            context = F.scaled_dot_product_attention(q, k, v, dropout_p=drop)
        else:
            logits = (q * split[-1] ** -0.5) @ k.transpose(-1, -2)
            if carry is not None:
                logits = torch.lerp(logits, carry, self.shape.alpha)
                if self.evolving_conv is not None:
                    grown = F.relu_(self.evolving_conv(logits))
                    logits = torch.lerp(logits, grown, self.shape.beta)
            carry = logits
            context = F.dropout(logits.softmax(-1), drop) @ v
        return context.transpose(1, 2).reshape(x.shape), carry


class Output(nn.Module):
    """Linear, dropout, residual, LayerNorm."""

    def __init__(self, inner: int, shape: Shape) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, shape.width)
        self.LayerNorm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Add the projected x [B, T, inner] to the residual [B, T, width]."""
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Attention(nn.Module):
    """Self-attention and its output."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.add_module("self", SelfAttention(shape, layer))
        self.output = Output(shape.width, shape)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Hidden states and the carried map."""
        context, carry = self.get_submodule("self")(x, carry)
        return self.output(context, x), carry


class Dense(nn.Module):
    """A linear layer under the name ``dense``."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b."""
        return self.dense(x)


class Layer(nn.Module):
    """One encoder layer, post-norm."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.attention = Attention(shape, layer)
        self.intermediate = Dense(shape.width, shape.inner)
        self.output = Output(shape.inner, shape)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Hidden states and the carried map."""
        x, carry = self.attention(x, carry)
        return self.output(F.gelu(self.intermediate(x)), x), carry


class Embeddings(nn.Module):
    """Words, positions and segments."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(shape.vocabulary, shape.width)
        self.position_embeddings = nn.Embedding(shape.positions, shape.width)
        self.token_type_embeddings = nn.Embedding(2, shape.width)
        self.LayerNorm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids [B, T] of the first segment to [B, T, width]."""
        place = self.position_embeddings.weight[: ids.shape[1]]
        x = self.word_embeddings(ids) + place + self.token_type_embeddings.weight[0]
        return self.dropout(self.LayerNorm(x))


class Encoder(nn.Module):
    """The layers, and the map that runs through them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(shape, i) for i in range(shape.layers))

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states of the last layer."""
        carry = None
        for layer in self.layer:
            x, carry = layer(x, carry)
        return x


class Bert(nn.Module):
    """Embeddings, encoder, pooler."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape)
        self.encoder = Encoder(shape)
        self.pooler = Dense(shape.width, shape.width)

    def forward(self, ids: Tensor) -> Tensor:
        """Pooled first token [B, width]."""
        return torch.tanh(self.pooler(self.encoder(self.embeddings(ids))[:, 0]))


class BertClassifier(nn.Module):
    """BERT for sequence classification, as the benchmarks train it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.bert = Bert(shape)
        self.dropout = nn.Dropout(shape.dropout)
        self.classifier = nn.Linear(shape.width, shape.labels)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy of ids [B, T] against labels [B]."""
        return F.cross_entropy(self.classifier(self.dropout(self.bert(ids))), labels)


def adamw(model: nn.Module, lr: float = 2e-5) -> torch.optim.AdamW:
    """torch's AdamW, fused where this build of PyTorch has it for the CPU."""
    try:
        return torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(model.parameters(), lr=lr, foreach=True)
