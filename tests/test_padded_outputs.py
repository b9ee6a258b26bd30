"""Outputs of a collator's padded batches, which may differ in width, make one array."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helpers_translation
import numpy as np
import pytest
from test_trainer_core import SIZES

import evolving_attention as ea
from evolving_attention.data.collate import collate_padded
from evolving_attention.training.alone import Alone
from evolving_attention.training.evaluate import evaluation_loop

LENGTHS = [3, 5, 8, 4, 6, 7, 9, 3, 4, 5]
WIDTHS = [3, 5, 9, 5, 9, 9, 9, 3, 5, 5]  # of their batches of 4, longest first
REAL = np.arange(9) < np.array(LENGTHS)[:, None]
FILLED = np.arange(9) >= np.array(WIDTHS)[:, None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def tagged() -> list[dict[str, Any]]:
    """Returns rows with a label for each token."""
    draw = np.random.default_rng(0).integers
    return [
        {"input_ids": draw(3, 30, n).tolist(), "labels": draw(0, 2, n).tolist()}
        for n in LENGTHS
    ]


def tagger() -> Any:
    ea.manual_seed(0)
    return ea.BertForTokenClassification(ea.BertConfig(**SIZES))


def trainer_of(folder: Path, model: Any, collator: Any = None, **more: Any) -> Any:
    args = ea.TrainingArguments(
        str(folder), per_device_eval_batch_size=4, disable_tqdm=True
    )
    return ea.Trainer(model, args, data_collator=collator, **more)


def of_transformers() -> Any:
    """Returns transformers' collator with a tokenizer that only pads."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0}, "[PAD]"))
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]"
    )
    return transformers.DataCollatorForTokenClassification(words)


def accuracy(pair: Any) -> dict[str, float]:
    """Leaves out the tokens with the label -100, as examples of transformers do."""
    real = pair.label_ids != -100
    right = pair.predictions.argmax(-1)[real] == pair.label_ids[real]
    return {"accuracy": float(right.mean()), "tokens": int(real.sum())}


@pytest.mark.parametrize("made", [lambda: collate_padded, of_transformers])
def test_token_outputs_are_filled_up(tmp_path: Path, made: Callable[[], Any]) -> None:
    rows, model = tagged(), tagger()
    found = trainer_of(tmp_path, model, made(), compute_metrics=accuracy).predict(rows)
    plain = trainer_of(tmp_path, model, compute_metrics=accuracy).predict(rows)
    assert plain.predictions.shape == (sum(LENGTHS), 2)
    assert plain.label_ids.shape == (sum(LENGTHS),)
    assert found.predictions.shape == (len(rows), 9, 2)
    assert found.label_ids.shape == (len(rows), 9)
    assert found.predictions.dtype == plain.predictions.dtype == np.float32
    np.testing.assert_allclose(found.predictions[REAL], plain.predictions, atol=1e-6)
    np.testing.assert_array_equal(found.label_ids[REAL], plain.label_ids)
    assert (found.label_ids[~REAL] == -100).all()
    assert (found.predictions[FILLED] == -100).all()
    for name in ("test_accuracy", "test_tokens", "test_loss"):
        assert found.metrics[name] == pytest.approx(plain.metrics[name], abs=1e-6)


def test_spans_are_filled_up(tmp_path: Path) -> None:
    rows = [
        {"input_ids": row["input_ids"], "start_positions": 1, "end_positions": 2}
        for row in tagged()
    ]
    ea.manual_seed(0)
    model = ea.BertForQuestionAnswering(ea.BertConfig(**SIZES))
    found = trainer_of(tmp_path, model, collate_padded).predict(rows)
    plain = trainer_of(tmp_path, model).predict(rows)
    assert found.predictions.shape == (len(rows), 9, 2)
    np.testing.assert_array_equal(found.label_ids, plain.label_ids)
    np.testing.assert_allclose(found.predictions[REAL], plain.predictions, atol=1e-6)
    assert (found.predictions[FILLED] == -100).all()


def test_padded_pairs_are_filled_up(tmp_path: Path) -> None:
    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        ids = collate_padded([{"input_ids": row["input_ids"]} for row in rows])
        labels = [{"input_ids": row["input_ids"][1:]} for row in rows]
        targets = collate_padded(labels, pad_token_id=-100)["input_ids"]
        return {**ids, "labels": targets}

    model = helpers_translation.model(30)
    found = trainer_of(tmp_path, model, collate).predict(tagged())
    assert found.predictions.shape == (len(LENGTHS), 8, 30)
    assert (found.label_ids != -100).sum(1).tolist() == [n - 1 for n in LENGTHS]
    widths = [8] * 4 + [9] * 4 + [5] * 2  # of the batches, in the order of the data
    filled = np.arange(9) >= np.array(widths)[:, None]
    assert ((found.predictions == -100).all(-1) == filled[:, 1:]).all()


def test_labels_of_unsigned_integers_are_filled_up(tmp_path: Path) -> None:
    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = collate_padded(rows)
        return {**batch, "labels": np.maximum(batch["labels"], 0).astype(np.uint8)}

    found = trainer_of(tmp_path, tagger(), collate).predict(tagged())
    assert found.label_ids[9].tolist() == [*tagged()[9]["labels"], *[-100] * 4]


