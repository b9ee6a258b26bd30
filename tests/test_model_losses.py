"""Losses of the task heads against their formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, SIZES, draw, labels_for, pad_labels, run, tiny

import evolving_attention as ea

BATCH = draw((5, 9, 1, 6))


def model_for(name, **options):
    return tiny(name, dtype="float64", **{**NO_DROPOUT, **options})


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(logits, labels, smoothing=0.0):
    """Mean over labels >= 0 of (1 - e) (-log p_y) + e mean_c(-log p_c)."""
    kept = labels >= 0
    logp = log_softmax(logits[kept])
    hard = -logp[np.arange(kept.sum()), labels[kept]]
    return ((1 - smoothing) * hard + smoothing * -logp.mean(-1)).mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize(
    "name", ["BertForSequenceClassification", "RobertaForSequenceClassification"]
)
def test_classification(name, labels, smoothing):
    model = model_for(name, num_labels=labels)
    batch = draw((5, 9, 1, 6), model.config.model_type)
    targets = labels_for(model, batch)
    out = model(**batch.packed(), labels=targets, label_smoothing=smoothing)
    expected = cross_entropy(np.asarray(out.logits), targets, smoothing)
    assert out.loss.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", ["rows", "column", "integers", "list", "float32"])
def test_regression_is_the_mean_squared_error(form):
    model = model_for("BertForSequenceClassification", num_labels=1)
    targets = np.array([0.5, -2.0, 3.25, 1.0])
    if form == "integers":
        targets = np.array([0, 5, 3, 1])
    given = {
        "column": targets[:, None],
        "list": targets.tolist(),
        "float32": targets.astype(np.float32),
    }.get(form, targets)
    out = model(**BATCH.packed(), labels=given)
    assert out.logits.shape == (4, 1)
    errors = np.asarray(out.logits)[:, 0] - targets
    assert out.loss.item() == pytest.approx((errors**2).mean(), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "name", ["BertForMaskedLM", "BertForPreTraining", "RobertaForMaskedLM"]
)
def test_masked_lm_ignores_minus_100(name, smoothing):
    model = model_for(name)
    batch = draw((5, 9, 1, 6), model.config.model_type)
    labels = labels_for(model, batch)
    assert 0 < (labels == -100).sum() < labels.size
    out = model(**batch.packed(), labels=labels, label_smoothing=smoothing)
    expected = cross_entropy(np.asarray(out.logits), labels, smoothing)
    assert out.loss.item() == pytest.approx(expected, rel=1e-12)
    padded = model(
        **batch.padded(4), labels=pad_labels(labels, batch.valid(4))
    ).loss.item()
    if smoothing == 0:
        assert padded == out.loss.item()


def test_labels_on_padding_do_not_count():
    # Unlike a label at a token, a label at padding has no logits to be compared with.
    model = model_for("BertForMaskedLM")
    labels = labels_for(model, BATCH)
    valid = BATCH.valid(4)
    dense = pad_labels(labels, valid)
    expected = model(**BATCH.padded(4), labels=dense).loss.item()
    assert (
        model(**BATCH.padded(4), labels=np.where(valid, dense, 7)).loss.item()
        == expected
    )


def test_nothing_to_predict():
    model = model_for("BertForMaskedLM")
    labels = np.full(sum(BATCH.lengths), -100)
    arrays, gradients = run(model, **BATCH.packed(), labels=labels)
    assert np.isnan(arrays["loss"])  # the mean of no values, as in torch
    assert np.isfinite(arrays["logits"]).all()
    assert not any(gradient.any() for gradient in gradients.values())


def test_pretraining_adds_its_two_losses():
    model = model_for("BertForPreTraining")
    labels, follows = labels_for(model, BATCH), np.array([0, 1, 1, 0])
    both = model(**BATCH.packed(), labels=labels, next_sentence_label=follows)
    tokens = model(**BATCH.packed(), labels=labels).loss.item()
    pairs = model(**BATCH.packed(), next_sentence_label=follows).loss.item()
    assert both.loss.item() == pytest.approx(tokens + pairs, rel=1e-14)
    logits = np.asarray(both.seq_relationship_logits)
    assert pairs == pytest.approx(cross_entropy(logits, follows), rel=1e-12)
    assert model(**BATCH.packed()).loss is None
    assert both.prediction_logits is both.logits


def test_the_decoder_is_the_word_embedding():
    model = model_for("BertForMaskedLM")
    names = [name for name, _ in model.named_parameters()]
    assert "cls.predictions.bias" in names
    assert not [name for name in names if "decoder" in name]
    unused = sorted(set(range(SIZES["vocab_size"])) - set(BATCH.packed()["input_ids"]))
    _, gradients = run(model, **BATCH.packed(), labels=labels_for(model, BATCH))
    rows = gradients["bert.embeddings.word_embeddings.weight"][unused]
    assert np.all(np.any(rows, axis=1))  # not in the input: from the outputs


WRONG = {
    "too large": (np.array([0, 1, 2, 1]), ea.InputError, r"labels\[2\] = 2"),
    "negative": (np.array([0, -1, 1, 1]), ea.InputError, r"labels\[1\] = -1"),
    "floats": (np.array([0.0, 1, 1, 1]), ea.DTypeError, "num_labels=1"),
    "too few": (np.array([0, 1, 1]), ea.ShapeError, "4 sequences"),
    "names": (np.array(["a", "b", "c", "d"]), ea.DTypeError, "numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_labels_that_do_not_fit(case):
    labels, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        model_for("BertForSequenceClassification")(**BATCH.packed(), labels=labels)


def test_token_labels_that_do_not_fit():
    model = model_for("BertForMaskedLM")
    with pytest.raises(ea.ShapeError, match="labels"):
        model(**BATCH.packed(), labels=np.zeros(3, np.int64))
    with pytest.raises(ea.DTypeError, match="labels"):
        model(**BATCH.packed(), labels=np.zeros(sum(BATCH.lengths)))
    with pytest.raises(ea.InputError, match=r"labels\[0\] = 40.*vocab_size is 40"):
        model(**BATCH.packed(), labels=np.full(sum(BATCH.lengths), 40))
    dense = np.full((4, 9), -100)
    dense[2, 0] = -1
    with pytest.raises(ea.InputError, match=r"labels\[2, 0\] = -1: expected 0 to 39"):
        model(**BATCH.padded(), labels=dense)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_smoothing_out_of_range(smoothing):
    model = model_for("BertForSequenceClassification")
    with pytest.raises(ea.ConfigError, match="label_smoothing"):
        model(
            **BATCH.packed(),
            labels=labels_for(model, BATCH),
            label_smoothing=smoothing,
        )
