"""Resuming gives bit-identical results, however the run was stopped.

Tests inside this process train a NumPy model; the processes that are really killed
train a BERT with evolving attention on the core.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel, accuracy, make_rows

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.errors import CheckpointError, Interrupted
from evolving_attention.training import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from evolving_attention.training.fingerprint import (
    UPDATE_ARGUMENTS,
    compare,
    run_fingerprint,
)

TESTS = Path(__file__).resolve().parent
VOLATILE = ("runtime", "per_second", "best_model_checkpoint", "resume")


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # this process is never killed


class StopAt(TrainerCallback):
    """Raises or sends a signal at a chosen moment of the run."""

    def __init__(self, event: str, step: int, number: int | None = None) -> None:
        self.step, self.number = step, number
        setattr(self, event, self._stop)

    def _stop(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            self.step = -1
            if self.number is None:
                raise RuntimeError("the machine stopped")
            signal.raise_signal(self.number)


def run(
    folder: Path,
    resume: bool | str | None = None,
    stop: StopAt | None = None,
    rows: int = 44,
    several: bool = False,
    **options: Any,
) -> Trainer:
    """About 24 optimizer steps with mid-epoch checkpoints, dropout and evaluation."""
    options = {
        "num_train_epochs": 4,
        "learning_rate": 0.05,
        "weight_decay": 0.01,
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 4,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 3,
        "logging_steps": 5,
        "eval_strategy": "epoch",
        "save_strategy": "steps",
        "save_steps": 1,
        "metric_for_best_model": "accuracy",
        "disable_tqdm": True,
        **options,
    }
    if several:
        options["metric_for_best_model"] = "first_accuracy"
    callbacks: list[Any] = [EarlyStoppingCallback(3)]
    sets = {name: make_rows(20, seed=i) for i, name in ((2, "first"), (3, "second"))}
    trainer = Trainer(
        FakeModel(),
        TrainingArguments(str(folder), **options),
        train_dataset=make_rows(rows),
        eval_dataset=sets if several else sets["first"],
        compute_metrics=accuracy,
        callbacks=[*callbacks, *([stop] if stop else [])],
    )
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_state()
    return trainer


def final_state(folder: Path, step: int) -> tuple[str, dict[str, Any]]:
    """Returns (sha256 of weights and optimizer, final counters and logs)."""
    last = folder / f"checkpoint-{step}"
    durable.verify_directory(last)
    digest = hashlib.sha256()
    for name in ("model.safetensors", "optimizer.safetensors"):
        digest.update((last / name).read_bytes())
    state = json.loads((folder / "trainer_state.json").read_text())
    return digest.hexdigest(), _lasting(state)


def _lasting(value: Any) -> Any:
    """Drops entries that measure time or name folders."""
    if isinstance(value, dict):
        return {
            k: _lasting(v)
            for k, v in value.items()
            if not any(w in k for w in VOLATILE)
        }
    return [_lasting(v) for v in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, dict[str, Any]]:
    """Returns (steps, digest, state) of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    trainer = run(folder)
    return (trainer.state.global_step, *final_state(folder, trainer.state.global_step))


@pytest.mark.parametrize("step", [1, 2, 3, 5, 6, 7, 11, 12, 13, 17, 18, 23])
@pytest.mark.parametrize("event", ["on_step_begin", "on_pre_optimizer_step"])
def test_dying_at_any_step(tmp_path: Path, whole: Any, event: str, step: int) -> None:
    with pytest.raises(RuntimeError, match="stopped"):
        run(tmp_path, stop=StopAt(event, step))
    trainer = run(tmp_path, resume=True)
    assert trainer.state.global_step == whole[0]
    assert final_state(tmp_path, whole[0]) == whole[1:]


@pytest.mark.parametrize("step", [6, 12, 24])
@pytest.mark.parametrize(
    "event",
    ["on_step_end", "on_epoch_end", "on_prediction_step", "on_evaluate", "on_log"],
)
def test_a_signal_around_the_end_of_an_epoch(
    tmp_path: Path, whole: Any, event: str, step: int
) -> None:
    assert whole[0] == 24
    with pytest.raises(Interrupted):
        run(tmp_path, stop=StopAt(event, step, signal.SIGTERM))
    run(tmp_path, resume=True)
    assert final_state(tmp_path, 24) == whole[1:]


