"""Starts the processes of a distributed run, by mpirun or as torchrun would."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
PROGRAM = TESTS / "distributed_run.py"
LAUNCHER_NAMES = (
    "OMPI_",
    "PMI",
    "PRTE_",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_",
)


def mpirun() -> str | None:
    """Returns the mpirun next to this Python (the wheel's), or the system's."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


needs_mpi = pytest.mark.skipif(
    mpirun() is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpirun and mpi4py: pip install '.[distributed]'",
)


def environment(**more: str) -> dict[str, str]:
    """Returns this process's variables, without those of a launcher."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_NAMES)}
    paths = [str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    if importlib.util.find_spec("evolving_attention._core") is not None:
        import evolving_attention

        paths[0] = str(Path(evolving_attention.__file__).parents[1])
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *paths]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **more,
    }


def free_port() -> int:
    """Returns a port on which nobody listens now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Ended:
    """Exit codes, output and folder of a finished run."""

    def __init__(self, codes: list[int], text: str, folder: Path) -> None:
        self.codes, self.text, self.folder = codes, text, folder

    def results(self, job: int = 0) -> list[dict[str, Any]]:
        """Returns what the ranks wrote about a job, by rank."""
        files = sorted(self.folder.glob(f"result-{job}-*.json"))
        return [json.loads(file.read_text()) for file in files]


def by_mpi(count: int, *words: str, timeout: float = 90) -> tuple[int, str]:
    """Runs ``mpirun -n COUNT python WORDS``; returns (exit code, output)."""
    command = [str(mpirun()), "--oversubscribe", "-n", str(count), sys.executable]
    done = subprocess.run(
        [*command, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout


def by_ranks(
    count: int,
    *words: str,
    timeout: float = 90,
    variables: Callable[[int], dict[str, str]] = lambda rank: {},
) -> tuple[list[int], str]:
    """Runs the same with torchrun's variables, and others by rank.

    Returns:
        the exit codes by rank, and the output.
    """
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, *words],
            env=environment(
                RANK=str(rank),
                WORLD_SIZE=str(count),
                LOCAL_RANK=str(rank),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                **variables(rank),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        texts = [process.communicate(timeout=timeout)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], "\n".join(texts)


def run(
    folder: Path,
    how: str,
    count: int,
    *jobs: dict[str, Any],
    timeout: float = 90,
    variables: Callable[[int], dict[str, str]] = lambda rank: {},
) -> Ended:
    """Runs the jobs of tests/distributed_run.py in ``count`` processes."""
    words = [str(PROGRAM), str(folder), *map(json.dumps, jobs)]
    folder.mkdir(parents=True, exist_ok=True)
    if how == "mpi":
        code, text = by_mpi(count, *words, timeout=timeout)
        return Ended([code], text, folder)
    codes, text = by_ranks(count, *words, timeout=timeout, variables=variables)
    return Ended(codes, text, folder)


def alone(folder: Path, *jobs: dict[str, Any], timeout: float = 90) -> Ended:
    """Runs the same jobs in one process."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *map(json.dumps, jobs)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return Ended([done.returncode], done.stdout, folder)


def python(text: str, **variables: str) -> str:
    """Returns the output of a program."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
