"""Writes checkpoints atomically: a crash leaves the old state or the new one.

A checkpoint is a folder. It is filled under a name that readers ignore; every file is
synced; a manifest with the size and hash of each file is added; one rename makes it a
checkpoint. Whenever the power fails, a folder called ``checkpoint-N`` is complete, or
its manifest shows that it is not.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from evolving_attention.durable.files import (
    READ_FLAGS,
    TEMPORARY,
    digest,
    is_alive,
    opened,
    place,
    reported,
    sync_folder,
    temporary_name,
    write_new,
)
from evolving_attention.durable.locks import LOCK
from evolving_attention.errors import CheckpointError

MANIFEST = "manifest.json"
FORMAT = 1
_MAX_MANIFEST_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_SPACE_FACTOR = 1.05


class CorruptCheckpointWarning(UserWarning):
    """A checkpoint failed verification and an older one is used instead."""


def commit_directory(
    final_dir: str | Path,
    writer: Callable[[Path], None],
    *,
    step: int,
    keep: int | None = None,
    protect: Collection[str | Path] = (),
    bytes_needed: int | None = None,
    replace: bool = True,
) -> Path:
    """Writes a whole folder, so that it appears complete or not at all.

    Protocol: ``writer`` fills ``.tmp-NAME.PLACE-PID``; every file is synced; a manifest
    with name, size and hash of each file is written and synced; the folder is renamed
    to its final name; its parent is synced. Only then are older ones removed.

    Args:
        final_dir: the folder to create, for example ``out/checkpoint-500``.
        writer: called with an empty folder; writes regular files directly into it.
        step: training step, for the manifest.
        keep: after success, call :func:`rotate` with this number; what it cannot remove
            gives a warning.
        protect: folders that rotation must not remove, such as the best model.
        bytes_needed: expected size; 5 % more must be free before anything is written.
        replace: whether to replace a folder of this name; else it stays, and that is an
            error.

    Returns:
        The path of the folder.

    Raises:
        CheckpointError: out of space, not writable, …; ``errno`` is set, earlier
            checkpoints are untouched, and the call may be repeated. Errors of
            ``writer`` other than OSError propagate after the unfinished folder is
            removed.
    """
    final = Path(final_dir)
    parent = final.parent
    temporary = temporary_name(final)
    with reported(f"cannot save {final}", "earlier checkpoints are untouched"):
        if not parent.is_dir():
            os.makedirs(parent, exist_ok=True)
            sync_folder(parent.parent)
        clean_stale(parent)
        if bytes_needed is not None:
            _check_space(parent, bytes_needed)
        try:
            os.mkdir(temporary)
            writer(temporary)
            _seal(temporary, step)
            _put_in_place(temporary, final, replace)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    if keep is not None:
        safe = [*protect, final]  # the new one may have an older number
        try:
            rotate(parent, keep, prefix=_prefix(final.name), protect=safe)
        except CheckpointError as error:
            warnings.warn(f"{final} is saved, but {error}", stacklevel=2)
    return final


def verify_directory(folder: str | Path) -> dict[str, Any]:
    """Checks a committed folder against its manifest: every file, every byte.

    Files that the manifest does not list are ignored.

    Returns:
        The manifest: ``{"format": 1, "step": …, "files": {name: {bytes, blake2b}}}``.

    Raises:
        CheckpointError: the manifest is missing or damaged, or a file is missing or
            differs in size or content. The message names it.
    """
    path = Path(folder)
    manifest = _read_manifest(path)
    for name, entry in manifest["files"].items():
        file = path / name
        try:
            size, found = digest(file)
        except OSError as error:
            raise CheckpointError(
                f"{file}: is listed in {MANIFEST} and cannot be read "
                f"({error.strerror}); use an older checkpoint"
            ) from None
        if size != entry["bytes"] or found != entry["blake2b"]:
            raise CheckpointError(
                f"{file}: differs from {MANIFEST} ({size} bytes, expected "
                f"{entry['bytes']}, or another content); use an older checkpoint"
            )
    return manifest


def list_checkpoints(parent: str | Path, prefix: str = "checkpoint-") -> list[Path]:
    """Returns the folders ``PREFIX<number>`` in ``parent``, newest (highest) first."""
    found = []
    try:
        entries = list(os.scandir(parent))
    except FileNotFoundError:
        return []
    for entry in entries:
        number = entry.name.removeprefix(prefix)
        named = entry.name.startswith(prefix) and re.fullmatch("[0-9]+", number)
        if named and entry.is_dir(follow_symlinks=False):
            found.append((int(number), Path(entry.path)))
    return [path for _, path in sorted(found, reverse=True)]


def newest_verified(parent: str | Path, prefix: str = "checkpoint-") -> Path | None:
    """Returns the newest checkpoint that passes :func:`verify_directory`, or None.

    Each newer checkpoint that fails causes a :class:`CorruptCheckpointWarning` with its
    name and the reason. Nothing is changed: a save may be under way.

    Args:
        parent: folder with the checkpoints; may be missing.
        prefix: beginning of the names, before the step.
    """
    for path in list_checkpoints(parent, prefix):
        try:
            verify_directory(path)
        except CheckpointError as error:
            warnings.warn(
                f"{path} is not usable and is passed over: {error}",
                CorruptCheckpointWarning,
                stacklevel=2,
            )
        else:
            return path
    return None


def rotate(
    parent: str | Path,
    keep: int,
    *,
    prefix: str = "checkpoint-",
    protect: Collection[str | Path] = (),
) -> list[Path]:
    """Removes old checkpoints, keeping the newest ``keep`` and a verified older one.

    Even with ``keep=1`` one checkpoint older than the newest stays, verified byte for
    byte, so that damage to the newest does not lose the run.

    Args:
        parent: folder with the checkpoints.
        keep: number of newest checkpoints to keep, at least 1.
        prefix: beginning of the names.
        protect: checkpoints to keep at any age.

    Returns:
        The removed folders.

    Raises:
        CheckpointError: a folder cannot be removed.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}, expected at least 1")
    safe = {os.path.realpath(path) for path in protect}
    removed = []
    with reported(f"cannot remove old checkpoints in {parent}", "the others remain"):
        known = list_checkpoints(parent, prefix)
        older = known[keep:]
        has_fallback = not older or any(_verifies(path) for path in known[1:keep])
        for path in older:
            if not has_fallback and _verifies(path):
                has_fallback = True
            elif os.path.realpath(path) not in safe:
                _remove(path)
                removed.append(path)
    return removed


