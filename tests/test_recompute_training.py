"""Gradient checkpointing with steps written in Python, and in the Trainer."""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel, accuracy, make_rows
from helpers_models import assert_same_bits, gradients, tiny
from helpers_recompute import both, inputs_of, switched

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

# --- a step written in Python ---------------------------------------------------------


def kind_of(step: Callable[..., Any]) -> Any:
    """Returns an unregistered kind with this step and one parameter."""

    class Kind(ea.attention.CustomEvolve):
        def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
            return {"gain": np.full(1, 0.7)}

        def step(self, scores: Any, previous: Any, context: Any) -> Any:
            return step(scores, previous, context)

    return Kind()


def mixed(scores: Any, previous: Any, context: Any) -> Any:
    own = scores * context.parameters["gain"]
    return own if previous is None else F.axpby(0.5, own, 0.3, previous)


def in_another_thread(draws: int) -> None:
    def work() -> None:
        for _ in range(draws):
            F.dropout(ea.Tensor(np.ones(3, np.float32)), 0.5)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("carries", [1, 2])
def test_a_custom_step(carries: int) -> None:
    """The step may draw random numbers while other threads draw too."""
    steps = 0

    def step(scores: Any, previous: Any, context: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps <= 6:  # only in the forward passes
            in_another_thread(steps)
        maps = F.dropout(mixed(scores, previous, context), 0.2)
        return maps if carries == 1 else (maps * 0.9, maps)

    def run(on: bool) -> dict[str, Any]:
        nonlocal steps
        steps = 0
        model = switched(tiny("BertForMaskedLM", kind_of(step)), on)
        inputs = inputs_of(model)
        outs = [model(**inputs) for _ in range(2)]
        for out in outs:
            out.loss.backward()
        assert steps == (12 if on else 6)
        return gradients(model) | {str(i): np.array(o.loss) for i, o in enumerate(outs)}

    both(run, again=6)


def test_a_custom_step_outlives_its_model() -> None:
    """Native code releases the graph's last reference to a layer during backward."""

    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(attention=kind_of(mixed)), on)
        parameters = dict(model.named_parameters())
        loss = model(**inputs_of(model)).loss
        del model
        gc.collect()
        loss.backward()
        return {
            k: np.array(t.grad) for k, t in parameters.items() if t.grad is not None
        }

    both(run, again=2)


def differing(how: str) -> Iterator[Callable[..., Any]]:
    """Yields steps that behave differently when recomputed."""
    seen: set[int] = set()

    def step(scores: Any, previous: Any, context: Any) -> Any:
        first = context.layer not in seen
        seen.add(context.layer)
        maps = mixed(scores, previous, context)
        if how == "more" and not first:
            maps = F.dropout(F.dropout(maps, 0.1), 0.1)
        if how == "fewer" and first:
            maps = F.dropout(F.dropout(maps, 0.1), 0.1)
        if how == "error" and not first:
            raise ValueError("not again")
        return maps

    yield step


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("more", ea.InputError, "random streams.*gradient checkpointing off"),
        ("fewer", ea.InputError, "fewer random streams.*gradient checkpointing off"),
        ("error", ValueError, "not again"),
    ],
)
def test_a_custom_step_that_differs_is_noticed(
    how: str, error: type[Exception], words: str
) -> None:
    model = switched(tiny("BertModel", kind_of(next(differing(how)))), True)
    out = model(**inputs_of(model)).last_hidden_state
    before = _core.get_rng_state()
    with pytest.raises(error, match=words):
        (out * out).sum().backward()
    assert _core.get_rng_state() == before
    assert _core.is_grad_enabled()
    F.dropout(ea.Tensor(np.ones(3, np.float32)), 0.5)  # the generator works again
    assert _core.get_rng_state() == (before[0], before[1] + 1)


# --- in the Trainer -------------------------------------------------------------------


class StopAt(ea.TrainerCallback):
    """Raises at the beginning of a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise RuntimeError("the machine stopped")


def fit(
    folder: Path, on: bool, stop: int | None = None, model: Any = None, **options: Any
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Returns weights and loss history of a run of a real model with dropout."""
    model = model or tiny(attention=ea.attention.Evolving(0.3, 0.2))
    trainer = ea.Trainer(
        model,
        ea.TrainingArguments(
            str(folder),
            gradient_checkpointing=on,
            num_train_epochs=2,
            learning_rate=5e-3,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            logging_steps=1,
            eval_strategy="epoch",
            save_steps=3,
            disable_tqdm=True,
            **options,
        ),
        train_dataset=make_rows(44),
        eval_dataset=make_rows(20, seed=2),
        compute_metrics=accuracy,
        callbacks=[StopAt(stop)] if stop is not None else [],
    )
    trainer.train(resume_from_checkpoint="auto")
    assert model.is_gradient_checkpointing == on
    return (
        {name: np.array(tensor) for name, tensor in model.named_parameters()},
        [
            {
                k: v
                for k, v in entry.items()
                if "runtime" not in k and "per_sec" not in k
            }
            for entry in trainer.state.log_history
        ],
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # slow, and nothing crashes here


def same(first: Any, second: Any) -> None:
    assert_same_bits(first[0], second[0])
    histories = [json.dumps(history, sort_keys=True) for _, history in (first, second)]
    assert histories[0] == histories[1]


@pytest.mark.usefixtures("quick")
def test_a_run_has_the_same_history_and_weights(tmp_path: Path) -> None:
    plain = fit(tmp_path / "plain", False)
    assert sum("loss" in entry for entry in plain[1]) >= 10
    same(fit(tmp_path / "again", True), plain)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("then", [True, False])
def test_a_stopped_run_is_resumed_with_or_without(tmp_path: Path, then: bool) -> None:
    whole = fit(tmp_path / "whole", True)
    with pytest.raises(RuntimeError, match="stopped"):
        fit(tmp_path / "cut", True, stop=7)
    assert (tmp_path / "cut" / "checkpoint-6").is_dir()
    same(fit(tmp_path / "cut", then), whole)


def test_a_model_that_cannot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ea.ConfigError, match=r"FakeModel.*leave the option out"):
        fit(tmp_path, True, model=FakeModel())
