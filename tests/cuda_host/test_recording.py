"""Work of a device that is written down once and started again, on an emulated CUDA.

There a graph keeps its calls with copies of all that the host gave them, and starts as
late as CUDA may; what a capture refuses spoils it. Memory that was given back is NaN.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
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
)

import evolving_attention as ea
from evolving_attention import _core, optim

skip_unless_emulated()


@pytest.fixture(autouse=True)
def nothing_is_lost() -> Iterator[None]:
    with nothing_lost():
        yield


class Chain:
    """Products, sums and norms of x, with results in y and z."""

    def __init__(self, rows: int = 9, width: int = 16):
        rng = np.random.default_rng(0)
        self.shape = rows, width
        self.w = on(rng.normal(size=(width, width)))
        self.gamma, self.beta = on(rng.normal(size=width)), on(rng.normal(size=width))
        self.x, self.y, self.z = (on(np.full(self.shape, 7)) for _ in range(3))

    def results(self, x: Any) -> tuple[Any, Any]:
        first = ops.gelu(ops.matmul(x, self.w))
        y = ops.layer_norm(first, self.gamma, self.beta, 1e-12, x)
        return y, ops.softmax(ops.add(first, y))

    def __call__(self) -> None:
        y, z = self.results(self.x)
        self.y.copy_(y)
        self.z.copy_(z)


# --- what a start does ----------------------------------------------------------------


def test_a_chain_started_again_has_the_bits_of_doing_it_anew():
    chain, rng = Chain(), np.random.default_rng(1)
    graph = record(chain)
    for _ in range(3):
        x = on(rng.normal(size=chain.shape))
        chain.x.copy_(x)
        graph.start()
        for got, expected in zip((chain.y, chain.z), chain.results(x), strict=True):
            assert np.array_equal(host(got), host(expected))


def test_nothing_is_done_while_recording():
    chain = Chain()
    size = needed(chain)
    chain.y.copy_(on(np.full(chain.shape, 7)))
    calls = dict((k, n) for k, _, n in _core.kernel_entries("cuda"))["matmul"]
    graph = record(chain, size)
    assert dict((k, n) for k, _, n in _core.kernel_entries("cuda"))["matmul"] > calls
    assert (host(chain.y) == 7).all()
    graph.start()
    assert (host(chain.y) != 7).any()


def test_started_twice_in_a_row_it_is_done_twice():
    x, y = on([1, 2]), on([10, 20])
    graph = record(lambda: y.copy_(ops.add(y, x)), 2 * GRANULE)
    graph.start()
    graph.start()
    y.copy_(ops.add(y, y))  # in order with other work
    graph.start()
    assert host(y).tolist() == [25, 50]


def test_a_backward_pass_is_recorded():
    def loss(x: Any, w: Any) -> Any:
        return ops.sum(ops.tanh(ops.matmul(x, w)))

    rng = np.random.default_rng(0)
    w, x = on(rng.normal(size=(4, 3)), requires_grad=True), on(np.zeros((5, 4)))
    slot = on(np.zeros((4, 3)))

    def work() -> None:
        loss(x, w).backward()
        slot.copy_(w.grad)
        w.grad = None

    graph = record(work)
    for _ in range(2):
        values = rng.normal(size=(5, 4))
        x.copy_(on(values))
        graph.start()
        loss(on(values), w).backward()
        assert np.array_equal(host(slot), host(w.grad))
        w.grad = None


class Training:
    """Steps of a small net with dropout; what differs between them is on the device."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        _core.set_rng_state((7, 0))
        self.w = [on(rng.normal(size=s), requires_grad=True) for s in ((8, 6), (6, 5))]
        self.gamma, self.beta = on(np.ones(5)), on(np.zeros(5))
        self.x, self.log = on(np.zeros((9, 8))), _core.StepLog()
        self.shift = ea.Tensor(np.array([0]), device=D)
        self.optimizer = optim.AdamW(self.w, lr=0.1, weight_decay=0.1)

    def prepare(self, step: int, shift: int = 0) -> None:
        rng = np.random.default_rng(step)
        self.x.copy_(on(rng.normal(size=(9, 8))))
        self.shift.copy_(ea.Tensor(np.array([shift])))
        self.optimizer.param_groups[0]["lr"] = 0.1 / step
        self.optimizer.prepare_numbers()

    def __call__(self) -> None:
        with _core.RandomShift(self.shift):
            hidden = ops.dropout(ops.gelu(ops.matmul(self.x, self.w[0])), 0.3, True)
            y = ops.layer_norm(ops.matmul(hidden, self.w[1]), self.gamma, self.beta)
            loss = ops.mean(ops.mul(y, ops.sigmoid(y)))
            loss.backward()
        self.log.add_loss(loss, 1.0)
        scale = self.log.finish(self.w, 0.05, keep=False)
        self.optimizer.step(scale=scale, prepared=True)
        for w in self.w:
            w.grad = None

    def results(self) -> list[Any]:
        state = self.optimizer.state_dict()
        kept = [state[name] for name in state if name.startswith("exp_avg")]
        return [self.log.look(), state["step"], *(host(t).tolist() for t in kept)] + [
            host(w).tolist() for w in self.w
        ]


