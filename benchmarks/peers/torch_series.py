"""EA-DC-Transformer in eager PyTorch, with this library's parameter names.

Written for speed without compiling, over padded batches: convolutions and maps see
zeros outside a series, batch norm and feed-forward only its valid steps, so that
padding changes no result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["SeriesClassifier", "SeriesShape", "Steps"]

SLOPE = 0.01


@dataclass(frozen=True)
class SeriesShape:
    """Sizes and settings; ``alpha`` None means vanilla attention."""

    channels: int
    max_length: int
    outputs: int
    width: int = 128
    blocks: int = 3
    heads: int = 8
    ratio: float = 0.25
    inner: int = 256
    kernel_size: int = 3
    dilation_base: int = 2
    causal: bool = True
    alpha: float | None = None
    beta: float | None = None
    map_kernel: int = 3
    dropout: float = 0.1
    map_dropout: float = 0.1
    relative: bool = False
    mean: bool = False
    layer_norm: bool = False
    released: bool = False

    @property
    def attended(self) -> int:
        """Returns the width of the attention branch, p d."""
        return round(self.ratio * self.width)


class Steps:
    """Mask of the valid steps among positions [B, T]."""

    def __init__(self, lengths: Tensor, length: int, dtype: torch.dtype) -> None:
        valid = torch.arange(length) < lengths[:, None]
        self.lengths = lengths
        self.all = bool(valid.all())
        self.rows = valid.flatten().nonzero()[:, 0]
        self.valid = valid[:, :, None].to(dtype)  # [B, T, 1]
        keys = valid[:, None, None, :].to(dtype)
        self.bias = (1.0 - keys) * torch.finfo(dtype).min  # [B, 1, 1, T]
        self.pairs = keys * keys.transpose(-1, -2)  # [B, 1, T, T]

    def pack(self, x: Tensor) -> Tensor:
        """Packs [B, T, width] as [steps, width]."""
        flat = x.reshape(-1, x.shape[-1])
        return flat if self.all else flat.index_select(0, self.rows)

    def pad(self, rows: Tensor) -> Tensor:
        """Unpacks [steps, width] as [B, T, width] with zeros outside."""
        batch, length, _ = self.valid.shape
        shape = (batch * length, rows.shape[-1])
        if not self.all:
            rows = rows.new_zeros(shape).index_copy(0, self.rows, rows)
        return rows.view(batch, length, -1)


class Attention(nn.Module):
    """Multi-head attention with its own width; its map evolves from some layer on."""

    def __init__(self, shape: SeriesShape, layer: int) -> None:
        super().__init__()
        self.shape = shape
        inner = shape.attended
        self.query = nn.Linear(shape.width, inner)
        self.key = nn.Linear(shape.width, inner)
        self.value = nn.Linear(shape.width, inner)
        self.evolves = shape.alpha is not None and layer >= (2 if shape.released else 1)
        if self.evolves and shape.beta:
            k, heads = shape.map_kernel, shape.heads
            self.evolving_conv = nn.Conv2d(heads, heads, k, padding=k // 2)
        if shape.relative:
            table = torch.randn(2 * shape.max_length - 1, inner // shape.heads)
            self.relative_positions = nn.Parameter(table)

    def forward(
        self, x: Tensor, carry: Tensor | None, steps: Steps
    ) -> tuple[Tensor, Tensor]:
        """Returns context [B, T, p d], and map [B, heads, T, T] for the next layer."""
        batch, length, _ = x.shape
        split = (batch, length, self.shape.heads, -1)
        q, k, v = (
            f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        q = q * q.shape[-1] ** -0.5
        logits = q @ k.transpose(-1, -2)
        if self.shape.relative:
            at = torch.arange(length)
            place = at[None, :] - at[:, None] + self.shape.max_length - 1
            table = self.relative_positions[place]  # [T, T, head width]
            logits = logits + torch.einsum("bhid,ijd->bhij", q, table)
        if self.evolves:
            logits = self.evolve(logits, carry, steps)
        drop = self.shape.map_dropout if self.training else 0.0
        seen = logits if steps.all else logits + steps.bias
        context = F.dropout(seen.softmax(-1), drop, self.training) @ v
        return context.transpose(1, 2).reshape(batch, length, -1), logits

    def evolve(self, logits: Tensor, carry: Tensor | None, steps: Steps) -> Tensor:
        """Applies skip and convolution; the kernel sees 0 outside a series."""
        shape = self.shape
        if shape.released:
            carry = F.dropout(F.leaky_relu(carry, SLOPE), shape.dropout, self.training)
        logits = torch.lerp(logits, carry, shape.alpha)
        if not shape.beta:
            return logits
        if not steps.all:
            logits = logits * steps.pairs
        grown = self.evolving_conv(logits)
        grown = F.leaky_relu_(grown, SLOPE) if shape.released else F.relu_(grown)
        return torch.lerp(logits, grown, shape.beta)


class Convolution(nn.Module):
    """Dilated, weight-normalised convolution along time."""

    def __init__(self, shape: SeriesShape, dilation: int) -> None:
        super().__init__()
        self.dilation, span = dilation, (shape.kernel_size - 1) * dilation
        self.padding = (span, 0) if shape.causal else (span // 2, span // 2)
        like = nn.Conv1d(shape.width, shape.width - shape.attended, shape.kernel_size)
        self.weight_v, self.bias = like.weight, like.bias
        norm = like.weight.detach().norm(dim=(1, 2), keepdim=True)
        self.weight_g = nn.Parameter(norm.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, T, d] to [B, T, (1 - p) d]."""
        weight = torch._weight_norm(self.weight_v, self.weight_g, 0)
        channels = F.pad(x.transpose(1, 2), self.padding)
        y = F.conv1d(channels, weight, self.bias, dilation=self.dilation)
        return y.transpose(1, 2)


