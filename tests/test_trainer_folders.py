"""Runs that go on from older checkpoints, from other folders, or with other options."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel, make_rows, make_trainer

from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat import resumable
from evolving_attention.data.collate import collate_packed
from evolving_attention.durable import locks
from evolving_attention.errors import CheckpointError, ConfigError, Interrupted
from evolving_attention.training import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    check_output_dir,
    get_last_checkpoint,
)


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # this process is never killed


class SignalAt(TrainerCallback):
    """Sends SIGINT at the end of one step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            signal.raise_signal(signal.SIGINT)


def trainer(folder: Path, *callbacks: TrainerCallback, **options: Any) -> Trainer:
    """Returns a Trainer whose epoch has 6 steps."""
    options = {
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "lr_scheduler_type": "constant",
        "save_strategy": "steps",
        "save_steps": 4,
        "disable_tqdm": True,
        "report_to": "none",
        **options,
    }
    rows = make_rows(24)
    return Trainer(
        FakeModel(),
        TrainingArguments(str(folder), **options),
        train_dataset=rows,
        eval_dataset=rows if options.get("eval_strategy") else None,
        callbacks=list(callbacks),
    )


def names(folder: Path) -> list[str]:
    """Returns the names of the checkpoints."""
    return sorted(path.name for path in folder.glob("checkpoint-*"))


def test_an_interrupted_run_from_an_older_checkpoint_is_kept_and_named(tmp_path):
    trainer(tmp_path).train()
    assert names(tmp_path) == ["checkpoint-12", "checkpoint-4", "checkpoint-8"]
    again = trainer(tmp_path, SignalAt(7), save_total_limit=1)
    with pytest.raises(Interrupted) as caught:
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert "checkpoint-7" in names(tmp_path)
    named = re.search(r"resume_from_checkpoint='(.*)'", str(caught.value))
    assert named, str(caught.value)
    further = trainer(tmp_path)
    further.train(resume_from_checkpoint=named[1])
    assert further.state.global_step == 12


def test_a_run_from_another_folder_keeps_the_run_that_is_there(tmp_path):
    trainer(tmp_path / "a", max_steps=4).train()
    trainer(tmp_path / "b", seed=7).train()
    before = names(tmp_path / "b")
    source = str(tmp_path / "a" / "checkpoint-4")
    with pytest.raises(ConfigError, match="holds checkpoint-12 of another run"):
        trainer(tmp_path / "b", save_total_limit=1).train(source)
    assert names(tmp_path / "b") == before
    trainer(tmp_path / "b", save_steps=5, overwrite_output_dir=True).train(source)
    assert names(tmp_path / "b") == ["checkpoint-10", "checkpoint-12", "checkpoint-5"]


@pytest.mark.parametrize(
    ("callbacks", "options"),
    [
        ([EarlyStoppingCallback(2)], {}),
        ([], {"eval_strategy": "epoch", "metric_for_best_model": "acuracy"}),
    ],
)
def test_a_refused_run_removes_nothing(tmp_path, callbacks, options):
    trainer(tmp_path).train()
    before = {path: path.stat().st_size for path in sorted(tmp_path.rglob("*"))}
    with pytest.raises(ConfigError, match="metric"):
        trainer(tmp_path, *callbacks, overwrite_output_dir=True, **options).train()
    assert {path: path.stat().st_size for path in sorted(tmp_path.rglob("*"))} == before


def test_a_forced_learning_rate_is_used(tmp_path):
    trainer(tmp_path, max_steps=4, learning_rate=1e-3, logging_steps=1).train()
    again = trainer(
        tmp_path, max_steps=8, learning_rate=1e-5, logging_steps=1, force_resume=True
    )
    again.train(resume_from_checkpoint=True)
    logs = again.state.log_history
    rates = [entry["learning_rate"] for entry in logs if "learning_rate" in entry]
    assert rates == [1e-3] * 4 + [1e-5] * 4


def test_a_run_that_stopped_early_goes_on_with_more_patience(tmp_path):
    options = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "metric_for_best_model": "loss",
        "num_train_epochs": 6,
        "learning_rate": 0.0,
    }

    def steps(*callbacks: TrainerCallback, resume: bool = True) -> int:
        run = trainer(tmp_path, *callbacks, **options)
        return int(run.train(resume_from_checkpoint=resume or None).global_step)

    assert steps(EarlyStoppingCallback(1), resume=False) == 12
    assert steps(EarlyStoppingCallback(1)) == 12  # as the run without a break
    assert steps(EarlyStoppingCallback(2)) == 18
    assert steps() == 36


