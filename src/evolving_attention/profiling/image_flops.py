"""Floating-point operations of the products in a convolutional forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evolving_attention.modeling.images import pair_of
from evolving_attention.profiling.attention_flops import (
    PROJECTIONS,
    Shapes,
    attention_layers,
    count_attention,
    shapes_of,
)

if TYPE_CHECKING:
    from evolving_attention.modeling.cifar_net import CifarNetConfig
    from evolving_attention.modeling.resnet import ResNetConfig


@dataclass
class _Counter:
    """Multiply-adds counted so far, by kind; ``layers`` are the next ones to attend."""

    config: ResNetConfig | CifarNetConfig
    convolutions: int = 0
    attention: int = 0
    map_conv: int = 0
    layers: Iterator[tuple[Any, Shapes]] = field(init=False)

    def __post_init__(self) -> None:
        shapes = shapes_of(self.config, "image_classification")
        self.layers = iter(attention_layers(self.config.attention, shapes))

    def convolve(
        self, into: int, out: int, kernel: int, sides: tuple[int, int]
    ) -> None:
        self.convolutions += into * out * kernel**2 * sides[0] * sides[1]

    def attend(self, sides: tuple[int, int]) -> int:
        """Counts attention next to a convolution; returns the channels it provides."""
        pixels = sides[0] * sides[1]
        kind, own = next(self.layers)
        values = own["value.weight"][0]
        projected = sum(math.prod(own[n]) for n in PROJECTIONS if n in own)
        found = count_attention([(kind, own)], pixels, pixels)
        self.attention += pixels * (projected + values**2) + found["attention"]
        self.map_conv += found["map_conv"]
        return values

    def wide(
        self, into: int, out: int, stride: int, sides: tuple[int, int], stage: int
    ) -> tuple[int, int]:
        """Counts a 3 × 3 convolution, and the attention parallel to it."""
        sides = _halved(sides) if stride == 2 else sides
        values = 0
        if stage > 0 and hasattr(self.config, "key_ratio"):
            halved = sides[0] // 2, sides[1] // 2
            values = self.attend(halved if stage == 1 else sides)
        self.convolve(into, out - values, 3, sides)
        return sides

    def counts(self) -> dict[str, float]:
        parts = {
            "convolutions": 2.0 * self.convolutions,
            "attention": 2.0 * self.attention,
            "map_conv": 2.0 * self.map_conv,
        }
        return {**parts, "total": sum(parts.values())}


def _halved(sides: tuple[int, int]) -> tuple[int, int]:
    return (sides[0] + 1) // 2, (sides[1] + 1) // 2


def _block(
    count: _Counter,
    into: int,
    out: int,
    stride: int,
    sides: tuple[int, int],
    stage: int,
) -> tuple[int, int]:
    config = count.config
    after = _halved(sides) if stride == 2 else sides
    if into != out or stride == 2:
        count.convolve(into, out, 1, after)
    if config.layer_type == "basic":
        count.wide(into, out, stride, sides, stage)
        return count.wide(out, out, 1, after, stage)
    first = config.downsample_in_bottleneck
    count.convolve(into, out // 4, 1, after if first else sides)
    count.wide(
        out // 4, out // 4, 1 if first else stride, after if first else sides, stage
    )
    count.convolve(out // 4, out, 1, after)
    return after


def resnet_flops(
    config: ResNetConfig, image_size: int | tuple[int, int] | None = None
) -> dict[str, float]:
    """Counts the operations of one image's forward pass.

    Args:
        config: config of a plain or an augmented residual network.
        image_size: pixels of a side, or (height, width); None: the config's, or 224
            for a plain network.

    Returns:
        ``convolutions`` (with the classifier), ``attention`` (projections, scores,
        relative positions, context), ``map_conv``, and their sum ``total``. A
        multiplication with its addition counts as two operations. Norms, activations
        and pools are not counted: they have no products of channels.

    Raises:
        ConfigError: the model cannot have this ``image_size``.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import resnet_flops
        >>> round(resnet_flops(ea.ResNetConfig(num_labels=1000))["total"] / 1e9, 2)
        8.18
    """
    if image_size is None:
        image_size = getattr(config, "image_size", 224)
    elif "image_size" in config.sides:
        config = type(config).from_dict(config.to_dict(), image_size=image_size)
    sides = _halved(pair_of(image_size, "image_size", "resnet_flops"))
    count = _Counter(config)
    count.convolve(config.num_channels, config.embedding_size, 7, sides)
    sides, into = _halved(sides), config.embedding_size
    for stage, (out, depth) in enumerate(
        zip(config.hidden_sizes, config.depths, strict=True)
    ):
        for block in range(depth):
            strided = stage > 0 or config.downsample_in_first_stage
            stride = 2 if block == 0 and strided else 1
            sides, into = _block(count, into, out, stride, sides, stage), out
    count.convolutions += into * config.num_labels
    return count.counts()


def cifar_net_flops(config: CifarNetConfig) -> dict[str, float]:
    """Counts the operations of one image's forward pass, like :func:`resnet_flops`.

    Feed-forwards, which are 1 × 1 convolutions, and the joining of earlier blocks
    count as convolutions.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import cifar_net_flops
        >>> plain = cifar_net_flops(ea.CifarNetConfig(attention_side=0))
        >>> (plain["attention"], round(plain["total"] / 1e9, 2))
        (0.0, 1.23)
    """
    height, width = config.side("image_size")
    count, into = _Counter(config), config.hidden_sizes[0]
    count.convolve(config.num_channels, into, 3, (height, width))
    for stage, (out, depth) in enumerate(
        zip(config.hidden_sizes, config.depths, strict=True)
    ):
        sides = height >> stage, width >> stage
        if stage > 0:
            count.convolve(into, out, 1, sides)
        inner = max(1, int(config.feed_forward_ratio * out))
        for block in range(depth):
            if config.dense_connections and block > 0:
                count.convolve((block + 1) * out, out, 1, sides)
            attends = max(sides) <= config.attention_side
            values = count.attend(sides) if attends else 0
            count.convolve(out, out - values, 3, sides)
            for _ in range(2 * config.num_feed_forwards):
                count.convolve(out, inner, 1, sides)
        into = out * (depth + 1 if config.dense_connections else 1)
    count.convolutions += config.hidden_sizes[-1] * config.num_labels
    return count.counts()
