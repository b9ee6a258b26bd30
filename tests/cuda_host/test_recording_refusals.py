"""The memory of recorded work, and what cannot be recorded, on an emulated CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_recording import (
    GRANULE,
    D,
    host,
    needed,
    nothing_lost,
    on,
    ops,
    record,
    skip_unless_emulated,
    usable,
)

import evolving_attention as ea
from evolving_attention import _core

skip_unless_emulated()


@pytest.fixture(autouse=True)
def nothing_is_lost() -> Iterator[None]:
    with nothing_lost():
        yield


# --- memory ---------------------------------------------------------------------------


def test_measuring_does_the_work():
    x, y = on([1, 2]), on([0, 0])
    assert needed(lambda: y.copy_(ops.add(x, x))) == GRANULE
    assert host(y).tolist() == [2, 4]
    assert needed(lambda: y.copy_(x)) == 0
    graph = record(lambda: y.copy_(x), 0)
    x.copy_(on([8, 9]))
    graph.start()
    assert host(y).tolist() == [8, 9]


def test_a_lack_of_memory_that_was_passed_over_is_told_at_the_end():
    x = on(np.zeros(100))
    graph = _core.StepGraph(D)
    graph.record(GRANULE)
    with pytest.raises(ea.DeviceError, match="needs more memory"):
        ops.add(x, x)
    with pytest.raises(ea.DeviceError, match="needs more memory"):
        graph.recorded()


def test_memory_of_before_is_freed_afterwards():
    before = _core.current_memory(D)
    x, y = on([1, 2]), on([0, 0])
    gone = on(np.zeros(1000))
    with_gone = _core.current_memory(D)
    graph = _core.StepGraph(D)
    graph.record(GRANULE)
    y.copy_(ops.add(x, x))
    del gone
    assert _core.current_memory(D) == with_gone + GRANULE
    graph.recorded()
    assert _core.current_memory(D) == with_gone + GRANULE - 4096
    graph.start()
    assert host(y).tolist() == [2, 4]
    del graph, x, y
    assert _core.current_memory(D) == before


def test_a_recording_let_go_of_while_another_is_made():
    x, y = on([1, 2]), on([0, 0])
    old = record(lambda: y.copy_(ops.add(x, x)))
    old.start()
    graph = _core.StepGraph(D)
    graph.record(4 * GRANULE)
    del old
    y.copy_(ops.mul(y, y))
    graph.recorded()
    graph.start()
    assert host(y).tolist() == [4, 16]


def test_what_is_still_held_is_refused():
    x, y = on([1, 2]), on([0, 0])
    graph = _core.StepGraph(D)
    graph.record(4 * GRANULE)
    kept = [ops.add(x, x), ops.mul(x, x)]
    with pytest.raises(
        ea.DeviceError,
        match=r"cuda:1: 2 blocks of the recording's memory, 512 bytes, are still held",
    ):
        graph.recorded()
    assert graph.bytes == 0
    usable()  # beside what is held
    other = record(lambda: y.copy_(ops.add(x, x)))
    del kept
    other.start()
    assert host(y).tolist() == [2, 4]


# --- what cannot be recorded ----------------------------------------------------------

FORBIDDEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "item": ("reads a tensor on the host", lambda x: x.item()),
    "to the host": ("reads a tensor on the host", lambda x: x.to("cpu")),
    "upload": ("reads the host's memory", lambda x: x.copy_(ea.Tensor([1.0]))),
    "wait": ("waits for the device", lambda x: _core.synchronize(D)),
    "to another": ("copies between devices", lambda x: x.to("cuda:0")),
    "lend": ("another library", lambda x: x.__dlpack__(stream=1)),
    "take": ("another library", lambda x: ea.from_dlpack(x)),
    "give back": ("gives memory back", lambda x: _core.release_cached_memory(D)),
}


@pytest.mark.parametrize("call", FORBIDDEN)
def test_what_cannot_be_recorded_is_refused(call: str):
    text, forbidden = FORBIDDEN[call]
    x, y = on([3]), on([0])
    other = ea.Tensor([1.0], device="cuda:0")
    graph = _core.StepGraph(D)
    graph.record(4 * GRANULE)
    with pytest.raises(ea.DeviceError, match=rf"\[record\] cuda:1: the work .*{text}"):
        forbidden(x)
    assert other.item() == 1  # of other devices, all may be asked
    y.copy_(ops.add(x, x))
    with pytest.raises(ea.DeviceError, match=text):
        graph.recorded()
    assert host(y).tolist() == [0]
    forbidden(x)  # and afterwards here too


def test_a_copy_from_another_device_is_refused():
    x, other = on([3]), ea.Tensor([1.0], device="cuda:0")
    graph = _core.StepGraph(D)
    graph.record(4 * GRANULE)
    with pytest.raises(ea.DeviceError, match="copies between devices"):
        x.copy_(other)
    graph.cancel()
    x.copy_(other)
    assert x.item() == 1


def test_recorded_work_is_not_part_of_recorded_work():
    x, y = on([1, 2]), on([0, 0])
    inner = record(lambda: y.copy_(ops.add(x, x)))
    outer = _core.StepGraph(D)
    outer.record(GRANULE)
    with pytest.raises(ea.DeviceError, match="starts recorded work"):
        inner.start()
    outer.cancel()
    inner.start()
    assert host(y).tolist() == [2, 4]


def test_lent_memory_is_let_go_of_after_the_recording():
    x, y = on([1, 2]), on([0, 0])
    capsule = ops.add(x, x).__dlpack__(stream=1)
    taken = ea.from_dlpack(ops.add(x, x))
    waits = _core.host_waits()
    graph = _core.StepGraph(D)
    graph.record(GRANULE)
    y.copy_(ops.add(x, x))
    del capsule, taken
    assert _core.host_waits() == waits
    graph.recorded()
    assert _core.host_waits() == waits + 1
    graph.start()
    assert host(y).tolist() == [2, 4]


RANK = """
import evolving_attention as ea
from evolving_attention import _core
ranks = _core.Communicator("cuda", 1, 0, _core.communicator_id("cuda"))
graph = _core.StepGraph("cuda")
graph.record(0)
try:
    ranks.join()
