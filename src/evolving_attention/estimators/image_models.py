"""Builds the image classifier's model, and the scaling and augmentation of pictures."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evolving_attention.attention import Evolving, from_config
from evolving_attention.data.image_transforms import (
    Compose,
    Cutout,
    HorizontalFlip,
    Normalize,
    RandomCrop,
    RandomResizedCrop,
    Transform,
    centred,
    resized,
)
from evolving_attention.data.images import Pictures
from evolving_attention.errors import ConfigError, DataError, InputError, suggestion
from evolving_attention.estimators.architecture import is_vanilla
from evolving_attention.estimators.rules import refuse_twice
from evolving_attention.interop.evolving_mark import base_type
from evolving_attention.interop.hf import load_config
from evolving_attention.interop.resolve import resolve
from evolving_attention.interop.rules import matches

Array = np.ndarray[Any, Any]

#: Attention of the paper's image models (Wang et al., TPAMI 2023).
DEFAULT_ATTENTION = Evolving(alpha=0.1, beta=0.3)
NORMALIZE = ("dataset", "half", "imagenet", "none")
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # of pixels from 0 to 1
_SIDE = 224  # side of pictures whose sizes differ
_SIZES = (
    "patch_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
_OTHERS = {"dropout": "hidden_dropout_prob", "pooling": "pooling"}  # config's option
_OF_VIT = (*_SIZES, *_OTHERS)  # options that only "vit" reads


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
        return families[name], {"layer_norm_eps": 1e-6} if name == "vit" else {}
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
    for name, value in _changed(estimator, _OF_VIT).items():
        raise ConfigError(
            f"{who}: {name}={value!r} with architecture={chosen!r}, expected "
            f"{_default(estimator, name)!r}: 'vit' alone has this option; give options "
            "of the architecture's config as model_options"
        )


def _default(estimator: Any, name: str) -> Any:
    return inspect.signature(type(estimator)).parameters[name].default


def _changed(estimator: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns those of the options that differ from their defaults."""
    values = {name: getattr(estimator, name) for name in names}
    return {n: v for n, v in values.items() if v != _default(estimator, n)}


def size_of(estimator: Any, pictures: Sequence[Array]) -> tuple[int, int]:
    """Returns (height, width) of the pictures that the model receives.

    Raises:
        ConfigError: ``image_size`` is neither a number of pixels nor a pair.
    """
    from evolving_attention.modeling.images import pair_of

    if estimator.image_size is not None:
        return pair_of(estimator.image_size, "image_size", type(estimator).__name__)
    sizes = {one.shape[:2] for one in pictures}
    height, width = sizes.pop() if len(sizes) == 1 else (_SIDE, _SIDE)
    chosen = (estimator.pretrained, estimator.patch_size)
    if estimator.architecture != "vit" or chosen != (None, None):
        return height, width
    patch = _patch((height, width))
    return patch * round(height / patch), patch * round(width / patch)


