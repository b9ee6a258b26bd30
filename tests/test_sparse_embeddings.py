"""Row-sparse gradients of embedding tables: bit-identical to dense gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core, optim

ROWS, WIDTH = 2003, 37


def both(run: Callable[[], list[np.ndarray]]) -> None:
    """Asserts that ``run`` gives the same bits with the switch on and off."""
    results = []
    for on in (True, False):
        ea.set_fast_path("sparse_embeddings", on)
        _core.manual_seed(3)
        results.append([a.tobytes() for a in run()])
    sparse, dense = results
    assert len(sparse) == len(dense)
    assert [i for i, a in enumerate(sparse) if a != dense[i]] == []


def table(dtype: str, rows: int = ROWS) -> Any:
    values = np.random.default_rng(1).standard_normal((rows, WIDTH))
    return ea.Tensor(values.astype(np.float32), dtype=dtype, requires_grad=True)


def weighted(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return ea.Tensor(values.astype(np.float32), dtype=dtype)


def send(weight: Any, ids: np.ndarray, seed: int) -> None:
    rows = _core.ops.embedding(weight, ids)
    rows.backward(weighted(weight.dtype, rows.shape, seed))


def raw(tensor: Any) -> np.ndarray:
    return np.array(np.asarray(tensor))


def calls(kernel: str) -> int:
    return sum(n for name, _, n in _core.kernel_entries() if name == kernel)


def draw(step: int, count: int = 300) -> np.ndarray:
    return np.random.default_rng(50 + step).integers(0, 400, count) * 5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("clip", ["scale", "in place", "none"])
def test_training_a_table_has_the_bits_of_dense_gradients(dtype: str, clip: str):
    def run() -> list[np.ndarray]:
        weight = table(dtype)
        optimizer = optim.AdamW([weight], lr=1e-2, weight_decay=0.1)
        for step in range(4):
            for part in range(2):  # two accumulated passes that share some rows
                send(weight, draw(2 * step + part), 7 * step + part)
            scale = 1.0
            if clip == "scale":
                norm = optim.global_grad_norm([weight])
                scale = optim.clip_scale(round(norm, 6), 1.0)
            elif clip == "in place":
                optim.clip_grad_norm_([weight], 1e9)
            optimizer.step(scale)
            optimizer.zero_grad()
            assert weight.grad is None
        state = optimizer.state_dict()
        return [raw(weight), *(raw(state[k]) for k in sorted(state) if k != "step")]

    both(run)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_sums_of_rows_and_dense_gradients(dtype: str):
    orders = {"rd": "rd", "dr": "dr", "rr": "rr", "rdr": "rdr", "drrd": "drrd"}

    def run() -> list[np.ndarray]:
        out = []
        for order in orders:
            weight = table(dtype)
            for step, kind in enumerate(order):
                if kind == "r":
                    send(weight, draw(step), step)
                else:
                    x = weighted(dtype, (3, WIDTH), 90 + step)
                    y = _core.ops.linear(x, weight)
                    y.backward(weighted(dtype, y.shape, 80 + step))
            out.append(raw(weight.grad))
        return out

    both(run)


def test_the_gradient_read_from_python_is_dense_and_stays_the_one_used():
    weight = table("float32")
    ids = np.array([7, 2, 7, 1999])
    send(weight, ids, 5)
    want = np.zeros((ROWS, WIDTH), np.float32)
    np.add.at(want, ids, np.asarray(weighted("float32", (4, WIDTH), 5)))
    first = weight.grad
    assert first.shape == weight.shape
    np.testing.assert_allclose(np.asarray(first), want, rtol=1e-6)
    np.asarray(weight.grad)[:] = 0
    assert optim.global_grad_norm([weight]) == 0
    held = raw(weight.grad)
    kept = weight.grad
    send(weight, ids, 5)  # a gradient held by the caller must not change
    assert raw(kept).tobytes() == held.tobytes()
    np.testing.assert_allclose(np.asarray(weight.grad), want, rtol=1e-6)


def test_nothing_dense_is_made_on_the_way():
    ea.set_fast_path("sparse_embeddings", True)
    weight = ea.Tensor(np.ones((200_000, 64), np.float32), requires_grad=True)
    optimizer = optim.AdamW([weight], lr=1e-3)
    send(weight, np.arange(64), 1)
    optimizer.step()  # creates the moments
    optimizer.zero_grad()
    send(weight, np.arange(64), 1)  # warms up the allocator's cache
    _core.reset_peak_memory()
    before = _core.peak_memory()
    optim.clip_grad_norm_([weight], 1e-3)
    send(weight, np.arange(10, 80), 1)
    optimizer.step()
    dense = 200_000 * 64 * 4
    assert _core.peak_memory() - before < dense / 4


def test_the_norm_looks_at_rows_in_use_only():
    weight = table("float32")
    send(weight, draw(0), 3)
    sparse = optim.global_grad_norm([weight])
    dense = np.linalg.norm(np.asarray(weight.grad).astype(np.float64))
    np.testing.assert_allclose(sparse, dense, rtol=1e-12)


@pytest.mark.parametrize("rows", [50, ROWS])  # 50 < number of ids: a dense gradient
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_row_of_a_padding_id_alone_gets_no_gradient(dtype: str, rows: int):
    ids = np.random.default_rng(4).integers(0, 50, 301)

    def gradient(padding_id: int) -> np.ndarray:
        weight = table(dtype, rows)
        out = _core.ops.embedding(weight, ids, padding_id)
        out.backward(weighted(dtype, out.shape, 6))
        return raw(weight.grad)

    want, got = gradient(-1), gradient(int(ids[7]))
    assert want[ids[7]].any()
    want[ids[7]] = 0
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_alone_gives_a_gradient_of_zeros(dtype: str):
    config = tiny()

    def run() -> list[np.ndarray]:
        ea.manual_seed(1)
        model = ea.BertForSequenceClassification(config, dtype=dtype).train()
        name = "bert.embeddings.word_embeddings.weight"
        weight = dict(model.named_parameters())[name]
        optimizer = optim.AdamW([weight], lr=1e-2, weight_decay=0.1)
        zeros = np.zeros((2, 4), np.int64)  # padding id, but attended to
        model(
            zeros, attention_mask=np.ones((2, 4), np.int64), labels=[0, 1]
        ).loss.backward()
        optim.clip_grad_norm_([weight], 1.0)
        optimizer.step()
        return [raw(weight), raw(weight.grad)]

    both(run)


def tiny() -> Any:
    return ea.BertConfig(
        vocab_size=500,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )


@pytest.mark.parametrize("kind", ["SequenceClassification", "MaskedLM"])
@pytest.mark.parametrize("threads", [1, 3])
def test_models_train_to_the_same_bits(kind: str, threads: int):
    before = ea.get_num_threads()

    def run() -> list[np.ndarray]:
        ea.manual_seed(4)
        rng = np.random.default_rng(4)
        model = getattr(ea, f"BertFor{kind}")(tiny()).train()
        optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        for _ in range(3):
            for _ in range(2):
                ids = rng.integers(1, 500, (3, 11))
                labels = ids if kind == "MaskedLM" else rng.integers(0, 2, 3)
                model(ids, labels=labels).loss.backward()
            norm = optim.global_grad_norm(list(model.parameters()))
            optimizer.step(optim.clip_scale(float(np.float32(norm)), 1.0))
            optimizer.zero_grad()
        return [raw(p) for p in model.parameters()]

    try:
        ea.set_num_threads(threads)
        both(run)
    finally:
        ea.set_num_threads(before)
