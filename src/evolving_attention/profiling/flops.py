"""Floating-point operations of the matrix products in transformers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.profiling.attention_flops import (
    attention_layers,
    count_attention,
    shapes_of,
)


def matrix_flops(
    lengths: Sequence[int],
    *,
    layers: int,
    width: int,
    inner: int,
    heads: int,
    labels: int = 2,
    kernel_size: int = 0,
    training: bool = False,
) -> dict[str, float]:
    """Counts floating-point operations of the matrix products of one BERT step.

    Args:
        lengths: tokens of each sequence, without padding.
        layers, width, inner, heads, labels: sizes of the classifier.
        kernel_size: side of the convolution over maps, 0 for none; the first layer
            never has one.
        training: also count the two products of each product's backward.

    Returns:
        ``dense`` (projections, feed-forward, pooler, classifier), ``attention``
        (scores and context), ``map_conv``, and their sum ``total``. A multiplication
        with its addition counts as two operations.
    """
    if min(lengths, default=1) < 0 or min(layers, width, inner, heads) < 1:
        raise ConfigError(
            "matrix_flops: sizes must be positive and lengths not negative, got "
            f"lengths={list(lengths)}, layers={layers}, width={width}, inner={inner}, "
            f"heads={heads}"
        )
    tokens, pairs = sum(lengths), sum(n * n for n in lengths)
    dense = layers * 2.0 * tokens * (4 * width * width + 2 * width * inner)
    dense += 2.0 * len(lengths) * width * (width + labels)
    parts = {
        "dense": dense,
        "attention": layers * 4.0 * pairs * width,
        "map_conv": (layers - 1) * 2.0 * pairs * heads**2 * kernel_size**2,
    }
    return _with_total(parts, 3.0 if training else 1.0)


def _with_total(parts: dict[str, float], factor: float) -> dict[str, float]:
    """Multiplies the parts by a factor, and adds their sum."""
    found = {name: factor * value for name, value in parts.items()}
    return {**found, "total": sum(found.values())}


_DENSE = ("query.weight", "key.weight", "value.weight", "dense.weight")


def vit_flops(
    config: Any, images: int = 1, *, training: bool = False
) -> dict[str, float]:
    """Counts floating-point operations of ViT's matrix products with a classifier.

    The counts follow from the shapes of the model's parameters, for any attention.

    Args:
        config: a :class:`~evolving_attention.ViTConfig`.
        images: number of images.
        training: also count the two products of each product's backward.

    Returns:
        ``patches`` (their embedding), ``dense`` (projections, feed-forward,
        classifier), ``attention`` (scores, relative positions, context), ``map_conv``,
        and their sum ``total``. A multiplication with its addition counts as two
        operations.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import vit_flops
        >>> config = ea.ViTConfig(image_size=384, num_labels=1000)
        >>> f"{vit_flops(config)['total'] / 2e9:.1f} billion products"
        '55.5 billion products'
    """
    tokens, (rows, columns) = config.tokens, config.grid
    shapes = shapes_of(config, "image_classification")
    parts: dict[str, float] = dict.fromkeys(("patches", "dense"), 0.0)
    for name, shape in shapes.items():
        size = math.prod(shape)
        if name.endswith("patch_embeddings.projection.weight"):
            parts["patches"] += rows * columns * size
        elif name == "classifier.weight":
            parts["dense"] += size
        elif name.endswith(_DENSE):
            parts["dense"] += tokens * size
    layers = attention_layers(config.attention, shapes)
    parts |= count_attention(layers, tokens, tokens)
    return _with_total(parts, 2.0 * images * (3.0 if training else 1.0))


_MATRIX = re.compile(r"\.(query|key|value|dense|q|k|v|o|wi|wi_0|wi_1|wo)\.weight$")
_ENCODER = re.compile(r"(^|\.)encoder\.")
_CROSS = re.compile(r"\.(crossattention|EncDecAttention)\.")


def encoder_decoder_flops(
    config: Any, source: int, target: int, *, training: bool = False
) -> dict[str, float]:
    """Counts floating-point operations of an encoder-decoder's matrix products.

    The counts follow from the shapes of the model's parameters, for any attention.
    Every pair of tokens counts, even if a causal limit excludes it, and every cell of
    a window.

    Args:
        config: a :class:`~evolving_attention.TransformerConfig` or
            :class:`~evolving_attention.T5Config`.
        source, target: number of tokens of the sentence and of its translation.
        training: also count the two products of each product's backward.

    Returns:
        ``dense`` (projections, feed-forward), ``attention`` (scores, relative
        positions and context of the encoder, the decoder and between them),
        ``map_conv``, ``logits`` (the product with the output matrix, which the papers
        leave out), and their sum ``total``. A multiplication with its addition counts
        as two operations.

    Raises:
        ConfigError: a length is not positive.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import encoder_decoder_flops
        >>> found = encoder_decoder_flops(ea.TransformerConfig(vocab_size=10), 30, 30)
        >>> f"{(found['total'] - found['logits']) / 1e9:.2f} billion operations"
        '2.68 billion operations'
    """
    if min(source, target) < 1:
        raise ConfigError(
            "encoder_decoder_flops: source and target are numbers of tokens, 1 or "
            f"more; got {source} and {target}"
        )
    parts = dict.fromkeys(("dense", "attention", "map_conv", "logits"), 0.0)
    shapes = shapes_of(config, "seq2seq_lm")
    encoder = {n: shape for n, shape in shapes.items() if _ENCODER.search(n)}
    cross = {n: shape for n, shape in shapes.items() if _CROSS.search(n)}
    others = {**encoder, **cross}
    decoder = {n: shape for n, shape in shapes.items() if n not in others}
    for kinds, own, queries, keys in (
        (config.attention, encoder, source, source),
        (config.decoder_attention, decoder, target, target),
        (config.cross_attention, cross, target, source),
    ):
        for name, shape in own.items():
            if matrix := _MATRIX.search(name):
                of_keys = matrix[1] in ("key", "value", "k", "v")
                parts["dense"] += (keys if of_keys else queries) * math.prod(shape)
        found = count_attention(attention_layers(kinds, own), queries, keys)
        for part, count in found.items():
            parts[part] += count
    words = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    parts["logits"] = float(target * words * config.d_model)
    return _with_total(parts, 2.0 * (3.0 if training else 1.0))


def series_flops(
    config: Any,
    steps: int | None = None,
    *,
    head: str = "classification",
    training: bool = False,
) -> dict[str, float]:
    """Counts floating-point operations of EA-DC-Transformer's products, per series.

    The counts follow from the shapes of the model's parameters, for any attention.
    Every tap of a convolution and of a window counts, even if it lies outside the
    series.

    Args:
        config: a :class:`~evolving_attention.EADCTransformerConfig`.
        steps: steps of the series, 1 to ``max_length``; None: ``max_length``.
        head: ``"base"`` (none), ``"classification"``, ``"regression"`` or
            ``"pretraining"``.
        training: also count the two products of each product's backward.

    Returns:
        ``dense`` (the embedding of the values, projections, feed-forward, head; a flat
        head always reads ``max_length`` steps), ``convolution`` (dilated, over steps),
        ``attention`` (scores, relative positions, context), ``map_conv``, and their sum
        ``total``. A multiplication with its addition counts as two operations.

    Raises:
        ConfigError: the number of steps is out of range, or there is no such head.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import series_flops
        >>> found = series_flops(ea.EADCTransformerConfig(channels=24, max_length=144))
        >>> f"{found['total'] / 1e6:.0f} million operations"
        '217 million operations'
        >>> evolving = ea.EADCTransformerConfig(
        ...     channels=24, max_length=144, attention="evolving"
        ... )
        >>> f"{series_flops(evolving)['total'] / 1e6:.0f} million operations"
        '336 million operations'
    """
    steps = config.max_length if steps is None else steps
    if not 1 <= steps <= config.max_length:
        raise ConfigError(
            f"series_flops: steps={steps}, expected 1 to {config.max_length}, the "
            "max_length of the config"
        )
    shapes = shapes_of(config, head)
    parts: dict[str, float] = dict.fromkeys(("dense", "convolution"), 0.0)
    for name, shape in shapes.items():
        size = math.prod(shape)
        if name.endswith("convolution.weight_v"):
            parts["convolution"] += steps * size
        elif name.startswith(("classifier.", "regressor.")) and len(shape) == 2:
            parts["dense"] += size
        elif name.endswith((*_DENSE, "projection.weight", "reconstruction.weight")):
            parts["dense"] += steps * size
    layers = attention_layers(config.attention, shapes)
    parts |= count_attention(layers, steps, steps)
    return _with_total(parts, 2.0 * (3.0 if training else 1.0))
