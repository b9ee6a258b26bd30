"""Reads picture files with Pillow, and folders with one subfolder per class."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.lines import open_file
from evolving_attention.errors import DataError, require

Array = np.ndarray[Any, Any]
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".webp", ".avif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm"),
)
MOST_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gibibyte of RGB
_MOST_BYTES = 1 << 30  # of a file; this many pixels, four samples of 16 bits: 716 MB
_BROKEN = (  # what Pillow's decoders raise for damaged files
    *(ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError),
    *(SyntaxError, TypeError, ValueError, struct.error, zlib.error),
)
_WIDE = 65_535 // 255  # divisor that converts 16-bit samples to 8 bits


def pillow(module: str = "Image") -> Any:
    """Imports a module of Pillow.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    return require(f"PIL.{module}", extra="image", why="to read pictures")


def decode(source: Any, where: str) -> Array:
    """Decodes a picture to uint8 [height, width, 3], red, green, blue.

    The rotation recorded by the camera is applied; palettes, grey, CMYK and 16-bit
    samples become 8-bit RGB; transparent pixels are blended with white.

    Args:
        source: a path, the bytes of a file, or Pillow's ``Image``.
        where: the picture's name in messages: its file, or ``X[3]``.

    Raises:
        DataError: the file is missing, damaged, truncated, animated, has more than
            89,478,485 pixels, or samples that are neither 8 nor 16 bits wide.
        MissingExtraError: Pillow is not installed.
    """
    image_module = pillow()
    image = source
    if not isinstance(source, image_module.Image):
        image = _opened(source, where)
    with _decoding(where):
        frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # MPO: a photograph with its thumbnails
        raise DataError(
            f"{frames} pictures in one file (animated), expected one; save one of them "
            "as a file of its own",
            where,
        )
    if image.width * image.height > MOST_PIXELS:
        raise _bomb(f"{image.width} x {image.height} pixels", where)
    with _decoding(where):
        image.load()
        wide = image.mode == "F" or (image.mode == "I" and not _is_16_bit(image))
        image = pillow("ImageOps").exif_transpose(image)
    if wide:
        raise _depth(image.mode, where)
    return _as_rgb(image, where)


@contextlib.contextmanager
def _decoding(where: str) -> Iterator[None]:
    """Turns the errors of Pillow's decoders into a DataError."""
    try:
        yield
    except pillow().DecompressionBombError as error:
        raise _bomb(str(error), where) from None
    except _BROKEN as error:
        raise DataError(
            f"cannot be decoded ({error}): cut off or damaged, expected a whole "
            "picture; get the file again",
            where,
        ) from None


def _opened(source: Any, where: str) -> Any:
    image_module = pillow()
    data = source if isinstance(source, bytes) else _content(Path(source), where)
    try:
        return image_module.open(io.BytesIO(data))
    except image_module.DecompressionBombError as error:
        raise _bomb(str(error), where) from None
    except _BROKEN:
        raise DataError(
            f"is no picture that Pillow knows ({len(data):,} bytes), expected PNG, "
            "JPEG or the like; leave the file out or get it again",
            where,
        ) from None


