"""Logits at chosen tokens equal the same rows of all logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, batch_for, draw, inputs_for, tiny

import evolving_attention as ea

LANGUAGE = ["BertForMaskedLM", "BertForPreTraining", "RobertaForMaskedLM"]
KINDS = ["vanilla", "residual", "evolving"]


def both(name: str, **options: Any) -> Any:
    """Returns a model, its inputs, and the inputs for labelled tokens only."""
    model = tiny(name, dtype="float64", **{**NO_DROPOUT, **options})
    inputs = inputs_for(model, batch_for(name))
    fewer = model.at_labels(inputs)
    places = np.flatnonzero(inputs["labels"] != -100)
    assert np.array_equal(fewer["logits_to_keep"], places)
    assert np.array_equal(fewer["labels"], inputs["labels"][places])
    return model, inputs, fewer


def gradients(model: Any, inputs: Any) -> Any:
    model.zero_grad()
    out = model(**inputs)
    out.loss.backward()
    return out, {name: np.array(p.grad) for name, p in model.named_parameters()}


@pytest.mark.parametrize("path", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LANGUAGE)
def test_the_same_loss_and_gradients(name, kind, norm_first, path):
    ea.set_fast_path("first_tokens", path)
    model, inputs, fewer = both(name, attention=kind, norm_first=norm_first)
    expected, right = gradients(model, inputs)
    found, grads = gradients(model, fewer)
    places = fewer["logits_to_keep"]
    logits = np.asarray(expected.logits)[places]
    np.testing.assert_allclose(found.logits, logits, rtol=1e-10, atol=1e-12)
    assert found.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    if name == "BertForPreTraining":
        pairs = np.asarray(expected.seq_relationship_logits)
        np.testing.assert_allclose(
            found.seq_relationship_logits, pairs, rtol=1e-10, atol=1e-12
        )
    for each, value in right.items():
        np.testing.assert_allclose(
            grads[each], value, rtol=1e-8, atol=1e-11, err_msg=each
        )


def test_the_last_hidden_states_are_whole():
    model, inputs, fewer = both("BertForPreTraining")
    model.eval()
    last = [
        np.asarray(model(**given, output_hidden_states=[3]).hidden_states[3])
        for given in (inputs, fewer)
    ]
    np.testing.assert_array_equal(*last)


def test_what_stays_as_it_is():
    model = tiny("BertForMaskedLM")
    batch = draw()
    none = {**batch.packed(), "labels": np.full(21, -100)}
    padded = {**batch.padded(), "labels": np.zeros((4, 9), np.int64)}
    for inputs in (batch.packed(), none, padded):
        assert model.at_labels(inputs).keys() == inputs.keys()
    other = tiny("BertForTokenClassification")
    inputs = inputs_for(other, batch)
    assert other.at_labels(inputs).keys() == inputs.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits_to_keep": [3, 2]}, r"logits_to_keep\[1\] = 2: expected 4 to 20"),
        ({"logits_to_keep": [21]}, r"logits_to_keep\[0\] = 21: expected 0 to 20"),
        ({"logits_to_keep": [-1]}, r"logits_to_keep\[0\] = -1: expected 0 to 20"),
        ({"logits_to_keep": [[1]]}, r"has shape \(1, 1\), expected \(n,\)"),
        ({"logits_to_keep": []}, "logits_to_keep"),
        ({"logits_to_keep": [0.5]}, "logits_to_keep"),
        (
            {"logits_to_keep": [1, 2], "labels": [4]},
            r"labels have shape \(1,\), expected \(2,\)",
        ),
    ],
)
def test_refused(change, message):
    model = tiny("BertForMaskedLM")
    with pytest.raises(ea.InputError, match=message):
        model(**draw().packed(), **change)


def test_refused_where_it_means_nothing():
    with pytest.raises(ea.InputError, match=r"with padded input_ids.*expected packed"):
        tiny("BertForMaskedLM")(**draw().padded(), logits_to_keep=[1])
    with pytest.raises(ea.InputError, match="expected only by masked language models"):
        tiny()(**draw().packed(), logits_to_keep=[1])
