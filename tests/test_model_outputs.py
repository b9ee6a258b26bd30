"""Outputs of models: by position, as tuples, and in everyday lines."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea

IDS = np.array([[2, 5, 7, 3], [2, 9, 3, 0]])


@pytest.fixture(scope="module")
def model():
    return tiny("BertForSequenceClassification").eval()


def test_results_by_position(model):
    out = model(IDS, labels=[0, 1], output_hidden_states=True)
    assert out.keys() == ["loss", "logits", "hidden_states"]
    assert out[0] is out.loss
    assert out[1] is out[np.int64(1)] is out["logits"]
    assert out[-1] is out.hidden_states
    assert out[:2] == (out.loss, out.logits)
    assert out[1:][0] is out.logits
    loss, logits, *rest = out.to_tuple()
    assert loss is out.loss
    assert logits is out.logits
    assert rest == [out.hidden_states]


def test_results_by_name(model):
    out = model(IDS, labels=[0, 1])
    assert dict(out.items()) == dict(out) == {"loss": out.loss, "logits": out.logits}
    assert out.values()[1] is out.get("logits") is out.logits
    assert out.get("attentions") is None
    assert out.get("attentions", 5) == 5


def test_first_result_without_labels(model):
    assert model(IDS)[0].shape == (2, 2)
    with pytest.raises(IndexError, match=r"output\[1\]: expected -1 to 0; .* logits"):
        model(IDS)[1]
    with pytest.raises(KeyError, match="loss: this output has logits"):
        model(IDS)["loss"]


def test_a_tuple_on_request(model):
    loss, logits = model(IDS, labels=[0, 1], return_dict=False)
    out = model(IDS, labels=[0, 1], return_dict=True)
    assert loss.item() == out.loss.item()
    assert np.array_equal(logits, out.logits)
    assert type(model(IDS, return_dict=None)) is ea.ModelOutput
    with pytest.raises(ea.ConfigError, match="return_dict='no', expected True"):
        model(IDS, return_dict="no")


def test_a_tuple_carries_gradients(model):
    loss = model(IDS, labels=[0, 1], return_dict=False)[0]
    loss.backward()
    assert any(p.grad is not None for p in model.parameters())


def test_lines_around_a_training_step(model):
    out = model(IDS, labels=[0, 1])
    assert f"{out.loss:.3f}" == f"{out.loss.item():.3f}"
    predicted = out.logits.argmax(dim=-1)
    assert (predicted == np.array([0, 1])).mean().item() in (0, 0.5, 1)
    first = model(IDS, output_hidden_states=True).hidden_states[-1][:, 0]
    assert first.shape == (2, model.config.hidden_size)