def test_a_callback_that_stopped_a_run_starts_the_next_one_afresh(tmp_path):
    options = {
        "eval_strategy": "epoch",
        "metric_for_best_model": "loss",
        "num_train_epochs": 6,
        "learning_rate": 0.0,
        "save_strategy": "no",
    }
    stop = EarlyStoppingCallback(1)
    run = trainer(tmp_path / "a", stop, **options)
    assert [run.train().global_step for _ in range(2)] == [12, 12]
    assert trainer(tmp_path / "b", stop, **options).train().global_step == 12


def test_a_callback_that_returns_a_new_control_asks_once(tmp_path):
    class Saves(TrainerCallback):
        def __init__(self) -> None:
            self.evaluated: list[int] = []
            self.saved: list[int] = []

        def on_evaluate(self, args: Any, state: Any, control: Any, **kw: Any) -> Any:
            self.evaluated.append(state.global_step)
            return dataclasses.replace(control, should_save=True)

        def on_save(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            self.saved.append(state.global_step)

    seen = Saves()
    options = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "no"}
    trainer(tmp_path, seen, max_steps=6, **options).train()
    assert (seen.evaluated, seen.saved) == ([3, 6], [3, 6])


class AtStep(TrainerCallback):
    """Calls a function after one step."""

    def __init__(self, step: int, call: Any) -> None:
        self.step, self.call = step, call

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            self.call()


def test_two_runs_do_not_share_a_folder(tmp_path):
    def second():
        with pytest.raises(ConfigError, match="another run trains into this folder"):
            trainer(tmp_path, seed=7, overwrite_output_dir=True).train()
        trainer(tmp_path, eval_strategy="epoch").evaluate()
        called.append(names(tmp_path))

    called: list[Any] = []
    first = trainer(tmp_path, AtStep(5, second), max_steps=6)
    first.train()
    assert called == [["checkpoint-4"]]
    assert ".lock" not in os.listdir(tmp_path)
    trainer(tmp_path).train("auto")  # one after the other


def test_a_run_clears_what_one_of_another_container_left(tmp_path):
    trainer(tmp_path, max_steps=4).train()
    (tmp_path / ".tmp-checkpoint-8.00000000-1").mkdir()
    (tmp_path / "checkpoint-4").rename(tmp_path / ".old-checkpoint-4.00000000-1")
    again = trainer(tmp_path, max_steps=8)
    assert get_last_checkpoint(tmp_path) is None  # looking changes nothing
    assert {".tmp-checkpoint-8.00000000-1", ".old-checkpoint-4.00000000-1"} < {
        *os.listdir(tmp_path)
    }
    assert check_output_dir(again.args) == str(tmp_path / "checkpoint-4")
    (tmp_path / "checkpoint-4").rename(tmp_path / ".old-checkpoint-4.00000000-1")
    fields = Fields([(TrainingArguments, "Training")])
    assert resumable(fields, {}, tmp_path) == {}  # nothing to overwrite
    again.train(resume_from_checkpoint=True)
    assert names(tmp_path) == ["checkpoint-4", "checkpoint-8"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_run_that_failed_leaves_its_folder_free(tmp_path):
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError):
        trainer(tmp_path / "new", AtStep(2, fail)).train()
    trainer(tmp_path / "new", max_steps=1).train()
    with pytest.raises(ConfigError, match="metric"):
        trainer(tmp_path / "none", EarlyStoppingCallback(2)).train()
    assert not (tmp_path / "none").exists()


def test_a_run_goes_on_where_there_are_no_locks(tmp_path, monkeypatch):
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    trainer(tmp_path, max_steps=4).train()
    assert names(tmp_path) == ["checkpoint-4"]