def discard(folder: str | Path, seen: os.stat_result) -> None:
    """Removes a damaged folder, unless another process has done so or replaced it.

    Args:
        folder: the folder.
        seen: its status before the damage was found.

    Raises:
        CheckpointError: it cannot be removed.
    """
    path = Path(folder)
    with reported(f"cannot remove {path}", "it remains"), suppress(FileNotFoundError):
        now = os.stat(path)
        if (now.st_ino, now.st_mtime_ns) == (seen.st_ino, seen.st_mtime_ns):
            _remove(path)


def is_leftover(name: str) -> bool:
    """Whether an entry of this name is part of a save under way, or was left by it."""
    return name == LOCK or TEMPORARY.fullmatch(name) is not None


def clean_stale(parent: str | Path, *, alone: bool = False) -> None:
    """Removes what interrupted saves of dead processes left in ``parent``.

    A folder that was set aside for a replacement that never came is restored.

    Args:
        parent: folder with the checkpoints; may be missing.
        alone: whether this process holds the lock of all that write checkpoints here.
            Then folders that another host or container left are removed too.
    """
    try:
        entries = sorted(os.scandir(parent), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    here = place()
    for entry in entries:
        match = TEMPORARY.fullmatch(entry.name)
        if match is None:
            continue
        if match[3] != here:  # whether its process lives is not known
            if not (alone and entry.is_dir(follow_symlinks=False)):
                continue
        elif _alive(int(match[4])):
            continue
        path = Path(entry.path)
        final = path.with_name(match[2])
        if match[1] == "old" and not os.path.lexists(final):
            os.rename(path, final)
        elif entry.is_dir(follow_symlinks=False):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _seal(folder: Path, step: int) -> None:
    """Syncs every file of a folder, adds the manifest, syncs the folder."""
    files: dict[str, Any] = {}
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if not _NAME.fullmatch(name) or not stat.S_ISREG(os.lstat(path).st_mode):
            raise CheckpointError(
                f"{path}: is not a regular file with a plain name; a checkpoint holds "
                "nothing else, such as a folder: write files directly into it"
            )
        with opened(path, os.O_RDONLY) as fd:
            os.fsync(fd)
        size, found = digest(path)
        files[name] = {"bytes": size, "blake2b": found}
    manifest = {"format": FORMAT, "step": step, "files": files}
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    write_new(folder / MANIFEST, text.encode())
    sync_folder(folder)


def _put_in_place(temporary: Path, final: Path, replace: bool) -> None:
    """Renames a sealed folder to its final name, and may replace an existing folder."""
    replaces = replace and os.path.lexists(final)
    aside = _set_aside(final, "old") if replaces else None
    try:
        os.rename(temporary, final)
    except BaseException:
        if aside is not None:
            os.rename(aside, final)
        raise
    sync_folder(final.parent)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        with opened(path, READ_FLAGS) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_MANIFEST_BYTES:
                raise ValueError("not a regular file of a sensible size")
            manifest = json.loads(os.read(fd, _MAX_MANIFEST_BYTES + 1))
        if manifest["format"] != FORMAT:
            raise ValueError(f"format {manifest['format']!r:.40}, expected {FORMAT}")
        for name, entry in manifest["files"].items():
            if not _NAME.fullmatch(name) or name in (".", ".."):
                raise ValueError(f"it lists the odd name {name!a:.80}")
            int(entry["bytes"]), str(entry["blake2b"])
        int(manifest["step"])
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error.strerror}); the folder was not committed, "
            "use an older checkpoint"
        ) from None
    except (
        ValueError,
        OverflowError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise CheckpointError(
            f"{path}: is not a valid manifest ({error}); use an older checkpoint"
        ) from None
    result: dict[str, Any] = manifest
    return result


def _verifies(path: Path) -> bool:
    try:
        verify_directory(path)
    except CheckpointError:
        return False
    return True


def _remove(path: Path) -> None:
    """Removes a checkpoint; a partly removed one does not keep its name."""
    gone = _set_aside(path, "gone")
    if gone is not None:
        shutil.rmtree(gone)


def _set_aside(path: Path, kind: str) -> Path | None:
    """Renames a checkpoint; removes it, and returns None, where that is impossible.

    overlayfs (containers) renames no folder that comes from a lower layer.
    """
    aside = temporary_name(path, kind)
    try:
        os.rename(path, aside)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        (path / MANIFEST).unlink(missing_ok=True)  # first: a part is no checkpoint
        shutil.rmtree(path)
        return None
    return aside


def _check_space(folder: Path, need: int) -> None:
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < need * _SPACE_FACTOR:
        raise OSError(
            errno.ENOSPC,
            f"{need * _SPACE_FACTOR / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB free",
        )


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _alive(pid: int) -> bool:
    """Whether another process with this number runs; our own leftovers are stale."""
    return pid != os.getpid() and is_alive(pid)
