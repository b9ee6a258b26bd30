"""The same bits for any number of threads: every op, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.cases import Case, round_to, run_case
from support.table import CASES

from evolving_attention import _core, optim

THREADS = (1, 2, 3, 7)
WIDE = [case for case in CASES if case.wide]
DTYPES = ("float32", "bfloat16")


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    before = _core.get_num_threads()
    yield
    _core.set_num_threads(before)


def assert_same_bits(run: Callable[[], list[np.ndarray]]):
    """``run`` gives the same bytes for every thread count, and when repeated."""
    _core.set_num_threads(THREADS[0])
    want = [a.tobytes() for a in run()]
    for count in (*THREADS[1:], THREADS[-1]):
        _core.set_num_threads(count)
        got = [a.tobytes() for a in run()]
        different = [
            i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b
        ]
        assert not different, f"{count} threads change results {different}"


def test_every_op_has_wide_cases():
    missing = sorted(set(_core.op_names()) - {case.op for case in WIDE})
    assert not missing, f"ops without a case of several jobs: {missing}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", WIDE, ids=str)
def test_op_does_not_depend_on_threads(case: Case, dtype: str):
    assert_same_bits(lambda: run_case(case, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_optimizer_does_not_depend_on_threads(dtype: str):
    def run() -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        params = []
        for shape in [(3,), (69, 131), (1031, 259), (17,)]:
            values = round_to(rng.standard_normal(shape), dtype)
            params.append(_core.Tensor(values, dtype=dtype, requires_grad=True))
        optimizer = optim.AdamW(params, lr=1e-2)
        norms = []
        for _ in range(2):
            for p in params:
                g = round_to(rng.standard_normal(p.shape), dtype)
                p.grad = _core.Tensor(g, dtype=dtype)
            norms.append(_core.clip_grad_norm(params, 1.0))
            optimizer.step()
        return [np.array(norms)] + [np.array(np.asarray(p)) for p in params]

    assert_same_bits(run)
