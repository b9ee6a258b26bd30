"""Reads arrays of .npz files by name, and no more than fits into the memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.lines import open_file
from evolving_attention.errors import DataError

Array = np.ndarray[Any, Any]


def read_npz(
    path: str | Path, wanted: Sequence[str], expected: str, *, first: bool = False
) -> tuple[dict[str, Array], list[str]]:
    """Read arrays of a .npz file, without pickles.

    Args:
        path: the file.
        wanted: names of arrays that it may have; others are not read.
        expected: the file's content, for messages.
        first: read only the first one that the file has.

    Returns:
        The arrays by name, and the names of all arrays of the file.

    Raises:
        DataError: the file is missing, damaged or no archive, or the arrays do not fit
            into the memory.
    """
    _check_signature(path, expected)
    try:
        with np.load(Path(path), allow_pickle=False) as held:
            names = [name for name in wanted if name in held.files]
            names = names[:1] if first else names
            sizes = {one.filename: one.file_size for one in held.zip.infolist()}
            _check_room(
                path, {n: sizes.get(f"{n}.npy", sizes.get(n, 0)) for n in names}
            )
            return {name: held[name] for name in names}, list(held.files)
    except DataError:
        raise
    except Exception as error:  # zip, zlib, pickle and format errors of many classes
        raise DataError(
            f"cannot be read ({error}), expected {expected}", str(path)
        ) from error


def _check_room(path: str | Path, sizes: dict[str, int]) -> None:
    """Rejects arrays that do not fit; a small file may unpack to any size."""
    from evolving_attention.memory.available import in_words, left

    need, room = sum(sizes.values()), left()
    if room is not None and need > room:
        raise DataError(
            f"{', '.join(sizes)} need {in_words(need)}, expected at most the "
            f"{in_words(room)} that are left; free memory, raise ea.set_memory_limit, "
            "or store fewer or smaller numbers",
            str(path),
        )


def _check_signature(path: str | Path, expected: str) -> None:
    """Refuse a file without the signature of a zip archive.

    ``numpy.load`` reads a .npy file as one array, and takes any other file for a
    pickle: its message would advise to load it unsafely.
    """
    with open_file(Path(path)) as file:
        signature = file.read(2)
    if signature != b"PK":
        raise DataError(f"is no .npz file, expected {expected}", str(path))
