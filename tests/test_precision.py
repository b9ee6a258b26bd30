"""precision="auto" picks the faster type and changes nothing else in the run."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel
from test_trainer_core import Die, digest, make_trainer, tiny_bert

import evolving_attention as ea
from evolving_attention.errors import CheckpointError, ConfigError, OutOfMemory
from evolving_attention.training import Trainer, TrainingArguments, precision, runtime
from evolving_attention.training.loaders import Loaders

OTHER = {"float32": "bfloat16", "bfloat16": "float32"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(runtime, "has_fast_bfloat16", lambda device="cpu": True)


def let_win(monkeypatch: pytest.MonkeyPatch, winner: str) -> list[str]:
    """Fakes a clock: ``winner`` takes 1 s a step, others 2; returns timed types."""
    seen: list[str] = []
    times = precision.seconds_of_steps

    def timed(model: Any, *rest: Any) -> float:
        seen.append(model.dtype)
        step = 1.0 if model.dtype == winner else 2.0
        ticks = itertools.accumulate(itertools.repeat(step))
        monkeypatch.setattr(precision, "_clock", lambda: next(ticks))
        return times(model, *rest)

    monkeypatch.setattr(precision, "seconds_of_steps", timed)
    return seen


def never(*_: Any) -> float:
    raise AssertionError("timed again")


# ------------------------------------------------------------------- the choice


@pytest.mark.parametrize("own", precision.CHOICES)
@pytest.mark.parametrize("winner", precision.CHOICES)
def test_the_faster_type_wins_and_changes_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own: str,
    winner: str,
) -> None:
    timed = let_win(monkeypatch, winner)
    start = tiny_bert("bfloat16").copy(own)  # same weights in both types
    trainer = make_trainer(tmp_path / "auto", start, precision="auto")
    trainer.train()
    assert timed == list(precision.CHOICES)
    assert trainer.model is start
    assert start.dtype == winner

    named = tiny_bert("bfloat16").copy(winner)
    explicit = make_trainer(tmp_path / "named", named, precision=winner)
    explicit.train()
    assert digest(start) == digest(named)
    losses = [
        [e["loss"] for e in t.state.log_history if "loss" in e]
        for t in (trainer, explicit)
    ]
    assert losses[0] == losses[1]

    found = trainer.state.precision
    assert found is not None
    assert found["chosen"] == winner
    assert found[f"{winner}_seconds"] == 3.0
    assert found[f"{OTHER[winner]}_seconds"] == 6.0
    assert found["reason"] == f"2.00 times as fast as {OTHER[winner]} over 3 steps"
    said = capsys.readouterr().err
    assert f"precision_chosen {winner}" in said
    assert found["reason"] in said
    lines = (tmp_path / "auto" / "log.jsonl").read_text().splitlines()
    logged = [e for e in map(json.loads, lines) if "precision_chosen" in e]
    assert [e["precision_float32_seconds"] for e in logged] == [
        found["float32_seconds"]
    ]
    assert "precision_bfloat16_seconds" in logged[0]
    assert explicit.state.precision is None


def test_timing_leaves_weights_generators_and_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_bert()
    trainer = make_trainer(tmp_path, model, precision="auto")
    before = digest(model), runtime.get_random_state(), ea.get_num_threads()
    let_win(monkeypatch, "float32")
    found = precision.settle(
        model,
        trainer.args,
        None,
        team=trainer.team,
        batches=lambda: Loaders(trainer.args).training(trainer.train_dataset, None),
        compute_loss=trainer.compute_loss,
    )
    assert found is not None
    assert found["chosen"] == "float32"
    assert (digest(model), runtime.get_random_state(), ea.get_num_threads()) == before
    assert all(p.grad is None for p in model.parameters())


def test_few_rows_are_gone_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_win(monkeypatch, "bfloat16")
    rows = [{"input_ids": [1, 2], "label": 0}]
    trainer = make_trainer(tmp_path, tiny_bert(), precision="auto", train_dataset=rows)
    trainer.train()
    assert trainer.state.precision["float32_seconds"] == 6.0


def test_without_instructions_nothing_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "has_fast_bfloat16", lambda device="cpu": False)
    monkeypatch.setattr(precision, "seconds_of_steps", never)
    model = tiny_bert("bfloat16")
    trainer = make_trainer(tmp_path, model, precision="auto")
    trainer.train()
    assert model.dtype == "float32"
    assert "no bfloat16 instructions" in trainer.state.precision["reason"]


@pytest.mark.parametrize(
    ("info", "fast"),
    [
        ({"avx512_bf16": True, "amx_bf16": False, "isa_used": "avx512"}, True),
        ({"avx512_bf16": False, "amx_bf16": True, "isa_used": "avx512"}, True),
        ({"avx512_bf16": True, "amx_bf16": True, "isa_used": "avx2"}, False),
        ({"avx512_bf16": False, "amx_bf16": False, "isa_used": "avx512"}, False),
    ],
)
def test_what_counts_as_fast(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, Any], fast: bool
) -> None:
    monkeypatch.undo()  # undoes the fixture
    core = type("Core", (), {"build_info": staticmethod(lambda: info)})
    monkeypatch.setattr(runtime, "_core", core)
    assert runtime.has_fast_bfloat16() is fast


def test_a_type_that_fails_loses() -> None:
    def one(dtype: str) -> float:
        if dtype == "bfloat16":
            raise OutOfMemory("short")
        return 1.0

    def none(dtype: str) -> float:
        raise OutOfMemory("short")

    choice = precision.choose("bfloat16", one)
    assert choice["chosen"] == "float32"
    assert "OutOfMemory in bfloat16" in choice["reason"]
    assert "bfloat16_seconds" not in choice
    choice = precision.choose("bfloat16", none)
    assert choice["chosen"] == "bfloat16"
    assert "the model's own type" in choice["reason"]


def test_a_tie_stays_in_float32() -> None:
    assert precision.choose("bfloat16", lambda dtype: 1.0)["chosen"] == "float32"


# -------------------------------------------------------------------- resuming


@pytest.mark.parametrize("winner", precision.CHOICES)
def test_a_resumed_run_keeps_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, winner: str
) -> None:
    options = {"precision": "auto", "save_strategy": "steps", "save_steps": 1}
    let_win(monkeypatch, winner)
    whole = tiny_bert()
    one = make_trainer(tmp_path / "a", whole, **options)
    one.train()
    with pytest.raises(RuntimeError):
        make_trainer(tmp_path / "b", tiny_bert(), Die(5), **options).train()
    monkeypatch.setattr(precision, "seconds_of_steps", never)
    stopped = tiny_bert(OTHER[winner])
    two = make_trainer(tmp_path / "b", stopped, **options)
    two.train(resume_from_checkpoint=True)
    assert stopped.dtype == winner
    assert digest(stopped) == digest(whole)
    assert two.state.precision == one.state.precision
    assert sum("precision_chosen" in e for e in two.state.log_history) == 1


def test_auto_goes_on_in_the_type_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"save_strategy": "steps", "save_steps": 6}
    make_trainer(tmp_path, tiny_bert("bfloat16"), bf16=True, **options).train()
    whole = tiny_bert("bfloat16")
    make_trainer(tmp_path / "x", whole, bf16=True, **options).train()
    monkeypatch.setattr(precision, "seconds_of_steps", never)
    model = tiny_bert()
    trainer = make_trainer(tmp_path, model, precision="auto", **options)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-12"))
    assert digest(model) == digest(whole)
    assert trainer.state.precision["chosen"] == "bfloat16"


def test_a_checkpoint_without_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"dtype": "float64"}')
    with pytest.raises(CheckpointError, match="the run was in 'float64', expected fl"):
        precision._saved_choice(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="the element type of the run cannot be"):
        precision._saved_choice(tmp_path)


# ------------------------------------------------------------------- wrong values


def test_what_cannot_be_chosen_for_is_refused(tmp_path: Path) -> None:
    args = TrainingArguments(str(tmp_path), precision="auto")
    with pytest.raises(ConfigError, match="of float64, expected a model"):
        Trainer(tiny_bert("float64"), args)
    with pytest.raises(ConfigError, match="a FakeModel of float32, expected a model"):
        Trainer(FakeModel(), args)
    model = tiny_bert()
    own = ea.optim.AdamW(model.parameters())
    with pytest.raises(ConfigError, match="your own optimizer, expected none"):
        Trainer(model, args, optimizers=(own, None))


# ------------------------------------------------------------------ the conversion


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_to_is_what_loading_in_that_type_gives(tmp_path: Path, dtype: str) -> None:
    model = tiny_bert()
    model.save_pretrained(tmp_path)
    loaded = ea.BertForSequenceClassification.from_pretrained(tmp_path, dtype=dtype)
    second = model.copy(dtype)
    assert second.training
    assert second is not model
    assert model.dtype == "float32"
    assert model.to(dtype) is model
    assert model.dtype == dtype
    assert digest(model) == digest(second) == digest(loaded)
    ids = np.array([[1, 2, 3]])
    expected = np.asarray(loaded(ids).logits)
    for each in (model, second):
        found = np.asarray(each.eval()(ids).logits)
        assert found.tobytes() == expected.tobytes()


def test_a_copy_is_on_its_own() -> None:
    model = tiny_bert()
    second, before = model.copy(), digest(model)
    for _, tensor in second.named_parameters():
        tensor.copy_(np.zeros(tensor.shape, np.float32))
    assert digest(model) == before
    with pytest.raises(ConfigError, match="dtype='float16'; expected one of"):
        model.to("float16")
    assert digest(model) == before
