"""The host emulation of CUDA reports faulty kernels and runs correct ones.

Each toy of wrong_kernels.cu runs as two blocks of 64 threads on vectors between guard
pages. tests/kernels/test_agreement.py checks that the emulated kernels, which it finds
in the registry, compute the same as ``ref``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evolving_attention import _core

CHECKS = Path(_core.__file__).parent / "ea_cuda_host_checks.so"

pytestmark = pytest.mark.skipif(
    not CHECKS.exists(),
    reason="no host emulation in this build (tools/run_cuda_host.sh makes one)",
)

Toy = Callable[[str, np.ndarray, int], tuple[str, np.ndarray]]


@pytest.fixture(scope="module")
def toy() -> Toy:
    """Runs a toy on x; returns the error found, and the result of ``size`` elements."""
    run = ctypes.CDLL(str(CHECKS)).ea_run_toy
    run.restype = ctypes.c_char_p
    array = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
    run.argtypes = [ctypes.c_char_p, array, ctypes.c_int64, array, ctypes.c_int64]

    def call(name: str, x: np.ndarray, size: int) -> tuple[str, np.ndarray]:
        y = np.zeros(size, np.float32)
        x = np.ascontiguousarray(x, np.float32)
        return run(name.encode(), x, x.size, y, y.size).decode(), y

    return call


# toy: text that the report must contain
WRONG = {
    "leaves_before_barrier": "thread (39, 0, 0): waits at a barrier for 24 threads",
    "divergent_shuffle": "divergent shuffle: it waits for lane 8, which has returned",
    "shuffle_against_barrier": "waits for lane 1, which is at a barrier",
    "outside_mask": "a shuffle reads a lane outside mask",
    "reads_behind": "thread (39, 0, 0): may not touch byte 160 of tensor 1 (160 bytes)",
    "reads_before": "element 0 of tensor 2 was not written, or computed from",
    "writes_behind": "may not touch byte 160 of tensor 2 (160 bytes)",
    "writes_before": "writes next to tensor 2 (160 bytes)",
    "writes_input": "may not touch byte 0 of tensor 1",
    "leaves_one_out": "element 5 of tensor 2 was not written",
    "unwritten_shared": "element 3 of tensor 2 was not written, or computed from",
    "outside_shared": "thread (63, 0, 0): may not touch byte 256 of dynamic shared",
    "missing_barrier": "depends on the order of threads or blocks",
    "blocks_in_order": "depends on the order of threads or blocks",
    "misaligned": "undefined behaviour: a misaligned access",
    "outside_array": "thread (4, 0, 0): undefined behaviour",
    "unaligned_tile": "a row of a tile does not begin on 16 bytes",
    "host_reads_device": "[toy on cuda_host] may not touch byte 0 of tensor 1",
    "kernel_after_free": "may not touch byte 0 of scratch",
    "block_of_33": "a block of 33 threads",
}


@pytest.mark.parametrize("name", WRONG)
def test_finds(toy: Toy, name: str):
    found, y = toy(name, np.linspace(-1, 1, 40), 40)
    assert WRONG[name] in found
    assert not y.any(), "the caller's memory was touched"
    # The emulation still works after the error.
    assert toy("copy", np.ones(7), 7)[0] == ""


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 128])
def test_copies(toy: Toy, size: int):
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    found, y = toy("copy", x, size)
    assert found == ""
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("size", [1, 31, 33, 64])
def test_block_sum_and_maximum(toy: Toy, size: int):
    x = np.random.default_rng(size).integers(-9, 9, size).astype(np.float32)
    found, y = toy("block_sum", x, size)
    assert found == ""
    np.testing.assert_array_equal(y, np.resize([x.sum(), x.max()], size))


def test_half_warps_go_on(toy: Toy):
    x = np.arange(1, 65, dtype=np.float32)
    found, y = toy("half_warps", x, 64)
    assert found == ""
    lane = np.arange(64) % 32
    shifted = np.where(lane < 15, x + 1, x) + 1  # the vote of lane 0 is 1
    np.testing.assert_array_equal(y, np.where(lane < 16, shifted, x))


def test_tile_product(toy: Toy):
    """Uses whole numbers: exact in bfloat16 and in any order of summation."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 9, (16, 16)), rng.integers(-9, 9, (16, 8))
    found, y = toy("tile_product", np.concatenate([a.ravel(), b.ravel()]), 256)
    assert found == ""
    np.testing.assert_array_equal(y.reshape(2, 16, 8), [a @ b, a @ b])