@pytest.mark.parametrize("event", ["on_prediction_step", "on_evaluate", "on_log"])
def test_a_signal_between_two_evaluation_sets(tmp_path: Path, event: str) -> None:
    """No set is logged twice, and early stopping sees each evaluation once."""
    run(tmp_path / "whole", several=True)
    with pytest.raises(Interrupted):
        run(tmp_path / "parts", None, StopAt(event, 12, signal.SIGTERM), several=True)
    run(tmp_path / "parts", True, several=True)
    found, whole = (final_state(tmp_path / name, 24) for name in ("parts", "whole"))
    assert found == whole


def test_signals_again_and_again(tmp_path: Path, whole: Any) -> None:
    for step in range(1, 24, 4):
        with pytest.raises(Interrupted):
            run(tmp_path, "auto", StopAt("on_step_end", step, signal.SIGINT))
    run(tmp_path, "auto")
    assert final_state(tmp_path, 24) == whole[1:]


def test_best_metric_and_patience_survive(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "num_train_epochs": 12,
        "load_best_model_at_end": True,
        "save_strategy": "epoch",
        "save_total_limit": 2,
        "lr_scheduler_type": "constant",
    }
    one = run(tmp_path / "a", **options)
    with pytest.raises(RuntimeError):
        run(tmp_path / "b", stop=StopAt("on_step_begin", 15), **options)
    (tmp_path / "b").rename(tmp_path / "moved")  # moves the best checkpoint too
    two = run(tmp_path / "moved", resume=True, **options)
    assert one.state.global_step == two.state.global_step
    assert one.state.best_global_step == two.state.best_global_step
    for ours, theirs in zip(
        one.model.parameters(), two.model.parameters(), strict=True
    ):
        assert np.array_equal(ours, theirs)


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path, whole: Any) -> None:
    run(tmp_path)
    trainer = run(tmp_path, resume=True)
    assert trainer.state.global_step == 24
    assert trainer.state.log_history[-1]["train_samples_per_second"] == 0


def test_a_longer_run_goes_on_from_a_finished_one(tmp_path: Path) -> None:
    run_plain(tmp_path / "a", epochs=2)
    run_plain(tmp_path / "a", epochs=4, resume=True)
    run_plain(tmp_path / "b", epochs=4)
    assert (tmp_path / "a/checkpoint-24/model.safetensors").read_bytes() == (
        tmp_path / "b/checkpoint-24/model.safetensors"
    ).read_bytes()


def run_plain(folder: Path, epochs: int, resume: bool = False, **options: Any) -> None:
    """Trains at a constant rate without evaluation."""
    options = {
        "num_train_epochs": epochs,
        "learning_rate": 0.05,
        "lr_scheduler_type": "constant",
        "per_device_train_batch_size": 8,
        "save_steps": 6,
        "disable_tqdm": True,
        **options,
    }
    args = TrainingArguments(str(folder), **options)
    Trainer(FakeModel(), args, train_dataset=make_rows(44)).train(resume)


# ------------------------------------------------------------------------- errors


class StopAfter(TrainerCallback):
    """Stops the run, or only the epoch, after a step."""

    def __init__(self, step: int, what: str = "training") -> None:
        self.step, self.switch = step, f"should_{what}_stop"

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            setattr(control, self.switch, True)


