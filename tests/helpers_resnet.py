"""Tiny residual networks, plain and augmented, and batches for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import modeling

RESNETS = {
    name: cls
    for name, cls in vars(modeling).items()
    if isinstance(cls, type)
    and issubclass(cls, modeling.ImageModel)
    and issubclass(getattr(cls, "config_class", object), ea.ResNetConfig)
    and hasattr(cls, "head")
}
"""Every task class of residual networks by name."""
BASIC = {"layer_type": "basic", "embedding_size": 8, "hidden_sizes": [16, 24]}
SIZES: dict[str, dict[str, Any]] = {
    "basic": {**BASIC, "depths": [1, 2]},
    "bottleneck": {
        "embedding_size": 6,
        "hidden_sizes": [16, 32, 24],
        "depths": [1, 2, 1],
    },
    "stride first": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [2, 1],
        "downsample_in_first_stage": True,
        "downsample_in_bottleneck": True,
    },
}
HEADS = {"num_attention_heads": 2, "min_head_key_width": 0, "image_size": 32}
RATIOS = {"key_ratio": 0.5, "value_ratio": 0.25}
AUGMENTED: dict[str, dict[str, Any]] = {
    # a chain over the maps of the second and third stages: 4 x 4 of 8 x 8, and 4 x 4
    "basic": {
        **BASIC,
        **HEADS,
        **RATIOS,
        "image_size": 64,
        "hidden_sizes": [8, 16, 24, 16],
        "depths": [1, 1, 1, 1],
    },
    "bottleneck": {
        **HEADS,
        "image_size": [64, 32],
        "key_ratio": 0.6,
        "value_ratio": 0.3,
        "embedding_size": 8,
        "hidden_sizes": [16, 32, 64],
        "depths": [1, 2, 2],
    },
}
EVOLVING = ea.attention.Evolving(0.4, 0.7)


def tiny(
    cls: Any = None,
    sizes: dict[str, Any] | None = None,
    dtype: str = "float64",
    **more: Any,
) -> Any:
    """Returns a random model in training mode whose norms are not the identity."""
    cls = cls or ea.ResNetForImageClassification
    sizes = SIZES["basic"] if sizes is None else sizes
    ea.manual_seed(3)
    model = cls(cls.config_class(num_labels=5, **{**sizes, **more}), dtype)
    rng = np.random.default_rng(3)
    for name, tensor in model.named_parameters():
        if "normalization" in name or name.endswith("bias"):
            shift = rng.normal(0.0, 0.2, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    for _, tensor in model.named_buffers():
        shift = rng.uniform(0.0, 0.5, tensor.shape)
        tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


def draw(count: int = 2, size: tuple[int, int] = (32, 32), seed: int = 0) -> np.ndarray:
    """Returns random images [count, 3, height, width]."""
    return np.random.default_rng(seed).normal(size=(count, 3, *size))
