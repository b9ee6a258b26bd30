"""Token classification, question answering and multiple choice against transformers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import NOWHERE, SIZES, draw, pad_labels
from helpers_parity import (
    BOUNDS,
    as_torch,
    close,
    compare_gradients,
    ours,
    theirs,
    torch,
)

import evolving_attention as ea

pytestmark = pytest.mark.parity
both_types = pytest.mark.parametrize("dtype", BOUNDS)
families = pytest.mark.parametrize("family", ["Bert", "Roberta"])
RNG = np.random.default_rng(6)
BATCH = {name: draw((5, 9, 1, 6), name.lower()) for name in ("Bert", "Roberta")}
OPTIONS = {
    "Bert": {},
    "Roberta": {"pad_token_id": 1, "type_vocab_size": 2, "layer_norm_eps": 1e-5},
}


def both(name, inputs, dtype, tmp_path, **options):
    """Runs forward and backward of both models; returns the outputs."""
    family = "Roberta" if name.startswith("Roberta") else "Bert"
    reference = theirs(name, **OPTIONS[family], **options)
    model = ours(reference, tmp_path, dtype)
    expected = reference(**as_torch(inputs))
    expected.loss.backward()
    found = model(**inputs)
    found.loss.backward()
    close(found.loss, expected.loss.item(), dtype, "loss")
    compare_gradients(model, reference, dtype)
    return found, expected


def even(*shape):
    """Returns ids of equal lengths, thus without padding."""
    return {"input_ids": RNG.integers(2, SIZES["vocab_size"], shape)}


@both_types
@families
@pytest.mark.parametrize("labels", [2, 5])
def test_token_classification(family, labels, dtype, tmp_path):
    batch = BATCH[family]
    valid = batch.valid(2)
    tags = RNG.integers(0, labels, int(valid.sum()))
    tags[::3] = -100
    inputs = {**batch.padded(2), "labels": pad_labels(tags, valid)}
    name = f"{family}ForTokenClassification"
    found, expected = both(name, inputs, dtype, tmp_path, num_labels=labels)
    logits = expected.logits.detach().numpy()[valid]
    close(np.asarray(found.logits)[valid], logits, dtype, "logits")
    assert type(found).__name__ == type(expected).__name__
    assert list(found) == list(expected.keys())


@both_types
@families
def test_question_answering(family, dtype, tmp_path):
    places = {"start_positions": [2, 0, 7, 1], "end_positions": [4, 0, 9, 6]}  # 9: out
    inputs = {**even(4, 8), **{k: np.array(v) for k, v in places.items()}}
    name = f"{family}ForQuestionAnswering"
    found, expected = both(name, inputs, dtype, tmp_path)
    for side in ("start_logits", "end_logits"):
        close(found[side], expected[side].detach(), dtype, side)
    assert type(found).__name__ == type(expected).__name__
    assert list(found) == list(expected.keys())


@both_types
@families
def test_padding_takes_no_part_in_a_span(family, dtype, tmp_path):
    """Compares with transformers' loss when padding has logits of minus infinity."""
    batch = BATCH[family]
    valid = batch.valid(3)
    reference = theirs(f"{family}ForQuestionAnswering", **OPTIONS[family])
    model = ours(reference, tmp_path, dtype)
    expected = reference(**as_torch(batch.padded(3)))
    places = np.array([[4, 0, 0, 5], [4, 8, 0, 11]])  # 11: out of range
    found = model(**batch.padded(3), start_positions=places[0], end_positions=places[1])
    loss = 0
    for side, right in zip(("start_logits", "end_logits"), places, strict=True):
        logits = expected[side].masked_fill(~torch.as_tensor(valid), -torch.inf)
        close(np.asarray(found[side])[valid], logits.detach().numpy()[valid], dtype)
        nowhere = np.asarray(NOWHERE, dtype)
        assert (np.asarray(found[side])[~valid] == nowhere).all()
        right = torch.as_tensor(np.where(right < 9, right, -100))
        loss = loss + torch.nn.functional.cross_entropy(logits, right) / 2
    close(found.loss, loss.item(), dtype, "loss")
    loss.backward()
    found.loss.backward()
    compare_gradients(model, reference, dtype)


@both_types
@families
def test_multiple_choice(family, dtype, tmp_path):
    inputs = even(3, 4, 7)
    inputs["attention_mask"] = np.ones((3, 4, 7), np.int64)
    inputs["attention_mask"][1, 2, 5:] = inputs["attention_mask"][0, 0, 3:] = 0
    inputs["token_type_ids"] = RNG.integers(0, 2, (3, 4, 7))
    inputs["labels"] = np.array([3, 0, 1])
    name = f"{family}ForMultipleChoice"
    found, expected = both(name, inputs, dtype, tmp_path)
    close(found.logits, expected.logits.detach(), dtype, "logits")
    assert list(found) == list(expected.keys())
    one = {key: value[1] for key, value in inputs.items() if key != "labels"}
    alone = ea.AutoModelForMultipleChoice.from_pretrained(tmp_path, dtype=dtype)
    close(alone(**one).logits, expected.logits.detach()[1:2], dtype, "one question")


@families
@pytest.mark.parametrize(
    "task", ["TokenClassification", "QuestionAnswering", "MultipleChoice"]
)
def test_what_we_save_transformers_loads(family, task, tmp_path):
    reference = theirs(f"{family}For{task}", **OPTIONS[family])
    model = ours(reference, tmp_path / "theirs")
    assert not model.load_report.new
    assert not model.load_report.missing
    model.save_pretrained(tmp_path / "ours")
    again, report = type(reference).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for key, value in reference.state_dict().items():
        assert np.array_equal(again.double().state_dict()[key], value), key
