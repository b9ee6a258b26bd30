"""The layer before the classifier: its formula, its parameters, its checkpoints."""

from __future__ import annotations

import json

import helpers_series
import numpy as np
import pytest
from helpers_models import NO_DROPOUT, tiny

import evolving_attention as ea
from evolving_attention.cli.timeseries_arguments import SeriesModelArguments

IDS, LABELS = np.arange(12).reshape(2, 6), np.array([0, 1])
VALUES = np.random.default_rng(0).standard_normal((3, 5, 3)).astype("f4")
FAMILIES = ["Bert", "Roberta"]


def shapes(model, prefix):
    return {n: p.shape for n, p in model.named_parameters() if n.startswith(prefix)}


def mapped(x, state, name):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_logits_are_those_of_the_formula(family):
    name, prefix = f"{family}ForSequenceClassification", f"{family.lower()}."
    model = tiny(name, classifier_hidden_size=17).eval()
    base, own = tiny(f"{family}Model").eval(), model.state_dict()
    for key, tensor in base.named_parameters():
        if not key.startswith("pooler"):
            tensor.copy_(own[prefix + key])
    first = np.asarray(base(IDS).last_hidden_state)[:, 0]
    inner = np.tanh(mapped(first, own, "classifier.dense"))
    expected = mapped(inner, own, "classifier.out_proj")
    assert np.allclose(model(IDS).logits, expected, atol=1e-5)
    assert own["classifier.dense.weight"].shape == (17, 24)
    assert shapes(model, f"{prefix}pooler") == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_gains_the_head_and_keeps_its_width(family, tmp_path):
    plain, folder = tmp_path / "plain", tmp_path / "wide"
    tiny(f"{family}Model").save_pretrained(plain)
    cls = getattr(ea, f"{family}ForSequenceClassification")
    wide = cls.from_pretrained(plain, classifier_hidden_size=9).eval()
    assert {name.split(".")[0] for name in wide.load_report.new} == {"classifier"}
    wide.save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    assert saved["model_type"] == f"evolving_{family.lower()}"  # others do not have it
    again = ea.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert again.config.classifier_hidden_size == 9
    assert again.load_report.new == []
    assert np.array_equal(again(IDS).logits, wide(IDS).logits)
    body = getattr(ea, f"{family}Model").from_pretrained(folder)
    assert shapes(body, "classifier") == {}


def test_every_parameter_learns():
    model = tiny(classifier_hidden_size=9, **NO_DROPOUT)
    model(input_ids=IDS, labels=LABELS).loss.backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize(
    "task", ["TokenClassification", "QuestionAnswering", "MultipleChoice"]
)
def test_other_heads_refuse_it(task):
    with pytest.raises(ea.ConfigError, match="classifier_hidden_size = 9, expected No"):
        tiny(f"BertFor{task}", classifier_hidden_size=9)


@pytest.mark.parametrize("width", [0, 2.5, "wide"])
@pytest.mark.parametrize("cls", [ea.BertConfig, ea.RobertaConfig])
def test_wrong_widths(cls, width):
    with pytest.raises(ea.ConfigError, match="classifier_hidden_size is"):
        cls(classifier_hidden_size=width)


@pytest.mark.parametrize(
    ("task", "head", "outputs"),
    [("Classification", "classifier", 3), ("Regression", "regressor", 2)],
)
def test_series_keep_it(task, head, outputs, tmp_path):
    model = helpers_series.tiny(f"EADCTransformerFor{task}", classifier_hidden_size=7)
    assert shapes(model, head) == {
        f"{head}.dense.weight": (7, 12 * 16),
        f"{head}.dense.bias": (7,),
        f"{head}.out_proj.weight": (outputs, 7),
        f"{head}.out_proj.bias": (outputs,),
    }
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert again.config.classifier_hidden_size == 7
    found = model.eval()(values=VALUES).logits
    assert np.array_equal(again.eval()(values=VALUES).logits, found)


def test_the_head_of_series_is_what_it_says():
    """y = V ReLU(W z + b) + c, where z is the mean of GELU(h)."""
    model = helpers_series.tiny(classifier_hidden_size=7, pooling="mean").eval()
    body = helpers_series.tiny("EADCTransformerModel").eval()
    own = model.state_dict()
    body.load_state_dict(
        {
            name.removeprefix("transformer."): value
            for name, value in own.items()
            if not name.startswith("classifier")
        }
    )
    steps = body(values=VALUES).last_hidden_state
    z = np.asarray(ea.functional.gelu(steps), np.float64).mean(axis=1)
    inner = np.maximum(mapped(z, own, "classifier.dense"), 0)
    expected = mapped(inner, own, "classifier.out_proj")
    assert np.allclose(model(values=VALUES).logits, expected, atol=1e-5)


def test_estimators_and_the_command_take_it():
    x = np.random.default_rng(0).standard_normal((8, 2, 6))
    options = {"classifier_hidden_size": 5}
    model = ea.TimeSeriesClassifier(
        hidden_size=16, n_epochs=1, model_options=options, random_state=0
    ).fit(x, np.arange(8) % 2)
    assert model.predict(x).shape == (8,)
    given = SeriesModelArguments(classifier_hidden_size=5).estimator_options()
    assert given["model_options"] == options
    assert shapes(model.model_, "classifier.dense.bias") == {
        "classifier.dense.bias": (5,)
    }