def test_a_run_that_stopped_within_an_epoch_goes_on_within_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {"save_strategy": "epoch", "eval_strategy": "epoch"}
    options |= {"lr_scheduler_type": "constant", "disable_tqdm": True}

    def train(name: str, resume: Any = None, *callbacks: Any, **more: Any) -> Trainer:
        trainer = Trainer(
            FakeModel(),
            TrainingArguments(str(tmp_path / name), **options, **more),
            train_dataset=make_rows(44),
            eval_dataset=make_rows(8),
            callbacks=[*callbacks],
        )
        trainer.train(resume)
        trainer.save_state()
        return trainer

    train("whole", max_steps=12)  # two epochs of 6 steps
    whole = final_state(tmp_path / "whole", 12)[0]
    train("stopped", None, StopAfter(2), max_steps=12)
    assert train("stopped", True, max_steps=12).state.epoch == 2.0
    assert final_state(tmp_path / "stopped", 12)[0] == whole
    train("short", max_steps=2)
    again = train("short", True, max_steps=2)  # finished: evaluates nothing again
    assert sum("eval_loss" in entry for entry in again.state.log_history) == 1
    train("short", True, max_steps=12)
    assert final_state(tmp_path / "short", 12)[0] == whole
    skipping = [StopAfter(2, "epoch"), StopAfter(5)]
    train("skip", None, *skipping, max_steps=14)  # the rest of the first epoch is left
    assert train("skip", True, max_steps=14).state.epoch == 3.0


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path: Path, whole: Any) -> None:
    with pytest.raises(RuntimeError):
        run(tmp_path, stop=StopAt("on_step_begin", 9))
    newest = tmp_path / "checkpoint-9" / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    with pytest.warns(UserWarning, match="checkpoint-9 is not usable"):
        run(tmp_path, resume=True)
    assert final_state(tmp_path, 24) == whole[1:]


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"rows": 43}, ["used other training data (rows, tokens or labels; "]),
        (
            {"per_device_train_batch_size": 2},
            ["used per_device_train_batch_size 4, this one 2"],
        ),
        ({"seed": 7}, ["used seed 42, this one 7"]),
        ({"gradient_accumulation_steps": 1}, ["gradient_accumulation_steps 2"]),
    ],
)
def test_another_run_is_refused_unless_forced(
    tmp_path: Path, change: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(RuntimeError):
        run(tmp_path, stop=StopAt("on_step_begin", 4))
    with pytest.raises(CheckpointError) as caught:
        run(tmp_path, resume=True, **change)
    for part in [*parts, "force_resume=True"]:
        assert part in str(caught.value)
    run(tmp_path, resume=True, force_resume=True, **change)


UPDATES: list[tuple[dict[str, Any], str]] = [
    ({"learning_rate": 0.5}, "learning_rate 0.05, this one 0.5"),
    ({"weight_decay": 0.5}, "weight_decay 0.0, this one 0.5"),
    ({"optim": "radam"}, "optim adamw, this one radam"),
    ({"adam_beta1": 0.5}, "adam_beta1 0.9, this one 0.5"),
    ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type constant, this one cosine"),
    ({"label_smoothing_factor": 0.3}, "label_smoothing_factor 0.0, this one 0.3"),
    ({"warmup_steps": 3}, "warmup_steps 0, this one 3"),
    ({"warmup_ratio": 0.5}, "warmup_steps 0, this one 0.5"),
    ({"max_grad_norm": 0.5}, "max_grad_norm 1.0, this one 0.5"),
]


def test_other_updates_are_refused_unless_forced(tmp_path: Path) -> None:
    """Neither does a finished run take over the new settings in its files."""
    run_plain(tmp_path, epochs=1)
    for change, part in UPDATES:
        with pytest.raises(CheckpointError, match=f"used {part}.*force_resume=True"):
            run_plain(tmp_path, epochs=2, resume=True, **change)
    run_plain(tmp_path, epochs=2, resume=True, optim="adamw")
    forced = {"learning_rate": 0.5, "force_resume": True}
    run_plain(tmp_path, epochs=3, resume=True, **forced)


def test_checkpoints_without_update_settings_resume() -> None:
    model = types.SimpleNamespace(config=None)
    now = run_fingerprint(TrainingArguments("out"), model, make_rows(4))
    before = {name: now[name] for name in now if name not in UPDATE_ARGUMENTS}
    assert len(before) == len(now) - len(UPDATE_ARGUMENTS)
    compare(before, {**now, "learning_rate": 0.5}, "checkpoint-4", force=False)
    options = {"milestones": (1, 2)}
    args = TrainingArguments(
        "out", lr_scheduler_type="multistep", lr_scheduler_kwargs=options
    )
    now = run_fingerprint(args, model, make_rows(4))
    compare(json.loads(json.dumps(now)), now, "checkpoint-4", force=False)


def test_a_model_read_from_the_checkpoint_goes_on(tmp_path: Path) -> None:
    """Its config says what was saved and by whom, which decides nothing."""
    sizes = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 16}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2}
    config = ea.BertConfig(**sizes, **layers, attention="evolving")
    rows = [{"input_ids": [1, 2 + i, 3], "label": i % 2} for i in range(8)]

    def train(model: Any, steps: int, resume: bool = False) -> dict[str, Any]:
        kept = {"save_steps": 2, "lr_scheduler_type": "constant"}
        args = TrainingArguments(str(tmp_path), max_steps=steps, **kept)
        Trainer(model, args, train_dataset=rows).train(resume)
        return run_fingerprint(args, model, rows)

    fresh = train(ea.BertForSequenceClassification(config), 2)
    read = ea.AutoModelForSequenceClassification.from_pretrained
    again = read(tmp_path / "checkpoint-2")
    assert again.config.to_dict()["architectures"] == ["BertForSequenceClassification"]
    assert train(again, 4, resume=True) == fresh
    before = {"architectures": ["BertForMaskedLM"], "transformers_version": "4.6.0"}
    older = {**fresh, "model": {**fresh["model"], **before}}
    compare(json.loads(json.dumps(older)), fresh, "checkpoint-4", force=False)


