"""Sentence pairs as packed rows, and their use by the Trainer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_translation import model, rows, sentences, tokenizer

import evolving_attention as ea
from evolving_attention.data.packed import PackedDataset
from evolving_attention.data.parallel import ParallelDataset
from evolving_attention.data.parallel_files import ParallelText
from evolving_attention.training import batches


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def same(first: Any, second: Any) -> bool:
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name]) for name in first
    )


def test_batches_hold_both_sides():
    data = ParallelDataset([[5, 2], [6, 7, 2]], [[8, 9, 2], [2]])
    assert isinstance(data, PackedDataset)
    assert data.lengths.tolist() == [5, 4]
    batch = data.gather(np.array([1, 0]))
    assert batch["input_ids"].tolist() == [6, 7, 2, 5, 2]
    assert batch["sequence_offsets"].tolist() == [0, 3, 5]
    assert batch["labels"].tolist() == [2, 8, 9, 2]
    assert batch["decoder_sequence_offsets"].tolist() == [0, 1, 4]
    assert [batches.row_count(batch), batches.token_count(batch)] == [2, 9]
    assert batches.target_count(batch) == 4
    assert data[0]["labels"].tolist() == [8, 9, 2]


def test_parts_of_a_batch_are_the_batches_of_their_rows():
    data, _ = rows(9)
    ids = np.array([4, 0, 8, 3, 5])
    parts = batches.split_rows(data.gather(ids), 3)
    cuts = [ids[:1], ids[1:3], ids[3:]]
    assert all(same(p, data.gather(cut)) for p, cut in zip(parts, cuts, strict=True))
    assert same(batches.single_row(data.gather(ids), 2), data.gather(ids[2:3]))


def test_fingerprints_tell_pairs_apart():
    data = ParallelDataset([[5, 2], [6, 2]], [[8, 2], [9, 2]])
    other = ParallelDataset([[5, 2], [6, 2]], [[9, 2], [8, 2]])
    moved = ParallelDataset([[5], [2, 6, 2]], [[8, 2], [9, 2]])
    assert len({one.fingerprint() for one in (data, other, moved)}) == 3


def test_pairs_with_an_empty_side_are_left_out(caplog: pytest.LogCaptureFixture):
    text = sentences(5)
    with_gaps = ParallelText([*text.source, "", "one"], [*text.target, "two", " "])
    found = ParallelDataset.from_text(with_gaps, tokenizer(), 40)
    assert same(found.gather(range(5)), rows(5)[0].gather(range(5)))
    assert len(found) == 5
    assert "2 pairs with an empty side are left out" in caplog.text


def test_long_sentences_are_refused_or_cut():
    text = ParallelText(["one", "one two three"], ["one two three", "one"])
    words = tokenizer()
    with pytest.raises(ea.DataError, match=r"source:2: has \d+ tokens, .* at most 2"):
        ParallelDataset.from_text(text, words, 2)
    found = ParallelDataset.from_text(text, words, 2, "cut")
    assert found.lengths.tolist() == [4, 4]
    assert [row["input_ids"][-1] for row in found] == [2, 2]


def trainer(folder: Path, **options: Any) -> ea.Trainer:
    data, words = rows()
    arguments = ea.TrainingArguments(
        str(folder),
        learning_rate=3e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=10,
        label_smoothing_factor=0.1,
        disable_tqdm=True,
        **{"num_train_epochs": 2, "save_strategy": "epoch", **options},
    )
    return ea.Trainer(
        model(len(words)),
        arguments,
        train_dataset=data,
        eval_dataset=rows(12, seed=1)[0],
        processing_class=words,
    )


def test_the_trainer_learns_pairs_and_scores_tokens(tmp_path: Path):
    options = {"num_train_epochs": 5, "include_num_input_tokens_seen": True}
    one = trainer(tmp_path, **options)
    before = one.evaluate()["eval_loss"]
    one.train()
    assert one.evaluate()["eval_loss"] < 0.7 * before
    assert one.state.num_input_tokens_seen == 5 * rows()[0].lengths.sum()
    data, whole = rows(12, seed=1)[0], np.zeros(2)
    for index in range(len(data)):
        batch = batches.inputs_of(data.gather([index]))
        loss = [one.model(**batch, label_smoothing=e).loss.item() for e in (0.1, 0)]
        whole += np.array(loss) * len(batch["labels"])
    tokens = sum(len(row["labels"]) for row in data)
    found = one.evaluate()
    expected = pytest.approx(whole / tokens, rel=1e-5)
    assert [found["eval_loss"], found["eval_token_loss"]] == expected
    known = ea.Translator(one.model, one.processing_class).score(*sentences(12, 1)[:2])
    assert known == (pytest.approx(found["eval_token_loss"], rel=1e-5), tokens)
    assert len(one.predict(data).predictions) == tokens


def padded(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """Makes a batch of padded rows, as transformers' collators do."""
    return {name: np.array([row[name] for row in batch]) for name in batch[0]}


