"""Collections of pictures: arrays, files, folders and npz, and their batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.image_files import (
    class_folders,
    decode,
    loose,
    tell_of_others,
)
from evolving_attention.data.image_transforms import Transform, centred, resized
from evolving_attention.data.npz import read_npz
from evolving_attention.data.packed import Batch, digest
from evolving_attention.errors import DataError, DTypeError, InputError, ShapeError

Array = np.ndarray[Any, Any]
Scale = tuple[float, ...]
_FORMS = (
    "an array [n, height, width] or [n, height, width, channels], a list of such "
    "pictures, of files or of Pillow's images, or a folder with a folder per class"
)
_MOST_CHANNELS = 64
_SAME_SCALE = 8.0  # factor between peaks of pictures on one scale
_ROWS = ", a table with a picture in each row np.reshape(X, (-1, height, width))"
_FIRST = (1, 3, 4)  # number of channels that identifies channels-first pictures
_FEW_CHANNELS = 16  # so many or fewer are possible in a picture of 1, 3 or 4 rows
_THREADS = min(4, os.cpu_count() or 1)


@dataclass
class Pictures:
    """Pictures of one kind, all read and checked.

    Attributes:
        pixels: each [height, width, channels], uint8 or float32.
        names: name of each picture in messages: its file, or ``X[3]``.
        labels: label of each picture, from its folder's name; None: unknown.
        numbers: index of each picture among all that were given.
        skipped: (name, reason) of unusable pictures, if skipping is on.
        total: number of given pictures.
        size: (height, width) that they were resized to; None: none.
        centred: whether only their centre was resized.
    """

    pixels: list[Array]
    names: list[str]
    labels: list[str] | None = None
    numbers: list[int] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    size: tuple[int, int] | None = None
    centred: bool = False

    @property
    def channels(self) -> int:
        """Number of channels of every picture."""
        return int(self.pixels[0].shape[2])

    @property
    def in_bytes(self) -> bool | None:
        """Whether pixels go from 0 to 255 (uint8); None: the values do not decide.

        False: floats, either all at most 1 or some below 0.
        """
        if self.pixels[0].dtype == np.uint8:  # usually the first picture decides
            return True if any(one.max() > 1 for one in self.pixels) else None
        return _floats_in_bytes(scale_of(self.pixels))

    def check_size(self, size: tuple[int, int], centred: bool) -> None:
        """Refuse pictures that were resized to another size, or another part of them.

        Raises:
            InputError: says both.
        """
        if self.size is None or (self.size, self.centred) == (size, centred):
            return
        parts = {True: "the centre", False: "the whole picture"}
        (height, width), (rows, columns) = self.size, size
        raise InputError(
            f"{self.names[0]}: pictures read at {height} x {width} pixels (height x "
            f"width) of {parts[self.centred]}, expected {rows} x {columns} of "
            f"{parts[centred]}, as this classifier reads them; pass the pictures "
            "themselves, or what its own read(X) returns"
        )

    def check_scale(self, in_bytes: bool | None, scale: Scale | None) -> None:
        """Refuse pixels on another scale than those of training.

        These are floats up to 1 or below 0 where training had 0 to 255, the reverse,
        pixels below 0 where training had none, and pictures whose highest peak is 8
        times below the lowest or above the highest of training.

        Args:
            in_bytes: ``in_bytes`` of the training pictures.
            scale: ``scale_of`` the training pictures; None: unknown.

        Raises:
            DataError: says both scales.
        """
        is_uint8 = self.pixels[0].dtype == np.uint8
        if in_bytes and is_uint8:  # dark ones too
            return
        own = scale_of(self.pixels)
        found = self.in_bytes if is_uint8 else _floats_in_bytes(own)
        if None not in (in_bytes, found) and in_bytes != found:
            kinds = {True: "integers from 0 to 255", False: "floats up to 1 or below 0"}
            remedy = "255 * X" if in_bytes else "X / 255, or as in training"
            raise DataError(
                f"{self.names[0]}: pixels are {kinds[bool(found)]}, expected "
                f"{kinds[bool(in_bytes)]} as in training; scale them alike: {remedy}"
            )
        if scale is None or own is None:
            return
        least, peak, far = own[0], own[2], _SAME_SCALE
        if scale[1] / far <= peak <= scale[2] * far and (least >= 0 or scale[0] < 0):
            return
        raise DataError(
            f"{self.names[0]}: pixels from {least:g} with a greatest absolute value of "
            f"{peak:g}, expected from {scale[0]:g} and {scale[1]:g} to {scale[2]:g} as "
            "in training; scale them alike"
        )


def scale_of(pixels: Sequence[Array] | Array) -> Scale | None:
    """Returns (least pixel, lowest and highest peak of a picture); None: all are black.

    A peak is a picture's greatest absolute value; that of a black picture is left out.
    """
    spans = [(float(one.min()), float(one.max())) for one in pixels]
    peaks = [peak for low, high in spans if (peak := max(-low, high)) > 0]
    return (min(spans)[0], min(peaks), max(peaks)) if peaks else None


def _floats_in_bytes(scale: Scale | None) -> bool | None:
    """Returns ``in_bytes`` of float pixels of this ``scale_of``."""
    return False if scale is not None and (scale[0] < 0 or scale[2] <= 1) else None


def read_pictures(
    collection: Any,
    *,
    name: str = "X",
    classes: Sequence[str] | None = None,
    skip: bool = False,
    least: tuple[int, int] = (1, 1),
    size: tuple[int, int] | None = None,
    centre: bool = False,
) -> Pictures:
    """Reads every picture of a collection, decoded by several threads.

    Args:
        collection: an array [n, height, width] or [n, height, width, channels] of
            uint8, of other integers from 0 to 255, of booleans or of floats; a list of
            such pictures, of paths or of Pillow images; a folder with pictures, or with
            a subfolder for each class, which may contain further subfolders; or an npz
            file. A result of this function is accepted too, to check it again or to
            resize it; if it has been resized, in the same way.
        name: name of the collection in messages.
        classes: names of folders that may occur; None: any.
        skip: leave out unusable pictures instead of raising an error.
        least: (height, width) of the smallest accepted picture.
        size: resize pictures to this size right after reading; None: keep their size.
        centre: resize the centre of the picture, instead of stretching all of it.

    Raises:
        DataError: a file or a folder cannot be used; names it.
        ShapeError, DTypeError, InputError: an array cannot be used; names the index.
        InputError: the pictures have been resized in another way.
        MissingExtraError: Pillow is not installed, but needed for files.
    """
    items, names, labels = _items(collection, name, classes)
    done = isinstance(collection, Pictures) and collection.size is not None
    if isinstance(collection, Pictures):
        if size is not None:
            collection.check_size(size, centre)
        elif done:
            size, centre = collection.size, collection.centred
    if not len(items):
        raise ShapeError(f"{name}: 0 pictures, expected at least one; check the path")

    def read(i: int) -> Array | InputError:
        try:
            picture = _checked(_one(items[i], names[i]), names[i], least)
        except InputError as error:
            return error
        if size is None or done:
            return picture
        return centred(picture, size) if centre else resized(picture, size)

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(read, range(len(items))))
    good = [i for i, one in enumerate(found) if not isinstance(one, InputError)]
    bad = [(names[i], one) for i, one in enumerate(found) if isinstance(one, Exception)]
    if bad and (not skip or not good):
        raise bad[0][1]
    pixels: list[Any] = [found[i] for i in good]
    _check_channels(pixels, [names[i] for i in good])
    skipped = [(where, str(error)) for where, error in bad]
    numbers, total = good, len(items)
    if isinstance(collection, Pictures):
        numbers, total = [collection.numbers[i] for i in good], collection.total
        skipped = [*collection.skipped, *skipped]
    return Pictures(
        pixels,
        [names[i] for i in good],
        None if labels is None else [labels[i] for i in good],
        numbers,
        skipped,
        total,
        size,
        centre and size is not None,
    )


def pictures_of_npz(path: str | Path) -> Array:
    """Reads the pictures of an npz file: its array ``X`` (``images``).

    Raises:
        DataError: the file is missing, damaged or too large, or has no pictures.
    """
    pictures, names = _array_of_npz(path, ("X", "x", "images"))
    if pictures is None:
        raise DataError(
            f"has the arrays {', '.join(names) or 'none'}, expected X (or images), "
            "and y (or labels) for their classes",
            str(path),
        )
    return pictures


def labels_of_npz(path: str | Path) -> Array | None:
    """Reads the labels of an npz file, ``y`` (``labels``); None: it has none.

    Raises:
        DataError: the file is missing, damaged or too large.
    """
    return _array_of_npz(path, ("y", "labels"))[0]


def _array_of_npz(
    path: str | Path, keys: Sequence[str]
) -> tuple[Array | None, list[str]]:
    """Returns the first of these arrays that the file has, and the names of all."""
    form = "an npz file of numbers as numpy.savez(file, X=pictures, y=labels) writes it"
    found, names = read_npz(path, keys, form, first=True)
    return next(iter(found.values()), None), names


def _items(
    collection: Any, name: str, classes: Sequence[str] | None
) -> tuple[Any, list[str], list[str] | None]:
    """Returns the pictures as given, their names, and labels if folders define them."""
    if isinstance(collection, Pictures):
        return collection.pixels, collection.names, collection.labels
    if isinstance(collection, (str, os.PathLike)):
        root = Path(collection)
        if root.suffix == ".npz":
            return _items(pictures_of_npz(root), str(root), classes)
        alone = loose(root) if root.is_dir() else []
        if alone:
            tell_of_others(root, alone)
            return alone, [str(path) for path in alone], None
        files, labels = class_folders(root, classes)
        tell_of_others(root, files)
        return files, [str(path) for path in files], labels
    if not isinstance(collection, np.ndarray):
        if hasattr(collection, "__array__") and not hasattr(collection, "getexif"):
            collection = np.asarray(collection)
        elif not isinstance(collection, (list, tuple)):
            raise DTypeError(
                f"{name}: a {type(collection).__name__}, expected {_FORMS}"
            )
    if isinstance(collection, np.ndarray):
        objects = collection.ndim == 1 and collection.dtype.kind in "OU"
        if collection.ndim not in (3, 4) and not objects:
            raise ShapeError(
                f"{name}: shape {collection.shape}, expected {_FORMS}; one picture is "
                f"X[None]{_ROWS if collection.ndim == 2 else ''}"
            )
    names = [
        str(one) if isinstance(one, (str, os.PathLike)) else f"{name}[{i}]"
        for i, one in enumerate(collection)
    ]
    return collection, names, None


def _one(item: Any, where: str) -> Array:
    """Reads a picture as [height, width, channels]."""
    if isinstance(item, (str, os.PathLike, bytes)) or hasattr(item, "getexif"):
        return decode(item, where)
    if np.ma.is_masked(item):
        raise InputError(
            f"{where}: has masked pixels, expected a value for each; fill them by "
            ".filled(value), or leave the picture out"
        )
    array = np.asarray(item)
    if array.ndim not in (2, 3):
        raise ShapeError(
            f"{where}: shape {array.shape}, expected [height, width] or [height, "
            "width, channels]"
        )
    return array if array.ndim == 3 else array[:, :, None]


def _checked(picture: Array, where: str, least: tuple[int, int]) -> Array:
    """Returns a checked picture: uint8 or float32, finite, and large enough."""
    height, width, channels = picture.shape
    as_wide = width == channels and channels not in _FIRST
    if height in _FIRST and (as_wide or channels > _FEW_CHANNELS):
        raise ShapeError(
            f"{where}: shape {picture.shape} has the channels first, expected [height, "
            "width, channels]; pass X.transpose(0, 2, 3, 1), of a list each picture's "
            "transpose(1, 2, 0)"
        )
    if not 1 <= channels <= _MOST_CHANNELS:
        raise ShapeError(
            f"{where}: {channels} channels in the last axis of {picture.shape}, "
            f"expected 1 to {_MOST_CHANNELS}; move the channels to the last axis"
        )
    if height < least[0] or width < least[1]:
        raise InputError(small(picture, where, least))
    kind = picture.dtype.kind
    if kind == "b":
        picture = picture.astype(np.uint8) * np.uint8(255)
    elif kind in "iu" and picture.dtype != np.uint8:
        if picture.size and not 0 <= picture.min() <= picture.max() <= 255:
            raise InputError(
                f"{where}: integers from {picture.min()} to {picture.max()}, expected "
                "0 to 255; scale them and pass floats"
            )
        picture = picture.astype(np.uint8)
    elif kind == "f":
        bad = ~np.isfinite(picture)
        if bad.any():
            row, column, channel = (int(n[0]) for n in np.nonzero(bad))
            raise InputError(
                f"{where}: pixel [{row}, {column}, {channel}] is "
                f"{picture[row, column, channel]}, expected finite numbers; leave the "
                "picture out, or mend it"
            )
        picture = picture.astype(np.float32)
    elif kind not in "iu":
        raise DTypeError(
            f"{where}: {picture.dtype} pixels, expected uint8 or floating numbers"
        )
    return picture


def small(picture: Array, where: str, least: tuple[int, int]) -> str:
    """Returns the error text for a picture smaller than ``least``."""
    return (
        f"{where}: {picture.shape[0]} x {picture.shape[1]} pixels (height x width), "
        f"expected at least {least[0]} x {least[1]}, a patch (patch_size); leave it out"
    )


def _check_channels(pixels: Sequence[Array], names: Sequence[str]) -> None:
    first = pixels[0]
    for picture, where in zip(pixels, names, strict=True):
        if picture.shape[2] != first.shape[2]:
            raise ShapeError(
                f"{where}: {picture.shape[2]} channels, expected {first.shape[2]} as "
                f"in {names[0]}; make them alike"
            )
        if picture.dtype != first.dtype:
            raise DTypeError(
                f"{where}: {picture.dtype} pixels, expected {first.dtype} as in "
                f"{names[0]}; make them alike"
            )


class ImageRows:
    """N pictures, as a data set for the Trainer.

    Args:
        pixels: [N, height, width, channels], uint8 or float32; or an object array [N]
            of pictures, whose sizes ``change`` makes one.
        change: the transform of every picture, to float32 [height, width, channels].
        tokens: rows of the model's maps per picture, for planning memory.
        labels: classes int64 [N], or None.
        seed: seed of the transform's random numbers. They are a function of the seed,
            the picture and the number of times it was read, independent of the reading
            order.
    """

    unit = "pictures with maps of {:,} rows"
    lighter = "lower batch_size or image_size (or, of ViT, raise patch_size)"

    def __init__(
        self,
        pixels: Array,
        change: Transform,
        *,
        tokens: int,
        labels: Array | None = None,
        seed: int = 0,
    ) -> None:
        axes = 1 if pixels.dtype == object else 4
        if pixels.ndim != axes or (labels is not None and len(labels) != len(pixels)):
            count = "no" if labels is None else len(labels)
            raise ShapeError(
                f"ImageRows: pixels of shape {pixels.shape} with {count} labels, "
                "expected [N, height, width, channels] with one label each"
            )
        self.pixels, self.labels = pixels, labels
        self._change, self._tokens, self._seed = change, tokens, seed
        self._reads = np.zeros(len(pixels), np.int64)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def lengths(self) -> Array:
        """Rows of the model's maps per picture, int64 [N]."""
        return np.full(len(self), self._tokens, np.int64)

    def gather(self, indices: Any) -> Batch:
        """Returns the batch of these pictures, float32 [B, channels, height, width]."""
        indices = np.asarray(indices, dtype=np.int64)
        changed = [self._changed(int(i)) for i in indices]
        self._reads[indices] += 1
        pixels = np.ascontiguousarray(np.stack(changed).transpose(0, 3, 1, 2))
        batch = {"pixel_values": pixels, "row_ids": indices}
        if self.labels is not None:
            batch["labels"] = self.labels[indices]
        return Batch(batch)

    def _changed(self, i: int) -> Array:
        key = np.array([self._seed, i], dtype=np.uint64)
        counter = np.array([0, 0, 0, self._reads[i]], dtype=np.uint64)
        bits = np.random.Philox(key=key, counter=counter)
        return self._change(self.pixels[i], np.random.Generator(bits))

    def bare(self, indices: Any) -> Batch:
        """Returns the batch without counting as a read in the random numbers."""
        reads = self._reads.copy()
        found = self.gather(indices)
        self._reads = reads
        return found

    def take(self, indices: Any) -> ImageRows:
        """Returns these pictures as a data set."""
        labels = None if self.labels is None else self.labels[indices]
        return ImageRows(
            self.pixels[indices],
            self._change,
            tokens=self._tokens,
            labels=labels,
            seed=self._seed,
        )

    def fingerprint(self) -> str:
        """Returns a hash of all pictures and labels."""
        rows = ({"pixels": one} for one in self.pixels)
        labels = [] if self.labels is None else [{"labels": self.labels}]
        return digest(len(self), [*rows, *labels])
