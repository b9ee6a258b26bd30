"""Commits survive every single failure: the old state or the new one, never half."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolving_attention import durable
from evolving_attention.durable import (
    CorruptCheckpointWarning,
    commit_directory,
    files,
    folders,
    newest_verified,
    rotate,
    verify_directory,
    write_bytes,
    write_json,
)
from evolving_attention.errors import CheckpointError

SRC = Path(durable.__file__).resolve().parents[2]


def writer(step: int, size: int = 64) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        write_bytes(folder / "model.safetensors", bytes([step]) * size)
        write_json(folder / "trainer_state.json", {"step": step})

    return fill


def commit(parent: Path, step: int, **options: Any) -> Path:
    return commit_directory(
        parent / f"checkpoint-{step}", writer(step), step=step, **options
    )


def names(parent: Path) -> list[str]:
    return sorted(os.listdir(parent))


# --- files ---------------------------------------------------------------------------


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for data in (b"old", bytearray(b"new"), memoryview(b"newer"), b""):
        write_bytes(path, data)
        assert path.read_bytes() == bytes(data)
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_umask_is_honoured(tmp_path: Path, mask: int, mode: int) -> None:
    old = os.umask(mask)
    try:
        write_bytes(tmp_path / "a", b"1")
        commit(tmp_path, 1)
    finally:
        os.umask(old)
    for path in (tmp_path / "a", tmp_path / "checkpoint-1" / "manifest.json"):
        assert path.stat().st_mode & 0o777 == mode


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


def test_a_missing_folder_is_a_checkpoint_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="untouched") as caught:
        write_bytes(tmp_path / "none" / "a", b"1")
    assert caught.value.errno == errno.ENOENT


# --- folders -------------------------------------------------------------------------


def test_a_commit_verifies(tmp_path: Path) -> None:
    final = commit(tmp_path / "deep" / "out", 7)
    manifest = verify_directory(final)
    assert manifest["step"] == 7
    assert sorted(manifest["files"]) == ["model.safetensors", "trainer_state.json"]
    assert manifest["files"]["model.safetensors"]["bytes"] == 64
    assert names(final.parent) == ["checkpoint-7"]
    assert newest_verified(final.parent) == final


def test_a_commit_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    commit_directory(tmp_path / "checkpoint-1", writer(9), step=9)
    assert verify_directory(tmp_path / "checkpoint-1")["step"] == 9
    assert names(tmp_path) == ["checkpoint-1"]


def test_an_error_of_the_writer_passes_and_leaves_nothing(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").write_bytes(b"1")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        commit_directory(tmp_path / "checkpoint-1", broken, step=1)
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "link", "fifo", "name"])
def test_a_checkpoint_holds_plain_files_only(tmp_path: Path, kind: str) -> None:
    def odd(folder: Path) -> None:
        if kind == "folder":
            (folder / "sub").mkdir()
        elif kind == "link":
            (folder / "link").symlink_to("/etc/passwd")
        elif kind == "fifo":
            os.mkfifo(folder / "fifo")
        else:
            (folder / "a b").write_bytes(b"")

    with pytest.raises(CheckpointError, match=r"plain name; .* write files directly"):
        commit_directory(tmp_path / "checkpoint-1", odd, step=1)
    assert names(tmp_path) == []


def test_space_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    commit(tmp_path, 1)
    called = []
    with pytest.raises(CheckpointError, match="are needed") as caught:
        commit_directory(
            tmp_path / "checkpoint-2", called.append, step=2, bytes_needed=1 << 60
        )
    assert caught.value.errno == errno.ENOSPC
    assert called == []
    assert names(tmp_path) == ["checkpoint-1"]


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a byte": lambda f: (f / "model.safetensors").write_bytes(b"\2" * 63 + b"\3"),
    "longer": lambda f: (f / "model.safetensors").write_bytes(b"\2" * 65),
    "empty": lambda f: (f / "model.safetensors").write_bytes(b""),
    "missing": lambda f: (f / "trainer_state.json").unlink(),
    "a link": lambda f: (
        (f / "trainer_state.json").rename(f.parent / "elsewhere"),
        (f / "trainer_state.json").symlink_to(f.parent / "elsewhere"),
    ),
    "a fifo": lambda f: (
        (f / "trainer_state.json").unlink(),
        os.mkfifo(f / "trainer_state.json"),
    ),
    "no manifest": lambda f: (f / "manifest.json").unlink(),
    "manifest cut": lambda f: os.truncate(f / "manifest.json", 30),
    "manifest empty": lambda f: os.truncate(f / "manifest.json", 0),
    "manifest a list": lambda f: (f / "manifest.json").write_text("[]"),
    "manifest deep": lambda f: (f / "manifest.json").write_text("[" * 100_000),
    "manifest huge": lambda f: os.truncate(f / "manifest.json", 1 << 40),
    "manifest format": lambda f: (f / "manifest.json").write_text(
        '{"format": 2, "step": 1, "files": {}}'
    ),
    "manifest leads up": lambda f: (f / "manifest.json").write_text(
        '{"format": 1, "step": 1, "files": {"../x": {"bytes": 0, "blake2b": ""}}}'
    ),
    "manifest infinite": lambda f: (f / "manifest.json").write_text(
        '{"format": 1, "step": 1, "files": {"a": {"bytes": Infinity, "blake2b": ""}}}'
    ),
    "manifest entry": lambda f: (f / "manifest.json").write_text(
        '{"format": 1, "step": 1, "files": {"x": 3}}'
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found_and_passed_over(
    tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    commit(tmp_path, 1)
    newest = commit(tmp_path, 2)
    damage(newest)
    with pytest.raises(CheckpointError, match=r"use an older|was not committed"):
        verify_directory(newest)
    with pytest.warns(CorruptCheckpointWarning, match="checkpoint-2"):
        assert newest_verified(tmp_path) == tmp_path / "checkpoint-1"


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert newest_verified(tmp_path) is None
    assert newest_verified(tmp_path / "none") is None
    (tmp_path / "checkpoint-x").mkdir()
    (tmp_path / "checkpoint-5").write_text("a file")
    assert newest_verified(tmp_path) is None


def test_numbers_are_compared_not_texts(tmp_path: Path) -> None:
    for step in (9, 100, 20):
        commit(tmp_path, step)
    assert newest_verified(tmp_path) == tmp_path / "checkpoint-100"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_folders_need_not_be_syncable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(fd: int, real: Any = os.fsync) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(code, os.strerror(code))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    if code == errno.EIO:
        with pytest.raises(CheckpointError, match="check the disk"):
            commit(tmp_path, 1)
    else:
        verify_directory(commit(tmp_path, 1))


# --- rotation ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "left"), [(1, [4, 5]), (2, [4, 5]), (3, [3, 4, 5]), (9, [1, 2, 3, 4, 5])]
)
def test_rotation_keeps_the_newest_and_one_older(
    tmp_path: Path, keep: int, left: list[int]
) -> None:
    for step in range(1, 6):
        commit(tmp_path, step)
    rotate(tmp_path, keep)
    assert names(tmp_path) == [f"checkpoint-{step}" for step in left]


def test_rotation_keeps_an_older_one_that_verifies(tmp_path: Path) -> None:
    for step in range(1, 6):
        commit(tmp_path, step)
    for step in (3, 4):
        (tmp_path / f"checkpoint-{step}" / "manifest.json").unlink()
    rotate(tmp_path, 2)
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-5"]


def test_rotation_keeps_what_is_protected(tmp_path: Path) -> None:
    for step in range(1, 5):
        commit(tmp_path, step, keep=2, protect=[tmp_path / "checkpoint-1"])
    assert names(tmp_path) == ["checkpoint-1", "checkpoint-3", "checkpoint-4"]
    with pytest.raises(ValueError, match="at least 1"):
        rotate(tmp_path, 0)


def test_a_save_counts_where_an_old_one_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS a file that is open elsewhere keeps its folder from being removed."""

    def busy(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))

    commit(tmp_path, 1)
    commit(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", busy)
        with pytest.warns(UserWarning, match=r"-3 is saved, but cannot remove old"):
            assert commit(tmp_path, 3, keep=2) == newest_verified(tmp_path)
    commit(tmp_path, 4, keep=2)
    assert names(tmp_path) == ["checkpoint-3", "checkpoint-4"]


def test_a_checkpoint_that_cannot_be_renamed_is_replaced_and_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers (overlayfs) rename no folder of an image; a part keeps no manifest."""

    def layered(source: Path, target: Path, real: Any = os.rename) -> None:
        if Path(source).name.startswith("checkpoint-"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source))
        real(source, target)

    commit(tmp_path, 1)
    commit(tmp_path, 2)
    monkeypatch.setattr(os, "rename", layered)
    commit_directory(tmp_path / "checkpoint-2", writer(9), step=9)
    assert verify_directory(tmp_path / "checkpoint-2")["step"] == 9
    commit(tmp_path, 3, keep=2)
    assert names(tmp_path) == ["checkpoint-2", "checkpoint-3"]
    monkeypatch.setattr(shutil, "rmtree", lambda path: os.unlink(path / "none"))
    with pytest.warns(UserWarning, match="No such file"):
        commit(tmp_path, 4, keep=2)
    assert names(tmp_path / "checkpoint-2") == [
        "model.safetensors",
        "trainer_state.json",
    ]


# --- left-overs ----------------------------------------------------------------------


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_left_overs_of_the_dead_are_removed(tmp_path: Path) -> None:
    pid = f"{files.place()}-{dead_pid()}"
    parent = f"{files.place()}-{os.getppid()}"
    (tmp_path / f".tmp-checkpoint-3.{pid}").mkdir()
    (tmp_path / f".tmp-checkpoint-3.{pid}" / "half").write_bytes(b"1")
    (tmp_path / f".tmp-config.json.{pid}").write_bytes(b"1")
    (tmp_path / f".gone-checkpoint-1.{pid}").mkdir()
    (tmp_path / f".tmp-checkpoint-9.{parent}").mkdir()  # alive: stays
    (tmp_path / ".tmp-notes").write_bytes(b"")  # not ours: stays
    commit(tmp_path, 4)
    assert names(tmp_path) == [
        f".tmp-checkpoint-9.{parent}",
        ".tmp-notes",
        "checkpoint-4",
    ]


def test_what_another_host_or_container_writes_is_kept(tmp_path: Path) -> None:
    """Its process ids mean nothing here: not even ours is our own leftover."""
    commit(tmp_path, 3)
    (tmp_path / f".tmp-checkpoint-4.00000000-{dead_pid()}").mkdir()
    (tmp_path / f".tmp-checkpoint-4.00000000-{os.getpid()}").mkdir()
    (tmp_path / f".tmp-checkpoint-4.{os.getpid()}").mkdir()  # of an older version
    (tmp_path / ".tmp-results.json.00000000-1").write_bytes(b"1")
    (tmp_path / f".tmp-checkpoint-4.{files.place()}-{dead_pid()}").mkdir()
    before = names(tmp_path)
    assert newest_verified(tmp_path) == tmp_path / "checkpoint-3"
    assert names(tmp_path) == before  # looking changes nothing
    commit(tmp_path, 4)
    assert len(names(tmp_path)) == len(before)  # one more, and one less
    durable.clean_stale(tmp_path, alone=True)  # by the only process that saves folders
    left = [".tmp-results.json.00000000-1", "checkpoint-3", "checkpoint-4"]
    assert names(tmp_path) == left


def test_a_save_removes_files_that_killed_saves_left(tmp_path: Path) -> None:
    """It spares folders, live processes, other hosts, and threads of this process."""
    here, dead = files.place(), dead_pid()
    kept = [
        f".tmp-model.safetensors.{here}-{os.getpid()}",
        f".tmp-model.safetensors.{here}-{os.getppid()}",
        f".tmp-model.safetensors.00000000-{dead}",
        f".old-model.safetensors.{here}-{dead}",
        ".tmp-notes",
    ]
    for name in [*kept, f".tmp-model.safetensors.{here}-{dead}"]:
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / f".tmp-checkpoint-1.{here}-{dead}").mkdir()
    write_json(tmp_path / "estimator.json", {})
    left = [*kept, f".tmp-checkpoint-1.{here}-{dead}", "estimator.json"]
    assert names(tmp_path) == sorted(left)


def test_a_checkpoint_set_aside_comes_back(tmp_path: Path) -> None:
    """The process died between the two renames that replace a checkpoint."""
    final = commit(tmp_path, 4)
    final.rename(tmp_path / f".old-checkpoint-4.{files.place()}-{dead_pid()}")
    durable.clean_stale(tmp_path)
    assert newest_verified(tmp_path) == final


# --- every single fault ---------------------------------------------------------------

WRITING = ("open", "write", "fsync", "rename", "close", "mkdir")
READING = ("read", "lstat", "fstat", "listdir", "scandir", "statvfs")
FAULTS: list[tuple[str, int | str]] = [
    *((call, errno.ENOSPC) for call in WRITING),
    *((call, errno.EIO) for call in WRITING + READING),
    ("write", "short"),
    ("write", errno.EINTR),
    ("open", errno.EMFILE),
    ("open", errno.EACCES),
    ("rename", errno.EROFS),
]


class FaultyOs:
    """The module ``os``, except that the k-th call of one function fails."""

    def __init__(self, call: str, number: int, fault: int | str) -> None:
        self.call, self.number, self.fault = call, number, fault
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name != self.call:
            return real

        def faulty(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count != self.number:
                return real(*args, **kwargs)
            if name == "close":
                real(*args)  # Linux closes even when it reports an error
            if self.fault == "short":
                return real(args[0], bytes(args[1])[:1])
            raise OSError(self.fault, os.strerror(int(self.fault)))

        return faulty


@pytest.mark.parametrize("existing", [False, True], ids=["new", "replace"])
@pytest.mark.parametrize(("call", "fault"), FAULTS)
@pytest.mark.filterwarnings("ignore:.*is saved, but cannot remove old")
def test_every_single_fault_leaves_a_checkpoint_that_verifies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    fault: int | str,
    existing: bool,
) -> None:
    for step in (1, 2, 3):
        commit(tmp_path / "before", step)
    number = 0
    while True:
        number += 1
        parent = tmp_path / str(number)
        shutil.copytree(tmp_path / "before", parent)
        new = 3 if existing else 4
        broken = FaultyOs(call, number, fault)
        with monkeypatch.context() as patch:
            patch.setattr(folders, "os", broken)
            patch.setattr(files, "os", broken)
            error = None
            try:
                commit_directory(
                    parent / f"checkpoint-{new}",
                    writer(new + 10),
                    step=new + 10,
                    keep=2,
                    bytes_needed=1000,
                )
            except CheckpointError as caught:
                error = caught
        if error is not None:
            assert error.errno == fault or "differs" in str(error) or fault == "short"
        # The next process finds a complete checkpoint and no partial one.
        durable.clean_stale(parent)
        found = newest_verified(parent)
        assert found is not None
        step = verify_directory(found)["step"]
        assert step == new + 10 or (error is not None and step == 3)
        for path in durable.list_checkpoints(parent):
            verify_directory(path)
        commit(parent, 5)  # and saving may be tried again
        assert newest_verified(parent) == parent / "checkpoint-5"
        assert not [name for name in names(parent) if name.startswith(".")]
        if broken.count < number:
            break
    assert number > 1


def test_everything_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[tuple[str, str]] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fsync(self, fd: int) -> None:
            log.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
            os.fsync(fd)

        def rename(self, source: Path, target: Path) -> None:
            log.append(("rename", Path(target).name))
            os.rename(source, target)

    def plain(folder: Path) -> None:
        (folder / "a.bin").write_bytes(b"not synced by its writer")
        (folder / "b.bin").write_bytes(b"")

    monkeypatch.setattr(folders, "os", Recorder())
    monkeypatch.setattr(files, "os", Recorder())
    commit_directory(tmp_path / "checkpoint-1", plain, step=1)
    temporary = f".tmp-checkpoint-1.{files.place()}-{os.getpid()}"
    assert log == [
        ("fsync", "a.bin"),
        ("fsync", "b.bin"),
        ("fsync", "manifest.json"),
        ("fsync", temporary),
        ("rename", "checkpoint-1"),
        ("fsync", tmp_path.name),
    ]


@pytest.mark.parametrize("delay", range(8))
def test_sigkill_at_any_moment(tmp_path: Path, delay: int) -> None:
    """A process that saves continuously is killed; its files remain usable."""
    program = f"""
        import sys
        sys.path.insert(0, {str(SRC)!r})
        from evolving_attention.durable import commit_directory, write_bytes
        step = 0
        while True:
            step += 1
            commit_directory(
                {str(tmp_path)!r} + f"/checkpoint-{{step % 5}}",
                lambda folder: [
                    write_bytes(folder / f"{{n}}.bin", bytes([step % 251]) * 5000)
                    for n in range(3)
                ],
                step=step,
                keep=3,
            )
            if step == 3:
                print("ready", flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.003 * delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    durable.clean_stale(tmp_path)
    found = newest_verified(tmp_path)
    assert found is not None
    for path in durable.list_checkpoints(tmp_path):
        manifest = verify_directory(path)
        value = manifest["step"] % 251
        assert (path / "2.bin").read_bytes() == bytes([value]) * 5000
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_classes_become_texts_in_json() -> None:
    found = durable.plain({"dtype": np.float32, "kinds": [np.ndarray]})
    assert found == {
        "dtype": "<class 'numpy.float32'>",
        "kinds": ["<class 'numpy.ndarray'>"],
    }


def test_the_manifest_is_plain_json(tmp_path: Path) -> None:
    manifest = json.loads((commit(tmp_path, 3) / "manifest.json").read_text())
    assert set(manifest) == {"format", "step", "files"}
    assert set(manifest["files"]["model.safetensors"]) == {"bytes", "blake2b"}
