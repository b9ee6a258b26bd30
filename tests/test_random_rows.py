"""Data sets that draw their rows at random: generators, and resumed runs."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel, digest

import evolving_attention as ea
from evolving_attention.data import loader as loader_module
from evolving_attention.data.features import Features
from evolving_attention.data.loader import PackedLoader
from evolving_attention.random_state import get_random_state, set_random_state
from evolving_attention.training import Trainer, TrainerCallback, TrainingArguments


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class Drawn:
    """24 rows whose ids, and perhaps their number, come from a global generator."""

    def __init__(self, draw: Any, longest: int) -> None:
        self.draw, self.longest = draw, longest

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Any]:
        count = 4 + int(self.draw() * (self.longest - 3))
        ids = [int(self.draw() * 30) for _ in range(count)]
        return {"input_ids": ids, "label": index % 2}


class Stop(TrainerCallback):
    """Interrupts the run in the middle of its first epoch."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 3:
            signal.raise_signal(signal.SIGINT)


def run(folder: Path, rows: Any, *callbacks: Any, resume: bool = False) -> str:
    """Trains two epochs of six steps; returns a name for the weights."""
    args = TrainingArguments(
        str(folder),
        train_sampling_strategy="group_by_length",
        per_device_train_batch_size=4,
        num_train_epochs=2,
        learning_rate=0.05,
        disable_tqdm=True,
    )
    model = FakeModel()
    trainer = Trainer(model, args, train_dataset=rows, callbacks=[*callbacks])
    trainer.train(resume_from_checkpoint=resume)
    return digest(model)


def of_torch() -> float:
    """Draws a number from PyTorch's generator, as transformers' collators do."""
    torch = pytest.importorskip("torch")
    return float(torch.rand(()))


@pytest.mark.parametrize("longest", [4, 12])
@pytest.mark.parametrize("draw", [np.random.random, random.random, of_torch])
def test_a_resumed_run_draws_the_same_rows(
    tmp_path: Path, draw: Any, longest: int
) -> None:
    rows = Drawn(draw, longest)
    whole = run(tmp_path / "whole", rows)
    with pytest.raises(ea.errors.Interrupted):
        run(tmp_path / "parts", rows, Stop())
    assert run(tmp_path / "parts", rows, resume=True) == whole


def of_core() -> float:
    """Draws a number from the core's generator."""
    kept = ea.functional.dropout(np.ones(64, np.float32), 0.5)
    return float(np.asarray(kept).sum()) / 128 % 1


@pytest.mark.parametrize("draw", [np.random.random, random.random, of_core, of_torch])
def test_counting_tokens_draws_nothing(draw: Any) -> None:
    rows, orders = Drawn(draw, 12), []
    for seed in (1, 2):
        ea.training.set_seed(seed)
        expected = draw()
        ea.training.set_seed(seed)
        loader = PackedLoader(rows, 4, seed=7)
        assert draw() == expected
        orders.append(np.concatenate(loader.batches()).tolist())
    assert orders[0] == orders[1]


def test_a_state_may_have_been_saved_without_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    with_torch = json.loads(json.dumps(get_random_state()))
    expected = np.random.random(), of_torch()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        set_random_state(with_torch)
        without = get_random_state()
        assert np.random.random() == expected[0]
    assert with_torch.keys() - without.keys() == {"torch"}
    before = torch.get_rng_state()
    set_random_state(without)
    assert torch.equal(torch.get_rng_state(), before)
    set_random_state(with_torch)
    assert (np.random.random(), of_torch()) == expected


def test_rows_that_draw_nothing_leave_the_generators_to_other_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a fit in another thread would go on with this seed")

    monkeypatch.setattr(loader_module, "set_seed", refuse)
    rows = [{"input_ids": [1] * count, "label": 0} for count in (3, 1, 2)]
    packed = Features(np.ones(6, np.int64), np.array([0, 3, 4, 6]))
    for features in (rows, tuple(rows), packed):
        order = PackedLoader(features, 1, shuffle=False, longest_first=True).batches()
        assert np.concatenate(order).tolist() == [0, 2, 1]
