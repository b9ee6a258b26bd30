"""Tiny image models and batches for the contract tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import modeling

SIZES = {
    "image_size": [8, 12],
    "patch_size": [4, 3],
    "num_channels": 2,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "initializer_range": 0.3,  # maps that are not uniform
}
LAYERS, HEADS, WIDTH, PATCHES = 3, 2, 16, 8
EVOLVING = ea.attention.Evolving(0.3, 0.4)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
VITS = {
    name: cls
    for name, cls in vars(modeling).items()
    if isinstance(cls, type)
    and issubclass(cls, modeling.ImageModel)
    and getattr(cls, "config_class", None) is ea.ViTConfig
    and hasattr(cls, "head")
}
"""Every task class of ViT by name: a new head is tested by existing."""
VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {"attention": None},
    "EA": {},
    "residual": {"attention": ea.attention.Residual()},
    "predictive": {"attention": ea.attention.Predictive(0.3, num_layers=2)},
    "mean": {"pooling": "mean"},
    "no token": {"use_class_token": False},
    "layer scale": {"layer_scale": 0.7},
    "no qkv bias": {"qkv_bias": False},
    "layers differ": {
        "attention": [ea.attention.Vanilla(), EVOLVING, ea.attention.Residual()]
    },
}


def tiny(
    name: str = "ViTForImageClassification",
    dtype: str = "float32",
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random model of class ``name`` in training mode; no bias is zero."""
    cls = VITS[name]
    given = {"attention": EVOLVING, "num_labels": 3, **DROPOUT}
    ea.manual_seed(seed)
    model = cls(cls.config_class(**{**SIZES, **given, **options}), dtype)
    rng = np.random.default_rng(seed)
    for parameter, tensor in model.named_parameters():
        if parameter.endswith(("bias", ".lambda1")) or "layernorm" in parameter:
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


def draw(count: int = 4, seed: int = 0, size: tuple[int, int] = (8, 12)) -> np.ndarray:
    """Returns random images [count, 2, height, width], float32."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, SIZES["num_channels"], *size)).astype(np.float32)


def inputs_for(model: Any, count: int = 4, seed: int = 0) -> dict[str, Any]:
    """Returns images, with the labels that the head takes."""
    given: dict[str, Any] = {"pixel_values": draw(count, seed)}
    if model.head == "image_classification":
        rng = np.random.default_rng(seed)
        given["labels"] = rng.integers(0, model.config.num_labels, count)
    return given
