"""Floating-point operations of the products in a convolutional forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evolving_attention.errors import ConfigError

if TYPE_CHECKING:
    from evolving_attention.modeling.cifar_net import CifarNetConfig
    from evolving_attention.modeling.resnet import ResNetConfig


@dataclass
class _Counter:
    """Multiply-adds counted so far, by kind."""

    config: ResNetConfig | CifarNetConfig
    convolutions: int = 0
    attention: int = 0
    map_conv: int = 0
    before: tuple[int, int] | None = None  # sides of the last maps

    def convolve(
        self, into: int, out: int, kernel: int, sides: tuple[int, int]
    ) -> None:
        self.convolutions += into * out * kernel**2 * sides[0] * sides[1]

    def attend(self, into: int, out: int, sides: tuple[int, int]) -> int:
        """Counts attention next to a convolution; returns the channels it provides."""
        config = self.config
        heads = config.num_attention_heads
        keys = int(config.key_ratio * out) // heads * heads
        keys = max(keys, config.min_head_key_width * heads)
        values = int(config.value_ratio * out // heads) * int(heads)
        pixels = sides[0] * sides[1]
        self.attention += pixels * (into * (2 * keys + values) + values**2)
        self.attention += pixels**2 * (keys + values)
        self.attention += pixels * keys * (2 * sides[0] - 1 + 2 * sides[1] - 1)
        if self.before == sides:
            self.map_conv += pixels**2 * heads**2 * self.kernel_cells()
        self.before = sides
        return values

    def kernel_cells(self) -> int:
        """Number of taps of all convolutions over a map."""
        kind = self.config.attention
        if isinstance(kind, tuple):
            raise ConfigError(
                "flops: attention is a list, expected one kind for all layers"
            )
        kind = getattr(kind, "evolve", kind)
        if getattr(kind, "beta", 1) == 0:
            return 0
        layers = getattr(kind, "num_layers", 1)  # predictive kind: 3 x 3 each
        side = getattr(kind, "kernel_size", 3 if hasattr(kind, "num_layers") else 0)
        return int(side**2 * layers)

    def wide(
        self, into: int, out: int, stride: int, sides: tuple[int, int], stage: int
    ) -> tuple[int, int]:
        """Counts a 3 × 3 convolution, and the attention parallel to it."""
        sides = _halved(sides) if stride == 2 else sides
        values = 0
        if stage > 0 and hasattr(self.config, "key_ratio"):
            halved = sides[0] // 2, sides[1] // 2
            values = self.attend(into, out, halved if stage == 1 else sides)
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
        ConfigError: attention is a list of kinds.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import resnet_flops
        >>> round(resnet_flops(ea.ResNetConfig(num_labels=1000))["total"] / 1e9, 2)
        8.18
    """
    if image_size is None:
        image_size = getattr(config, "image_size", 224)
    sides = (
        (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    )
    sides = _halved((int(sides[0]), int(sides[1])))
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

    Raises:
        ConfigError: attention is a list of kinds.

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
            values = count.attend(out, out, sides) if attends else 0
            count.convolve(out, out - values, 3, sides)
            for _ in range(2 * config.num_feed_forwards):
                count.convolve(out, inner, 1, sides)
        into = out * (depth + 1 if config.dense_connections else 1)
    count.convolutions += config.hidden_sizes[-1] * config.num_labels
    return count.counts()