class Counts:
    """A collator with a state."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __call__(self, rows: Any) -> Any:
        return collate_packed(rows)

    def state_dict(self) -> Any:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state = state


@pytest.mark.parametrize(
    "state", [{"a": np.zeros(2)}, {"a": (1, 2)}, {1: 2}, {"a": float("nan")}]
)
def test_a_collators_state_is_plain(tmp_path: Path, state: Any) -> None:
    trainer = make_trainer(tmp_path, data_collator=Counts(state), save_strategy="steps")
    text = r"data_collator.state_dict\(\) returned \{.*, expected plain values"
    with pytest.raises(ConfigError, match=text):
        trainer.train()
    assert trainer.state.global_step == 0
    trainer.args.save_strategy = "no"
    trainer.train()  # nothing to save


def test_a_state_that_becomes_unusable_costs_no_work(tmp_path: Path) -> None:
    class Later(Counts):
        def __call__(self, rows: Any) -> Any:
            self.state = {"a": np.zeros(2)}
            return super().__call__(rows)

    trainer = make_trainer(
        tmp_path, data_collator=Later({}), save_strategy="steps", save_steps=2
    )
    with pytest.warns(UserWarning, match=r"state_dict\(\) .* saved without it"):
        trainer.train()
    trainer.data_collator.state = {}
    trainer.train(resume_from_checkpoint=True)


def test_collators_without_a_plain_state_train(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Weights(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

        def forward(self, rows: Any) -> Any:
            return collate_packed(rows)

    class LoadsOnly:
        def __call__(self, rows: Any) -> Any:
            return collate_packed(rows)

        def load_state_dict(self, state: Any) -> None:
            raise AssertionError

    for name, collator in {"module": Weights(), "loads": LoadsOnly()}.items():
        trainer = make_trainer(
            tmp_path / name,
            data_collator=collator,
            save_strategy="steps",
            save_steps=2,
        )
        trainer.train()
        trainer.train(resume_from_checkpoint=True)


# ------------------------------------------------------------- an own save_model


class Notes(Trainer):
    """Writes a note beside each model."""

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        super().save_model(output_dir, _internal_call)
        folder = Path(output_dir or self.args.output_dir)
        (folder / "note").write_text(str(_internal_call))


def test_an_own_save_model_writes_the_checkpoints(tmp_path: Path) -> None:
    args = trainer(tmp_path / "a").args
    own = Notes(FakeModel(), args, train_dataset=make_rows(24))
    own.train()
    own.save_model()
    for name, internal in (("checkpoint-12", "True"), ("", "False")):
        folder = tmp_path / "a" / name
        assert (folder / "note").read_text() == internal
        assert (folder / "training_args.json").is_file()
    (tmp_path / "a/checkpoint-12/note").write_text("damaged")
    with pytest.warns(UserWarning, match="note: differs from manifest"):
        last = get_last_checkpoint(tmp_path / "a")
    assert last is not None
    assert last.endswith("checkpoint-8")


@pytest.mark.filterwarnings("ignore:.*is not usable and is passed over")
def test_checkpoints_that_cannot_be_read_are_never_removed(tmp_path, monkeypatch):
    def faulty(fd: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    run = trainer(tmp_path, max_steps=8)
    run.train()
    fields = Fields([(TrainingArguments, "Training")])
    ways = (
        lambda: check_output_dir(run.args),
        lambda: resumable(fields, {}, tmp_path),  # of sweeps and several seeds
        lambda: run.train("auto"),
        lambda: run.train(True),
    )
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", faulty)
        for way in ways:
            with pytest.raises(CheckpointError, match=r"holds .*-8.* check the disk"):
                way()
        assert (
            check_output_dir(trainer(tmp_path, overwrite_output_dir=True).args) is None
        )
    assert check_output_dir(run.args) == str(tmp_path / "checkpoint-8")


class Elsewhere(Trainer):
    """Writes the model into output_dir of the arguments, whatever it is asked for."""

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        super().save_model(None, _internal_call)


def test_an_own_save_model_that_leaves_a_checkpoint_empty_is_refused(
    tmp_path: Path,
) -> None:
    own = Elsewhere(FakeModel(), trainer(tmp_path).args, train_dataset=make_rows(24))
    with pytest.raises(CheckpointError, match=r"-4: save_model wrote no file .*super"):
        own.train()
    assert not list(tmp_path.glob("*checkpoint-*"))


def test_an_own_save_model_takes_what_checkpoints_pass() -> None:
    says = r"Own\.save_model cannot be called .*_internal_call.*, expected save_model\("
    with pytest.raises(ConfigError, match=says):
        type("Own", (Trainer,), {"save_model": lambda self, output_dir=None: None})
