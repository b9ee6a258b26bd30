"""Products at the borders of oneDNN's tiles and depth blocks, for any threads."""

from __future__ import annotations

import ctypes
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from support.cases import round_to
from support.processor import float32_and_pairs, needs_bfloat16, needs_pairs

from evolving_attention import _core

# (tokens, outputs, inputs): one tile; a last tile with padded rows; a weight that is
# transposed first; many columns; a weight gradient whose depth takes two blocks, with
# and without a remainder; small products of large depth, wide and tall; a large one of
# two blocks, whose weight is transposed because of its many rows.
SIZES = [
    (1, 3, 5),
    (15, 2, 384),
    (183, 96, 70),
    (129, 65, 1100),
    (530, 790, 40),
    (40, 5000, 33),
    (2048, 48, 33),
    (2100, 50, 33),
    (9248, 48, 96),
    (2080, 96, 48),
    (2200, 400, 352),
]


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    before = _core.get_num_threads()
    yield
    _core.set_num_threads(before)


def linear(arrays: list[np.ndarray], dy: np.ndarray, dtype: str) -> list[np.ndarray]:
    """y = x wT + b and the three gradients of sum(y dy)."""
    tensors = [_core.Tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    y = _core.ops.linear(*tensors)
    y.backward(_core.Tensor(dy, dtype=dtype))
    return [np.array(np.asarray(t)) for t in (y, *(t.grad for t in tensors))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
def test_linear_and_its_gradients(size: tuple[int, int, int], dtype: str):
    m, n, k = size
    rng = np.random.default_rng(m + n + k)
    x, w, b, dy = (
        round_to(rng.standard_normal(s), dtype) for s in ((m, k), (n, k), (n,), (m, n))
    )
    _core.set_num_threads(2)
    got = linear([x, w, b], dy, dtype)
    x, w, b, dy = (a.astype(np.float64) for a in (x, w, b, dy))
    want = [x @ w.T + b, dy @ w, dy.T @ x, dy.sum(0)]
    for ours, exact, terms in zip(got, want, (k, n, m, m), strict=True):
        # Sums in float32 grow by about sqrt(terms) roundings of their own size;
        # bfloat16 rounds the result once, to 8 bits.
        size_of_sum = np.sqrt(terms)
        bound = 4e-6 * size_of_sum + (2.0**-8 if dtype == "bfloat16" else 4e-7) * (
            np.abs(exact)
        )
        error = np.abs(ours.astype(np.float64) - exact)
        assert (error <= bound).all(), float((error / bound).max())
    for threads in (1, 3, 8):
        _core.set_num_threads(threads)
        arrays = [round_to(a, dtype) for a in (x, w, b)]
        again = linear(arrays, round_to(dy, dtype), dtype)
        assert [a.tobytes() for a in again] == [a.tobytes() for a in got], threads


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_token_count_of_a_stretch(dtype: str):
    """Packed batches have any number of tokens, padded to a few tile heights."""
    rng = np.random.default_rng(0)
    x = round_to(rng.standard_normal((70, 64)), dtype)
    w = round_to(rng.standard_normal((48, 64)), dtype)
    weight = _core.Tensor(w, dtype=dtype)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    for tokens in range(1, 71):
        y = _core.ops.linear(_core.Tensor(x[:tokens], dtype=dtype), weight)
        got = np.asarray(y).astype(np.float64)
        rtol, atol = (2.0**-8, 4e-4) if dtype == "bfloat16" else (4e-7, 1e-5)
        np.testing.assert_allclose(
            got, exact[:tokens], rtol=rtol, atol=atol, err_msg=tokens
        )


def products_of(program: str, *sizes: int | str, of: str = "") -> list[tuple[int, ...]]:
    """Returns (rows, depth, columns) of the products in a program's oneDNN log."""
    run = subprocess.run(
        [sys.executable, "-c", program, *map(str, sizes)],
        env={**os.environ, "DNNL_VERBOSE": "profile_exec"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        tuple(map(int, m.groups()))
        for line in run.stdout.splitlines()
        if ",exec," in line and of in line
        if (m := re.search(r",(\d+)x(\d+):\d+x(\d+),", line))
    ]


WEIGHT_GRADIENT = """
import sys
import numpy as np
from evolving_attention import _core

_core.set_num_threads(1)
tokens, outputs, inputs = map(int, sys.argv[1:])
x, w = (
    _core.Tensor(np.ones(s, np.float32), dtype="bfloat16", requires_grad=grad)
    for s, grad in (((tokens, inputs), False), ((outputs, inputs), True))
)
y = _core.ops.linear(x, w, None)
y.backward(_core.Tensor(np.ones((tokens, outputs), np.float32), dtype="bfloat16"))
"""


@needs_bfloat16
@pytest.mark.parametrize("size", [(3136, 256, 1024), (9248, 48, 96), (2080, 96, 48)])
def test_weight_gradients_of_many_tokens_multiply_bfloat16(size: tuple[int, int, int]):
    """Regression: above 2,048 tokens they were widened to float32."""
    done = products_of(WEIGHT_GRADIENT, *size, of="src_bf16")
    assert sum(map(math.prod, done)) >= 2 * math.prod(size)  # y and the gradient


@needs_bfloat16
def test_large_weights_are_laid_out_once():
    """Regression: oneDNN reordered the right operand again for each tile."""
    size = 1024, 768, 768
    done = products_of(WEIGHT_GRADIENT, *size, of="wei_bf16:a:blocked:BA16a64b2a")
    assert sum(map(math.prod, done)) == 2 * math.prod(size)


KEPT_PRODUCT = """
import sys
import numpy as np
from evolving_attention import _core

dtype, rows, pairs = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
_core.set_fast_path("bfloat16_pairs", pairs)
x = _core.Tensor(np.ones((rows, 768), np.float32), dtype=dtype)
w = _core.Tensor(np.ones((768, 768), np.float32), dtype=dtype, requires_grad=True)
_core.set_grad_enabled(False)
_core.ops.linear(x, w, None)
"""


@needs_pairs
@pytest.mark.parametrize(
    ("rows", "computed"), [(3, 3), (17, 17), (197, 197), (301, 304)]
)
def test_few_rows_are_computed_in_vain(rows: int, computed: int):
    """Regression: oneDNN's tiles were padded to 16 rows, up to 50 % more time."""
    done = products_of(KEPT_PRODUCT, "bfloat16", rows, False)
    assert sum(map(math.prod, done)) == computed * 768 * 768


@pytest.mark.parametrize("rows", [1, 17, 301])
@float32_and_pairs
def test_rows_need_no_primitive(dtype: str, rows: int):
    """Regression: each row count created its own primitives, and was slower for few."""
    assert products_of(KEPT_PRODUCT, dtype, rows, True) == []


FREE_AFTER_PRODUCTS = """
import ctypes
import sys
import numpy as np
from evolving_attention import _core

class Info(ctypes.Structure):
    _fields_ = [(str(i), ctypes.c_size_t) for i in range(10)]

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.mallinfo2.restype = ctypes.c_void_p, Info
_core.set_num_threads(1)
x, w = (_core.Tensor(np.ones((int(n), 768), np.float32)) for n in sys.argv[1:])
for _ in range(40):
    _core.ops.linear(x, w, None)
    for size in range(24, 200, 16):
        libc.malloc(size)  # kept, as nodes of a graph are
print(getattr(libc.mallinfo2(), "8"))  # fordblks: free bytes of the heap
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="no glibc 2.33 or newer"
)
@pytest.mark.parametrize(("rows", "columns"), [(512, 768), (56, 1536)])
def test_buffers_of_products_do_not_pile_up_in_the_heap(rows: int, columns: int):
    """Regression: sgemm's buffers left 55 MB of free blocks that fit no later buffer.

    The second shape has small tiles, but its buffers still take a megabyte.
    """
    run = [sys.executable, "-c", FREE_AFTER_PRODUCTS, str(rows), str(columns)]
    free = int(subprocess.run(run, capture_output=True, check=True).stdout)
    assert free < 16 << 20
