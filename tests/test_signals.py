"""Signals during products: handlers always find the stack pointer on the stack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds support/signal_storm.c as a shared library."""
    if not COMPILER:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("storm") / "signal_storm.so"
    source = TESTS / "support" / "signal_storm.c"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", built, source, "-lrt"], check=True
    )
    return built


def storm(library: Path, *options: str, **environment: str) -> dict[str, list[int]]:
    """Returns per case of signal_storm.py its signals [on the stack, elsewhere]."""
    done = subprocess.run(
        [sys.executable, TESTS / "signal_storm.py", library, *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found: dict[str, list[int]]) -> None:
    assert {case: counts for case, counts in found.items() if counts[1]} == {}
    assert sum(on for on, _ in found.values()) > 2000
    threads = {case.split()[0] for case, (on, _) in found.items() if on > 3}
    assert threads == {"main", "other"}


@pytest.mark.parametrize("threads", ["1", "2"])
def test_handlers_without_an_alternate_stack(library: Path, threads: str) -> None:
    """Widths 128 and 384, both types, training and inference, main and other thread."""
    check(storm(library, "--seconds", "0.03", EA_NUM_THREADS=threads))


@pytest.mark.parity
def test_handlers_beside_pytorch(library: Path) -> None:
    pytest.importorskip("torch", reason="no torch")
    check(storm(library, "--seconds", "0.03", "--torch"))


def test_workers_leave_signals_to_other_threads() -> None:
    """Pool threads block asynchronous signals; the caller's mask is restored."""
    program = """
import threading, numpy as np, pathlib, signal
import evolving_attention as ea
ea.set_num_threads(3)
before = {p.name for p in pathlib.Path("/proc/self/task").iterdir()}
x = ea.Tensor(np.ones((700, 700), "f4"))
x @ x
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
workers = [
    p for p in pathlib.Path("/proc/self/task").iterdir() if p.name not in before
]
assert len(workers) == 2, workers
for worker in workers:
    lines = (worker / "status").read_text().splitlines()
    blocked = int(next(x for x in lines if x.startswith("SigBlk")).split()[1], 16)
    for number in range(1, 65):
        waits = number not in (
            signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE,
            signal.SIGTRAP, signal.SIGSYS, signal.SIGKILL, signal.SIGSTOP,
        )
        assert bool(blocked >> (number - 1) & 1) == waits, number
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
