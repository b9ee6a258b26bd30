"""Batches made up to shapes that come again: the same loss, few shapes, all checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import MODELS, NO_DROPOUT, draw, labels_for, tiny
from hypothesis import given
from hypothesis import strategies as st

import evolving_attention as ea

EVOLVING = ea.attention.Evolving(0.3, 0.4)
LENGTHS = (5, 9, 1, 6)
TRAINED = [name for name, cls in MODELS.items() if cls.head != "base"]


def inputs_for(model: Any, lengths: tuple[int, ...] = LENGTHS) -> dict[str, Any]:
    """A packed batch with labels, and next-sentence labels where the head has them."""
    batch = draw(lengths, model.config.model_type)
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    if model.head == "pretraining":
        inputs["next_sentence_label"] = np.arange(len(lengths)) % 2
    return inputs


def loss_and_gradients(
    model: Any, inputs: dict[str, Any], prepared: bool
) -> tuple[float, dict[str, np.ndarray]]:
    ea.manual_seed(7)
    if prepared:
        made_up = model._core.prepare(**inputs)
        loss = model._core.forward_prepared(made_up)["loss"]
    else:
        loss = model(**inputs).loss
    loss.backward()
    gradients = {
        name: np.array(p.grad.numpy())
        for name, p in model.named_parameters()
        if p.grad is not None
    }
    model.zero_grad()
    return loss.item(), gradients


@pytest.mark.parametrize("labels", [2, 1], ids=["classes", "values"])
@pytest.mark.parametrize("name", TRAINED)
def test_what_is_added_changes_neither_loss_nor_gradients(name: str, labels: int):
    # float64, and with dropout: the batch's own tokens come first, so that theirs is
    # the same.
    model = tiny(name, EVOLVING, "float64", num_labels=labels)
    inputs = inputs_for(model)
    want, of_want = loss_and_gradients(model, inputs, False)
    got, of_got = loss_and_gradients(model, inputs, True)
    assert got == pytest.approx(want, rel=1e-13)
    assert of_got.keys() == of_want.keys()
    for key, gradient in of_want.items():
        np.testing.assert_allclose(
            of_got[key], gradient, rtol=1e-9, atol=1e-13, err_msg=key
        )


def test_padded_inputs_are_prepared_too():
    model = tiny("BertForMaskedLM", EVOLVING, "float64", **NO_DROPOUT)
    batch = draw(LENGTHS)
    labels = labels_for(model, batch)
    padded = batch.padded(extra=2)
    at = padded["attention_mask"].astype(bool)
    spread = np.full(at.shape, -100)
    spread[at] = labels
    want, _ = loss_and_gradients(model, {**batch.packed(), "labels": labels}, True)
    got, _ = loss_and_gradients(model, {**padded, "labels": spread}, True)
    assert got == want


@given(st.lists(st.integers(1, 40), min_size=4, max_size=4), st.integers(0, 3))
def test_few_shapes_serve_all_lengths(lengths: list[int], more: int):
    prepared = PLAIN._core.prepare(**inputs_for(PLAIN, tuple(lengths)))
    total = sum(lengths)
    assert total <= prepared.tokens < total + max(64, total / 8)
    assert prepared.tokens % 64 == 0
    # The order of lengths is no part of the shape.
    turned = tuple(lengths[more:] + lengths[:more])
    assert PLAIN._core.prepare(**inputs_for(PLAIN, turned)).key == prepared.key


PLAIN = tiny(num_hidden_layers=1)


def key_of(*lengths: int, **more: Any) -> str:
    return PLAIN._core.prepare(**{**inputs_for(PLAIN, lengths), **more}).key


def test_a_key_tells_shapes_apart_that_one_step_cannot_serve():
    assert key_of(5, 9) == key_of(11, 16)
    assert key_of(5, 9) != key_of(5, 17)  # longer maps
    assert key_of(5, 9) != key_of(5, 9, 1)  # more rows of logits
    assert key_of(5, 9) != key_of(5, 9, label_smoothing=0.1)
    assert key_of(*[16] * 4) != key_of(*[16] * 4, 1)


BAD = {
    "no labels": ({"labels": None}, ea.ShapeError, "one for each of 4 sequences"),
    "few labels": ({"labels": [0, 1]}, ea.ShapeError, "one for each of 4 sequences"),
    "no class": ({"labels": [0, 1, 2, 0]}, ea.InputError, r"labels\[2\] = 2 is not"),
    "no token": ({"input_ids": np.full(21, 40)}, ea.InputError, r"input_ids\[0\] = 40"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_forward_would_refuse_is_refused_before(what: str):
    change, error, text = BAD[what]
    with pytest.raises(error, match=text):
        PLAIN._core.prepare(**{**inputs_for(PLAIN), **change})


def test_a_model_without_a_loss_is_refused():
    model = tiny("BertModel")
    with pytest.raises(ea.ConfigError, match="has no loss to train"):
        model._core.prepare(**inputs_for(model))


def test_maps_with_room_are_refused_where_they_would_be_read():
    prepared = PLAIN._core.prepare(**inputs_for(PLAIN))
    ea.set_fast_path("fused_attention", False)
    with pytest.raises(ea.ConfigError, match="cannot be written down; leave"):
        PLAIN._core.forward_prepared(prepared)
    ea.set_fast_path("fused_attention", True)
    assert PLAIN._core.forward_prepared(prepared)["loss"].size == 1
