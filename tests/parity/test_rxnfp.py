"""rxnfp, a real BERT with both pre-training heads, against recorded float64 outputs."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def expected(data_dir):
    """Loads outputs of transformers, computed in float64, stored as float32."""
    path = data_dir / "pretrained" / "reference_outputs" / "rxnfp_pretrained.npz"
    if not path.is_file():
        pytest.skip(f"no reference outputs at {path}")
    with np.load(path) as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def model(rxnfp):
    return ea.AutoModelForPreTraining.from_pretrained(rxnfp)


@pytest.fixture(scope="module")
def found(model, expected):
    with ea.no_grad():
        return model(
            expected["input_ids"],
            expected["attention_mask"],
            output_hidden_states=True,
            output_attentions=True,
        )


@pytest.fixture(scope="module")
def valid(expected):
    return expected["attention_mask"] > 0


def test_nothing_is_missing_or_left_over(model):
    report = model.load_report
    assert (report.missing, report.mismatched, report.new) == ([], [], [])
    assert report.unexpected == []
    assert report.loaded == len(list(model.named_parameters()))


def test_hidden_states(found, expected, valid):
    assert len(found.hidden_states) == 13
    for i, states in enumerate(found.hidden_states):
        difference = np.asarray(states)[valid] - expected["hidden_states"][i][valid]
        assert np.abs(difference).max() <= 1e-5, i


def test_attentions(found, expected, valid):
    assert len(found.attentions) == 12
    for i, maps in enumerate(found.attentions):
        theirs = expected["attentions"][i] * valid[:, None, :, None]
        assert np.abs(np.asarray(maps) - theirs).max() <= 1e-5, i


def test_logits(found, expected, valid):
    words = np.asarray(found.prediction_logits)[valid]
    reference = expected["prediction_logits"][valid]
    # Logits reach 40 here, so the bound is relative to the largest one.
    assert np.abs(words - reference).max() <= 1e-5 * np.abs(reference).max()
    assert np.array_equal(words.argmax(-1), reference.argmax(-1))
    pairs = np.asarray(found.seq_relationship_logits)
    assert np.abs(pairs - expected["seq_relationship_logits"]).max() <= 1e-5


def test_the_encoder_and_the_classifier_load_from_it(rxnfp, expected, found, valid):
    base = ea.AutoModel.from_pretrained(rxnfp)
    with ea.no_grad():
        out = base(expected["input_ids"], expected["attention_mask"])
    last = np.asarray(found.hidden_states[12])
    assert np.array_equal(np.asarray(out.last_hidden_state)[valid], last[valid])
    classifier = rxnfp.parent / "bert_ft_10k_25s"
    if not (classifier / "config.json").is_file():
        pytest.skip("no classifier with the pre-trained checkpoint")
    model = ea.AutoModelForSequenceClassification.from_pretrained(classifier)
    assert model.load_report.new == []
    with ea.no_grad():
        logits = model(np.array([[12, 14, 13]])).logits
    assert logits.shape == (1, model.config.num_labels)
    assert np.isfinite(np.asarray(logits)).all()
