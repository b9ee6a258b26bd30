"""Padded rows train, evaluate and predict like the same rows without padding."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import make_rows
from test_trainer_core import SIZES, digest, make_trainer, tiny_bert

import evolving_attention as ea
from evolving_attention.errors import InputError
from evolving_attention.training.fingerprint import data_fingerprint

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def pad(rows: Rows, left: bool = False, pad_id: int = 0, width: int = 12) -> Rows:
    """Pads as ``tokenizer(text, padding="max_length")`` of transformers does."""
    padded = []
    for row in rows:
        ids = row["input_ids"]
        filler = width - len(ids)
        fields = {
            "input_ids": (ids, pad_id),
            "token_type_ids": ([0] * len(ids), 0),
            "special_tokens_mask": ([0] * len(ids), 1),
            "attention_mask": ([1] * len(ids), 0),
        }
        full = {
            name: [fill] * filler + values if left else values + [fill] * filler
            for name, (values, fill) in fields.items()
        }
        padded.append({**full, "label": row["label"]})
    return padded


def as_datasets(layout: str) -> Any:
    """Returns a function from rows to a ``datasets.Dataset`` in this format."""
    datasets = pytest.importorskip("datasets")
    if layout == "torch":
        pytest.importorskip("torch")
    return lambda rows: datasets.Dataset.from_list(rows).with_format(layout)


def results(folder: Path, rows: Any, dev: Any) -> list[Any]:
    """Returns weights after training, losses, metrics and logits."""
    model = tiny_bert()
    trainer = make_trainer(folder, model, train_dataset=rows, num_train_epochs=1)
    trainer.train()
    metrics = trainer.evaluate(dev)
    output = trainer.predict(dev)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    kept = [metrics["eval_loss"], metrics["eval_accuracy"]]
    return [digest(model), losses, kept, output.predictions.tobytes()]


@pytest.mark.parametrize("kind", ["left", "right", "numpy", "torch", None])
def test_the_same_bits_as_without_padding(tmp_path: Path, kind: str | None) -> None:
    make = (lambda rows: rows) if kind in ("left", "right") else as_datasets(kind)
    train, dev = make_rows(24), make_rows(11, seed=4)
    expected = results(tmp_path / "a", make(train), make(dev))
    left = kind == "left"
    found = results(tmp_path / "b", make(pad(train, left)), make(pad(dev, left)))
    assert found == expected


@pytest.mark.parametrize("left", [False, True])
def test_language_models_with_ignored_labels(left: bool, tmp_path: Path) -> None:
    rows = [
        {"input_ids": row["input_ids"], "labels": [-100, *row["input_ids"][1:]]}
        for row in make_rows(12)
    ]
    padded = []
    for row in rows:
        filler = 12 - len(row["input_ids"])
        parts = {**row, "attention_mask": [1] * len(row["input_ids"])}
        for name, values in parts.items():
            fill = [-100 if name == "labels" else 1] * filler
            if name == "attention_mask":
                fill = [0] * filler
            parts[name] = fill + values if left else values + fill
        padded.append(parts)
    ea.manual_seed(0)
    sizes = {**SIZES, "pad_token_id": 1, "max_position_embeddings": 20}
    model = ea.RobertaForMaskedLM(ea.RobertaConfig(**sizes))
    args = ea.TrainingArguments(str(tmp_path), per_device_eval_batch_size=5)
    trainer = ea.Trainer(model, args)
    expected, found = trainer.predict(rows), trainer.predict(padded)
    assert found.metrics["test_loss"] == expected.metrics["test_loss"]
    assert np.array_equal(found.predictions, expected.predictions)
    assert np.array_equal(found.label_ids, expected.label_ids)


@pytest.mark.parametrize("name", ["Bert", "Roberta"])
def test_a_mask_with_zeros_inside_is_read_as_by_the_model(
    name: str, tmp_path: Path
) -> None:
    ea.manual_seed(0)
    sizes = {**SIZES, "pad_token_id": 1, "max_position_embeddings": 20}
    config = getattr(ea, f"{name}Config")(**sizes)
    model = getattr(ea, f"{name}ForSequenceClassification")(config).eval()
    rows = pad(make_rows(9, seed=3), pad_id=1)
    for row in rows:
        row["attention_mask"][1] = 0 if row["attention_mask"][2] else 1
    trainer = ea.Trainer(model, ea.TrainingArguments(str(tmp_path)))
    found = trainer.predict(rows).predictions
    with ea.no_grad():
        for row, logits in zip(rows, found, strict=True):
            inputs = {key: [row[key]] for key in ("input_ids", "attention_mask")}
            expected = model(**inputs).logits.numpy()[0]
            np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)


def test_a_row_of_padding_alone_is_refused(tmp_path: Path) -> None:
    rows = pad(make_rows(9))
    rows[4]["attention_mask"] = [0] * 12
    with pytest.raises(InputError, match="with at least one token"):
        make_trainer(tmp_path, tiny_bert(), train_dataset=rows).train()


def test_unused_keys_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{**row, "idx": 3} for row in pad(make_rows(8))]
    trainer = make_trainer(tmp_path, tiny_bert(), train_dataset=rows, max_steps=1)
    trainer.train()
    trainer.evaluate(pad(make_rows(8)))
    trainer.predict([dict(row) for row in rows])
    trainer.predict(make_rows(8))
    assert [record.getMessage() for record in caplog.records] == [
        f"keys of the rows that are not used: {names}; your own data_collator can "
        "use them"
        for names in ("special_tokens_mask, idx", "special_tokens_mask")
    ]


def test_a_collator_of_ones_own_gets_all_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    def collate(rows: Rows) -> dict[str, Any]:
        seen.extend(rows)
        names = ("input_ids", "attention_mask")
        return {name: np.array([row[name] for row in rows]) for name in names}

    rows = pad(make_rows(8))
    args = ea.TrainingArguments(str(tmp_path))
    trainer = ea.Trainer(tiny_bert(), args, data_collator=collate)
    logits = trainer.predict(rows).predictions
    assert all(set(row) == set(rows[0]) for row in seen)
    assert caplog.records == []
    args = ea.TrainingArguments(str(tmp_path))
    plain = ea.Trainer(tiny_bert(), args).predict(make_rows(8)).predictions
    np.testing.assert_allclose(logits, plain, rtol=0, atol=1e-6)


def test_a_run_is_not_resumed_with_another_mask() -> None:
    rows = make_rows(8)
    masked = [{**row, "attention_mask": [1] * len(row["input_ids"])} for row in rows]
    assert data_fingerprint(masked) == data_fingerprint(rows)
    masked[3]["attention_mask"][0] = 0
    assert data_fingerprint(masked) != data_fingerprint(rows)
