"""Transforms of pictures: resize, crop, flip, cut out, normalise; in Pillow and NumPy.

A picture is an array [height, width, channels], uint8 from 0 to 255 or float32. A
transform is a frozen object; it is called with a picture and a random generator, so the
same generator state gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolving_attention.data.image_files import pillow
from evolving_attention.errors import ConfigError, DTypeError, ShapeError
from evolving_attention.field_types import check_fields

Array = np.ndarray[Any, Any]
Transform = Callable[[Array, np.random.Generator], Array]
Size = Sequence[int]


def resized(picture: Array, size: Size) -> Array:
    """Resizes the whole picture to (height, width), bilinear, with averaging to shrink.

    Args:
        picture: [height, width, channels], uint8 or float32.
        size: size of the result.

    Returns:
        The resized picture, with the same dtype.
    """
    height, width = size
    if picture.shape[:2] == (height, width):
        return picture
    image_module = pillow()
    how, target = image_module.Resampling.BILINEAR, (width, height)
    if picture.dtype == np.uint8 and picture.shape[2] == 3:
        return np.asarray(image_module.fromarray(picture).resize(target, how))
    kind = np.uint8 if picture.dtype == np.uint8 else np.float32
    planes = [
        image_module.fromarray(np.ascontiguousarray(picture[:, :, c], dtype=kind))
        for c in range(picture.shape[2])
    ]
    return np.stack([np.asarray(p.resize(target, how)) for p in planes], axis=2)


def centred(picture: Array, size: Size) -> Array:
    """Resizes the centre of the picture to (height, width), as ImageNet's evaluation.

    The whole picture, with its aspect ratio, is resized to cover 8/7 of ``size``, and
    the central part is returned: for 224 x 224 the shorter side becomes 256.

    Args:
        picture: [height, width, channels], uint8 or float32.
        size: size of the result.

    Returns:
        The central part, with the same dtype.
    """
    nothing = np.random.default_rng(0)  # neither of the two draws
    larger = Resize([round(8 * side / 7) for side in size], keep_shape=True)
    return CenterCrop(list(size))(larger(picture, nothing), nothing)


def _check(name: str, value: Any, good: bool, expected: str) -> None:
    if not good:
        raise ConfigError(f"{name}={value!r}, expected {expected}; correct it")


def _check_size(name: str, size: Any) -> None:
    good = len(size) == 2 and min(size) >= 1
    _check(name, size, good, "[height, width] in pixels, from 1")


def _check_picture(change: Transform, picture: Any) -> None:
    name = type(change).__name__
    if not isinstance(picture, np.ndarray):
        raise DTypeError(
            f"{name}: a picture of type {type(picture).__name__}, expected an array "
            "[height, width, channels]; convert it by np.asarray"
        )
    if picture.ndim != 3:
        raise ShapeError(
            f"{name}: a picture of shape {picture.shape}, expected [height, width, "
            "channels]; a grey one is picture[:, :, None]"
        )


def _check_fits(name: str, size: Size, picture: Array) -> None:
    if picture.shape[0] < size[0] or picture.shape[1] < size[1]:
        raise ShapeError(
            f"{name}: a picture of {picture.shape[0]} x {picture.shape[1]} pixels, "
            f"expected at least {size[0]} x {size[1]}; resize it first"
        )


@dataclass(frozen=True)
class Resize:
    """Resize to ``size``: stretched, or with ``keep_shape`` so that it is covered.

    Args:
        size: (height, width).
        keep_shape: keep the aspect ratio; the result is larger than ``size`` along one
            side, to be cropped afterwards.
    """

    size: list[int]
    keep_shape: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("Resize: size", self.size)

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the resized picture."""
        _check_picture(self, picture)
        height, width = self.size
        if self.keep_shape:
            scale = max(height / picture.shape[0], width / picture.shape[1])
            height = max(height, round(scale * picture.shape[0]))
            width = max(width, round(scale * picture.shape[1]))
        return resized(picture, (height, width))


