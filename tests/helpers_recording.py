"""Work recorded on the second emulated GPU, and what must hold after any of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core

ops = _core.ops
D = "cuda:1"  # not the one that a thread begins with
GRANULE = 256
Work = Callable[[], None]


def skip_unless_emulated() -> None:
    """Leaves out a module where no GPU is emulated."""
    if not any("emulated GPU" in what for what in ea.devices().values()):
        pytest.skip(
            "no emulated GPU in this build (tools/run_cuda_host.sh makes one)",
            allow_module_level=True,
        )


def on(value: Any, **options: Any) -> Any:
    return ea.Tensor(np.asarray(value, np.float32), device=D, **options)


def host(tensor: Any) -> np.ndarray:
    return np.array(tensor.to("cpu").numpy())


def needed(work: Work) -> int:
    graph = _core.StepGraph(D)
    graph.measure()
    work()
    return graph.measured()


def record(work: Work, size: int | None = None) -> Any:
    size = needed(work) if size is None else size
    graph = _core.StepGraph(D)
    graph.record(size)
    work()
    graph.recorded()
    return graph


def usable() -> None:
    """The device does what it is asked, and records."""
    x, y = on([1, 2, 3]), on([0, 0, 0])
    graph = record(lambda: y.copy_(ops.add(x, x)))
    assert host(ops.mul(x, x)).tolist() == [1, 4, 9]
    graph.start()
    assert host(y).tolist() == [2, 4, 6]


@contextmanager
def nothing_lost() -> Iterator[None]:
    """All memory is given back, whatever went wrong, and the device is usable."""
    before = _core.current_memory(D)
    yield
    gc.collect()  # tracebacks hold tensors
    assert _core.current_memory(D) == before
    usable()
    assert _core.current_memory(D) == before