def _patch(size: tuple[int, int]) -> int:
    """Returns the side of a patch that is 16, or an eighth of the shorter side.

    If that does not divide both sides, returns the nearest size from half to twice of
    it that does, the larger of two that are equally near; if there is none, that side.
    """
    usual = 16 if min(size) >= 128 else max(1, min(size) // 8)
    both = math.gcd(*size)
    fitting = [p for p in range(-(-usual // 2), 2 * usual + 1) if both % p == 0]
    return min(fitting or [usual], key=lambda p: (abs(p - usual), -p))


def tell_of_unseen(config: Any) -> None:
    """Warn about pixels beyond the last whole patch, at the line that calls fit."""
    if "patch_size" not in config.sides:
        return
    size, patch = config.side("image_size"), config.side("patch_size")
    unseen = [side % part for side, part in zip(size, patch, strict=True)]
    if any(unseen):
        near = [p * max(1, round(s / p)) for s, p in zip(size, patch, strict=True)]
        warnings.warn(
            f"the model does not see the last {unseen[0]} rows and {unseen[1]} columns "
            f"of pictures of {size[0]} x {size[1]} pixels: they are beyond the last "
            f"whole patch of {patch[0]} x {patch[1]}; give image_size={near}, or a "
            "patch_size that divides both sides",
            stacklevel=3,
        )


def check_augmentation(estimator: Any, size: tuple[int, int]) -> None:
    """Refuse changes that may leave nothing of a training picture.

    Raises:
        ConfigError: ``crop`` or ``cutout`` is not smaller than the shorter side.
    """
    for name in ("crop", "cutout"):
        value = getattr(estimator, name)
        if value >= min(size):
            raise ConfigError(
                f"{type(estimator).__name__}: {name}={value} for pictures of {size[0]} "
                f"x {size[1]} pixels, expected less than {min(size)}: nothing may be "
                "left of a picture; take a smaller number"
            )


def check_bytes(estimator: Any, given: Pictures) -> None:
    """Refuse floats up to 1 or below 0 where ``normalize`` expects 0 to 255.

    Raises:
        DataError: the pictures' scale is another one.
    """
    if estimator.normalize in ("half", "imagenet") and given.in_bytes is False:
        raise DataError(
            f"{given.names[0]}: pixels are floats up to 1 or below 0, expected 0 to "
            f"255 for normalize={estimator.normalize!r}; pass 255 * X if they are from "
            "0 to 1, or take normalize='dataset'"
        )


def scaling(pixels: Array, normalize: str) -> tuple[list[float], list[float]]:
    """Returns (mean, deviation) of each channel of [n, height, width, channels].

    Raises:
        ConfigError: ImageNet's are asked for, and the pictures do not have 3 channels.
    """
    channels = pixels.shape[3]
    if normalize == "none":
        return [0.0] * channels, [1.0] * channels
    if normalize == "half":
        return [127.5] * channels, [127.5] * channels
    if normalize == "imagenet":
        if channels != 3:
            raise ConfigError(
                f"ImageClassifier: normalize='imagenet' for pictures with {channels} "
                "channel(s), expected 3: red, green and blue; take 'dataset', or "
                "convert them"
            )
        found = 255.0 * np.array(_IMAGENET)
        return found[0].tolist(), found[1].tolist()
    mean = pixels.mean(axis=(0, 1, 2), dtype=np.float64)
    deviation = pixels.std(axis=(0, 1, 2), dtype=np.float64)
    return mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist()


def whole(estimator: Any, pictures: Sequence[Array], size: tuple[int, int]) -> Array:
    """Returns pictures as evaluation sees them, [n, height, width, channels]."""
    resize = resized if estimator.resized_crop is None else centred
    return np.stack([resize(one, size) for one in pictures])


def originals(pictures: Sequence[Array]) -> Array:
    """Returns pictures of any sizes as an object array [n]."""
    found = np.empty(len(pictures), dtype=object)
    for i, picture in enumerate(pictures):
        found[i] = picture
    return found


def augmentation(
    estimator: Any, size: tuple[int, int], normalise: Normalize
) -> Transform:
    """Returns the transform of training pictures; what is blank has the mean."""
    found: list[Transform] = [normalise]
    if estimator.resized_crop is not None:
        share = float(estimator.resized_crop)
        found = [RandomResizedCrop(list(size), [share, 1.0]), normalise]
    if estimator.crop:
        found.append(RandomCrop(list(size), int(estimator.crop)))
    if estimator.flip:
        found.append(HorizontalFlip())
    if estimator.cutout:
        found.append(Cutout(int(estimator.cutout)))
    return Compose(found)


def check_size(estimator: Any) -> None:
    """Refuse an ``image_size`` that a new model cannot have, before pictures are read.

    Raises:
        ConfigError: names the size and the expected one.
    """
    from evolving_attention._core import create_model

    if estimator.image_size is None or estimator.pretrained is not None:
        return
    size = size_of(estimator, [])
    check_augmentation(estimator, size)
    config = _config(estimator, size, 3, {})  # any labels: model_options may name them
    options = {**config.core_options(), "head": "image_classification"}
    create_model(config.model_type, options)  # takes no memory


def new(estimator: Any, size: tuple[int, int], channels: int, classes: Array) -> Any:
    """Builds a new model, or loads a checkpoint, where needed with a new head.

    Raises:
        ConfigError: an option does not fit the model.
        InputError: the pictures' channels differ from the checkpoint's.
        CheckpointError: the checkpoint cannot be used.
    """
    from evolving_attention.modeling.base import MODELS

    kind, _ = _family_of(estimator)
    maker = MODELS["image_classification"][kind.model_type]
    names = {i: str(label) for i, label in enumerate(classes.tolist())}
    head = {"num_labels": len(classes), "id2label": names}
    if estimator.pretrained is None:
        return maker(_config(estimator, size, channels, head))
    _check_family(estimator, kind)
    given = _options(estimator, kind, size, head)
    _check_image_size(estimator, kind, given)
    found = _loaded(maker, estimator.pretrained, given)
    if found.config.num_channels != channels:
        raise InputError(
            f"X: pictures with {channels} channels, expected "
            f"{found.config.num_channels} as in {estimator.pretrained}; convert them"
        )
    if estimator.architecture == "vit":
        _check_sizes(estimator, found.config)
    return found


def _family_of(estimator: Any) -> tuple[Any, dict[str, Any]]:
    family = _family(estimator.architecture)
    assert family is not None  # ensured by check_architecture()
    return family


def _config(
    estimator: Any, size: tuple[int, int], channels: int, head: dict[str, Any]
) -> Any:
    """Returns the config of a new model."""
    kind, settings = _family_of(estimator)
    given = _options(estimator, kind, size, head)
    return kind(**{**settings, "num_channels": channels, **given})


def _options(
    estimator: Any, kind: type[Any], size: tuple[int, int], head: dict[str, Any]
) -> dict[str, Any]:
    """Returns the config's options that the estimator's options and ``head`` give."""
    own = _own_options(estimator, kind, size)
    refuse_twice(estimator, own, {config: name for name, config in _OTHERS.items()})
    return {**head, **own, **(estimator.model_options or {})}


def _own_options(
    estimator: Any, config: type[Any], size: tuple[int, int]
) -> dict[str, Any]:
    """Returns the estimator's options as options of the architecture's config."""
    own, is_vit = estimator.attention, estimator.architecture == "vit"
    found: dict[str, Any] = {}
    if own is not None:
        found["attention"] = (
            DEFAULT_ATTENTION if own == "evolving" else from_config(own)
        )
    elif is_vit and not _evolves(estimator.pretrained):
        found["attention"] = DEFAULT_ATTENTION
    if "image_size" in config.defaults:
        found["image_size"] = list(size)
    if is_vit and estimator.pretrained is None:
        found |= _vit_settings(estimator, size)
    elif is_vit:  # the checkpoint has its own dropout and pooling
        changed = _changed(estimator, _OTHERS)
        found |= {_OTHERS[name]: value for name, value in changed.items()}
    return found


def _evolves(folder: Any) -> bool:
    """Whether a checkpoint has an attention of its own that is not vanilla."""
    if folder is None:
        return False
    held = load_config(resolve(folder)).get("attention")
    return not is_vanilla(from_config(held))


def _check_family(estimator: Any, kind: type[Any]) -> None:
    """Refuse a checkpoint of another architecture."""
    from evolving_attention.modeling.config import CONFIGS

    found = base_type(load_config(resolve(estimator.pretrained)))
    if found == kind.model_type or found not in CONFIGS:
        return
    image = _family(found) is not None
    remedy = f"pass architecture={found!r}" if image else "give an image model's folder"
    raise ConfigError(
        f"{type(estimator).__name__}: architecture={estimator.architecture!r} with "
        f"pretrained={str(estimator.pretrained)!r}, whose model_type is {found!r}, "
        f"expected {kind.model_type!r}; {remedy}"
    )


def _check_image_size(estimator: Any, kind: type[Any], given: dict[str, Any]) -> None:
    """Refuse a size of images other than that of a checkpoint's relative positions."""
    from evolving_attention.modeling.images import pair_of

    if estimator.architecture == "vit" or "image_size" not in given:
        return
    who, size = type(estimator).__name__, given["image_size"]
    own = kind.from_pretrained(estimator.pretrained)
    if own.tokens > 1 and own.side("image_size") != pair_of(size, "image_size", who):
        raise ConfigError(
            f"{who}: image_size={size} with pretrained={str(estimator.pretrained)!r}, "
            f"expected {own.image_size} as in the checkpoint, whose relative positions "
            f"cannot be resized; pass image_size={own.image_size}"
        )


def _loaded(maker: type[Any], folder: Any, given: dict[str, Any]) -> Any:
    """Loads a checkpoint; draws a new head if its own has other classes."""
    found = maker.from_pretrained(folder, **{**given, "strict": False})
    report, prefix = found.load_report, maker.table.prefix
    body_fits = all(
        "float" in item.found and not item.name.startswith(prefix)
        for item in report.mismatched
    )
    unused = maker.table.allowed_unexpected
    complete = all(matches(name, unused) for name in report.unexpected)
    if body_fits and complete and not report.missing:
        return found
    return maker.from_pretrained(folder, **given)  # says what does not fit


def _check_sizes(estimator: Any, config: Any) -> None:
    """Refuse sizes other than the checkpoint's."""
    from evolving_attention.modeling.images import pair_of

    for name, value in _changed(estimator, _SIZES).items():
        held = getattr(config, name)
        if name == "patch_size":
            value, held = pair_of(value, name, "ImageClassifier"), config.side(name)
        if value != held:
            raise ConfigError(
                f"{type(estimator).__name__}: {name}={getattr(estimator, name)!r}, "
                f"expected {getattr(config, name)!r} as in {estimator.pretrained}: a "
                "checkpoint determines the sizes; leave it out"
            )


def _vit_settings(estimator: Any, size: tuple[int, int]) -> dict[str, Any]:
    """Returns the estimator's options as options of ``ea.ViTConfig``."""
    patch = estimator.patch_size
    return {
        "patch_size": _patch(size) if patch is None else patch,
        "hidden_size": estimator.hidden_size,
        "num_hidden_layers": estimator.num_hidden_layers,
        "num_attention_heads": estimator.num_attention_heads,
        "intermediate_size": estimator.intermediate_size or 2 * estimator.hidden_size,
        "hidden_dropout_prob": estimator.dropout,
        "pooling": estimator.pooling,
    }
