"""ResNet, (evolving) AA-ResNet and ViT in eager PyTorch, with Hugging Face's names.

Written for speed without compiling. Convolutions are in ``torch.channels_last``.
Attention is ``scaled_dot_product_attention`` where its maps are not needed, otherwise
one product, fused mixes (``lerp``) and one ``conv2d`` over heads. Relative positions
are products of the queries with the offsets of each row and each column,
[height, height, d] and [width, width, d], never with all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["ResNet", "ViT", "peer_of"]

Sizes = Mapping[str, Any]


def evolved(
    logits: Tensor, carry: Tensor | None, conv: nn.Conv2d | None, sizes: Sizes
) -> Tensor:
    """Returns the map of a layer; ``carry`` is the previous map of its chain."""
    if carry is None or sizes["alpha"] is None:
        return logits
    logits = torch.lerp(logits, carry, sizes["alpha"])
    if conv is None:
        return logits
    return torch.lerp(logits, F.relu_(conv(logits)), sizes["beta"])


def map_conv(sizes: Sizes, first: bool) -> nn.Conv2d | None:
    """Returns the convolution over a layer's maps; None for the first of a chain."""
    if first or sizes["alpha"] is None:
        return None
    heads = sizes["num_attention_heads"]
    return nn.Conv2d(heads, heads, 3, padding=1)


class Dense(nn.Module):
    """A linear layer under the name ``dense``."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.dense = nn.Linear(into, out)

    def forward(self, x: Tensor) -> Tensor:
        """Returns x W^T + b."""
        return self.dense(x)


class PixelAttention(nn.Module):
    """Attention among pixels with relative positions; its map may evolve."""

    def __init__(
        self, sizes: Sizes, channels: int, out: int, side: int, first: bool
    ) -> None:
        super().__init__()
        self.sizes, self.side = sizes, side
        self.heads = heads = sizes["num_attention_heads"]
        keys = int(sizes["key_ratio"] * out) // heads * heads
        keys = max(keys, heads * sizes["min_head_key_width"])
        self.width = keys // heads
        self.values = int(sizes["value_ratio"] * out) // heads * heads
        self.query = nn.Linear(channels, keys)
        self.key = nn.Linear(channels, keys)
        self.value = nn.Linear(channels, self.values)
        self.relative_height = nn.Parameter(torch.zeros(2 * side - 1, self.width))
        self.relative_width = nn.Parameter(torch.zeros(2 * side - 1, self.width))
        self.evolving_conv = map_conv(sizes, first)
        away = torch.arange(side) - torch.arange(side)[:, None] + side - 1
        self.register_buffer("away", away, persistent=False)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor]:
        """Maps x [B, pixels, channels] to contexts [B, pixels, values] and the map."""
        batch, pixels, _ = x.shape
        q, k, v = (
            f(x).view(batch, pixels, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        q = q * self.width**-0.5
        side = self.side
        places = q.reshape(batch, self.heads, side, side, self.width)
        tall = torch.einsum("bhxyd,xud->bhxyu", places, self.relative_height[self.away])
        wide = torch.einsum("bhxyd,yvd->bhxyv", places, self.relative_width[self.away])
        near = tall.contiguous()[..., :, None] + wide.contiguous()[..., None, :]
        near = near.view(batch, self.heads, pixels, pixels)
        if self.sizes["alpha"] is None:
            context = F.scaled_dot_product_attention(q, k, v, near, scale=1.0)
            return context.transpose(1, 2).reshape(batch, pixels, -1), near
        logits = near + q @ k.transpose(-1, -2)
        if carry is not None and carry.shape != logits.shape:
            carry = None
        logits = evolved(logits, carry, self.evolving_conv, self.sizes)
        context = logits.softmax(-1) @ v
        return context.transpose(1, 2).reshape(batch, pixels, -1), logits


def mean_pool(x: Tensor) -> Tensor:
    """Averages 3 x 3 with stride 2; outside pixels do not count.

    Even sides are padded only after the last pixel.
    """
    return F.avg_pool2d(
        x, 3, 2, padding=x.shape[2] % 2, ceil_mode=True, count_include_pad=False
    )


def enlarged(x: Tensor) -> Tensor:
    """Doubles the sides: pixel 2i is i, pixel 2i + 1 the mean of i and i + 1."""
    for axis in (2, 3):
        n = x.shape[axis]
        following = torch.cat(
            [x.narrow(axis, 1, n - 1), x.narrow(axis, n - 1, 1)], axis
        )
        x = torch.stack([x, torch.lerp(x, following, 0.5)], axis + 1)
        x = x.flatten(axis, axis + 1)
    return x


class PixelBranch(nn.Module):
    """Attention and its output under Hugging Face's names."""

    def __init__(self, sizes: Sizes, channels: int, out: int, **places: Any) -> None:
        super().__init__()
        attention = PixelAttention(sizes, channels, out, **places)
        self.add_module("self", attention)
        self.output = Dense(attention.values, attention.values)