def _content(path: Path, where: str) -> bytes:
    """Returns the bytes of a picture file.

    Raises:
        DataError: it is missing, too large, no regular file (pipes and devices have no
            end), or cannot be read.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_BYTES:
            raise DataError(
                f"has {size:,} bytes, expected at most {_MOST_BYTES:,}; shrink the "
                "picture or leave it out",
                where,
            )
        return file.read()


def _bomb(found: str, where: str) -> DataError:
    return DataError(
        f"{found.rstrip('.')}: expected at most {MOST_PIXELS:,} pixels (a "
        "decompression bomb?); shrink the picture or leave it out",
        where,
    )


def _is_16_bit(image: Any) -> bool:
    """Whether samples of mode I have 16 bits in the file."""
    if image.format == "TIFF":
        return bool(max(image.tag_v2.get(258, (1,))) <= 16)  # BitsPerSample
    return image.format in ("PNG", "PPM")  # these formats have at most 16 bits


def _as_rgb(image: Any, where: str) -> Array:
    image_module, mode = pillow(), image.mode
    if mode.startswith("I"):
        samples = np.asarray(image).astype(np.int64)
        if samples.min() < 0:
            raise _depth(mode, where)
        grey = ((samples + _WIDE // 2) // _WIDE).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = image_module.new("RGBA", image.size, (255, 255, 255, 255))
        image = image_module.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


def _depth(mode: str, where: str) -> DataError:
    return DataError(
        f"samples of 32 bits or below 0 (mode {mode!r}), expected 8 or 16 bits; which "
        "values are black and white is not known: pass an array instead",
        where,
    )


def pictures(folder: Path) -> list[Path]:
    """Returns the picture files of a folder and its subfolders, in order of paths.

    Pictures are recognised by their suffix; names that begin with a dot are left out,
    and ``.avif`` where Pillow cannot read it.
    """
    known = _suffixes()
    return sorted(path for path in _seen(folder) if path.suffix.lower() in known)


def tell_of_others(root: Path, found: Sequence[Path]) -> None:
    """Warn about files next to the pictures found that are left out by their suffix.

    Of a folder of classes, files next to the folders are not counted.
    """
    known, has_classes = _suffixes(), found[0].parent != root
    counts: Counter[str] = Counter()
    for path in _seen(root):
        if path.suffix.lower() in known or (has_classes and path.parent == root):
            continue
        if path.is_file():
            counts[path.suffix.lower() or "none"] += 1
    if counts:
        shown = ", ".join(f"{suffix}: {n}" for suffix, n in counts.most_common(5))
        warnings.warn(
            f"{root}: {counts.total()} file(s) are left out by their suffix ({shown}); "
            f"pictures have one of {', '.join(known)}; convert them if they are "
            "pictures",
            stacklevel=2,
        )


def _suffixes() -> tuple[str, ...]:
    """Returns SUFFIXES, without .avif where the installed Pillow cannot read it."""
    reads = pillow().registered_extensions()
    return tuple(one for one in SUFFIXES if one != ".avif" or one in reads)


def _seen(folder: Path, visited: set[Path] | None = None) -> Iterator[Path]:
    """Yields all paths below a folder, without names that begin with a dot.

    Follows links, but enters each folder once, and none that contains the first.

    Raises:
        DataError: a folder cannot be read.
    """
    real = folder.resolve()
    visited = {*real.parents} if visited is None else visited
    visited.add(real)
    try:
        paths = sorted(folder.iterdir(), key=lambda path: (path.is_symlink(), path))
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror}), expected a folder of pictures; allow "
            "reading it, or move it out",
            str(folder),
        ) from None
    for path in paths:
        if path.name.startswith("."):
            continue
        yield path
        if path.is_dir() and path.resolve() not in visited:
            yield from _seen(path, visited)


def loose(root: Path) -> list[Path]:
    """Returns pictures directly in a folder; [] if all are in subfolders.

    Raises:
        DataError: only some are in subfolders; names the first one that is not.
    """
    found = pictures(root)
    alone = [path for path in found if path.parent == root]
    if alone and len(alone) < len(found):
        raise DataError(
            f"a picture next to folders of pictures ({len(alone)} such here), expected "
            "pictures or folders alone; move it into the folder of its class, or out",
            str(alone[0]),
        )
    return alone


def class_folders(
    root: Path, known: Sequence[str] | None = None
) -> tuple[list[Path], list[str]]:
    """Returns picture files and classes, from a folder with a subfolder per class.

    The pictures of a class may be in further subfolders.

    Args:
        root: the folder.
        known: class names that may occur; None: any.

    Raises:
        DataError: the folder is missing or has no subfolders; a class has no picture,
            or is unknown.
    """
    if not root.is_dir():
        raise DataError(
            "is no folder, expected one with a folder of pictures for each class",
            str(root),
        )
    folders = sorted(
        path
        for path in root.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    )
    if not folders:
        raise DataError(
            "has no folders, expected a folder of pictures for each class: "
            "ROOT/cat/1.png, ROOT/dog/7.jpg",
            str(root),
        )
    files: list[Path] = []
    labels: list[str] = []
    for folder in folders:
        if known is not None and folder.name not in known:
            raise DataError(
                f"a class unseen in training, expected one of {', '.join(known)}; "
                "leave the folder out, or train with it",
                str(folder),
            )
        found = pictures(folder)
        if not found:
            raise DataError(
                "has no picture, expected at least one "
                f"({', '.join(_suffixes())}); fill the folder of this class or "
                "remove it",
                str(folder),
            )
        files += found
        labels += [folder.name] * len(found)
    return files, labels
