"""A lock keeps other processes out of a folder until its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from evolving_attention import durable

SRC = Path(durable.__file__).resolve().parents[2]


def is_free(folder: Path) -> bool:
    """Whether another process can lock the folder."""
    program = f"""
        import sys
        sys.path.insert(0, {str(SRC)!r})
        from evolving_attention.durable import locked
        with locked({str(folder)!r}, SystemExit(3)) as held:
            assert held
    """
    code = subprocess.run([sys.executable, "-c", textwrap.dedent(program)]).returncode
    assert code in (0, 3)
    return code == 0


def test_a_lock_keeps_others_out_until_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with durable.locked(folder, KeyError()) as held:
        assert held
        assert not is_free(folder)
        with pytest.raises(LookupError), durable.locked(folder, LookupError()):
            pass
        assert not is_free(folder)
    assert not folder.exists()
    assert is_free(folder)


def test_a_lock_ends_with_its_process_but_not_with_forks_of_it(tmp_path: Path) -> None:
    program = f"""
        import os, sys, time
        sys.path.insert(0, {str(SRC)!r})
        from evolving_attention.durable import locked
        with locked({str(tmp_path)!r}, SystemExit(3)):
            ended = os.fork()
            if not ended:
                sys.exit()  # ends its copy of the block
            os.waitpid(ended, 0)
            if os.fork():
                print("ready", flush=True)
            time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert os.listdir(tmp_path) == [".lock"]
        assert not is_free(tmp_path)
        process.kill()
        process.wait()
        assert is_free(tmp_path)  # although the forked process goes on
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
    assert os.listdir(tmp_path) == []