def test_differences_of_two_models_are_named() -> None:
    class Config:
        def __init__(self, **values: Any) -> None:
            self.values = values

        def to_dict(self) -> dict[str, Any]:
            return self.values

    def facts(**values: Any) -> dict[str, Any]:
        model = types.SimpleNamespace(config=Config(**values))
        found = run_fingerprint(TrainingArguments("out"), model, make_rows(4))
        return dict(json.loads(json.dumps(found)))  # as a checkpoint stores it

    one = facts(attention={"kind": "evolving", "alpha": 0.1}, id2label={0: "no"})
    other = facts(attention={"kind": "evolving", "alpha": 0.2}, id2label={0: "bad"})
    compare(one, one, "checkpoint-4", force=False)
    with pytest.raises(CheckpointError) as caught:
        compare(one, other, "checkpoint-4", force=False)
    assert str(caught.value).startswith(
        "checkpoint-4: cannot resume, the saved run used alpha 0.1, this one 0.2; "
        "id2label.0 no, this one bad; restore it, start afresh in another output_dir"
    )
    with pytest.raises(CheckpointError, match="; and 2 more differences; restore"):
        compare(facts(), facts(**dict.fromkeys("abcdef", 1)), "c", force=False)


def test_checkpoints_that_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"found none.*'auto'"):
        run(tmp_path / "none", resume=True)
    with pytest.raises(CheckpointError, match="no such folder"):
        run(tmp_path / "none", resume=str(tmp_path / "checkpoint-1"))
    run(tmp_path / "weights", save_only_model=True)
    with pytest.raises(CheckpointError, match="save_only_model"):
        run(tmp_path / "weights", resume=True)
    bare = tmp_path / "weights" / "checkpoint-1"
    (bare / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="not committed"):
        run(tmp_path / "x", resume=str(bare))


# ------------------------------------------------------- real processes, real kills

CHILD = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
import evolving_attention as ea
from helpers_fake_model import make_rows
from evolving_attention.errors import Interrupted
from evolving_attention.training import Trainer, TrainingArguments, TrainerCallback

task, word, count, delay, number = *sys.argv[2:4], *map(float, sys.argv[4:])
late = threading.Timer(delay, lambda: os.kill(os.getpid(), int(number)))

def announce(what):  # the moment to be killed: at the count-th announcement, or later
    global count
    count -= what == word
    if count == 0:
        late.start() if delay else late.function()
        count = -1

def watched(name):
    real = getattr(os, name)
    def call(*args, **kwargs):
        announce("saving")
        return real(*args, **kwargs)
    setattr(os, name, call)

for name in ("write", "fsync", "rename", "mkdir"):
    watched(name)

class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        announce("step")
        time.sleep(0.004)
        if word and state.global_step >= state.max_steps - 1:  # no kill is left out
            if late.ident:
                late.join()
            elif count > 0:
                late.function()