def dicts(data: ParallelDataset, width: int) -> list[dict[str, Any]]:
    """Returns pairs as padding="max_length" makes them, and -100 after the target."""
    found = []
    for row in data:
        source, target = row["input_ids"].tolist(), row["labels"].tolist()
        rest = width - len(source)
        mask = [1] * len(source) + [0] * rest
        labels = target + [-100] * (width - len(target))
        ids = source + [0] * rest
        found.append({"input_ids": ids, "attention_mask": mask, "labels": labels})
    return found


class Map:
    """Rows of a class of the caller's own, which does not end by itself."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index % len(self.rows)]


def test_rows_of_pairs_are_packed_like_the_data_set_of_pairs(tmp_path: Path):
    data = rows(12, seed=1)[0]
    options = {"train_sampling_strategy": "group_by_length", "max_steps": 3}
    one = trainer(tmp_path, save_strategy="no", **options)
    start = {n: np.array(v) for n, v in one.model.state_dict().items()}

    def results(given: Any) -> tuple[Any, bytes]:
        one.model.load_state_dict(start)
        one.train_dataset = one.eval_dataset = given
        found, logits = one.evaluate(), one.predict(given).predictions
        one.train()
        losses = found["eval_loss"], found["eval_token_loss"], logits.tobytes()
        return losses, b"".join(bytes(np.array(p)) for p in one.model.parameters())

    expected, wide = results(data), dicts(data, 12)
    alone = [{name: row[name] for name in ("input_ids", "labels")} for row in data]
    for given in (alone, wide):
        assert results(given) == expected
    assert results(Map(wide))[1] == expected[1]  # it is evaluated in its own order
    whole = ea.Trainer(one.model, one.args, data_collator=padded)
    wide[0]["labels"][:2] = [-100, -100]  # before others these have positions
    found = one.evaluate(wide[:1])["eval_loss"]
    assert found == pytest.approx(whole.evaluate(wide[:1])["eval_loss"], rel=1e-5)
    nothing = [{**row, "labels": [-100] * 12} for row in wide[:1]]
    assert np.isfinite(one.evaluate(wide[1:] + nothing)["eval_loss"])


BAD: list[tuple[dict[str, Any], str]] = [
    ({"attention_mask": [1, 0, 1]}, r"row 0 .* excludes tokens between others"),
    ({"labels": 3}, r"row 0 .*labels is int64 of shape \(\); expected a non-empty"),
    ({"labels": []}, "row 0 .*labels is float64 .* expected a non-empty list"),
]


@pytest.mark.parametrize(("bad", "says"), BAD)
def test_rows_that_are_no_pairs(tmp_path: Path, bad: dict[str, Any], says: str):
    row = {"input_ids": [5, 6, 2], "labels": [7, 2]}
    with pytest.raises(ea.InputError, match=says):
        trainer(tmp_path).evaluate([{**row, **bad}])


def test_the_best_model_may_be_that_of_the_lowest_token_loss(tmp_path: Path):
    options: dict[str, Any] = {"eval_strategy": "epoch", "load_best_model_at_end": True}
    one = trainer(tmp_path, metric_for_best_model="token_loss", **options)
    one.train()
    history = [log for log in one.state.log_history if "eval_token_loss" in log]
    assert one.state.best_metric == min(log["eval_token_loss"] for log in history)
    other = trainer(tmp_path / "b", metric_for_best_model="tokenloss", **options)
    with pytest.raises(ea.ConfigError, match="expected one of eval_loss, eval_token_l"):
        other.train()


def test_a_resumed_run_of_batches_of_tokens_has_the_same_bits(tmp_path: Path):
    options = {"per_device_train_batch_tokens": 64, "save_strategy": "steps"}
    trainer(tmp_path / "a", **options, save_steps=500).train()
    trainer(tmp_path / "b", **options, save_steps=7).train()
    rest = trainer(tmp_path / "b", **options, save_steps=7)
    assert len(list(rest._loaders.training(rest.train_dataset, None))) == 9
    for step in (14, 18):  # leaves the checkpoint in the middle of the first epoch
        shutil.rmtree(tmp_path / "b" / f"checkpoint-{step}")
    rest.train(resume_from_checkpoint=True)
    first, second = (
        (tmp_path / name / "checkpoint-18" / "model.safetensors").read_bytes()
        for name in "ab"
    )
    assert first == second
    other = trainer(tmp_path / "b", **options | {"per_device_train_batch_tokens": 65})
    with pytest.raises(ea.CheckpointError, match=r"batch_tokens 64, this one 65"):
        other.train(resume_from_checkpoint=True)
