"""A CUDA device: its memory, and copies to, on and from it.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host
(tools/run_cuda_host.sh). The emulation runs the same sources on the CPU: asynchronous
copies happen as late as allowed, device memory faults when the host touches it, and
every kernel runs between guard pages, in two orders that must give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_gpu import last_cuda_device

import evolving_attention as ea
from evolving_attention import _core

FIRST, LAST = "cuda:0", last_cuda_device()


def on(device: str, value: Any, **options: Any) -> ea.Tensor:
    return ea.Tensor(value, device=device, **options)


def host(tensor: Any) -> np.ndarray:
    return np.array(tensor.to("cpu").numpy())


# --- memory and copies ----------------------------------------------------------------


def test_memory_is_counted_limited_and_given_back():
    device = LAST
    before = _core.current_memory(device)
    _core.reset_peak_memory(device)
    t = on(device, np.zeros(1000, np.float32))
    assert _core.current_memory(device) - before == 4096
    del t
    assert _core.current_memory(device) == before
    assert _core.peak_memory(device) == before + 4096
    _core.set_memory_limit(before + 4096, device)
    try:
        kept = on(device, np.zeros(1000, np.float32))
        with pytest.raises(
            ea.OutOfMemory, match=r"256 bytes on cuda:\d: beyond the lim"
        ):
            on(device, [1.0])
        assert host(kept).sum() == 0
    finally:
        _core.set_memory_limit(0, device)


def test_uploads_need_nothing_of_the_host_afterwards():
    rng = np.random.default_rng(0)
    source = np.empty(0, np.float32)
    kept = []
    for size in [5, 1 << 18, 3 << 20, 1, (1 << 18) + 1, *[70_000] * 60]:  # 36 MiB
        source = rng.standard_normal(size).astype(np.float32)
        kept.append((on("cuda", source), source.copy()))
        source[:] = np.nan
    for tensor, values in kept:
        assert np.array_equal(host(tensor), values)


@pytest.mark.skipif(FIRST == LAST, reason="one GPU alone")
def test_copies_between_devices_come_after_what_they_copy():
    values = np.arange(1 << 16, dtype=np.float32)
    a = on(FIRST, values)
    b = (a + a).to(LAST)
    del a
    c = b.to(FIRST)
    b.copy_(on(LAST, np.zeros_like(values)))
    assert np.array_equal(host(c), 2 * values)
    assert host(b).sum() == 0


class Lent:
    """A tensor of another library that records the options of each request."""

    def __init__(self, tensor: ea.Tensor) -> None:
        self.tensor, self.asked = tensor, []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_tensors_are_lent_in_the_order_of_the_queues():
    values = np.arange(5, dtype=np.float32)
    t = on(LAST, values)
    lent = Lent(t + t)
    taken = ea.from_dlpack(lent)
    (options,) = lent.asked
    assert options["stream"] > 2  # our stream of cuda:1, not a default one
    del lent
    assert taken.device == LAST
    assert np.array_equal(host(taken + t), 3 * values)
    waits = _core.host_waits()
    del taken  # the owner may reuse the memory at once
    assert _core.host_waits() == waits + 1
    for stream in (None, 1, 2, -1, options["stream"]):
        capsule = t.__dlpack__(stream=stream)
        del capsule
    assert _core.host_waits() == waits + 1
    assert np.array_equal(host(t), values)


def test_torch_shares_memory_both_ways():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    t = on(FIRST, np.arange(1 << 20, dtype=np.float32))
    for _ in range(20):  # long enough to expose a missing wait
        t = t + t
        theirs = torch.from_dlpack(t) * 2
        ours = ea.from_dlpack(theirs) * 0.25
        t = ours + 0.0
        del theirs, ours
    assert np.array_equal(host(t), np.arange(1 << 20, dtype=np.float32))
    held = torch.from_dlpack(t)
    held.fill_(7)
    torch.cuda.synchronize()
    assert (host(t) == 7).all()


DTYPES = ("float32", "bfloat16", "float64", "int64", "int32", "uint8")


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_copied_and_converted(dtype: str):
    values = np.arange(2 * 3 * 5).reshape(2, 3, 5) * 1.5
    t = ea.Tensor(values, dtype=dtype)
    there = t.to("cuda")
    assert np.array_equal(host(there.transpose(0, 2)), host(t.transpose(0, 2)))
    assert np.array_equal(host(there[1:2]), host(t[1:2]))
    for other in DTYPES:
        converted = there.to(other)
        assert (converted.device, converted.dtype) == (FIRST, other)
        assert np.array_equal(host(converted), host(t.to(other)))


def test_float64_is_not_computed():
    t = on("cuda", [1.0], dtype="float64")
    with pytest.raises(ea.KernelNotFound, match=r"none takes these.* cuda:0"):
        t + t
