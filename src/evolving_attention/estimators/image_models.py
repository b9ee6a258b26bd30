"""Builds the image classifier's model, and the scaling and augmentation of pictures."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from evolving_attention.attention import Evolving, from_config
from evolving_attention.data.image_transforms import (
    Cutout,
    HorizontalFlip,
    RandomCrop,
    Transform,
)
from evolving_attention.errors import ConfigError, InputError, suggestion

__all__ = [
    "DEFAULT_ATTENTION",
    "NORMALIZE",
    "changes",
    "check_architecture",
    "new",
    "scaling",
]

Array = np.ndarray[Any, Any]

#: Attention of the paper's image models (Wang et al., TPAMI 2023).
DEFAULT_ATTENTION = Evolving(alpha=0.1, beta=0.3)
NORMALIZE = ("dataset", "half", "none")
_OF_VIT = (  # options that only "vit" reads
    "patch_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "dropout",
    "pooling",
)


def _family(name: str) -> tuple[Any, dict[str, Any]] | None:
    """Returns an architecture's config class, and the options implied by its name."""
    from evolving_attention import modeling
    from evolving_attention.modeling.names import sizes_of

    families: dict[str, Any] = {
        "vit": modeling.ViTConfig,
        "resnet": modeling.ResNetConfig,
        "aa_resnet": modeling.AAResNetConfig,
    }
    if name in families:
        return families[name], {}
    found = sizes_of(name)
    is_of_images = found is not None and issubclass(found[0], modeling.ImageConfig)
    return found if is_of_images else None


def check_architecture(estimator: Any) -> None:
    """Refuse an unknown architecture, and options that it does not have.

    Raises:
        ConfigError: names the option, its value and the expected one.
    """
    from evolving_attention.modeling.names import list_models

    who, chosen = type(estimator).__name__, estimator.architecture
    if _family(chosen) is None:
        known = ["vit", "resnet", "aa_resnet", *filter(_family, list_models())]
        raise ConfigError(
            f"{who}: architecture={chosen!r}, expected one of {', '.join(known)}; "
            f"{suggestion(chosen, known, 'choose one of them')}"
        )
    if chosen == "vit":
        return
    usual = inspect.signature(type(estimator)).parameters
    for name in _OF_VIT:
        value = getattr(estimator, name)
        if value != usual[name].default:
            raise ConfigError(
                f"{who}: {name}={value!r} with architecture={chosen!r}, expected "
                f"{usual[name].default!r}: 'vit' alone has this option; give options "
                "of the architecture's config as model_options"
            )


def scaling(pixels: Array, normalize: str) -> tuple[list[float], list[float]]:
    """Returns (mean, deviation) of each channel of [n, height, width, channels]."""
    channels = pixels.shape[3]
    if normalize == "none":
        return [0.0] * channels, [1.0] * channels
    if normalize == "half":
        return [127.5] * channels, [127.5] * channels
    mean = pixels.mean(axis=(0, 1, 2), dtype=np.float64)
    deviation = pixels.std(axis=(0, 1, 2), dtype=np.float64)
    return mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist()


def changes(estimator: Any, size: tuple[int, int]) -> list[Transform]:
    """Returns the training augmentation of normalised pictures; blank is the mean."""
    found: list[Transform] = []
    if estimator.crop:
        found.append(RandomCrop(list(size), int(estimator.crop)))
    if estimator.flip:
        found.append(HorizontalFlip())
    if estimator.cutout:
        found.append(Cutout(int(estimator.cutout)))
    return found


def new(estimator: Any, size: tuple[int, int], channels: int, classes: Array) -> Any:
    """Builds a new model, or loads a checkpoint with a new head.

    Raises:
        ConfigError: an option does not fit the model.
        InputError: the pictures' channels differ from the checkpoint's.
        CheckpointError: the checkpoint cannot be used.
    """
    from evolving_attention.modeling.base import MODELS

    family = _family(estimator.architecture)
    assert family is not None  # ensured by check_architecture()
    config, settings = family
    maker = MODELS["image_classification"][config.model_type]
    own, is_vit = estimator.attention, estimator.architecture == "vit"
    names = {i: str(label) for i, label in enumerate(classes.tolist())}
    given: dict[str, Any] = {"num_labels": len(classes), "id2label": names}
    if is_vit or own is not None:
        given["attention"] = DEFAULT_ATTENTION if own is None else from_config(own)
    if "image_size" in config.defaults:
        given["image_size"] = list(size)
    given |= estimator.model_options or {}
    if estimator.pretrained is not None:
        found = maker.from_pretrained(estimator.pretrained, **given)
        if found.config.num_channels != channels:
            raise InputError(
                f"X: pictures with {channels} channels, expected "
                f"{found.config.num_channels} as in {estimator.pretrained}; convert "
                "them"
            )
        return found
    if is_vit:
        settings = _vit_settings(estimator, size)
    return maker(config(**{**settings, "num_channels": channels, **given}))


def _vit_settings(estimator: Any, size: tuple[int, int]) -> dict[str, Any]:
    """Returns the estimator's options as options of ``ea.ViTConfig``."""
    side = min(size)
    patch = 16 if side >= 128 else max(1, side // 8)
    return {
        "patch_size": patch if estimator.patch_size is None else estimator.patch_size,
        "hidden_size": estimator.hidden_size,
        "num_hidden_layers": estimator.num_hidden_layers,
        "num_attention_heads": estimator.num_attention_heads,
        "intermediate_size": estimator.intermediate_size or 2 * estimator.hidden_size,
        "hidden_dropout_prob": estimator.dropout,
        "pooling": estimator.pooling,
        "layer_norm_eps": 1e-6,
    }
