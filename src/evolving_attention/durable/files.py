"""Writes files atomically: a crash leaves the old or the new file."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evolving_attention.errors import CheckpointError

# Names that temporary_name gives: kind, final name, place and process.
TEMPORARY = re.compile(r"\.(tmp|old|gone)-(.+)\.(?:([0-9a-f]{8})-)?(\d+)")
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
_MAX_WRITE = 1 << 30  # Linux writes at most 2 GiB at a time
_NO_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS}
_UNTOUCHED = "what was there before is untouched"
_MIXED = "some files there may be new and some old, save again"
_ADVICE = {
    errno.ENOSPC: "free disk space or save to another disk",
    errno.EDQUOT: "free disk space or raise the quota",
    errno.EROFS: "save to a disk that can be written",
    errno.EACCES: "make the folder writable for you",
    errno.EEXIST: "give another path: this one is a file",
    errno.ENOTDIR: "give another path: a part of this one is a file",
    errno.EIO: "check the disk, and save to another one",
}


def write_bytes(path: str | Path, data: bytes | bytearray | memoryview) -> None:
    """Replaces the file ``path`` by ``data`` atomically, and syncs it to disk.

    The data goes to a temporary file in the same folder, which is synced and renamed;
    then the folder is synced. A reader sees the old file or the new one. The umask is
    honoured.

    Raises:
        CheckpointError: the disk is full, read-only, …; the old file is untouched.
    """
    target = Path(path)
    write_files(target.parent, [(target.name, data)])


def write_files(
    folder: str | Path,
    contents: Iterable[tuple[str, bytes | bytearray | memoryview]],
    *,
    remove: Collection[str] = (),
) -> list[str]:
    """Replaces several files of a folder, after all new ones are on the disk.

    All data goes to temporary files, which are synced. Then the files in ``remove`` are
    removed, and the temporary ones renamed in the order given. So a full disk changes
    nothing. A crash between two renames leaves files of both kinds: let ``remove`` name
    the files without which a reader refuses the folder, and write those last.

    Temporary files that killed processes left in the folder are removed first.

    Args:
        folder: existing folder.
        contents: names and data; read one by one.
        remove: names of files that may exist.

    Returns:
        The names written.

    Raises:
        CheckpointError: the disk is full, read-only, …; its text says whether the old
            files are untouched.
    """
    root, waiting = Path(folder), dict[str, Path]()
    _remove_stale(root)
    try:
        for name, data in contents:
            with reported(f"cannot write {root / name}", _UNTOUCHED):
                waiting[name] = temporary_name(root / name)
                write_new(waiting[name], data)
            del data  # before the next one is made
        written, old = [*waiting], [root / name for name in remove]
        several = len(written) + len(old) > 1
        with reported(
            f"cannot write {root / written[-1]}", _MIXED if several else _UNTOUCHED
        ):
            if present := [path for path in old if os.path.lexists(path)]:
                for path in present:
                    os.unlink(path)
                sync_folder(root)
            for name in written:
                os.rename(waiting[name], root / name)
                del waiting[name]
            sync_folder(root)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
    return written


def write_json(path: str | Path, value: Any) -> None:
    """Writes ``value`` as JSON text, like :func:`write_bytes`.

    Raises:
        ValueError: ``value`` holds NaN or infinity, which JSON does not have.
        CheckpointError: as in :func:`write_bytes`.
    """
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Returns the file that :func:`write_json` writes.

    Raises:
        ValueError: ``value`` holds NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    return (text + "\n").encode()


def plain(value: Any) -> Any:
    """Converts a value for strict JSON: NumPy's numbers, paths, NaN become plain."""
    if isinstance(value, type):  # its methods need an object
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value)


def make_folder(path: str | Path) -> Path:
    """Returns the folder ``path``, created with its parents if necessary.

    Raises:
        CheckpointError: it is a file, or cannot be created.
    """
    folder = Path(path)
    with reported(f"cannot make the folder {folder}", "nothing was written"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def temporary_name(path: Path, kind: str = "tmp") -> Path:
    """Returns the name beside ``path`` that this process uses until it is complete."""
    return path.with_name(f".{kind}-{path.name}.{place()}-{os.getpid()}")


def is_alive(pid: int) -> bool:
    """Whether a process with this number runs here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _remove_stale(folder: Path) -> None:
    """Removes the temporary files that dead processes of this place left, if it can."""
    here = place()
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            found = TEMPORARY.fullmatch(entry.name)
            if found is None or (found[1], found[3]) != ("tmp", here):
                continue
            if entry.is_file(follow_symlinks=False) and not is_alive(int(found[4])):
                os.unlink(entry.path)


def place() -> str:
    """Returns 8 digits for the host and PID namespace in which process ids are valid.

    Processes of several hosts or containers may share a folder.
    """
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # no such namespaces
        space = 0
    text = f"{os.uname().nodename} {space}"
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def digest(path: Path) -> tuple[int, str]:
    """Returns size and BLAKE2b (256 bits) of a regular file; rejects links."""
    hasher, size = hashlib.blake2b(digest_size=32), 0
    with opened(path, READ_FLAGS) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        while chunk := os.read(fd, _CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return size, hasher.hexdigest()


def write_new(path: Path, data: bytes | bytearray | memoryview) -> None:
    """Writes and syncs a file in place; its mode is 0666 minus the umask."""
    rest = memoryview(data).cast("B")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened(path, flags) as fd:
        while rest:
            done = os.write(fd, rest[:_MAX_WRITE])
            if done == 0:
                raise OSError(errno.EIO, "the disk takes no more data", str(path))
            rest = rest[done:]
        os.fsync(fd)


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Opens ``path`` and yields its descriptor; closes it at the end of the block."""
    fd = os.open(path, flags, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Syncs a folder, which makes creations, renames and removals in it durable.

    Some network and FUSE file systems sync no folders: theirs stay as they are.
    """
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as fd:
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise


@contextmanager
def reported(what: str, state: str) -> Iterator[None]:
    """Turns an OSError into a CheckpointError that says what remains; keeps errno."""
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check the folder and its permissions")
        report = CheckpointError(f"{what}: {error}; {state}. To go on, {advice}")
        report.errno = error.errno
        raise report from error


@contextmanager
def usable_values(file: Path, expected: str) -> Iterator[None]:
    """Turns errors about the values that a file holds into a CheckpointError."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,  # PyTorch's, of its generator
        TypeError,
        ValueError,
    ) as bad:
        raise CheckpointError(
            f"{file}: cannot be used ({bad!r:.300}), expected {expected}"
        ) from bad
