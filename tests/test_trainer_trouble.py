"""Failures in training: memory, non-finite values, signals and user errors."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import (
    FakeModel,
    accuracy,
    digest,
    make_rows,
    make_trainer,
)

from evolving_attention import durable
from evolving_attention.errors import (
    CheckpointError,
    ConfigError,
    Error,
    InputError,
    Interrupted,
    MissingExtraError,
    NonFiniteError,
    OutOfMemory,
)
from evolving_attention.plots import read_log
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
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # slow, and nothing crashes here


# -------------------------------------------------------------- out of memory


@pytest.mark.filterwarnings("ignore:out of memory")
def test_short_memory_splits_batches_and_keeps_the_effective_size(
    tmp_path: Path,
) -> None:
    plain, short = FakeModel(dropout=0.0), FakeModel(dropout=0.0)
    make_trainer(tmp_path / "a", plain).train()
    short.memory_limit = 3
    trainer = make_trainer(tmp_path / "b", short, auto_find_batch_size=True)
    with pytest.warns(UserWarning, match="out of memory at step 1: .* into 4 parts"):
        trainer.train()
    assert trainer.state.batch_splits == 4
    for ours, theirs in zip(short.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize(("limit", "auto"), [(3, False), (0, True)])
@pytest.mark.filterwarnings("ignore:out of memory")
def test_memory_that_cannot_be_found_is_an_error(
    tmp_path: Path, limit: int, auto: bool
) -> None:
    model = FakeModel()
    before, model.memory_limit = digest(model), limit
    with pytest.raises(OutOfMemory):
        make_trainer(tmp_path, model, auto_find_batch_size=auto).train()
    assert digest(model) == before


# ---------------------------------------------------------- non-finite numbers

BAD = [float("nan"), float("inf"), -float("inf")]


class Inject(TrainerCallback):
    """Writes a bad value somewhere at the start of optimizer step 4."""

    def __init__(self, place: str, value: float) -> None:
        self.place, self.value = place, value

    def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        if state.global_step != 3:
            return
        model, optimizer = kw["model"], kw["optimizer"]
        if self.place == "embedding":
            put(model.params["embeddings.word_embeddings.weight"], 1, self.value)
        elif self.place == "bias":
            put(model.params["classifier.bias"], 0, self.value)
        elif self.place == "exp_avg":
            put(optimizer.state_dict()["exp_avg.1"], 0, self.value)
        elif self.place == "exp_avg_sq":
            put(optimizer.state_dict()["exp_avg_sq.0"], slice(None), np.nan)
        elif self.place == "gradient":
            model.bad_gradient = self.value


def put(tensor: Any, column: Any, value: float) -> None:
    """Overwrites the values of a column."""
    values = np.array(tensor)
    values[..., column] = value
    tensor.copy_(values)


PLACES = {
    "embedding": ("parameter", "embeddings.word_embeddings.weight", 4),
    "bias": ("parameter", "classifier.bias", 4),
    "exp_avg": ("optimizer state", "exp_avg of classifier.weight", 5),
    "exp_avg_sq": (
        "optimizer state",
        "exp_avg_sq of embeddings.word_embeddings.weight",
        5,
    ),
    "gradient": ("gradient", "classifier.weight", 4),
}


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("place", PLACES)
def test_a_bad_number_stops_the_run_and_is_named(
    tmp_path: Path, place: str, value: float
) -> None:
    kind, tensor, step = PLACES[place]
    model = FakeModel()
    trainer = make_trainer(
        tmp_path,
        model,
        callbacks=[Inject(place, value)],
        save_strategy="steps",
        save_steps=3,
    )
    with pytest.raises(NonFiniteError) as caught, np.errstate(all="ignore"):
        trainer.train()
    report = json.loads((tmp_path / "out" / "nonfinite-report.json").read_text())
    assert (report["kind"], report["tensor"], report["step"]) == (kind, tensor, step)
    assert f"step {step}" in str(caught.value)
    assert tensor in str(caught.value)
    assert caught.value.report["step"] == step
    assert len(report["row_ids"]) == 8
    assert set(report["bad_row_ids"]) <= set(report["row_ids"])
    assert get_last_checkpoint(tmp_path / "out").endswith("checkpoint-3")
    if kind != "gradient":  # weights are still finite and may be saved
        with pytest.raises(NonFiniteError, match="holds NaN or infinity"):
            trainer.save_model()


@pytest.mark.parametrize(
    ("save_steps", "told"), [(4, "train again"), (2, "go on from .*checkpoint-2 with")]
)
def test_a_save_that_finds_a_bad_number_says_what_is_kept(
    tmp_path: Path, save_steps: int, told: str
) -> None:
    options = {"save_strategy": "steps", "save_steps": save_steps}
    trainer = make_trainer(tmp_path, callbacks=[Inject("exp_avg", np.nan)], **options)
    with pytest.raises(NonFiniteError, match=f"checkpoint-4: .*{told}"):
        trainer.train()
    report = json.loads((tmp_path / "out" / "nonfinite-report.json").read_text())
    assert (report["step"], report["tensor"]) == (4, "classifier.weight")


def test_the_row_with_the_bad_label_is_named_and_weights_stay(tmp_path: Path) -> None:
    rows = make_rows(40, regression=True)
    rows[17]["label"] = float("nan")
    model = FakeModel(num_labels=1)
    weights: list[str] = []

    class Keep(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            weights.append(digest(kw["model"]))

    trainer = make_trainer(tmp_path, model, train_dataset=rows, callbacks=[Keep()])
    with pytest.raises(NonFiniteError, match="rows 17 of") as caught:
        trainer.train()
    assert caught.value.report["tensor"] == "labels"
    assert caught.value.report["bad_row_ids"] == [17]
    assert digest(model) == weights[-1]


def test_skipping_leaves_the_bad_step_out(tmp_path: Path) -> None:
    rows = make_rows(40, regression=True)
    rows[17]["label"] = float("inf")
    trainer = make_trainer(
        tmp_path, FakeModel(num_labels=1), train_dataset=rows, on_nonfinite="skip"
    )
    with pytest.warns(UserWarning, match="rows 17 .* the update is skipped"):
        output = trainer.train()
    assert output.global_step == 10
    assert trainer.state.skipped_steps == 2
    assert np.isfinite(output.training_loss)
    assert all(np.isfinite(np.asarray(p)).all() for p in trainer.model.parameters())
    assert trainer.state.log_history[-2]["skipped_steps"] == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_skipping_everything_is_no_training(tmp_path: Path) -> None:
    rows = [{**row, "label": float("nan")} for row in make_rows(200, regression=True)]
    trainer = make_trainer(
        tmp_path, FakeModel(num_labels=1), train_dataset=rows, on_nonfinite="skip"
    )
    with pytest.raises(NonFiniteError):
        trainer.train()
    assert trainer.state.global_step == 10


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_warning_goes_on_but_never_saves_bad_weights(tmp_path: Path) -> None:
    rows = make_rows(40, regression=True)
    rows[17]["label"] = float("nan")
    trainer = make_trainer(
        tmp_path,
        FakeModel(num_labels=1),
        train_dataset=rows,
        on_nonfinite="warn",
        save_strategy="epoch",
    )
    with pytest.raises(NonFiniteError, match="saving checkpoint-5"):
        trainer.train()
    assert get_last_checkpoint(tmp_path / "out") is None


def test_bad_weights_are_refused_before_the_first_step(tmp_path: Path) -> None:
    model = FakeModel()
    put(model.params["classifier.weight"], 0, np.nan)
    with pytest.raises(NonFiniteError, match=r"before training.*classifier\.weight"):
        make_trainer(tmp_path, model).train()


# --------------------------------------------------------------------- signals


class Raise(TrainerCallback):
    """Sends this process a signal during a chosen step or evaluation."""

    def __init__(self, number: int, step: int, event: str = "on_substep_end") -> None:
        self.number, self.step = number, step
        setattr(self, event, self._send)

    def _send(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
        if state.global_step == self.step:
            self.step = -1
            signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves(tmp_path: Path, number: int) -> None:
    before = signal.getsignal(number)
    trainer = make_trainer(tmp_path, callbacks=[Raise(number, 4, "on_step_begin")])
    with pytest.raises(Interrupted, match=r"after step 5.*checkpoint-5") as caught:
        trainer.train()
    assert caught.value.signal_number == number
    assert get_last_checkpoint(tmp_path / "out").endswith("checkpoint-5")
    assert signal.getsignal(number) is before


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    class Twice(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            signal.raise_signal(signal.SIGINT)

        def on_pre_optimizer_step(
            self, args: Any, state: Any, c: Any, **kw: Any
        ) -> None:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        make_trainer(tmp_path, callbacks=[Twice()]).train()
    assert not isinstance(caught.value, Error)
    assert get_last_checkpoint(tmp_path / "out") is None


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list to fill with steps whose checkpoints find no space; 0: all."""
    full: list[int] = []
    real = durable.write_bytes

    def writes(path: Any, data: Any) -> None:
        for step in full:
            if step == 0 or f"checkpoint-{step}." in str(path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, data)

    monkeypatch.setattr(durable, "write_bytes", writes)
    return full


