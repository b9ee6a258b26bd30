"""Training with cuda_graphs=True: the bits of the same steps, not recorded.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_gpu import last_cuda_device
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.training import recorded
from evolving_attention.training.recorded import RecordedSteps

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu_sides import Ours
from benchmarks.models import Shape, batch_of, our_model

LAST = last_cuda_device()
EVOLVING = ea.attention.Evolving(0.3, 0.4)
LENGTHS = (3, 5, 4, 18, 2, 6, 17, 3, 4, 5, 20, 19, 6, 3, 5, 2)
ROWS = [
    {"input_ids": [3 + (7 * i + k) % 30 for k in range(n)], "label": i % 2}
    for i, n in enumerate(LENGTHS)
]
TOKENS = [{**row, "labels": row["input_ids"]} for row in ROWS]
for _row in TOKENS:
    del _row["label"]


class Waits(ea.TrainerCallback):
    """How often the host has waited for a device when each step begins."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.seen.append(_core.host_waits())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each step: whether it was recorded before."""
    steps: list[bool] = []
    do = RecordedSteps._do

    def counted(self: Any, shape: Any, prepared: Any) -> None:
        steps.append(shape.recorded)
        do(self, shape, prepared)

    monkeypatch.setattr(RecordedSteps, "_do", counted)
    return steps


def trained(
    folder: Path,
    name: str = "BertForSequenceClassification",
    dtype: str = "float32",
    rows: Any = None,
    callbacks: Any = (),
    resume: bool = False,
    **options: Any,
) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Weights and optimizer state after eight or so steps, and the log."""
    model = tiny(name, EVOLVING, dtype, num_hidden_layers=2)
    settings = {
        "device": LAST,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "train_sampling_strategy": "random",
        "learning_rate": 1e-2,
        "weight_decay": 0.1,
        "max_grad_norm": 0.5,
        "logging_steps": 4,
        "save_strategy": "no",
        "log_level": "error",
        "cuda_graphs": True,
        "bf16": dtype == "bfloat16",
        **options,
    }
    trainer = ea.Trainer(
        model,
        ea.TrainingArguments(str(folder), **settings),
        train_dataset=rows or (TOKENS if "MaskedLM" in name else ROWS),
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=resume or None)
    state = {k: np.asarray(v).tobytes() for k, v in model.state_dict().items()}
    for key, value in trainer.optimizer.state_dict().items():
        if key != "step":
            state[key] = np.asarray(value.to("cpu")).tobytes()
    return state, trainer.state.log_history


def never_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps, each done as the first of a shape is."""

    def do(self: Any, shape: Any, prepared: Any) -> None:
        self._shift_streams(0)
        self._forward_backward_update(shape, prepared)

    monkeypatch.setattr(RecordedSteps, "_do", do)


@pytest.mark.parametrize(
    ("name", "dtype", "options"),
    [
        ("BertForSequenceClassification", "float32", {}),
        ("BertForSequenceClassification", "bfloat16", {"gradient_checkpointing": True}),
        ("RobertaForMaskedLM", "bfloat16", {}),
    ],
)
def test_recorded_steps_give_the_bits_of_others(
    name: str,
    dtype: str,
    options: dict[str, Any],
    tmp_path: Path,
    started: list[bool],
    monkeypatch: pytest.MonkeyPatch,
):
    got, log = trained(tmp_path / "recorded", name, dtype, **options)
    assert len(started) == 8
    assert sum(started) >= 3  # others were the first or second of their shape
    never_recorded(monkeypatch)
    want, other_log = trained(tmp_path / "plain", name, dtype, **options)
    assert got == want
    for ours, theirs in zip(log, other_log, strict=True):
        assert [ours.get(k) for k in ("loss", "grad_norm")] == [
            theirs.get(k) for k in ("loss", "grad_norm")
        ]


def test_the_course_is_that_of_batches_as_they_are(tmp_path: Path):
    _, log = trained(tmp_path / "recorded")
    _, want = trained(tmp_path / "plain", cuda_graphs=False)
    for ours, theirs in zip(log, want, strict=True):
        for key in ("loss", "grad_norm"):
            assert ours.get(key, 0.0) == pytest.approx(theirs.get(key, 0.0), rel=1e-4)


def test_the_host_waits_for_no_step(tmp_path: Path, started: list[bool]):
    waits = Waits()
    trained(tmp_path, callbacks=[waits])
    assert any(started)
    assert np.diff(waits.seen).tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_few_recordings_at_a_time(
    tmp_path: Path, started: list[bool], monkeypatch: pytest.MonkeyPatch
):
    want, _ = trained(tmp_path / "many")
    before = sum(started)
    monkeypatch.setattr(recorded, "MOST_SHAPES", 1)
    got, _ = trained(tmp_path / "one")
    assert got == want
    assert sum(started) - before < before


class Dies(ea.TrainerCallback):
    """Ends a run after a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise RuntimeError("killed")


def test_a_run_resumes_to_the_same_bits(tmp_path: Path, started: list[bool]):
    want, _ = trained(tmp_path / "whole")
    assert started[6]
    save = {"save_strategy": "steps", "save_steps": 3}
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path / "parts", **save, callbacks=[Dies(7)])
    before = len(started)
    got, _ = trained(tmp_path / "parts", **save, resume=True)
    assert len(started) == before + 2  # from the checkpoint of step 6 on
    assert not started[-2]  # nothing was recorded yet
    assert got == want


class Poison(ea.TrainerCallback):
    """Makes a weight infinite before a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        if state.global_step == self.step:
            _, weight = next(iter(model.named_parameters()))
            weight.copy_(np.full(weight.shape, np.inf, np.float32))


def test_what_is_not_finite_stops_a_recorded_step(tmp_path: Path, started: list[bool]):
    with pytest.raises(ea.NonFiniteError, match="step 7: the loss is not finite"):
        trained(tmp_path, callbacks=[Poison(6)])
    assert started[6]


def test_memory_is_given_back(tmp_path: Path):
    held = []
    for folder in ("warm", "again"):
        trained(tmp_path / folder)
        gc.collect()  # a Trainer and its callbacks know each other
        held.append(_core.current_memory(LAST))
    assert held[0] == held[1]


def test_both_of_the_benchmark_take_the_same_steps():
    shape = Shape(layers=1, width=16, heads=2, inner=32, vocabulary=40, dropout=0.0)
    ids, labels = batch_of(shape, 3, 9)
    weights = {}
    for is_recorded in (False, True):
        ea.manual_seed(1)
        model = our_model(shape, "float32").to("cuda")
        side = Ours(model, ids, labels, recorded=is_recorded)
        for _ in range(4):
            side.step()
        side.wait()
        weights[is_recorded] = model.state_dict()
    for name, value in weights[False].items():
        np.testing.assert_allclose(weights[True][name], value, atol=1e-6, err_msg=name)