class Layer(nn.Module):
    """Both branches, norm, feed-forward; the last layer of a block adds its input."""

    def __init__(self, shape: SeriesShape, layer: int) -> None:
        super().__init__()
        self.shape = shape
        width, inner = shape.width, shape.attended
        self.attention = nn.ModuleDict()
        if inner:
            self.attention["self"] = Attention(shape, layer)
            if not shape.released:
                self.attention["output"] = nn.ModuleDict(
                    {"dense": nn.Linear(inner, inner)}
                )
        if inner < width:
            self.convolution = Convolution(shape, shape.dilation_base ** (layer // 2))
        norm = nn.LayerNorm if shape.layer_norm else nn.BatchNorm1d
        self.norm = norm(width, eps=1e-5)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, shape.inner)})
        self.output = nn.ModuleDict({"dense": nn.Linear(shape.inner, width)})
        self.block_norm = norm(width, eps=1e-5) if layer % 2 else None

    def forward(
        self, x: Tensor, block_input: Tensor, carry: Tensor | None, steps: Steps
    ) -> tuple[Tensor, Tensor | None]:
        """Returns states [B, T, d], zero outside the series, and the carried map."""
        parts = []
        if "self" in self.attention:
            context, carry = self.attention["self"](x, carry, steps)
            if "output" in self.attention:
                context = self.attention["output"]["dense"](context)
            parts.append(context)
        if self.shape.attended < self.shape.width:
            parts.append(self.convolution(x))
        if self.shape.released:
            parts.reverse()
        rows = self.norm(steps.pack(torch.cat(parts, -1)))
        rows = self.intermediate["dense"](rows)
        rows = F.leaky_relu_(rows, SLOPE) if self.shape.released else F.relu_(rows)
        rows = F.dropout(rows, self.shape.dropout, self.training)
        rows = self.output["dense"](rows)
        if self.block_norm is not None:
            rows = self.block_norm(rows + steps.pack(block_input))
        return steps.pad(rows), carry


class SeriesClassifier(nn.Module):
    """Maps series to logits [B, outputs], or to a regressor's predictions."""

    def __init__(self, shape: SeriesShape, head: str = "classifier") -> None:
        super().__init__()
        self.shape, self.head = shape, head
        body = nn.Module()
        body.embeddings = nn.ModuleDict(
            {
                "projection": nn.Linear(shape.channels, shape.width),
                "positions": nn.Embedding(shape.max_length, shape.width),
            }
        )
        nn.init.uniform_(body.embeddings["positions"].weight, -0.02, 0.02)
        layers = [Layer(shape, i) for i in range(2 * shape.blocks)]
        body.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.transformer = body
        steps = 1 if shape.mean else shape.max_length
        self.add_module(head, nn.Linear(steps * shape.width, shape.outputs))

    def forward(self, values: Tensor, steps: Steps) -> Tensor:
        """Maps padded values [B, T, channels] to outputs."""
        shape, length = self.shape, values.shape[1]
        embeddings = self.transformer.embeddings
        x = embeddings["projection"](values) * math.sqrt(shape.width)
        x = x + embeddings["positions"].weight[:length]
        x = F.dropout(x, shape.dropout, self.training)
        if not steps.all:
            x = x * steps.valid
        block_input, carry = x, None
        for i, layer in enumerate(self.transformer.encoder["layer"]):
            x, carry = layer(x, block_input, carry, steps)
            if i % 2:
                block_input = x
        h = F.dropout(F.gelu(x), shape.dropout, self.training)
        if shape.mean:
            pooled = h.sum(1) / steps.lengths[:, None]
        else:
            pooled = F.pad(h, (0, 0, 0, shape.max_length - length)).flatten(1)
        return self.get_submodule(self.head)(pooled)