@pytest.mark.parametrize("older", [True, False])
def test_a_signal_and_a_full_disk_are_told_as_they_are(
    tmp_path: Path, full_disk: list[int], older: bool
) -> None:
    full_disk.append(5 if older else 0)
    trainer = make_trainer(
        tmp_path,
        callbacks=[Raise(signal.SIGTERM, 4, "on_step_begin")],
        save_strategy="steps" if older else "no",
        save_steps=2,
        on_save_error="continue",
    )
    with pytest.raises(Interrupted, match=r"after step 5.*not saved") as caught:
        trainer.train()
    text, last = str(caught.value), get_last_checkpoint(tmp_path / "out")
    assert "No space left" in text
    if older:
        assert last is not None
        assert last.endswith("checkpoint-4")
        assert f"go on from {last} with resume_from_checkpoint=True" in text
    else:
        assert last is None
        assert "nothing of this run is kept" in text


def test_older_weights_alone_are_not_called_resumable(
    tmp_path: Path, full_disk: list[int]
) -> None:
    full_disk.append(5)
    trainer = make_trainer(
        tmp_path,
        callbacks=[Raise(signal.SIGINT, 4, "on_step_begin")],
        save_strategy="steps",
        save_steps=2,
        save_only_model=True,
        on_save_error="continue",
    )
    with pytest.raises(Interrupted, match=r"checkpoint-4 holds older weights only"):
        trainer.train()


