"""Trials as Ray tasks on this machine: ``sweep --ray``, ``backend="ray"``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import glue as glue_words
from helpers_commands import runner

import evolving_attention as ea
from evolving_attention.cli import sweep_ray
from evolving_attention.cli.sweep import _parsed
from evolving_attention.cli.trainings import training
from evolving_attention.training.ray_tasks import RayTasks

optuna = pytest.importorskip("optuna", reason="no optuna (extra sweep)")
ray = pytest.importorskip("ray", reason="no ray (extra ray)")


@pytest.fixture(scope="module", autouse=True)
def connected() -> Iterator[None]:
    """Connects to a Ray of two CPUs for all tests of this file."""
    with RayTasks("local", 2, "the tests") as tasks:
        assert (tasks.cpus, tasks.largest) == (2, 2)
        yield
    assert not ray.is_initialized()


def trainer_of(folder: Path, **options: Any) -> ea.Trainer:
    ids = np.random.default_rng(0).integers(5, 40, (16, 5)).tolist()
    rows = [{"input_ids": row, "label": i % 2} for i, row in enumerate(ids)]
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"vocab_size": 40, "intermediate_size": 24, "max_position_embeddings": 8}

    def make(trial: Any) -> Any:
        alpha = 0.1
        if trial is not None:
            alpha = trial.suggest_float("alpha", 0.1, 0.9)
        evolving = ea.attention.Evolving(alpha, 0.1)
        config = ea.BertConfig(attention=evolving, **sizes)
        return ea.BertForSequenceClassification(config)

    args = {"output_dir": str(folder), "max_steps": 2, "disable_tqdm": True}
    args |= {"save_strategy": "no", "load_best_model_at_end": False}
    return ea.Trainer(
        model_init=make, args=args, train_dataset=rows, eval_dataset=rows[:8], **options
    )


def rates(trial: Any) -> dict[str, Any]:
    return {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)}


def study_of() -> dict[str, Any]:
    """An in-memory study whose proposals do not depend on earlier trials."""
    sampler = optuna.samplers.RandomSampler(seed=0)
    storage = optuna.storages.InMemoryStorage()
    return {"study_name": "s", "storage": storage, "sampler": sampler}


def test_trials_of_ray_have_the_bits_of_this_process(tmp_path: Path) -> None:
    """Except the trial whose process is killed: it fails, the others are unaffected."""
    marker = tmp_path / "marker"

    def objective(metrics: dict[str, Any]) -> float:
        with contextlib.suppress(FileExistsError):
            marker.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return float(metrics["eval_loss"])

    found = []
    for backend in ("ray", "optuna"):
        trainer = trainer_of(tmp_path / backend)
        model, study = trainer.model, study_of()
        best = trainer.hyperparameter_search(
            rates, objective, n_trials=3, backend=backend, **study
        )
        assert isinstance(best, ea.training.BestRun)
        assert trainer.model is model
        study.pop("sampler")
        trials = optuna.load_study(**study).trials
        assert min(one.value for one in trials if one.value) == best.objective
        assert (tmp_path / backend / f"run-{best.run_id}" / "log.jsonl").is_file()
        found.append(trials)
    assert sorted(one.state.name for one in found[0]) == ["COMPLETE"] * 2 + ["FAIL"]
    for mine, its in zip(*found, strict=True):
        assert mine.params == its.params
        assert {*mine.params} == {"alpha", "learning_rate"}
        if mine.state.name == "FAIL":
            assert "Ray lost the process" in mine.user_attrs["error"]
        else:
            assert mine.value == its.value


def test_a_sweep_over_ray_has_the_bits_of_the_command(
    capfd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a Ray process dies: its trial is run again."""
    words = glue_words(tmp_path)
    at = words.index("--learning_rate")
    del words[at : at + 2]
    marker = tmp_path / "marker"

    def dies_once(*given: Any) -> Any:
        from evolving_attention.cli.sweep_ray import _trial

        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return _trial(*given)

    monkeypatch.setattr(sweep_ray, "_trial", dies_once)
    monkeypatch.chdir(tmp_path)
    command = runner(capfd, monkeypatch)
    code, shown, told = command(
        *("sweep", "--search", "learning_rate=5e-3", "--ray", "local"),
        *("--keep", "all", "--output_dir", "out", "--json", *words),
    )
    assert code == 0, told
    assert "Ray lost the process of a trial" in told
    assert "tried again" in told
    found = json.loads(shown)
    assert len(found["trials"]) == 1
    single = tmp_path / "single"
    code, shown, told = command(
        *("glue", "out/best.json", "--output_dir", single, "--json")
    )
    assert code == 0, told
    assert json.loads(shown)["eval_loss"] == found["best"]["value"]
    trial = tmp_path / "out" / f"trial-{found['best']['number']}"
    (mine,), (its,) = (folder.glob("*.safetensors") for folder in (trial, single))
    assert mine.read_bytes() == its.read_bytes()
    assert ray.is_initialized()  # the sweep did not start it, so it stays


def test_a_trial_that_the_sweep_leaves_saves_its_state(tmp_path: Path) -> None:
    words = [*map(str, glue_words(tmp_path)[1:]), "--max_steps", "100000"]
    given = _parsed(training("glue").fields(), words, "glue")
    out = tmp_path / "out"
    given |= {"output_dir": str(out), "save_steps": 10}
    with RayTasks("local", None, "a test") as tasks:
        place = sweep_ray.RayWorkers(tasks, 1, 0)
        worker = place.start(None, "glue", given, tmp_path / "log")
        try:
            for _ in range(600):
                if [*out.glob("checkpoint-*")] or place.ready([worker], 0.1):
                    break
            worker.stop()
            assert place.ready([worker], 60.0) == [worker]
            answer = worker.answer()
        finally:
            worker.kill()
    assert answer.error is not None, (tmp_path / "log").read_text()
    assert answer.error[0] == "Interrupted"
    assert "checkpoint-" in answer.error[1]


def test_a_task_that_has_ended_is_not_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RayTasks("local", None, "a test") as tasks:
        task = tasks.start(lambda: 3, cpus=1, gpus=0)
        assert tasks.result(task) == 3
        monkeypatch.setattr(ray, "cancel", lambda *_, **__: pytest.fail("cancelled"))
        tasks.stop(task, force=True)
