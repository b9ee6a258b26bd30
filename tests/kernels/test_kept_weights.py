"""A cached weight layout is never used after the weight has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core, optim

DTYPES = ("float32", "bfloat16")
TOKENS, OUT, IN = 133, 200, 75


@pytest.fixture(autouse=True)
def _settings_restored() -> Iterator[None]:
    before = _core.get_num_threads()
    yield
    _core.set_num_threads(before)


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameter(dtype: str, outputs: int = OUT, inputs: int = IN) -> _core.Tensor:
    made = _core.Tensor(values(1, outputs, inputs)).to("float64").to(dtype).detach()
    made.requires_grad = True
    return made


def product(x: _core.Tensor, w: _core.Tensor, *, kept: bool = True) -> np.ndarray:
    ea.set_fast_path("packed_weights", kept)
    with ea.no_grad():
        y = _core.ops.linear(x, w).to("float64")
    return np.array(np.asarray(y))


def assert_fresh(x: _core.Tensor, w: _core.Tensor):
    got = product(x, w)
    want = np.asarray(x.to("float64")) @ np.asarray(w.to("float64")).T
    rtol = 2.0**-8 if w.dtype == "bfloat16" else 1e-6
    atol = 2.3e-6 * math.sqrt(w.shape[1])  # rounding of a sum of that many terms
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def by_copy(w: _core.Tensor):
    w.copy_(values(2, OUT, IN))


def by_view(w: _core.Tensor):
    w.numpy()[3] = 5.0


def by_buffer(w: _core.Tensor):
    np.asarray(w)[3] = 6.0


def by_optimizer(w: _core.Tensor):
    w.grad = _core.Tensor(values(4, OUT, IN), dtype=w.dtype)
    optim.AdamW([w], lr=0.5).step()


WRITERS = [by_copy, by_view, by_buffer, by_optimizer]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("write", WRITERS)
def test_a_write_is_seen(write: Callable[[_core.Tensor], None], dtype: str):
    x = _core.Tensor(values(0, TOKENS, IN), dtype=dtype)
    w = parameter(dtype)
    assert_fresh(x, w)
    before = product(x, w)
    write(w)
    assert_fresh(x, w)
    assert not np.array_equal(before, product(x, w))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_view_that_lives_on_writes_at_any_time(dtype: str):
    x = _core.Tensor(values(0, TOKENS, IN), dtype=dtype)
    w = parameter(dtype)
    view = np.asarray(w)
    for value in (1.0, 2.0, 3.0):
        view[7] = value
        assert_fresh(x, w)
    del view
    assert_fresh(x, w)


# (outputs, depth): one block of depth; several, with columns after the whole panels.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(OUT, IN), (70, 512), (131, 1100)])
@pytest.mark.parametrize("tokens", [1, 16, 37, 129, 300])
def test_same_bits_for_any_threads_and_any_company(
    tokens: int, size: tuple[int, int], dtype: str
):
    x = values(0, 300, size[1])
    w = parameter(dtype, *size)
    assert_fresh(_core.Tensor(x, dtype=dtype), w)
    whole = product(_core.Tensor(x, dtype=dtype), w)
    alone = product(_core.Tensor(x[:tokens], dtype=dtype), w)
    for threads in (1, 2, 3, 8):
        _core.set_num_threads(threads)
        part = product(_core.Tensor(x[:tokens], dtype=dtype), w)
        assert np.array_equal(part, alone), threads
    assert np.array_equal(alone, whole[:tokens])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [8, 30, 32, 40, 48, 64])
def test_few_rows_of_a_short_depth_have_the_bits_of_many(depth: int, dtype: str):
    x = values(0, 1024, depth)
    w = parameter(dtype, 144, depth)
    whole = product(_core.Tensor(x, dtype=dtype), w)
    for rows in (3, 8, 13):
        for at in range(0, 1024 - rows, rows):
            part = _core.Tensor(x[at : at + rows], dtype=dtype)
            assert np.array_equal(product(part, w), whole[at : at + rows]), rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_switch_changes_roundings_alone(dtype: str):
    x = _core.Tensor(values(0, TOKENS, IN), dtype=dtype)
    w = parameter(dtype)
    off = product(x, w, kept=False)
    rtol = 2.0**-7 if dtype == "bfloat16" else 1e-6
    np.testing.assert_allclose(product(x, w), off, rtol=rtol, atol=2e-5)
