"""``ea.DataCollatorForMultipleChoice``: ragged texts as one padded batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, tiny

import evolving_attention as ea

TOKENIZER = SimpleNamespace(pad_token_id=3)
LENGTHS = [[5, 2, 7], [1, 9, 4]]


def rows(fields: tuple[str, ...] = ("attention_mask", "token_type_ids")) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for i, lengths in enumerate(LENGTHS):
        row: dict[str, Any] = {"input_ids": [rng.integers(4, 40, n) for n in lengths]}
        row["attention_mask"] = [[1] * n for n in lengths]
        row["token_type_ids"] = [[0] * (n // 2) + [1] * (n - n // 2) for n in lengths]
        row = {n: v for n, v in row.items() if n == "input_ids" or n in fields}
        found.append({**row, "label": 2 - i, "id": f"question {i}"})
    return found


def test_it_pads_to_the_longest():
    batch = ea.DataCollatorForMultipleChoice(TOKENIZER)(rows())
    assert {name: array.shape for name, array in batch.items()} == {
        "input_ids": (2, 3, 9),
        "attention_mask": (2, 3, 9),
        "token_type_ids": (2, 3, 9),
        "labels": (2,),
    }
    assert all(array.dtype == np.int64 for array in batch.values())
    assert batch["attention_mask"].sum(-1).tolist() == LENGTHS
    assert (batch["input_ids"][batch["attention_mask"] == 0] == 3).all()
    first = rows()[0]["input_ids"][1].tolist()
    assert batch["input_ids"][0, 1].tolist() == [*first, *[3] * 7]
    assert batch["labels"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({"padding": "longest", "pad_to_multiple_of": 4}, 12),
        ({"padding": "max_length", "max_length": 10}, 10),
        ({"pad_to_multiple_of": 3}, 9),
    ],
)
def test_lengths(options: dict[str, Any], width: int):
    plain = ea.DataCollatorForMultipleChoice(TOKENIZER)(rows())
    batch = ea.DataCollatorForMultipleChoice(TOKENIZER, **options)(rows())
    for name, fill in (("input_ids", 3), ("attention_mask", 0), ("token_type_ids", 0)):
        assert batch[name].shape == (2, 3, width)
        assert np.array_equal(batch[name][..., :9], plain[name])
        assert (batch[name][..., 9:] == fill).all()


def test_it_is_transformers(tmp_path: Any):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(["[UNK]", "[CLS]", "[SEP]", "[PAD]"]))
    theirs = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    assert theirs.pad_token_id == 3
    plain = [{k: v for k, v in row.items() if k != "id"} for row in rows()]
    plain = [
        {k: [list(map(int, x)) for x in v] if k != "label" else v for k, v in r.items()}
        for r in plain
    ]
    options = {"pad_to_multiple_of": 4}
    other = transformers.DataCollatorForMultipleChoice(theirs, **options)
    expected = other([dict(row) for row in plain])
    found = ea.DataCollatorForMultipleChoice(theirs, **options)(plain)
    assert {*found} == {*expected}
    for name, array in found.items():
        assert np.array_equal(array, expected[name].numpy())


@pytest.mark.parametrize("fields", [(), ("attention_mask", "token_type_ids")])
def test_a_trainer_takes_it(fields: tuple[str, ...], tmp_path: Any):
    """The logits are those of each question alone, without padding."""
    model = tiny("BertForMultipleChoice", **NO_DROPOUT).eval()
    collator = ea.DataCollatorForMultipleChoice(TOKENIZER)
    args = ea.TrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=2, log_level="error"
    )
    data = [{k: v for k, v in row.items() if k != "id"} for row in rows(fields)] * 2
    trainer = ea.Trainer(model, args, data_collator=collator, train_dataset=data)
    output = trainer.predict(data)
    assert output.predictions.shape == (4, 3)
    for row, logits in zip(data, output.predictions, strict=True):
        for choice in range(3):
            given = {name: [[row[name][choice]]] for name in ("input_ids", *fields[1:])}
            with ea.no_grad():
                alone = np.asarray(model(**given).logits)
            np.testing.assert_allclose(alone[0, 0], logits[choice], rtol=0, atol=1e-5)
    before = output.metrics["test_loss"]
    assert trainer.train().global_step == 2
    assert trainer.predict(data).metrics["test_loss"] < before


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c: c(TOKENIZER, padding=False), ea.ConfigError, "padding=False, expec"),
        (
            lambda c: c(TOKENIZER, return_tensors="pt"),
            ea.ConfigError,
            "return_tensors='pt', expected 'np'",
        ),
        (
            lambda c: c(TOKENIZER, padding="max_length"),
            ea.ConfigError,
            "needs max_length",
        ),
        (
            lambda c: c(TOKENIZER, pad_to_multiple_of=0),
            ea.ConfigError,
            "pad_to_multiple_of=0, expected a whole number, 1 or more",
        ),
        (
            lambda c: c(TOKENIZER)([{"input_ids": [[1], [2]]}, {"input_ids": [[1]]}]),
            ea.InputError,
            r"have \[2, 1\] texts, expected one number",
        ),
        (lambda c: c(TOKENIZER)([]), ea.InputError, r"have \[\] texts"),
        (
            lambda c: c(TOKENIZER)([{"input_ids": [[1]], "attention_mask": []}]),
            ea.InputError,
            "row 0 has 1 texts but 0 attention_mask",
        ),
        (
            lambda c: c(TOKENIZER, "max_length", 2)([{"input_ids": [[1, 2, 3]]}]),
            ea.InputError,
            "3 tokens > pad_to_length 2",
        ),
    ],
)
def test_mistakes(call: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        call(ea.DataCollatorForMultipleChoice)
