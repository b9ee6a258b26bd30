"""Offsets that kernels read on the device: as those that the host hands them.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_gpu import array, last_cuda_device
from helpers_models import draw, labels_for, tiny

import evolving_attention as ea
from evolving_attention import _core

LAST = last_cuda_device()
KINDS = {
    "vanilla": None,
    "residual": ea.attention.Residual(),
    "evolving": ea.attention.Evolving(0.3, 0.4),
    # No window of it fits into shared memory.
    "wide": ea.attention.Evolving(0.3, 0.4, kernel_size=15),
}
LENGTHS = {
    "short": (5, 9, 1, 6),
    "tiles": (70, 3, 33),  # more than one tile of rows and of keys
    "many": tuple(1 + i % 4 for i in range(130)),  # more than one launch takes
}


def prepared_for(model: Any, lengths: tuple[int, ...], seed: int = 0) -> Any:
    batch = draw(lengths, model.config.model_type, seed)
    labels = labels_for(model, batch, seed)
    return model._core.prepare(**batch.packed(), labels=labels)


def loss_and_gradients(model: Any, prepared: Any) -> dict[str, np.ndarray]:
    ea.manual_seed(7)
    loss = model._core.forward_prepared(prepared)["loss"]
    loss.backward()
    out = {name: array(p.grad) for name, p in model.named_parameters()}
    model.zero_grad()
    return {"loss": array(loss), **out}


@pytest.mark.parametrize(
    ("kind", "lengths", "dtype"),
    [
        *[("vanilla", lengths, "float32") for lengths in LENGTHS],
        *[("evolving", lengths, "float32") for lengths in LENGTHS],
        ("residual", "tiles", "float32"),
        ("wide", "short", "float32"),
        ("wide", "many", "bfloat16"),
        ("residual", "many", "bfloat16"),
        ("evolving", "tiles", "bfloat16"),
    ],
)
def test_offsets_on_the_device_give_the_same_bits(kind: str, lengths: str, dtype: str):
    model = tiny(
        "BertForSequenceClassification",
        KINDS[kind],
        dtype,
        num_hidden_layers=2,
        max_position_embeddings=80,
    ).to(LAST)
    prepared = prepared_for(model, LENGTHS[lengths])
    want = loss_and_gradients(model, prepared)
    residents = _core.Residents(LAST)
    residents.load(prepared)
    with residents:
        got = loss_and_gradients(model, prepared)
    for name, value in want.items():
        # Of weights there are more partial sums, some of them 0, in another order.
        if "evolving_conv" in name:
            size = np.abs(value.astype(np.float64)).max()
            np.testing.assert_allclose(
                got[name].astype(np.float64),
                value.astype(np.float64),
                atol=size * (2e-6 if dtype == "float32" else 2.0**-8),
                rtol=0,
            )
        else:
            assert got[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("kind", ["vanilla", "evolving"])
def test_what_is_loaded_last_counts(kind: str):
    model = tiny("BertForMaskedLM", KINDS[kind], num_hidden_layers=2).to(LAST)
    first = prepared_for(model, (5, 9, 1, 6))
    second = prepared_for(model, (2, 3, 14, 12), seed=1)
    assert first.key == second.key
    residents = _core.Residents(LAST)
    residents.load(first)
    with residents:
        before = loss_and_gradients(model, first)
    residents.load(second)
    with residents:
        got = loss_and_gradients(model, second)
    fresh = _core.Residents(LAST)
    fresh.load(second)
    with fresh:
        want = loss_and_gradients(model, second)
    assert before["loss"] != want["loss"]
    for name, value in want.items():
        assert got[name].tobytes() == value.tobytes(), name


def test_a_batch_of_another_shape_is_refused():
    model = tiny("BertForMaskedLM", num_hidden_layers=1).to(LAST)
    residents = _core.Residents(LAST)
    residents.load(prepared_for(model, (5, 9)))
    with pytest.raises(ea.ShapeError, match="the first time"):
        residents.load(prepared_for(model, (5, 9, 1)))