except ea.DeviceError as error:
    print(error)
graph.cancel()
ranks.join()
"""


def test_an_exchange_between_ranks_is_refused():
    library = Path(_core.__file__).parent / "ea_cuda_host_nccl.so"
    done = subprocess.run(
        [sys.executable, "-c", RANK],
        env={**os.environ, "EA_NCCL": str(library)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "the work exchanges memory with other ranks" in done.stdout


def test_a_driver_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch):
    x, y = on([1, 2]), on([0, 0])
    monkeypatch.setenv("EA_EMULATED_CUDA", "no_graphs")
    with pytest.raises(
        ea.DeviceError, match=r"operation not supported \(cudaErrorNotSupported\)"
    ):
        record(lambda: y.copy_(ops.add(x, x)))
    monkeypatch.delenv("EA_EMULATED_CUDA")


# --- the order of calls ---------------------------------------------------------------


@pytest.mark.parametrize("begin", ["measure", "record"])
def test_an_exception_half_way_leaves_all_usable(begin: str):
    x, y = on([1, 2]), on([0, 0])
    graph = _core.StepGraph(D)

    def work() -> None:
        half = ops.add(x, x)
        ops.matmul(half, y)

    graph.measure() if begin == "measure" else graph.record(8 * GRANULE)
    with pytest.raises(ea.ShapeError):
        work()
    graph.cancel()
    graph.cancel()
    usable()
    assert host(y).tolist() == [0, 0]
    graph.record(GRANULE)  # the same one once more
    y.copy_(ops.add(x, x))
    graph.recorded()
    graph.start()
    assert host(y).tolist() == [2, 4]


def test_a_recording_that_nobody_holds_is_ended():
    x = on([1, 2])
    graph = _core.StepGraph(D)
    graph.record(GRANULE)
    ops.add(x, x)
    del graph
    assert host(x).tolist() == [1, 2]


def test_calls_come_in_their_order():
    graph, other = _core.StepGraph(D), _core.StepGraph(D)
    for early in (graph.start, graph.measured, graph.recorded):
        with pytest.raises(ea.ConfigError):
            early()
    for bad in (-1, 2.5):
        with pytest.raises(ea.ConfigError, match=r"StepGraph.record: bytes"):
            graph.record(bad)
    graph.measure()
    for wrong in (graph.recorded, other.measured):
        with pytest.raises(ea.ConfigError):
            wrong()
    for wrong in (graph.measure, other.measure, lambda: other.record(GRANULE)):
        with pytest.raises(ea.DeviceError, match=r"this thread measures or records"):
            wrong()
    assert graph.measured() == 0
    graph.record(0)
    for wrong in (graph.start, graph.measured, other.recorded):
        with pytest.raises(ea.ConfigError):
            wrong()
    graph.recorded()
    graph.start()
    assert (graph.device, graph.bytes) == (D, 0)
    with pytest.raises(ea.BackendUnavailable):
        _core.StepGraph("cuda:7")
