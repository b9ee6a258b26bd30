"""Token classification: scores of entities, and a model that learns to tag."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_squad import model

import evolving_attention as ea

TAGS = ("O", "B-A", "I-A")


def sentences(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Returns rows where 7 begins an entity and 8 continues it; -100 at both ends."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        inside = random.choice([7, 8, 9, 10, 11], random.integers(3, 9))
        ids = np.concatenate([[2], inside, [3]])
        tags = np.where(inside == 7, 1, np.where(inside == 8, 2, 0))
        labels = np.concatenate([[-100], tags, [-100]])
        rows.append({"input_ids": ids.tolist(), "labels": labels.tolist()})
    return rows


def test_the_scores_are_those_of_whole_entities():
    pytest.importorskip("seqeval")
    right = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]
    found = [["B-A", "O", "O", "B-B"], ["O", "B-A"]]
    scores = ea.metrics.entity_scores(found, right)
    assert scores == {
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3),
        "accuracy": pytest.approx(5 / 6),
    }


@pytest.mark.parametrize("given", [["O", "B-A"], "OO"])
def test_a_text_in_place_of_a_list_is_refused(given: Any):
    says = r"entity_scores: references\[0\] is a str, expected a list of texts"
    with pytest.raises(ea.InputError, match=says):
        ea.metrics.entity_scores([["O"], ["O"]], given)


def test_sentences_are_told_apart():
    """An entity at a sentence's end does not continue in the next sentence."""
    pytest.importorskip("seqeval")
    rows = [
        {"input_ids": [2, 9, 7], "labels": [-100, 0, 1]},
        {"input_ids": [8, 9, 0], "labels": [2, 0, 0], "attention_mask": [1, 1, 0]},
    ]
    labels = np.array([-100, 0, 1, 2, 0])
    logits = np.eye(3)[[0, 0, 1, 2, 0]]
    scores = ea.metrics.entity_metrics(TAGS, rows)((logits, labels))
    assert scores["f1"] == 1.0
    logits[3] = [0, 1, 0]  # B-A instead of I-A: the same entity, alone
    assert ea.metrics.entity_metrics(TAGS, rows)((logits, labels))["f1"] == 1.0
    padded = np.array([[-100, 0, 1], [2, 0, -100]])  # by a data_collator
    filled = np.eye(3)[[[0, 0, 1], [2, 0, 0]]]
    assert ea.metrics.entity_metrics(TAGS, rows)((filled, padded)) == scores
    together = [{"input_ids": [2, 9, 7, 8, 9], "labels": labels}]
    assert ea.metrics.entity_metrics(TAGS, together)((logits, labels))["f1"] < 1
    with pytest.raises(ea.ShapeError, match="pass the data set that is evaluated"):
        ea.metrics.entity_metrics(TAGS, rows)((logits[1:], labels[1:]))


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_tokens_without_labels_have_no_scores(form: str):
    pytest.importorskip("seqeval")
    rows = [{"input_ids": [2, 9], "labels": [-100, -100]}] * 3
    shape = (6,) if form == "packed" else (3, 2)
    pair = np.zeros((*shape, 3)), np.full(shape, -100)
    says = "none of 3 sentences has a token with a tag, expected at least one"
    with pytest.raises(ea.InputError, match=says):
        ea.metrics.entity_metrics(TAGS, rows)(pair)
    with pytest.raises(ea.InputError, match="none of 1 sentences"):
        ea.metrics.entity_scores([[]], [[]])
    mixed = ea.metrics.entity_scores([[], ["O"]], [[], ["O"]])
    assert mixed["accuracy"] == 1.0


def test_without_seqeval_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    with pytest.raises(ea.MissingExtraError, match=r"evolving-attention\[ner\]"):
        ea.metrics.entity_scores([["O"]], [["O"]])


def test_a_model_learns_to_tag(tmp_path: Path):
    train, dev = sentences(96), sentences(24, seed=1)
    args = ea.TrainingArguments(
        tmp_path,
        num_train_epochs=4,
        learning_rate=1e-2,
        per_device_train_batch_size=16,
        save_strategy="no",
    )
    names = dict(enumerate(TAGS))
    tagger = model("BertForTokenClassification", id2label=names)

    def accuracy(prediction: Any) -> dict[str, float]:
        logits, labels = prediction
        kept = labels != -100
        assert logits.shape == (len(labels), 3)
        return {"accuracy": float((logits.argmax(-1) == labels)[kept].mean())}

    trainer = ea.Trainer(
        tagger, args, train_dataset=train, eval_dataset=dev, compute_metrics=accuracy
    )
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] > 0.95