args = TrainingArguments(
    sys.argv[1], num_train_epochs=3, learning_rate=0.05, gradient_accumulation_steps=2,
    per_device_train_batch_size=4, save_steps=3, save_total_limit=2, logging_steps=5,
    eval_strategy="steps", eval_steps=4, disable_tqdm=True)
ea.manual_seed(0)
evolving = ea.attention.Evolving(alpha=0.3, beta=0.2)
parts = [make_rows(80), make_rows(20, seed=2)]
if task == "translate":
    config = ea.TransformerConfig(vocab_size=30, d_model=16, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24, attention=evolving)
    model = ea.TransformerForConditionalGeneration(config)
else:
    config = ea.BertConfig(vocab_size=30, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=24, max_position_embeddings=16,
        attention=evolving)
    names = {{"classify": "SequenceClassification", "tag": "TokenClassification"}}
    model = getattr(ea, "BertFor" + names[task])(config)
if task != "classify":  # to the ids in reverse order, or a tag for each
    for row in (row for part in parts for row in part):
        ids = row["input_ids"]
        row["labels"] = [i % 2 for i in ids] if task == "tag" else ids[::-1]
        del row["label"]
trainer = Trainer(
    model, args, train_dataset=parts[0], eval_dataset=parts[1], callbacks=[Steps()])
try:
    trainer.train(resume_from_checkpoint="auto")
    trainer.save_model(sys.argv[1] + "/final")
except Interrupted as stop:
    sys.exit(128 + stop.signal_number)
"""


def run_child(
    folder: Path,
    task: str,
    word: str = "",
    count: int = 0,
    delay: float = 0.0,
    number: int = 0,
) -> int:
    """Runs the child, which kills itself as requested; returns its exit status."""
    script = CHILD.format(tests=str(TESTS))
    moment = [task, word, str(count), str(delay), str(int(number))]
    child = subprocess.run(
        [sys.executable, "-c", script, str(folder), *moment],
        stderr=subprocess.PIPE,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert "Traceback" not in child.stderr, child.stderr
    return child.returncode


def weights(folder: Path) -> str:
    (file,) = (folder / "final").glob("*.safetensors")
    return hashlib.sha256(file.read_bytes()).hexdigest()


TASKS = ("classify", "translate", "tag")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digest of each task's final weights where the child is not killed."""
    folders = {task: tmp_path_factory.mktemp(task) for task in TASKS}
    assert [run_child(folder, task) for task, folder in folders.items()] == [0, 0, 0]
    return {task: weights(folder) for task, folder in folders.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(5))
def test_sigkill_at_random_moments(
    tmp_path: Path, undisturbed: dict[str, str], seed: int
) -> None:
    """4 kills each for 5 seeds: two near some step, two inside a save."""
    draw, task = random.Random(seed), TASKS[seed % 3]
    torn = 0
    for word in ("step", "saving", "step", "saving"):
        count = draw.randint(1, 9 if word == "step" else 60)
        delay = draw.choice([0.0, 0.002, 0.006]) if word == "step" else 0.0
        status = run_child(tmp_path, task, word, count, delay, signal.SIGKILL)
        assert status == -signal.SIGKILL
        torn += any(path.name.startswith(".tmp") for path in tmp_path.iterdir())
    assert torn >= 1
    assert run_child(tmp_path, task) == 0
    assert weights(tmp_path) == undisturbed[task]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_signals_save_exit_and_resume(
    tmp_path: Path, undisturbed: dict[str, str], number: int, status: int
) -> None:
    """10 signals to one run, at random moments of a step, a save or an evaluation."""
    draw = random.Random(number)
    for _ in range(10):
        word = draw.choice(["step", "step", "saving"])
        count = draw.randint(1, 3 if word == "step" else 20)
        delay = draw.choice([0.0, 0.002])
        assert run_child(tmp_path, TASKS[0], word, count, delay, number) == status
        assert durable.newest_verified(tmp_path) is not None
    assert run_child(tmp_path, TASKS[0]) == 0
    assert weights(tmp_path) == undisturbed[TASKS[0]]