@dataclass(frozen=True)
class CenterCrop:
    """The central part of ``size``.

    Raises:
        ShapeError: the picture is smaller than ``size``.
    """

    size: list[int]

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("CenterCrop: size", self.size)

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the part of the picture."""
        _check_picture(self, picture)
        _check_fits("CenterCrop", self.size, picture)
        top = (picture.shape[0] - self.size[0]) // 2
        left = (picture.shape[1] - self.size[1]) // 2
        return picture[top : top + self.size[0], left : left + self.size[1]]


@dataclass(frozen=True)
class RandomCrop:
    """A part of ``size`` at a random position of the picture padded with zeros.

    Args:
        size: (height, width).
        padding: pixels of the zero padding on each side.

    Raises:
        ShapeError: the padded picture is smaller than ``size``.
    """

    size: list[int]
    padding: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("RandomCrop: size", self.size)
        _check("RandomCrop: padding", self.padding, self.padding >= 0, "0 or more")

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the part of the picture."""
        _check_picture(self, picture)
        if self.padding:
            margin = (self.padding, self.padding)
            picture = np.pad(picture, (margin, margin, (0, 0)))
        _check_fits("RandomCrop", self.size, picture)
        top = int(rng.integers(picture.shape[0] - self.size[0] + 1))
        left = int(rng.integers(picture.shape[1] - self.size[1] + 1))
        return picture[top : top + self.size[0], left : left + self.size[1]]


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part, resized to ``size`` (Szegedy et al., CVPR 2015).

    The part's share of the area is drawn from ``scale``; its ratio of width to height
    is drawn from ``ratio``, uniformly in the logarithm. After ten parts that do not
    fit, the whole picture is used.
    """

    size: list[int]
    scale: list[float] = field(default_factory=lambda: [0.08, 1.0])
    ratio: list[float] = field(default_factory=lambda: [0.75, 4 / 3])

    def __post_init__(self) -> None:
        check_fields(self)
        _check_size("RandomResizedCrop: size", self.size)
        good = len(self.scale) == 2 and 0 < self.scale[0] <= self.scale[1] <= 1
        _check("RandomResizedCrop: scale", self.scale, good, "0 < least <= most <= 1")
        good = len(self.ratio) == 2 and 0 < self.ratio[0] <= self.ratio[1]
        _check("RandomResizedCrop: ratio", self.ratio, good, "0 < least <= most")

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the resized part of the picture."""
        _check_picture(self, picture)
        rows, columns = picture.shape[:2]
        for _ in range(10):
            area = rows * columns * rng.uniform(self.scale[0], self.scale[1])
            ratio = np.exp(rng.uniform(*np.log(self.ratio)))
            height = round(float(np.sqrt(area / ratio)))
            width = round(float(np.sqrt(area * ratio)))
            if 0 < height <= rows and 0 < width <= columns:
                top = int(rng.integers(rows - height + 1))
                left = int(rng.integers(columns - width + 1))
                picture = picture[top : top + height, left : left + width]
                break
        return resized(np.ascontiguousarray(picture), self.size)


@dataclass(frozen=True)
class HorizontalFlip:
    """Swap left and right with probability ``p``."""

    p: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        _check("HorizontalFlip: p", self.p, 0 <= self.p <= 1, "a number from 0 to 1")

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the picture or its mirror image."""
        _check_picture(self, picture)
        return picture[:, ::-1] if rng.random() < self.p else picture


@dataclass(frozen=True)
class Cutout:
    """Set a square around a random pixel to 0 (DeVries and Taylor, 2017).

    Args:
        side: side of the square in pixels; parts outside the picture are ignored.
    """

    side: int

    def __post_init__(self) -> None:
        check_fields(self)
        _check("Cutout: side", self.side, self.side >= 1, "1 or more")

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns a copy of the picture with the square set to 0."""
        _check_picture(self, picture)
        row, column = (int(rng.integers(n)) for n in picture.shape[:2])
        top, left = row - self.side // 2, column - self.side // 2
        found: Array = picture.copy()
        found[
            max(0, top) : max(0, top + self.side),
            max(0, left) : max(0, left + self.side),
        ] = 0
        return found


@dataclass(frozen=True)
class Normalize:
    """(x - mean) / deviation of each channel, as float32.

    Args:
        mean: mean of each channel, in the units of the pixels.
        deviation: standard deviation of each channel, above 0.
    """

    mean: list[float]
    deviation: list[float]

    def __post_init__(self) -> None:
        check_fields(self)
        good = len(self.mean) == len(self.deviation) > 0 < min(self.deviation)
        _check(
            "Normalize: deviation", self.deviation, good, "above 0, as many as means"
        )

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the normalised picture."""
        _check_picture(self, picture)
        if picture.shape[2] != len(self.mean):
            raise ShapeError(
                f"Normalize: a picture of {picture.shape[2]} channels, expected "
                f"{len(self.mean)}, one for each mean; give as many means"
            )
        mean = np.asarray(self.mean, np.float32)
        scaled = (picture.astype(np.float32) - mean) / np.asarray(
            self.deviation, np.float32
        )
        found: Array = scaled.astype(np.float32)
        return found


class Compose:
    """Several transforms, applied one after the other."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = list(transforms)

    def __call__(self, picture: Array, rng: np.random.Generator) -> Array:
        """Returns the result of the last transform."""
        for transform in self.transforms:
            picture = transform(picture, rng)
        return picture
