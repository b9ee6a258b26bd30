"""The model of the classifier of pictures, and what it does to pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.attention import Evolving, from_config
from evolving_attention.data.image_transforms import (
    Cutout,
    HorizontalFlip,
    RandomCrop,
    Transform,
)
from evolving_attention.errors import InputError

__all__ = ["DEFAULT_ATTENTION", "NORMALIZE", "changes", "new", "scaling"]

Array = np.ndarray[Any, Any]

#: The paper's setting for pictures (Wang et al., TPAMI 2023).
DEFAULT_ATTENTION = Evolving(alpha=0.1, beta=0.3)
NORMALIZE = ("dataset", "half", "none")


def scaling(pixels: Array, normalize: str) -> tuple[list[float], list[float]]:
    """(mean, deviation) of each channel of [n, height, width, channels]."""
    channels = pixels.shape[3]
    if normalize == "none":
        return [0.0] * channels, [1.0] * channels
    if normalize == "half":
        return [127.5] * channels, [127.5] * channels
    mean = pixels.mean(axis=(0, 1, 2), dtype=np.float64)
    deviation = pixels.std(axis=(0, 1, 2), dtype=np.float64)
    return mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist()


def changes(estimator: Any, size: tuple[int, int]) -> list[Transform]:
    """What happens to normalised pictures in training; blank is the mean."""
    found: list[Transform] = []
    if estimator.crop:
        found.append(RandomCrop(list(size), int(estimator.crop)))
    if estimator.flip:
        found.append(HorizontalFlip())
    if estimator.cutout:
        found.append(Cutout(int(estimator.cutout)))
    return found


def new(estimator: Any, size: tuple[int, int], channels: int, classes: Array) -> Any:
    """A new model, or a checkpoint's with a new head.

    Raises:
        ConfigError: an option does not suit the model.
        InputError: the pictures have other channels than the checkpoint's.
        CheckpointError: the checkpoint cannot be used.
    """
    import evolving_attention as ea

    own = estimator.attention
    attention = DEFAULT_ATTENTION if own is None else from_config(own)
    names = {i: str(label) for i, label in enumerate(classes.tolist())}
    given = {
        "attention": attention,
        "num_labels": len(classes),
        "id2label": names,
        **(estimator.model_options or {}),
    }
    if estimator.pretrained is not None:
        found = ea.ViTForImageClassification.from_pretrained(
            estimator.pretrained, image_size=list(size), **given
        )
        if found.config.num_channels != channels:
            raise InputError(
                f"X: pictures with {channels} channels, expected "
                f"{found.config.num_channels} as in {estimator.pretrained}; convert "
                "them"
            )
        return found
    side = min(size)
    patch = 16 if side >= 128 else max(1, side // 8)
    options = {
        "image_size": list(size),
        "patch_size": patch if estimator.patch_size is None else estimator.patch_size,
        "num_channels": channels,
        "hidden_size": estimator.hidden_size,
        "num_hidden_layers": estimator.num_hidden_layers,
        "num_attention_heads": estimator.num_attention_heads,
        "intermediate_size": estimator.intermediate_size or 2 * estimator.hidden_size,
        "hidden_dropout_prob": estimator.dropout,
        "pooling": estimator.pooling,
        "layer_norm_eps": 1e-6,
        **given,
    }
    return ea.ViTForImageClassification(ea.ViTConfig(**options))
