"""Refuses files that are no .npz archives before NumPy reads them."""

from __future__ import annotations

from pathlib import Path

from evolving_attention.data.lines import open_file
from evolving_attention.errors import DataError

__all__ = ["check_npz"]


def check_npz(path: str | Path, expected: str) -> None:
    """Refuse a file without the signature of a zip archive.

    ``numpy.load`` reads a .npy file as one array, and takes any other file for a
    pickle: its message would advise to load it unsafely.

    Args:
        path: the file.
        expected: the file's content, for the message.

    Raises:
        DataError: the file is missing, unreadable or no archive.
    """
    with open_file(Path(path)) as file:
        signature = file.read(2)
    if signature != b"PK":
        raise DataError(f"is no .npz file, expected {expected}", str(path))
