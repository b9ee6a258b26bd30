"""A Trainer's own loss decides in evaluation as in training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea

IDS = np.random.default_rng(0).integers(3, 40, (24, 6))
ROWS = [{"input_ids": row.tolist(), "label": int(row[0] > 20)} for row in IDS]


def trainer(kind: type[ea.Trainer], folder: Path, rows: Any = ROWS) -> ea.Trainer:
    ea.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
    config = ea.BertConfig(vocab_size=40, num_hidden_layers=1, **sizes)
    args = ea.TrainingArguments(
        str(folder),
        disable_tqdm=True,
        per_device_train_batch_size=4,
        num_train_epochs=2,
        eval_strategy="epoch",
        report_to="none",
    )
    model = ea.BertForSequenceClassification(config)
    return kind(model, args, train_dataset=rows, eval_dataset=rows)


class Hundredfold(ea.Trainer):
    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        return super().compute_loss(model, inputs) * 100


class Flipped(ea.Trainer):
    """Trains on labels that only its own loss can read."""

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        labels = (np.asarray(inputs["labels"]) < 100).astype(np.int64)
        return super().compute_loss(model, {**inputs, "labels": labels})


def test_the_loss_of_evaluation_is_the_own_one(tmp_path):
    usual = trainer(ea.Trainer, tmp_path / "a").evaluate()
    own = trainer(Hundredfold, tmp_path / "b")
    assert math.isclose(
        own.evaluate()["eval_loss"], 100 * usual["eval_loss"], rel_tol=1e-5
    )
    assert own.predict(ROWS).predictions.shape == (24, 2)
    assert own.train().metrics["train_loss"] > 20


def test_labels_that_only_the_own_loss_reads(tmp_path):
    rows = [{**row, "label": 100 + row["label"]} for row in ROWS]
    run = trainer(Flipped, tmp_path, rows)
    run.train()
    assert run.evaluate()["eval_loss"] < 1


@pytest.mark.parametrize(
    "name", ["get_train_dataloader", "prediction_step", "_get_train_sampler", "_save"]
)
def test_methods_that_nothing_calls_are_refused(name):
    with pytest.raises(ea.ConfigError, match=rf"Own.{name}: .* calls no such method"):
        type("Own", (ea.Trainer,), {name: lambda self: None})
    mixin = type("Mixin", (), {name: lambda self: None})
    for bases in ((mixin, ea.Trainer), (ea.Trainer, mixin)):
        with pytest.raises(ea.ConfigError, match=rf"Own.{name}: .* no such method"):
            type("Own", bases, {})
