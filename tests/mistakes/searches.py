"""Mistakes in runs over seeds, in hyperparameter searches, and with their files."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.cli import repeat, search_spaces
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.sweep import _Sweep
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.cli.sweep_workers import Answer
from evolving_attention.cli.trainings import training
from mistakes.row import Row, model


def options() -> Fields:
    return Fields([(RepeatArguments, ""), (ea.TrainingArguments, "")])


def seeds(**given: Any) -> Callable[[Path], Any]:
    """Runs a command with --seeds whose runs report a loss."""

    def call(folder: Path) -> Any:
        own = {"seeds": [1, 2], "output_dir": str(folder / "out"), **given}
        return repeat.repeated(options(), own, lambda one, once: {"eval_loss": 1.0})

    return call


def other_options(folder: Path) -> Any:
    seeds(learning_rate=1e-3)(folder)
    return seeds(learning_rate=1e-4)(folder)


def compared(content: str | None) -> Callable[[Path], Any]:
    """Compares with a folder whose results file holds this text."""

    def call(folder: Path) -> Any:
        if content is not None:
            (folder / "results.json").write_text(content)
        return seeds(compare=str(folder))(folder)

    return call


def damaged_record(folder: Path) -> Any:
    seeds()(folder)
    (folder / "out" / "seed-2" / "run.json").write_text("{")
    return seeds()(folder)


def full_disk(folder: Path) -> Any:
    """Fills the disk while the record of the second seed is written."""
    write, calls = os.write, []

    def full(fd: int, data: Any) -> int:
        calls.append(fd)
        if len(calls) == 3:  # settings, seed 1, seed 2
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data)

    def run(one: dict[str, Any], once: repeat.Once) -> dict[str, float]:
        Path(one["output_dir"]).mkdir(parents=True)
        return {"eval_loss": 1.0}

    own = {"seeds": [1, 2], "output_dir": str(folder / "out")}
    with mock.patch("os.write", full):
        try:
            repeat.repeated(options(), own, run)
        finally:
            assert (folder / "out" / "seed-1" / "run.json").is_file()


def space(name: str | None, *search: str, command: str = "glue") -> Any:
    return lambda _: search_spaces.read_space(
        name, search, command, training(command).fields()
    )


def space_file(content: str) -> Callable[[Path], Any]:
    def call(folder: Path) -> Any:
        file = folder / "space.json"
        file.write_text(content)
        return space(str(file))(folder)

    return call


def sweep(folder: Path, command: str = "glue", **given: Any) -> _Sweep:
    args = {"search": ["learning_rate=1e-4,1e-3"], **given}
    words = args.pop("words", ["--train_file", "a.csv"])
    return _Sweep(
        SweepArguments(output_dir=str(folder / "out"), **args), command, words
    )


def swept(answer: Answer, **given: Any) -> Callable[[Path], Any]:
    """Runs a sweep whose trials all end with this answer."""

    class Ended:
        def __init__(self, trial: Any, command: str, given: Any, log: Path) -> None:
            self.trial, self.log = trial, log

        def answer(self) -> Answer:
            return answer

    def call(folder: Path) -> Any:
        module = "evolving_attention.cli.sweep"
        with (
            mock.patch(f"{module}.Worker", Ended),
            mock.patch(f"{module}.ready", lambda workers, seconds: list(workers)),
        ):
            return sweep(folder, **given).run()

    return call


DONE = Answer({"eval_loss": 0.5})


def another_space(folder: Path) -> Any:
    """Resumes the study of a folder with another search space."""
    swept(DONE)(folder)
    (folder / "out" / "settings.json").unlink()
    return swept(DONE, search=["learning_rate=1e-4,1e-2"])(folder)


def another_command(folder: Path) -> Any:
    """Uses a study name that another command already has in the shared storage."""
    shared = {"storage": f"sqlite:///{folder / 'shared.db'}"}
    swept(DONE, **shared)(folder)
    words = ["--train_file", "a.json"]
    other = swept(DONE, command="squad train", words=words, **shared)
    (folder / "other").mkdir()
    return other(folder / "other")


def not_a_study(folder: Path) -> Any:
    (folder / "out").mkdir()
    (folder / "out" / "study.db").write_bytes(b"no database" * 200)
    return swept(DONE)(folder)


def full_study(folder: Path) -> Any:
    """Makes SQLite run out of space in the second trial."""
    from evolving_attention.cli import sweep_study

    tell = sweep_study.Study._tell_optuna
    calls: list[Any] = []

    def full(self: Any, *args: Any, **options: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise sqlite3.OperationalError("database or disk is full")
        tell(self, *args, **options)

    with mock.patch.object(sweep_study.Study, "_tell_optuna", full):
        try:
            swept(DONE)(folder)
        finally:  # the second result is kept next to the study
            file = folder / "out" / "trial-1.json"
            assert json.loads(file.read_text())["value"] == 0.5


def two_in_a_folder(folder: Path) -> Any:
    with durable.locked(folder / "out", AssertionError()):
        return swept(DONE)(folder)


def search(**given: Any) -> Callable[[Path], Any]:
    """Calls Trainer.hyperparameter_search with these arguments."""

    def call(folder: Path) -> Any:
        of_trainer = given.pop("trainer", {"model_init": lambda: model()})
        args = {"output_dir": str(folder), "max_steps": 1, "save_strategy": "no"}
        rows = [{"input_ids": [1, 2, 3], "label": i % 2} for i in range(4)]
        trainer = ea.Trainer(
            args=args, train_dataset=rows, eval_dataset=rows, **of_trainer
        )
        hidden: Any = nullcontext()  # patch.dict would also drop new imports
        if given.pop("without_optuna", False):
            hidden = mock.patch.dict("sys.modules", {"optuna": None})
        with hidden:
            return trainer.hyperparameter_search(
                n_trials=given.pop("n_trials", 1), **given
            )

    return call


def without_optuna(folder: Path) -> Any:
    with mock.patch.dict("sys.modules", {"optuna": None}):
        return swept(DONE)(folder)


ROWS = {
    "seeds that are none": Row(
        seeds(seeds=["1", "two"]),
        ea.ConfigError,
        r"1 two",
        r"--seeds",
        r"whole numbers",
    ),
    "a seed twice": Row(
        seeds(seeds=[1, 2, 1]),
        ea.ConfigError,
        r"1 2 1",
        r"--seeds",
        r"each number once",
    ),
    "seed with seeds": Row(
        seeds(seed=3), ea.ConfigError, r"--seed 3", r"--seeds", r"leave it out"
    ),
    "a checkpoint for all seeds": Row(
        seeds(resume_from_checkpoint="a/checkpoint-1"),
        ea.ConfigError,
        r"checkpoint-1",
        r"--resume_from_checkpoint",
        r"every seed goes on",
    ),
    "compare without seeds": Row(
        seeds(seeds=None, compare="x"), ea.ConfigError, r"x", r"--compare", r"--seeds"
    ),
    "compare with a folder without results": Row(
        compared(None), ea.ConfigError, r"--compare", r"results\.json", r"output_dir"
    ),
    "compare with damaged results": Row(
        compared("{"), ea.DataError, r"not JSON", r"results\.json", r"remove"
    ),
    "compare with other seeds": Row(
        compared('{"runs": [{"seed": 7, "eval_loss": 1}]}'),
        ea.ConfigError,
        r"--compare",
        r"one of the seeds 1 2",
        r"it has 7",
    ),
    "compare with other scores": Row(
        compared('{"runs": [{"seed": 1, "eval_f1": 1}]}'),
        ea.ConfigError,
        r"--compare",
        r"scores",
        r"seeds 1, this command 1 2",
    ),
    "runs with other options": Row(
        other_options,
        ea.ConfigError,
        r"learning_rate",
        r"settings\.json",
        r"choose another --output_dir or add --overwrite",
    ),
    "a damaged record of a seed": Row(
        damaged_record, ea.DataError, r"not JSON", r"seed-2/run\.json", r"remove"
    ),
    "a disk that fills between seeds": Row(
        full_disk, ea.CheckpointError, r"No space", r"seed-2/run\.json", r"free disk"
    ),
    "no space to search": Row(
        space(None), ea.ConfigError, r"nothing to search", r"--space", r"--search"
    ),
    "a space that is not there": Row(
        space("icml"), ea.ConfigError, r"icml", r"--space", r"icml-glue"
    ),
    "a space of another command": Row(
        space("realformer-squad"),
        ea.ConfigError,
        r"of squad train",
        r"--space",
        r"choose icml-glue",
    ),
    "an option that is not there": Row(
        space(None, "learning_rat=1,2"),
        ea.ConfigError,
        r"learning_rat",
        r"--search",
        r"did you mean 'learning_rate'",
    ),
    "a folder to search": Row(
        space(None, "output_dir=a,b"),
        ea.ConfigError,
        r"output_dir",
        r"--search",
        r"help",
    ),
    "an option without values": Row(
        space(None, "alpha"), ea.ConfigError, r"alpha", r"--search", r"NAME=a,b,c"
    ),
    "a value of another type": Row(
        space(None, "alpha=0.1,high"), ea.ConfigError, r"high", r"--search", r"a number"
    ),
    "a range from high to low": Row(
        space(None, "alpha=0.4..0.1"), ea.ConfigError, r"alpha", r"0\.4\.\.", r"lower"
    ),
    "the logarithm of zero": Row(
        space(None, "alpha=0..0.1:log"),
        ea.ConfigError,
        r"alpha",
        r"0\.0\.\.",
        r"above 0",
    ),
    "a space that is no JSON": Row(
        space_file("{"), ea.DataError, r"not JSON", r"space\.json:1:2", r"an object of"
    ),
    "an entry of a space that is a number": Row(
        space_file('{"alpha": 0.1}'), ea.DataError, r"0\.1", r"space\.json", r"a list"
    ),
    "a grid with a range": Row(
        swept(DONE, search=["alpha=0.1..0.4"], sampler="grid"),
        ea.ConfigError,
        r"alpha has a range",
        r"--sampler grid",
        r"list them",
    ),
    "a sweep without a folder": Row(
        lambda _: SweepArguments(), ea.ConfigError, r"missing", r"--output_dir", r"add"
    ),
    "no workers": Row(
        lambda _: SweepArguments(output_dir="a", workers=0),
        ea.ConfigError,
        r"--workers 0",
        r"expected 1 or more",
        r"leave it out",
    ),
    "a folder of the command": Row(
        lambda folder: sweep(folder, words=["--output_dir", "a"]),
        ea.ConfigError,
        r"--output_dir a",
        r"before the word glue",
        r"folder of its own",
    ),
    "an option that is searched and given": Row(
        lambda folder: sweep(folder, words=["--learning_rate", "1e-4"]),
        ea.ConfigError,
        r"learning_rate",
        r"searched or given",
        r"leave one out",
    ),
    "a search on test data": Row(
        lambda folder: sweep(folder, objective="test_accuracy"),
        ea.ConfigError,
        r"test_accuracy",
        r"--objective",
        r"validation set",
    ),
    "a study of another space": Row(
        another_space,
        ea.ConfigError,
        r"another search space",
        r"study\.db",
        r"choose another --output_dir",
    ),
    "a study of another command": Row(
        another_command,
        ea.ConfigError,
        r"another command \(glue\)",
        r"shared\.db.*'sweep'",
        r"expected squad train; choose another .*--study_name",
    ),
    "a study that is no database": Row(
        not_a_study, ea.CheckpointError, r"cannot be used", r"study\.db", r"moved away"
    ),
    "a disk that fills in a sweep": Row(
        full_study,
        ea.CheckpointError,
        r"disk is full",
        r"study\.db",
        r"finished trials are kept.*run the same command",
    ),
    "a disk that fills in a trial": Row(
        swept(Answer(None, ("CheckpointError", "No space left"), errno.ENOSPC, 4)),
        ea.CheckpointError,
        r"No space left",
        r"trial 0",
        r"Finished trials are kept",
    ),
    "a worker that dies again and again": Row(
        swept(Answer(code=-9)),
        ea.NonFiniteError,
        r"none of 2 trials has a result",
        r"exit code -9.*trial-1\.log",
        r"Search other values",
    ),
    "a command that cannot work": Row(
        swept(Answer(None, ("ConfigError", "--data_dir is missing; add it"), None, 2)),
        ea.ConfigError,
        r"--data_dir is missing",
        r"trial 0",
        r"add it",
    ),
    "an objective that the command has not": Row(
        swept(DONE, objective="eval_f1"),
        ea.ConfigError,
        r"eval_f1",
        r"--objective",
        r"eval_loss",
    ),
    "two sweeps in a folder": Row(
        two_in_a_folder,
        ea.ConfigError,
        r"--output_dir",
        r"no other sweep",
        r"--workers",
    ),
    "a sweep without optuna": Row(
        without_optuna, ea.MissingExtraError, r"optuna", r"sweeps", r"\[sweep\]"
    ),
    "a search without model_init": Row(
        search(trainer={"model": model()}),
        ea.ConfigError,
        r"no model_init",
        r"hyperparameter_search",
        r"pass model_init=",
    ),
    "a search without optuna": Row(
        search(without_optuna=True),
        ea.MissingExtraError,
        r"optuna",
        r"hyperparameter_search",
        r"\[sweep\]",
    ),
    "a backend that is not there": Row(
        search(backend="wandb"), ea.ConfigError, r"'wandb'", r"backend", r"or 'ray'"
    ),
    "a direction that is none": Row(
        search(direction="up"), ea.ConfigError, r"'up'", r"direction", r"'minimize'"
    ),
    "no trials": Row(
        search(n_trials=0), ea.ConfigError, r"n_trials=0", r"search", r"1 or more"
    ),
    "several trials at once": Row(
        search(n_jobs=2), ea.ConfigError, r"n_jobs=2", r"search", r"sweep --workers"
    ),
    "a space of other options": Row(
        search(hp_space=lambda trial: {"alpha": 0.1}),
        ea.ConfigError,
        r"'alpha'",
        r"hp_space",
        r"model_init\(trial\)",
    ),
    "a space of nothing": Row(
        search(hp_space=lambda trial: None),
        ea.ConfigError,
        r"returned None, a NoneType",
        r"hp_space",
        r"return \{'learning_rate': trial\.suggest_float",
    ),
}