def test_whole_training_steps_have_the_bits_of_doing_them_anew():
    plain = Training()
    for step in range(1, 6):
        plain.prepare(step)
        plain()
        plain.log.keep()
    expected = plain.results()
    recorded = Training()
    recorded.prepare(1)
    recorded()  # makes what later steps find: moments, the rows of the log
    recorded.log.keep()
    recorded.prepare(2)
    size = needed(recorded)
    recorded.log.keep()
    recorded.prepare(3)
    graph = record(recorded, size)
    graph.start()
    recorded.log.keep()
    for step in range(4, 6):
        recorded.prepare(step, shift=step - 3)
        graph.start()
        recorded.optimizer.count_step()
        recorded.log.keep()
    assert recorded.results() == expected


def test_what_the_host_gave_is_kept_as_it_was():
    x, y = on(np.arange(13)), on(np.zeros(13))
    packings = [_core.Packing(1, [0, 2, 5])]
    expected = host(ops.map_softmax(x, packings[0], 0.5))
    graph = record(lambda: y.copy_(ops.map_softmax(x, packings[0], 0.5)))
    packings.clear()
    others = [_core.Packing(1, [0, 1, 4 + i % 2]) for i in range(50)]
    graph.start()
    assert np.array_equal(host(y), expected)
    del others


def test_recordings_that_alternate_share_memory():
    small, large = Chain(3, 8), Chain(20, 32)
    before = _core.current_memory(D)
    second = record(large)
    first = record(small)
    assert first.bytes < second.bytes == _core.current_memory(D) - before
    for value in (0.5, 1.5):
        for chain in (small, large):
            chain.x.copy_(on(np.full(chain.shape, value)))
        for graph in (first, second, first):
            graph.start()
        for chain in (small, large):
            y, z = chain.results(chain.x)
            assert np.array_equal(host(chain.y), host(y))
            assert np.array_equal(host(chain.z), host(z))
    del second, graph
    assert _core.current_memory(D) - before > first.bytes  # of the large one still
    third = record(small)
    del first
    third.start()
    y, _ = small.results(small.x)
    assert np.array_equal(host(small.y), host(y))


def test_what_needs_more_gets_memory_of_its_own():
    small, large = Chain(3, 8), Chain(20, 32)
    before = _core.current_memory(D)
    first = record(small)
    second = record(large)
    assert _core.current_memory(D) - before == first.bytes + second.bytes
    first.start()
    second.start()
    for chain in (small, large):
        assert np.array_equal(host(chain.y), host(chain.results(chain.x)[0]))


def test_it_may_be_let_go_of_while_it_is_to_run():
    chain = Chain()
    graph = record(chain)
    graph.start()
    del graph
    others = [on(np.zeros(chain.shape)) for _ in range(20)]  # where its memory was
    assert np.array_equal(host(chain.y), host(chain.results(chain.x)[0]))
    del others


def test_other_threads_work_on_meanwhile():
    x, y = on([1, 2]), on([0, 0])
    got: list[Any] = []

    def other() -> None:
        got.append(host(ops.add(on([5, 6]), x)).tolist())
        kept.append(on([3, 4]))
        for call in (_core.StepGraph(D).measure, lambda: _core.StepGraph(D).record(0)):
            with pytest.raises(ea.DeviceError, match=r"another thread measures or rec"):
                call()
        got.append("done")

    kept: list[Any] = []
    graph = _core.StepGraph(D)
    graph.record(GRANULE)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    y.copy_(ops.add(x, x))
    graph.recorded()
    assert got == [[6, 8], "done"]
    graph.start()
    assert host(y).tolist() == [2, 4]
    assert host(kept[0]).tolist() == [3, 4]


def test_two_devices_record_in_one_thread():
    made = {}
    for device in ("cuda:0", "cuda:1"):
        x = ea.Tensor(np.array([1, 2], np.float32), device=device)
        y = ea.Tensor(np.zeros(2, np.float32), device=device)
        made[device] = x, y, _core.StepGraph(device)
    for _, _, graph in made.values():
        graph.record(GRANULE)
    for x, y, _ in made.values():
        y.copy_(ops.add(x, x))
    for _, y, graph in made.values():
        graph.recorded()
        graph.start()
        assert host(y).tolist() == [2, 4]


def test_memory_is_measured_exactly():
    chain = Chain()
    size = needed(chain)
    assert size % GRANULE == 0
    assert needed(chain) == size  # nothing is left of measuring
    with pytest.raises(ea.DeviceError, match=r"needs more memory than the recording"):
        record(chain, size - GRANULE)
    graph = record(chain, size)
    assert graph.bytes == size
    before = _core.current_memory(D)
    del graph
    assert before - _core.current_memory(D) == size