def test_packed_and_padded_batches_are_not_mixed(tmp_path: Path) -> None:
    rows = tagged()
    rows[0]["attention_mask"] = [1, 0, 1]  # cannot be packed
    with pytest.raises(ea.InputError, match=r"logits are \[…, 2\] .* and \[…, 3, 2\]"):
        trainer_of(tmp_path, tagger()).predict(rows)
    found = trainer_of(tmp_path, tagger(), collate_padded).predict(rows)
    assert found.predictions.shape == (len(rows), 9, 2)


def losses(folder: Path, model: Any, rows: Any, collator: Any = None) -> list[float]:
    """Returns the losses of evaluations in batches of several sizes."""
    found = []
    for size in (1, 2, 3, len(rows)):
        run = trainer_of(folder, model, collator)
        run.args.per_device_eval_batch_size = size
        found.append(run.evaluate(rows)["eval_loss"])
    return found


def test_the_loss_is_the_mean_over_labelled_tokens(tmp_path: Path) -> None:
    rows, model = tagged(), tagger()
    for row in rows[:7]:
        row["labels"][1:] = [-100] * (len(row["labels"]) - 1)
    rows[3]["labels"] = [-100] * LENGTHS[3]  # nothing to learn in this row
    found = losses(tmp_path, model, rows) + losses(
        tmp_path, model, rows, collate_padded
    )
    with ea.no_grad():
        whole = model.eval()(**collate_padded(rows)).loss.item()
    assert found == pytest.approx([whole] * 8, rel=1e-5)


def test_the_loss_is_the_mean_over_answers_that_are_not_cut_off(tmp_path: Path) -> None:
    rows = [{"input_ids": row["input_ids"]} for row in tagged()]
    for i, row in enumerate(rows):
        end = LENGTHS[i] if i in (0, 3, 4, 8) else 2  # one after the last token
        start = i % 3 if end == 2 else end
        row |= {"start_positions": start, "end_positions": end}
    model = ea.BertForQuestionAnswering(ea.BertConfig(**SIZES))
    with ea.no_grad():
        whole = model.eval()(**collate_padded(rows)).loss.item()
    found = losses(tmp_path, model, rows)
    found += losses(tmp_path, model, rows, collate_padded)
    assert found == pytest.approx([whole] * 8, rel=1e-5)


def test_the_loss_is_the_mean_over_rows_of_a_class(tmp_path: Path) -> None:
    rows = [{**row, "labels": i % 2} for i, row in enumerate(tagged())]
    for i in (0, 3, 4, 8):
        rows[i]["labels"] = -100
    model = ea.BertForSequenceClassification(ea.BertConfig(**SIZES))
    with ea.no_grad():
        whole = model.eval()(**collate_padded(rows)).loss.item()
    assert losses(tmp_path, model, rows) == pytest.approx([whole] * 4, rel=1e-5)
    # The number -100 of a regression is a label like any other.
    model = ea.BertForSequenceClassification(ea.BertConfig(**SIZES, num_labels=1))
    with ea.no_grad():
        whole = model.eval()(**collate_padded(rows)).loss.item()
    assert losses(tmp_path, model, rows) == pytest.approx([whole] * 4, rel=1e-5)


def test_the_loss_of_padded_pairs_is_that_of_packed_ones(tmp_path: Path) -> None:
    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        ids = collate_padded([{"input_ids": row["input_ids"]} for row in rows])
        labels = [{"input_ids": row["labels"]} for row in rows]
        return {**ids, "labels": collate_padded(labels, pad_token_id=-100)["input_ids"]}

    model, rows = helpers_translation.model(30), tagged()
    rows = [{**row, "labels": row["input_ids"][i % 3 :]} for i, row in enumerate(rows)]
    found = losses(tmp_path, model, rows, collate)
    assert found == pytest.approx(losses(tmp_path, model, rows), rel=1e-5)


class Pair(Alone):
    """Two threads as the processes of a run; what is sent must fit JSON."""

    size = 2

    def __init__(self, rank: int, barrier: threading.Barrier, sent: list[Any]) -> None:
        self.rank, self.barrier, self.sent = rank, barrier, sent

    def _all(self, value: Any) -> list[Any]:
        self.sent[self.rank] = value
        self.barrier.wait(30)
        found = list(self.sent)
        self.barrier.wait(30)
        return found

    def gather(self, values: list[Any]) -> list[Any]:
        return [x for text in self._all(json.dumps(values)) for x in json.loads(text)]

    def arrays(self, array: np.ndarray) -> np.ndarray:
        parts = [part for part in self._all(array) if len(part)]
        return np.concatenate(parts) if parts else array


@pytest.mark.parametrize("size", [2, 10])  # 10: none is left for the second process
def test_processes_agree_on_the_width(size: int) -> None:
    rows = tagged()
    starts = range(0, len(rows), size)
    batches = [
        collate_padded(rows[i : i + size], range(i, min(i + size, len(rows))))
        for i in starts
    ]
    plain = evaluation_loop(tagger(), batches)
    results: list[Any] = [None, None]
    barrier, sent = threading.Barrier(2), [None, None]

    def work(rank: int) -> None:
        mine = [x if i % 2 == rank else None for i, x in enumerate(batches)]
        team = Pair(rank, barrier, sent)
        results[rank] = evaluation_loop(models[rank], mine, team=team)

    models = [tagger(), tagger()]
    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results:
        np.testing.assert_array_equal(found.predictions, plain.predictions)
        np.testing.assert_array_equal(found.label_ids, plain.label_ids)
