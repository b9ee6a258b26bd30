"""Floating-point operations of the matrix products of transformers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["matrix_flops", "vit_flops"]


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
    """Floating-point operations of the matrix products of one BERT step.

    Args:
        lengths: tokens of each sequence, without padding.
        layers, width, inner, heads, labels: sizes of the classifier.
        kernel_size: side of the convolution over maps, 0 for none; the first layer
            has none in any case.
        training: also the two products of each product's backward.

    Returns:
        ``dense`` (projections, feed-forward, pooler, classifier), ``attention``
        (scores and context), ``map_conv``, and their sum ``total``. A multiplication
        with its addition counts as two.
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
    factor = 3.0 if training else 1.0
    found = {name: factor * value for name, value in parts.items()}
    return {**found, "total": sum(found.values())}


_DENSE = ("query.weight", "key.weight", "value.weight", "dense.weight")


def vit_flops(
    config: Any, images: int = 1, *, training: bool = False
) -> dict[str, float]:
    """Floating-point operations of the matrix products of ViT with a classifier.

    The parts follow from the shapes of the model's parameters, with any attention.

    Args:
        config: a :class:`~evolving_attention.ViTConfig`.
        images: number of images.
        training: also the two products of each product's backward.

    Returns:
        ``patches`` (their embedding), ``dense`` (projections, feed-forward,
        classifier), ``attention`` (scores and context), ``map_conv``, and their sum
        ``total``. A multiplication with its addition counts as two.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import vit_flops
        >>> config = ea.ViTConfig(image_size=384, num_labels=1000)
        >>> f"{vit_flops(config)['total'] / 2e9:.1f} billion products"
        '55.5 billion products'
    """
    core = importlib.import_module("evolving_attention._core")
    options = {**config.core_options(), "head": "image_classification"}
    model = core.create_model(config.model_type, options)  # shapes, no memory
    tokens, (rows, columns) = config.tokens, config.grid
    layers, width = config.num_hidden_layers, config.hidden_size
    parts = dict.fromkeys(("patches", "dense", "attention", "map_conv"), 0.0)
    parts["attention"] = layers * 2.0 * tokens**2 * width
    for name, tensor in model.named_parameters():
        axes, size = len(tensor.shape), float(tensor.size)
        if name.endswith("patch_embeddings.projection.weight"):
            parts["patches"] += rows * columns * size
        elif name == "classifier.weight":
            parts["dense"] += size
        elif name.endswith(_DENSE):
            parts["dense"] += tokens * size
        elif axes == 4:
            parts["map_conv"] += tokens**2 * size
    factor = 2.0 * images * (3.0 if training else 1.0)
    found = {name: factor * value for name, value in parts.items()}
    return {**found, "total": sum(found.values())}
