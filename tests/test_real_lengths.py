"""Batches are prepared in the background and by length; steps run little Python."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import make_rows
from test_trainer_core import SIZES, Die, digest, make_trainer, tiny_bert

import evolving_attention as ea
from evolving_attention.data.collate import collate_packed
from evolving_attention.data.features import Features
from evolving_attention.data.loader import PackedLoader
from evolving_attention.errors import InputError
from evolving_attention.training import TrainerCallback, TrainingArguments, loaders
from evolving_attention.training.evaluate import evaluation_loop


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def workers() -> int:
    return sum(t.name == "ea-prefetch" for t in threading.enumerate())


class Watch(TrainerCallback):
    """Counts background threads at the first step and the first evaluated batch."""

    def __init__(self) -> None:
        self.training: int | None = None
        self.evaluation: int | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        if self.training is None:
            self.training = workers()

    def on_prediction_step(self, args: Any, state: Any, c: Any, **kw: Any) -> None:
        if self.evaluation is None:
            self.evaluation = workers()


def flat(rows: list[dict[str, Any]]) -> Features:
    batch = collate_packed(rows)
    ids, offsets = batch["input_ids"], batch["sequence_offsets"]
    return Features(ids, offsets, labels=batch["labels"])


# --------------------------------------------------------------- in the background


@pytest.mark.parametrize("kind", ["list", "features"])
def test_batches_are_made_in_the_background(tmp_path: Path, kind: str) -> None:
    rows: Any = make_rows(44) if kind == "list" else flat(make_rows(44))
    watch = Watch()
    options = {"per_device_eval_batch_size": 2, "num_train_epochs": 1}
    trainer = make_trainer(tmp_path, tiny_bert(), watch, train_dataset=rows, **options)
    trainer.train()
    trainer.predict(rows)
    assert (watch.training, watch.evaluation) == (1, 1)
    assert workers() == 0


@pytest.mark.parametrize(
    ("factor", "collator", "expected"),
    [(0, None, 0), (1, None, 1), (None, collate_packed, 0), (1, collate_packed, 1)],
)
def test_who_decides(
    factor: int | None, collator: Callable[..., Any] | None, expected: int
) -> None:
    args = TrainingArguments("out", dataloader_prefetch_factor=factor)
    rows = make_rows(9)
    for loader in (
        loaders.Loaders(args).training(rows, collator),
        loaders.Loaders(args).evaluation(rows, collator),
    ):
        assert loader.prefetch == expected


def test_code_of_the_caller_stays_in_its_thread() -> None:
    class Strange:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> dict[str, Any]:
            if index > 2:
                raise IndexError
            return {"input_ids": [1] * (index + 1), "label": 0}

    args = TrainingArguments("out", per_device_eval_batch_size=1)
    assert loaders.Loaders(args).training(Strange(), None).prefetch == 0
    loader = loaders.Loaders(args).evaluation(Strange(), None)
    assert (loader.prefetch, loader.longest_first) == (0, False)
    assert [len(batch["input_ids"]) for batch in loader] == [1, 2, 3]


def test_the_same_bits_with_and_without(tmp_path: Path) -> None:
    found = []
    for factor in (0, 2, 7):
        model = tiny_bert()
        trainer = make_trainer(
            tmp_path / str(factor), model, dataloader_prefetch_factor=factor
        )
        trainer.train()
        losses = [e["loss"] for e in trainer.state.log_history if "loss" in e]
        output = trainer.predict(make_rows(23, seed=3))
        loss = output.metrics["test_loss"]
        found.append((digest(model), losses, loss, output.predictions.tobytes()))
    assert found[0] == found[1] == found[2]


def test_errors_come_through_and_leave_no_thread(tmp_path: Path) -> None:
    rows = make_rows(44)
    rows[30]["input_ids"] = []
    trainer = make_trainer(tmp_path / "a", tiny_bert(), train_dataset=rows)
    with pytest.raises(InputError, match="expected a non-empty list of ints") as held:
        trainer.train()
    assert workers() == 0  # although the traceback still holds its frames
    with pytest.raises(InputError, match="expected a non-empty list of ints"):
        trainer.evaluate(rows)
    assert workers() == 0
    with pytest.raises(RuntimeError, match="the machine stopped") as stopped:
        make_trainer(tmp_path / "b", tiny_bert(), Die(1)).train()
    assert workers() == 0
    del held, stopped


def test_stopping_an_evaluation_leaves_no_thread() -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    loader = PackedLoader(make_rows(44), 2, prefetch=2)
    with pytest.raises(KeyboardInterrupt) as held:
        evaluation_loop(tiny_bert(), loader, on_batch=stop)
    assert workers() == 0
    del held


# ----------------------------------------------------------------------- by length


def test_evaluation_goes_by_length_and_answers_in_order() -> None:
    rows = make_rows(37)
    args = TrainingArguments("out", per_device_eval_batch_size=8)
    loader = loaders.Loaders(args).evaluation(rows, None)
    order = np.concatenate(loader.batches())
    lengths = [len(rows[i]["input_ids"]) for i in order]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(order) == list(range(37))
    model = tiny_bert()
    found = evaluation_loop(model, loader)
    plain = evaluation_loop(model, PackedLoader(rows, 8, shuffle=False))
    np.testing.assert_allclose(found.predictions, plain.predictions, atol=1e-6)
    assert found.label_ids.tolist() == [row["label"] for row in rows]
    assert found.loss == pytest.approx(plain.loss, abs=1e-6)
    assert next(iter(loader))["input_ids"].ndim == 1  # packed


# ---------------------------------------------------------- little Python per step


class Calls(TrainerCallback):
    """Counts the calls of Python and C functions in one step."""

    def __init__(self, step: int) -> None:
        self.step, self.count = step, 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        if state.global_step == self.step:
            gc.collect()  # finalizers of what other tests left are no calls of a step
            sys.setprofile(self.see)

    def see(self, frame: Any, event: str, arg: Any) -> None:
        self.count += event in ("call", "c_call")

    def on_step_end(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        sys.setprofile(None)


def test_a_step_makes_the_same_calls_whatever_the_depth(tmp_path: Path) -> None:
    counts = []
    for layers in (2, 24):
        config = ea.BertConfig(
            **{**SIZES, "num_hidden_layers": layers},
            attention=ea.attention.Evolving(alpha=0.3, beta=0.2),
        )
        calls = Calls(step=3)
        make_trainer(
            tmp_path / str(layers),
            ea.BertForSequenceClassification(config),
            calls,
            max_steps=5,
            logging_steps=100,
            dataloader_prefetch_factor=0,
            train_sampling_strategy="sequential",
        ).train()
        counts.append(calls.count)
    assert counts[0] == counts[1]
    assert 0 < counts[0] < 420