def test_a_signal_after_the_last_step_saves_what_has_no_checkpoint(
    tmp_path: Path,
) -> None:
    class Late(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            if "train_runtime" in kw["logs"]:
                trainer._signalled = True

    trainer = make_trainer(tmp_path, callbacks=[Late()])
    stopped = trainer.team.stopped
    trainer.team.stopped = lambda guard: (
        hasattr(trainer, "_signalled") or stopped(guard)
    )
    with pytest.raises(Interrupted, match=r"had ended: the state is saved in .*-10"):
        trainer.train()
    assert str(get_last_checkpoint(tmp_path / "out")).endswith("checkpoint-10")


class Full:
    """Log file on a full disk."""

    def write(self, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        self.write("")


def test_a_log_without_room_does_not_end_the_run(tmp_path: Path) -> None:
    class Fill(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            log = trainer.callback_handler.callbacks[-2]
            log.close()
            log.file = Full()

    trainer = make_trainer(tmp_path, callbacks=[Fill()])
    with pytest.warns(UserWarning, match=r"log\.jsonl \(No space left") as told:
        assert trainer.train().global_step == 10
    assert sum("log.jsonl" in str(one.message) for one in told) == 1


def test_a_folder_that_cannot_be_written_is_said_before_training(
    tmp_path: Path,
) -> None:
    (tmp_path / "out").write_text("mine")
    for folder in (tmp_path, tmp_path / "out"):
        with pytest.raises(ConfigError, match=r"out is a file, expected a folder to"):
            make_trainer(folder).train()


def test_a_disk_that_is_full_at_the_start_is_said_before_training(
    tmp_path: Path,
) -> None:
    trainer = make_trainer(tmp_path)
    trainer.callback_handler.callbacks[-2].file = Full()
    with pytest.raises(CheckpointError, match=r"cannot write .*another output_dir"):
        trainer.train()
    assert trainer.state.global_step == 0


# ----------------------------------------------------------------- failing metrics


def no_dict(result: Any) -> Any:
    return lambda pair: result


def broken(pair: Any) -> dict[str, float]:
    raise RuntimeError("the metric fails")


@pytest.mark.parametrize(
    ("metric", "error", "message"),
    [
        (
            no_dict([0.5]),
            ConfigError,
            r"compute_metrics returned \[0\.5\], a list, expected a number, or a dict",
        ),
        (no_dict(None), ConfigError, r"returned None, a NoneType, expected a nu"),
        (no_dict({1: 0.5}), ConfigError, r"returned \{1: 0\.5\}.*return \{'accuracy'"),
        (broken, RuntimeError, "the metric fails"),
    ],
)
def test_a_failing_metric_loses_nothing(
    tmp_path: Path, metric: Any, error: type[Exception], message: str
) -> None:
    whole = make_trainer(
        tmp_path / "whole", compute_metrics=accuracy, eval_strategy="epoch"
    )
    whole.train()
    trainer = make_trainer(tmp_path, compute_metrics=metric, eval_strategy="epoch")
    with (
        pytest.warns(UserWarning, match=r"after step 5 failed.*saved in .*-5; go on"),
        pytest.raises(error, match=message),
    ):
        trainer.train()
    mended = make_trainer(tmp_path, compute_metrics=accuracy, eval_strategy="epoch")
    mended.train(resume_from_checkpoint=True)
    assert digest(mended.model) == digest(whole.model)
    scores = [log for log in mended.state.log_history if "eval_accuracy" in log]
    assert [log["step"] for log in scores] == [5, 10]


def test_a_failing_metric_and_a_full_disk_are_both_told(
    tmp_path: Path, full_disk: list[int]
) -> None:
    full_disk.append(0)
    trainer = make_trainer(tmp_path, compute_metrics=broken, eval_strategy="epoch")
    with (
        pytest.warns(UserWarning, match=r"could not be saved \(.*No space.*nothing of"),
        pytest.raises(RuntimeError, match="the metric fails"),
    ):
        trainer.train()


@pytest.mark.filterwarnings("ignore:training continues")
def test_the_best_is_the_best_on_the_disk(tmp_path: Path, full_disk: list[int]) -> None:
    full_disk.append(10)
    scores = iter([0.5, 0.9, 0.7])
    trainer = make_trainer(
        tmp_path,
        compute_metrics=lambda pair: {"f1": next(scores)},
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="best",
        metric_for_best_model="f1",
        load_best_model_at_end=True,
        on_save_error="continue",
    )
    trainer.train()
    state = trainer.state
    assert (state.best_metric, state.best_global_step) == (0.7, 15)
    assert str(state.best_model_checkpoint).endswith("checkpoint-15")


def test_a_metric_that_never_was_a_number_is_told(tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path,
        compute_metrics=lambda pair: {"f1": float("nan")},
        eval_strategy="epoch",
        save_strategy="epoch",
        metric_for_best_model="f1",
        load_best_model_at_end=True,
    )
    with pytest.warns(UserWarning, match="eval_f1 was nan, never a finite number; cor"):
        trainer.train()


# -------------------------------------------------------------------- mistakes


def test_output_dir_rules(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert check_output_dir(TrainingArguments(str(folder))) is None
    folder.mkdir()
    (folder / "log.jsonl").write_text("")  # left by a run without any save
    assert check_output_dir(TrainingArguments(str(folder))) is None
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty.*overwrite_output_dir"):
        check_output_dir(TrainingArguments(str(folder)))
    make_trainer(tmp_path, save_strategy="epoch").train()
    assert check_output_dir(TrainingArguments(str(folder))).endswith("checkpoint-10")
    overwrite = TrainingArguments(str(folder), overwrite_output_dir=True)
    assert check_output_dir(overwrite) is None
    with pytest.raises(ConfigError, match=r"checkpoint-10 of another run.*resume"):
        make_trainer(tmp_path).train()
    make_trainer(tmp_path, overwrite_output_dir=True).train()
    assert get_last_checkpoint(folder) is None
    assert (folder / "thesis.tex").read_text() == "mine"


def test_an_overwritten_run_leaves_no_records(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    first = make_trainer(tmp_path, num_train_epochs=2, logging_steps=2)
    first.train()
    first.save_metrics("eval", {"eval_accuracy": 0.5})
    (folder / "mine_results.json").write_text("{}")
    begin = "train_begin"
    assert [r["event"] for r in read_log(folder)].count(begin) == 1
    again = make_trainer(tmp_path, num_train_epochs=1, overwrite_output_dir=True)
    again.log({"open": 1.0})  # has the log open before the run
    again.train()
    records = read_log(folder)
    assert (records[0]["event"], records[-1]["event"]) == (begin, "train_end")
    assert max(record["step"] for record in records) == again.state.global_step
    assert again.state.global_step < first.state.global_step
    again.save_metrics("train", {"train_loss": 1.0})
    assert json.loads((folder / "all_results.json").read_text()) == {"train_loss": 1.0}
    assert not (folder / "eval_results.json").exists()
    assert (folder / "mine_results.json").exists()


TRAINER_MISTAKES: list[tuple[dict[str, Any], type[Error], list[str]]] = [
    ({"train_dataset": None}, ConfigError, ["train_dataset", "pass train_dataset="]),
    ({"train_dataset": []}, InputError, ["train_dataset is empty"]),
    ({"train_dataset": iter([])}, InputError, ["list_iterator", "make a list"]),
    ({"train_dataset": [[1, 2]]}, InputError, ["train_dataset[0] is a list", "dict"]),
    (
        {"train_dataset": [{"sentence": "a", "label": 1}]},
        ConfigError,
        ["sentence, label", "input_ids", "processing_class=tokenizer"],
    ),
    (
        {"train_dataset": [{"input_ids": [1, 2]}]},
        InputError,
        ["no loss", "labels", "input_ids, sequence_offsets"],
    ),
    ({"precision": "bfloat16"}, ConfigError, ["float32", "dtype='bfloat16'"]),
    ({"callbacks": [3]}, ConfigError, ["callbacks has 3", "TrainerCallback"]),
    (
        {"callbacks": [EarlyStoppingCallback()]},
        ConfigError,
        ["EarlyStoppingCallback", "metric_for_best_model=None"],
    ),
    (
        {"eval_strategy": "epoch", "metric_for_best_model": "f1"},
        ConfigError,
        ["metric_for_best_model='f1'", "eval_loss"],
    ),
    (
        {"per_device_train_batch_size": 64, "dataloader_drop_last": True},
        ConfigError,
        ["dataloader_drop_last", "64"],
    ),
    (
        {"eval_strategy": "epoch", "eval_dataset": []},
        InputError,
        ["eval_dataset is empty"],
    ),
]


@pytest.mark.filterwarnings("ignore:the evaluation after step 5 failed")
@pytest.mark.parametrize(("options", "error", "parts"), TRAINER_MISTAKES)
def test_mistakes_say_what_and_what_to_do(
    tmp_path: Path, options: dict[str, Any], error: type[Error], parts: list[str]
) -> None:
    with pytest.raises(error) as caught:
        make_trainer(tmp_path, **options).train()
    for part in parts:
        assert part in str(caught.value)


def test_patience_is_a_number() -> None:
    with pytest.raises(ConfigError, match=r"early_stopping_patience >= 1.*got .3. and"):
        EarlyStoppingCallback("3")  # type: ignore[arg-type]


def test_a_schedule_needs_its_optimizer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="schedule without its optimizer"):
        Trainer(
            FakeModel(), TrainingArguments(str(tmp_path)), optimizers=(None, object())
        )


def test_tensorboard_needs_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r"evolving-attention\[tb\]"):
        make_trainer(tmp_path, report_to="tensorboard")
