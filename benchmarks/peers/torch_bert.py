"""BERT with vanilla or evolving attention in eager PyTorch, with Hugging Face's names.

Written for speed without compiling: scaled_dot_product_attention for the vanilla kind;
for the evolving kind fused mixes (``lerp``), one ``conv2d`` over heads and no copies
except the transposes. Without a mask no masking is computed. With one, maps outside a
sequence are set to zero before the convolution, so padding changes no result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.models import Shape

__all__ = ["BertClassifier", "Logits", "Mask", "Shape", "adamw"]


class Mask:
    """Token mask of [B, T], in the forms that the two kinds need."""

    def __init__(self, tokens: Tensor, dtype: torch.dtype) -> None:
        keys = tokens[:, None, None, :].to(dtype)
        self.bias = (1.0 - keys) * torch.finfo(dtype).min  # [B, 1, 1, T]
        self.pairs = keys * keys.transpose(-1, -2)  # [B, 1, T, T]


class SelfAttention(nn.Module):
    """Multi-head attention; its map evolves from the second layer on."""

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

    def forward(
        self, x: Tensor, carry: Tensor | None, mask: Mask | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns context [B, T, width]; map [B, heads, T, T] for the next layer."""
        batch, length, width = x.shape
        split = (batch, length, self.shape.heads, width // self.shape.heads)
        q, k, v = (
            f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        drop = self.shape.dropout if self.training else 0.0
        if self.shape.alpha is None:
            bias = None if mask is None else mask.bias
            context = F.scaled_dot_product_attention(q, k, v, bias, drop)
        else:
            logits = (q * split[-1] ** -0.5) @ k.transpose(-1, -2)
            if carry is not None:
                logits = torch.lerp(logits, carry, self.shape.alpha)
                if self.evolving_conv is not None:
                    if mask is not None:
                        logits = logits * mask.pairs
                    grown = F.relu_(self.evolving_conv(logits))
                    logits = torch.lerp(logits, grown, self.shape.beta)
            carry = logits
            if mask is not None:
                logits = logits + mask.bias
            context = F.dropout(logits.softmax(-1), drop, self.training) @ v
        return context.transpose(1, 2).reshape(x.shape), carry


class Output(nn.Module):
    """Linear, dropout, residual, LayerNorm."""

    def __init__(self, inner: int, shape: Shape) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, shape.width)
        self.LayerNorm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Adds the projected x [B, T, inner] to the residual [B, T, width]."""
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Attention(nn.Module):
    """Self-attention and its output."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.add_module("self", SelfAttention(shape, layer))
        self.output = Output(shape.width, shape)

    def forward(
        self, x: Tensor, carry: Tensor | None, mask: Mask | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns hidden states and the carried map."""
        context, carry = self.get_submodule("self")(x, carry, mask)
        return self.output(context, x), carry


class Dense(nn.Module):
    """A linear layer under the name ``dense``."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        """Returns x W^T + b."""
        return self.dense(x)


class Layer(nn.Module):
    """One encoder layer, post-norm."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.attention = Attention(shape, layer)
        self.intermediate = Dense(shape.width, shape.inner)
        self.output = Output(shape.inner, shape)

    def forward(
        self, x: Tensor, carry: Tensor | None, mask: Mask | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns hidden states and the carried map."""
        x, carry = self.attention(x, carry, mask)
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
        """Embeds token ids [B, T] of the first segment as [B, T, width]."""
        place = self.position_embeddings.weight[: ids.shape[1]]
        x = self.word_embeddings(ids) + place + self.token_type_embeddings.weight[0]
        return self.dropout(self.LayerNorm(x))


class Encoder(nn.Module):
    """The layers, and the map carried through them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(shape, i) for i in range(shape.layers))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Returns hidden states of the last layer."""
        carry = None
        for layer in self.layer:
            x, carry = layer(x, carry, mask)
        return x


class Bert(nn.Module):
    """Embeddings, encoder, pooler."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embeddings = Embeddings(shape)
        self.encoder = Encoder(shape)
        self.pooler = Dense(shape.width, shape.width)

    def forward(self, ids: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Returns the pooled first token [B, width]; ``tokens`` [B, T]: 1 at tokens."""
        x = self.embeddings(ids)
        mask = None if tokens is None else Mask(tokens, x.dtype)
        return torch.tanh(self.pooler(self.encoder(x, mask)[:, 0]))


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
        """Returns the mean cross entropy of ids [B, T] against labels [B]."""
        return F.cross_entropy(self.classifier(self.dropout(self.bert(ids))), labels)


class Logits(nn.Module):
    """The classifier for inference: maps ids [B, T] and their mask to logits."""

    def __init__(self, model: BertClassifier) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, ids: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Returns logits [B, labels]; without a mask every position is a token."""
        return self.model.classifier(self.model.bert(ids, tokens))


def adamw(model: nn.Module, lr: float = 2e-5) -> torch.optim.AdamW:
    """Returns torch's AdamW, fused if this build of PyTorch supports it on the CPU."""
    try:
        return torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(model.parameters(), lr=lr, foreach=True)
