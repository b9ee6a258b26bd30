"""Every op gives the same bits for any number of threads, forward and backward."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.cases import round_to, run_case
from support.table import CASES, by_op, named

import evolving_attention as ea
from evolving_attention import _core, optim

THREADS = (1, 2, 3, 7)
WIDE = by_op(case for case in CASES if case.wide)
DTYPES = ("float32", "bfloat16")


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    before = _core.get_num_threads()
    yield
    _core.set_num_threads(before)


def assert_same_bits(run: Callable[[], list[np.ndarray]]):
    """Asserts that ``run`` gives the same bytes for all thread counts and repeats."""
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
    missing = sorted(set(_core.op_names()) - {cases[0].op for cases in WIDE.values()})
    assert not missing, f"ops without a case of several jobs: {missing}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", WIDE)
def test_op_does_not_depend_on_threads(op: str, dtype: str):
    for case in WIDE[op]:
        with named(case):
            assert_same_bits(functools.partial(run_case, case, dtype))


@pytest.mark.parametrize("make", [optim.AdamW, optim.RAdam, optim.SGD])
@pytest.mark.parametrize("dtype", DTYPES)
def test_optimizer_does_not_depend_on_threads(dtype: str, make):
    def run() -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        params = []
        for shape in [(3,), (69, 131), (1031, 259), (17,)]:
            values = round_to(rng.standard_normal(shape), dtype)
            params.append(_core.Tensor(values, dtype=dtype, requires_grad=True))
        optimizer = make(params, lr=1e-2)
        norms = []
        for _ in range(2):
            for p in params:
                g = round_to(rng.standard_normal(p.shape), dtype)
                p.grad = _core.Tensor(g, dtype=dtype)
            norms.append(_core.clip_grad_norm(params, 1.0))
            optimizer.step()
        return [np.array(norms)] + [np.array(np.asarray(p)) for p in params]

    assert_same_bits(run)


@pytest.mark.parametrize("dtype", DTYPES)
def test_training_does_not_depend_on_threads(dtype: str):
    """Two steps with dropout, clipping and AdamW, large enough for many jobs."""
    config = ea.BertConfig(
        vocab_size=2003,
        hidden_size=192,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=517,
        max_position_embeddings=128,
        num_labels=3,
        attention=ea.attention.Evolving(alpha=0.3, beta=0.4),
    )
    lengths = [69, 1, 33, 17, 64, 5, 90, 23, 47, 11]
    offsets = np.cumsum([0, *lengths])

    def run() -> list[np.ndarray]:
        ea.manual_seed(11)
        rng = np.random.default_rng(11)
        model = ea.BertForSequenceClassification(config, dtype=dtype).train()
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        for _ in range(2):
            out = model(
                rng.integers(0, 2003, offsets[-1]),
                sequence_offsets=offsets,
                labels=rng.integers(0, 3, len(lengths)),
            )
            out.loss.backward()
            losses += [out.loss.item()]
            losses += [_core.clip_grad_norm(list(model.parameters()), 1.0)]
            optimizer.step()
            optimizer.zero_grad()
        values = [np.array(np.asarray(p)) for p in model.parameters()]
        return [np.array(losses), *values]

    assert_same_bits(run)
