"""Locks of folders, which end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"
_held: set[int] = set()  # descriptors of this process's locks


@contextmanager
def locked(folder: str | Path, refusal: Exception) -> Iterator[bool]:
    """Holds the lock of ``folder``, a file in it, during the block.

    The folder is created if it is missing. At the end the file is removed, and a folder
    that was created and is still empty. The lock also ends with the process, however
    that ends; forked processes do not inherit it.

    Args:
        folder: the folder.
        refusal: raised if somebody holds the lock, another process or this one.

    Yields:
        Whether the lock is held; not if the folder or its file system allows none.
    """
    root = Path(folder)
    path, is_new = root / LOCK, not root.exists()
    try:
        fd = _acquired(path)
    except BlockingIOError:
        raise refusal from None
    try:
        yield fd is not None
    finally:
        if fd in _held:  # not so in a forked process
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            _held.discard(fd)
            os.close(fd)
            if is_new:
                with suppress(OSError):
                    root.rmdir()


def _acquired(path: Path) -> int | None:
    """Returns the descriptor of the locked file, or None if there are no locks.

    Raises:
        BlockingIOError: somebody holds the lock.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
            )
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(fd), os.stat(path))
        except BlockingIOError:
            os.close(fd)
            raise
        except FileNotFoundError:
            is_there = False
        except OSError:
            os.close(fd)
            return None
        if is_there:
            _held.add(fd)
            return fd
        os.close(fd)  # its holder removed the file meanwhile


def _forget() -> None:
    """Closes the locks in a forked process, which may outlive this one."""
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