class ConvLayer(nn.Module):
    """Convolution with or without parallel attention, then batch norm and ReLU."""

    def __init__(
        self,
        into: int,
        out: int,
        kernel: int,
        stride: int,
        active: bool = True,
        beside: PixelBranch | None = None,
        halved: bool = False,
    ) -> None:
        super().__init__()
        self.stride, self.active, self.halved = stride, active, halved
        own = out
        self.attention = beside
        if beside is not None:
            own -= beside.output.dense.out_features
        self.convolution = nn.Conv2d(
            into, own, kernel, stride, padding=kernel // 2, bias=False
        )
        self.normalization = nn.BatchNorm2d(out)

    def forward(
        self, x: Tensor, carry: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the layer's pixels, and the carried map."""
        y = self.convolution(x)
        if self.attention is not None:
            seen = mean_pool(x) if self.stride == 2 else x
            seen = mean_pool(seen) if self.halved else seen
            rows = seen.permute(0, 2, 3, 1).flatten(1, 2)
            rows, carry = self.attention.get_submodule("self")(rows, carry)
            rows = self.attention.output(rows).transpose(1, 2)
            image = rows.unflatten(2, seen.shape[2:])
            image = enlarged(image) if self.halved else image
            y = torch.cat([y, image], 1)
        y = self.normalization(y)
        return (F.relu_(y) if self.active else y), carry


class Bottleneck(nn.Module):
    """Convolutions 1 x 1, 3 x 3, 1 x 1, and the shortcut."""

    def __init__(
        self, into: int, out: int, stride: int, beside: PixelBranch | None, halved: bool
    ) -> None:
        super().__init__()
        inner = out // 4
        self.shortcut = None
        if into != out or stride != 1:
            self.shortcut = ConvLayer(into, out, 1, stride, False)
        self.layer = nn.ModuleList(
            [
                ConvLayer(into, inner, 1, 1),
                ConvLayer(inner, inner, 3, stride, beside=beside, halved=halved),
                ConvLayer(inner, out, 1, 1, False),
            ]
        )

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns the block's pixels, and the carried map."""
        beside = x if self.shortcut is None else self.shortcut(x)[0]
        y, _ = self.layer[0](x)
        y, carry = self.layer[1](y, carry)
        y, _ = self.layer[2](y)
        return F.relu_(y + beside), carry


class ResNet(nn.Module):
    """ResNet, or AA-ResNet if ``augmented``; images [B, 3, side, side] to logits."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden, depths = sizes["hidden_sizes"], sizes["depths"]
        stem = nn.Module()
        stem.embedder = ConvLayer(3, sizes["embedding_size"], 7, 2)
        encoder = nn.Module()
        encoder.stages = nn.ModuleList()
        side, into, before = sizes["image_size"] // 4, sizes["embedding_size"], 0
        for stage, (out, depth) in enumerate(zip(hidden, depths, strict=True)):
            side //= 2 if stage else 1
            blocks = nn.Module()
            blocks.layers = nn.ModuleList()
            for i in range(depth):
                beside = None
                if sizes["augmented"] and stage:
                    own = side // 2 if stage == 1 else side
                    places = {"side": own, "first": own != before}
                    beside = PixelBranch(sizes, out // 4, out // 4, **places)
                    before = own
                stride = 2 if stage and i == 0 else 1
                blocks.layers.append(Bottleneck(into, out, stride, beside, stage == 1))
                into = out
            encoder.stages.append(blocks)
        self.resnet = nn.Module()
        self.resnet.embedder, self.resnet.encoder = stem, encoder
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(into, sizes["num_labels"])
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns logits [B, labels]."""
        x, _ = self.resnet.embedder.embedder(x)
        x = F.max_pool2d(x, 3, 2, 1)
        carry = None
        for stage in self.resnet.encoder.stages:
            for block in stage.layers:
                x, carry = block(x, carry)
        return self.classifier(x.mean((2, 3)))


class TokenAttention(nn.Module):
    """Multi-head attention of a ViT; its map may evolve."""

    def __init__(self, sizes: Sizes, first: bool) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes["hidden_size"]
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.evolving_conv = map_conv(sizes, first)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns contexts of x [B, T, width], and the map."""
        split = (*x.shape[:2], self.sizes["num_attention_heads"], -1)
        q, k, v = (
            f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        if self.sizes["alpha"] is None:
            context = F.scaled_dot_product_attention(q, k, v)
        else:
            logits = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
            carry = evolved(logits, carry, self.evolving_conv, self.sizes)
            context = carry.softmax(-1) @ v
        return context.transpose(1, 2).reshape(x.shape), carry


class VitLayer(nn.Module):
    """A pre-norm layer."""

    def __init__(self, sizes: Sizes, first: bool) -> None:
        super().__init__()
        width, inner = sizes["hidden_size"], sizes["intermediate_size"]
        self.attention = nn.Module()
        self.attention.attention = TokenAttention(sizes, first)
        self.attention.output = Dense(width, width)
        self.intermediate, self.output = Dense(width, inner), Dense(inner, width)
        self.layernorm_before = nn.LayerNorm(width, eps=1e-6)
        self.layernorm_after = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns hidden states and the carried map."""
        y, carry = self.attention.attention(self.layernorm_before(x), carry)
        x = x + self.attention.output(y)
        y = F.gelu(self.intermediate(self.layernorm_after(x)))
        return x + self.output(y), carry


class ViT(nn.Module):
    """ViT without dropout; images [B, 3, side, side] to logits."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, patch = sizes["hidden_size"], sizes["patch_size"]
        patches = (sizes["image_size"] // patch) ** 2
        embeddings, encoder = nn.Module(), nn.Module()
        embeddings.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        embeddings.position_embeddings = nn.Parameter(
            torch.zeros(1, 1 + patches, width)
        )
        embeddings.patch_embeddings = nn.Module()
        embeddings.patch_embeddings.projection = nn.Conv2d(3, width, patch, patch)
        layers = range(sizes["num_hidden_layers"])
        encoder.layer = nn.ModuleList(VitLayer(sizes, i == 0) for i in layers)
        self.vit = nn.Module()
        self.vit.embeddings, self.vit.encoder = embeddings, encoder
        self.vit.layernorm = nn.LayerNorm(width, eps=1e-6)
        self.classifier = nn.Linear(width, sizes["num_labels"])

    def forward(self, x: Tensor) -> Tensor:
        """Returns logits [B, labels]."""
        own = self.vit.embeddings
        x = own.patch_embeddings.projection(x).flatten(2).transpose(1, 2)
        token = own.cls_token.to(x.dtype).expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], 1) + own.position_embeddings
        carry = None
        for layer in self.vit.encoder.layer:
            x, carry = layer(x, carry)
        return self.classifier(self.vit.layernorm(x[:, 0]))


def peer_of(sizes: Sizes, weights: Mapping[str, Any]) -> nn.Module:
    """Builds the network with these weights; every name must match.

    Batch-norm counters, which have no effect here, keep their own values.
    """
    model: nn.Module = (ViT if "patch_size" in sizes else ResNet)(sizes)
    state = {name: torch.as_tensor(value) for name, value in weights.items()}
    counters = {k: v for k, v in model.state_dict().items() if "num_batches" in k}
    model.load_state_dict({**counters, **state}, strict=True)
    return model
