"""Opens files that a checkpoint names: plain names, regular files, never outside."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import numpy as np

from evolving_attention.errors import CheckpointError

_BASENAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a FIFO must not block
_CHUNK = 1 << 30


class InputFile:
    """An open regular file: its descriptor, its size and its name in messages.

    Data is copied into the process's own memory by ``pread``. If the file shrinks
    during a read, this gives an error, not a signal as a memory map would.

    Args:
        fd: open descriptor; this object takes ownership.
        label: the file's name in messages.

    Raises:
        CheckpointError: the descriptor does not belong to a regular file.
    """

    def __init__(self, fd: int, label: str) -> None:
        self.fd, self.label = fd, label
        status = os.fstat(fd)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise CheckpointError(
                f"{label}: is not a regular file (it is a folder, pipe or device); "
                "give a file with weights"
            )

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self, offset: int, count: int) -> np.ndarray:
        """Return ``count`` bytes from ``offset`` as a new array of uint8.

        Raises:
            CheckpointError: the file does not have these bytes.
        """
        if offset < 0 or count < 0 or offset + count > self.size:
            raise CheckpointError(
                f"{self.label}: bytes {offset} to {offset + count} are needed, but the "
                f"file has {self.size}; it is truncated or damaged"
            )
        target = np.empty(count, np.uint8)
        done = 0
        while done < count:
            view = target.data[done : done + _CHUNK]
            try:
                got = os.preadv(self.fd, [view], offset + done)
            except OSError as error:
                raise CheckpointError(
                    f"{self.label}: cannot be read: {error}"
                ) from None
            if got == 0:
                raise CheckpointError(
                    f"{self.label}: ended at byte {offset + done} while being read; "
                    "something else is writing to it"
                )
            done += got
        return target

    def read_bytes(self, offset: int, count: int) -> bytes:
        """Return ``count`` bytes from ``offset``; errors as :meth:`read`."""
        return self.read(offset, count).tobytes()


def check_basename(name: object, source: str) -> str:
    """Return ``name`` if it is the plain name of a file, or raise.

    Plain means 1 to 255 of the characters ``A-Z a-z 0-9 . _ -``, and neither ``.`` nor
    ``..``: no folder, no other alphabet, nothing that shells or file systems interpret
    in two ways.

    Args:
        name: the name found in a file.
        source: that file, for the message.

    Raises:
        CheckpointError: the name is not plain.
    """
    if (
        not isinstance(name, str)
        or not _BASENAME.fullmatch(name)
        or name in (".", "..")
    ):
        raise CheckpointError(
            f"{source}: refers to a file {ascii(name)[:120]}; expected the plain "
            "name of a file in the same folder (letters, digits, '.', '_', '-')"
        )
    return name


def is_inside(path: Path, folder: Path) -> bool:
    """Whether ``path``, after following all links, is ``folder`` or lies in it."""
    real = Path(os.path.realpath(path))
    root = Path(os.path.realpath(folder))
    return real == root or root in real.parents


def present(folder: Path, name: str) -> bool:
    """Whether the folder has an entry of this plain name, of any type."""
    return os.path.lexists(folder / check_basename(name, str(folder)))


def advice_inside(folder: Path, name: str) -> str:
    """Returns "" or a remedy that names the subfolders that have the file ``name``.

    A command that trains several models writes each to a subfolder.
    """
    found = sorted(path.parent for path in folder.glob(f"*/{name}"))
    if not found:
        return ""
    shown = ", ".join(map(str, found[:3])) + ", …" * (len(found) > 3)
    return f"give one of the folders in it that have one: {shown}"


def open_inside(folder: Path, name: object, source: str | None = None) -> InputFile:
    """Open a file that lies directly in ``folder``, following no link.

    The one exception is a folder of the Hub's cache (``models--…/snapshots/REVISION``)
    that the user named: its entries are links into ``models--…/blobs``, and only such
    links are followed.

    Args:
        folder: folder the user named.
        name: plain name of a file, possibly taken from another file.
        source: the file that contains ``name``, for the message; default: the folder.

    Raises:
        CheckpointError: ``name`` is not plain, missing, a link, or no regular file.
    """
    base = check_basename(name, source or str(folder))
    label = str(folder / base)
    blob = _blob_of_snapshot(folder, base)
    if blob is not None:
        folder, base = blob.parent, blob.name
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}: cannot be opened: {error}") from None
    try:
        fd = os.open(base, _OPEN | os.O_NOFOLLOW, dir_fd=root)
    except OSError as error:
        if os.path.islink(folder / base):
            raise CheckpointError(
                f"{label}: is a symbolic link; links inside a checkpoint folder "
                "are not followed. Copy the file there, or name the folder it lies in"
            ) from None
        raise CheckpointError(f"{label}: cannot be opened: {error}") from None
    finally:
        os.close(root)
    return InputFile(fd, label)


def read_inside(folder: Path, name: object, limit: int) -> bytes:
    """Return the whole content of a small file in ``folder``; see :func:`open_inside`.

    Raises:
        CheckpointError: as :func:`open_inside`, or the file exceeds ``limit`` bytes.
    """
    with open_inside(folder, name) as file:
        if file.size > limit:
            raise CheckpointError(
                f"{file.label}: has {file.size} bytes, at most {limit} are read"
            )
        return file.read_bytes(0, file.size)


def open_given(path: Path) -> InputFile:
    """Open a regular file that the user named; links are followed.

    Raises:
        CheckpointError: the file is missing or not a regular file.
    """
    try:
        return InputFile(os.open(path, _OPEN), str(path))
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be opened: {error}") from None


def _blob_of_snapshot(folder: Path, base: str) -> Path | None:
    """Returns the file in ``blobs`` that a Hub snapshot entry links to, if any."""
    root = Path(os.path.realpath(folder))
    if root.parent.name != "snapshots" or not root.parent.parent.name.startswith(
        "models--"
    ):
        return None
    if not os.path.islink(root / base):
        return None
    blob = Path(os.path.realpath(root / base))
    if blob.parent != root.parent.parent / "blobs":
        raise CheckpointError(
            f"{folder / base}: links to {blob}, outside of the cache of its model; "
            "delete the folder and download it again"
        )
    return blob
