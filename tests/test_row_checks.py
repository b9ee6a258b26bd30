"""Labels and token ids that the model does not have are found before the first step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.data.features import Features
from evolving_attention.training import row_checks
from evolving_attention.training.trainer import Trainer

WORDS = 20
BAD = 33  # a row that no batch of the run holds
Row = dict[str, Any]


def model(kind: str = "SequenceClassification", **options: Any) -> Any:
    ea.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ea.BertConfig(vocab_size=WORDS, intermediate_size=8, **sizes, **options)
    return getattr(ea, f"BertFor{kind}")(config)


def rows(**bad: Any) -> list[Row]:
    """Returns 40 rows, one of them with other values."""
    found: list[Row] = [{"input_ids": [2, 3, i % 9], "label": i % 2} for i in range(40)]
    found[BAD] |= bad
    return found


class Lazy:
    """A data set that makes its rows when they are read."""

    def __init__(self, rows: list[Row]) -> None:
        self.made = rows

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, index: int) -> Row:
        return dict(self.made[index])


def packed(rows: list[Row]) -> Features:
    lengths = [len(row["input_ids"]) for row in rows]
    ids = np.concatenate([row["input_ids"] for row in rows])
    labels = np.array([row["label"] for row in rows])
    return Features(ids, np.cumsum([0, *lengths]), labels=labels)


FORMS = {"list": list, "lazy": Lazy, "packed": packed}


def train(
    folder: Path, data: Any, net: Any = None, kind: Any = Trainer, **options: Any
) -> int:
    """Trains on the first rows alone; returns the number of steps."""
    args = ea.TrainingArguments(
        str(folder / "out"),
        max_steps=2,
        save_strategy="no",
        per_device_train_batch_size=2,
        train_sampling_strategy="sequential",
        eval_strategy="epoch" if "eval_dataset" in options else "no",
    )
    trainer = kind(net or model(), args, train_dataset=data, **options)
    return int(trainer.train().global_step)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"label": 2}, "label is 2, expected 0 to 1 (the model's num_labels is 2)"),
        ({"label": -1}, "label is -1, expected 0 to 1"),
        ({"input_ids": [4, -4, 5]}, "input_ids[1] is -4, expected 0 to 19 (the model"),
        ({"input_ids": [4, 5, 20]}, "input_ids[2] is 20, expected 0 to 19 (the model"),
    ],
)
def test_the_row_is_named_before_the_first_step(
    tmp_path: Path, form: str, bad: Row, says: str
) -> None:
    steps: list[int] = []
    count = {"on_step_end": lambda *_, **__: steps.append(1)}
    options = {"callbacks": [type("Count", (ea.TrainerCallback,), count)()]}
    if form == "packed":
        says = says.replace("label is", "labels is")
    data = FORMS[form](rows(**bad))
    with pytest.raises(ea.InputError, match=re.escape(f"train_dataset[{BAD}]: {says}")):
        train(tmp_path, data, **options)
    if form != "lazy":  # which is read when it is evaluated
        says = f"eval_dataset[{BAD}]: {says}"
        with pytest.raises(ea.InputError, match=re.escape(says)):
            train(tmp_path, rows(), eval_dataset=data, **options)
    assert steps == []


@pytest.mark.parametrize("form", FORMS)
def test_labels_that_the_loss_ignores(tmp_path: Path, form: str) -> None:
    assert train(tmp_path, FORMS[form](rows(label=-100))) == 2


@pytest.mark.parametrize(
    "bad",
    [
        {"input_ids": [4, -4, 5], "attention_mask": [1, 0, 1]},
        {"input_ids": [4, 5, -100], "attention_mask": [1, 1, 0]},
    ],
)
def test_values_that_no_model_reads(tmp_path: Path, bad: Row) -> None:
    assert train(tmp_path, rows(**bad)) == 2
    both = [{**row, "labels": 1, "label": 7} for row in rows()]
    assert train(tmp_path / "both", both) == 2  # labels count


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_classes_are_whole_numbers(tmp_path: Path, value: float) -> None:
    says = rf"train_dataset\[{BAD}\]: label is {value}, expected 0 to 1"
    with pytest.raises(ea.InputError, match=says):
        train(tmp_path, rows(label=value))


def test_scores_are_any_numbers(tmp_path: Path) -> None:
    data = [{**row, "label": float(row["label"])} for row in rows(label=7)]
    assert train(tmp_path, data, model(num_labels=1)) == 2


@pytest.mark.parametrize(
    ("kind", "most"), [("TokenClassification", 1), ("MaskedLM", WORDS - 1)]
)
def test_labels_of_tokens(tmp_path: Path, kind: str, most: int) -> None:
    good = [{**row, "labels": [-100, most, 0]} for row in rows()]
    for row in good:
        del row["label"]
    assert train(tmp_path, good, model(kind)) == 2
    good[BAD]["labels"] = [0, most + 1, -100]
    says = rf"\[{BAD}\]: labels\[1\] is {most + 1}, expected 0 to {most} "
    with pytest.raises(ea.InputError, match=says):
        train(tmp_path, good, model(kind))


def test_texts_and_their_classes(tmp_path: Path) -> None:
    tokenizer = ea.text.train_word_level(["a film"])
    texts = [{"text": "a film", "label": i % 2} for i in range(40)]
    texts[BAD]["label"] = 2
    options = {"processing_class": tokenizer}
    with pytest.raises(ea.InputError, match=rf"train_dataset\[{BAD}\]: labels is 2, "):
        train(tmp_path, texts, **options)
    hidden = [{**row, "label": -1} for row in texts]
    with pytest.raises(ea.InputError, match="in each row, not -1 in all of them"):
        train(tmp_path, hidden, **options)


def test_own_losses_and_collators_read_any_label(tmp_path: Path) -> None:
    class Half(Trainer):
        def compute_loss(self, model: Any, inputs: Row) -> Any:
            kept = {**inputs, "labels": np.abs(inputs["labels"])}
            return super().compute_loss(model, kept)

    data = rows(label=-1)
    assert train(tmp_path, data, kind=Half) == 2
    assert train(tmp_path, data, data_collator=ea.data.collate.collate_padded) == 2


def test_the_rows_of_the_caller_stay_as_they_are(tmp_path: Path) -> None:
    limits = row_checks.limits_of(model(), True)
    lazy = Lazy(rows())
    seen = row_checks.checked(lazy, "train_dataset", limits)
    assert len(seen) == 40
    assert [*seen] == lazy.made
    assert seen.made is lazy.made
    for other in (rows(), packed(rows())):
        assert row_checks.checked(other, "train_dataset", limits) is other
