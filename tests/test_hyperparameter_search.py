"""``Trainer.hyperparameter_search`` over optuna, with transformers' signature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.training import BestRun, Trainer, TrainerCallback, search_ray
from evolving_attention.training.search import default_objective

optuna = pytest.importorskip("optuna", reason="no optuna (extra sweep)")


class Counting(TrainerCallback):
    """Counts evaluations; its count must not carry over from trial to trial."""

    def __init__(self, seen: list[int]) -> None:
        self.count, self.seen = 0, seen

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.count += 1
        self.seen.append(self.count)


def rows(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    ids = random.integers(5, 40, (count, 5)).tolist()
    return [{"input_ids": row, "label": i % 2} for i, row in enumerate(ids)]


def trainer_of(folder: Path, **options: Any) -> Trainer:
    given = {
        "output_dir": str(folder),
        "max_steps": 2,
        "save_strategy": "no",
        "disable_tqdm": True,
        **options.pop("args", {}),
    }
    config = tiny().config
    options.setdefault("model_init", lambda: ea.BertForSequenceClassification(config))
    return Trainer(args=given, train_dataset=rows(16), eval_dataset=rows(8), **options)


def rates(trial: Any) -> dict[str, Any]:
    return {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)}


def weights(model: Any) -> list[bytes]:
    return [np.asarray(p).tobytes() for _, p in model.named_parameters()]


def test_the_best_run_is_that_of_a_single_trainer(tmp_path: Path) -> None:
    seen: list[int] = []
    trainer = trainer_of(tmp_path, callbacks=[Counting(seen)])
    before, rate = weights(trainer.model), trainer.args.learning_rate
    sampler = optuna.samplers.RandomSampler(seed=0)
    best = trainer.hyperparameter_search(rates, n_trials=3, sampler=sampler)
    assert isinstance(best, BestRun)
    assert set(best.hyperparameters) == {"learning_rate"}
    assert seen == [1, 1, 1]
    assert (tmp_path / f"run-{best.run_id}" / "log.jsonl").is_file()
    assert weights(trainer.model) == before
    assert trainer.args.learning_rate == rate
    single = trainer_of(tmp_path / "single", args=best.hyperparameters)
    single.train()
    assert single.evaluate()["eval_loss"] == best.objective


def test_a_study_in_a_file_goes_on(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study: dict[str, Any] = {"study_name": "s", "storage": storage}
    trainer = trainer_of(tmp_path)
    trainer.hyperparameter_search(rates, n_trials=1, **study)
    trainer.hyperparameter_search(rates, n_trials=1, load_if_exists=True, **study)
    assert len(optuna.load_study(**study).trials) == 2


def test_several_objectives_and_metrics(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, compute_metrics=lambda _: {"f1": 0.25})
    found = trainer.hyperparameter_search(
        rates,
        lambda metrics: (metrics["eval_loss"], metrics["eval_f1"]),
        n_trials=2,
        direction=["minimize", "maximize"],
    )
    assert isinstance(found, list)
    assert [run.objective[1] for run in found] == [0.25] * len(found)
    assert default_objective({"eval_loss": 1.0, "eval_f1": 0.25, "eval_x": 1}) == 1.25


def test_a_metric_that_is_no_number_is_no_objective() -> None:
    with pytest.raises(ea.InputError, match=r"metric eval_f1 is \[0.1, 0.2\], expect"):
        default_objective({"eval_loss": 1.0, "eval_f1": [0.1, 0.2]})


def test_the_number_of_tokens_is_no_objective(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, args={"include_num_input_tokens_seen": True})
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["num_input_tokens_seen"] > 0
    assert default_objective(metrics) == metrics["eval_loss"]


def test_a_trial_that_diverges_does_not_end_the_search(tmp_path: Path) -> None:
    def space(trial: Any) -> dict[str, Any]:
        name = "learning_rate"
        return {name: trial.suggest_categorical(name, [1e30, 1e-3])}

    study = {"storage": f"sqlite:///{tmp_path / 's.db'}", "study_name": "s"}
    sampler = optuna.samplers.GridSampler({"learning_rate": [1e30, 1e-3]}, seed=0)
    best = trainer_of(tmp_path, args={"max_steps": 4}).hyperparameter_search(
        space, n_trials=2, sampler=sampler, **study
    )
    assert isinstance(best, BestRun)
    assert best.hyperparameters == {"learning_rate": 1e-3}
    states = sorted(one.state.name for one in optuna.load_study(**study).trials)
    assert states == ["COMPLETE", "FAIL"]


class Inline:
    """A Ray whose tasks end when they are started; the last one never ends."""

    cpus, has_gpus = 2, False
    stopped: list[int]

    def __init__(self, address: Any, num_cpus: Any, where: str) -> None:
        self.ends: list[Callable[[], Any]] = []
        Inline.stopped = []

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *raised: object) -> None: ...

    def check(self, cpus: float, gpus: float) -> None: ...

    def put(self, value: Any) -> Any:
        return value

    def start(self, function: Any, *given: Any, cpus: float, gpus: float) -> int:
        self.ends.append(lambda: function(*given))
        return len(self.ends) - 1

    def ready(self, tasks: Sequence[int], seconds: float) -> list[int]:
        return list(tasks)[:1]

    def result(self, task: int) -> Any:
        return self.ends[task]()

    def stop(self, task: int, force: bool = False) -> None:
        Inline.stopped.append(task)


def test_an_error_of_rays_trial_is_that_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trial stays open: neither the one that raises nor the parallel ones."""
    monkeypatch.setattr(search_ray, "RayTasks", Inline)

    def objective(metrics: dict[str, Any]) -> float:
        raise ea.InputError("there is no f1")

    def refused(trial: Any) -> dict[str, Any]:
        return {"per_device_train_batch_size": 1 - trial.number}

    storage = optuna.storages.InMemoryStorage()
    study = {"storage": storage, "study_name": "s", "load_if_exists": True}
    given: dict[str, Any] = {"n_trials": 3, "backend": "ray", **study}
    with pytest.raises(ea.InputError, match="there is no f1"):
        trainer_of(tmp_path).hyperparameter_search(rates, objective, **given)
    assert Inline.stopped == [0, 1]
    with pytest.raises(ea.ConfigError, match="per_device_train_batch_size"):
        trainer_of(tmp_path).hyperparameter_search(refused, objective, **given)
    assert Inline.stopped == []
    found = optuna.load_study(storage=storage, study_name="s").trials
    assert [one.state.name for one in found] == ["FAIL"] * 3


def test_a_pruner_ends_trials(tmp_path: Path) -> None:
    class Every(optuna.pruners.BasePruner):
        def prune(self, study: Any, trial: Any) -> bool:
            return bool(trial.number == 1)

    storage = f"sqlite:///{tmp_path / 's.db'}"
    args = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 1}
    trainer_of(tmp_path, args=args).hyperparameter_search(
        rates, n_trials=2, pruner=Every(), storage=storage, study_name="s"
    )
    first, second = optuna.load_study(storage=storage, study_name="s").trials
    assert (first.state.name, len(first.intermediate_values)) == ("COMPLETE", 4)
    assert (second.state.name, len(second.intermediate_values)) == ("PRUNED", 1)


def test_the_model_may_depend_on_the_trial(tmp_path: Path) -> None:
    made: list[float] = []
    config = tiny().config

    def init(trial: Any) -> Any:
        if trial is not None:
            made.append(trial.suggest_categorical("alpha", [0.25]))
        return ea.BertForSequenceClassification(config)

    best = trainer_of(tmp_path, model_init=init).hyperparameter_search(
        rates, n_trials=1, hp_name=lambda trial: f"trial {trial.number}"
    )
    assert isinstance(best, BestRun)
    assert made == [0.25]
    assert best.hyperparameters["alpha"] == 0.25


def test_an_objective_sees_all_evaluation_sets(tmp_path: Path) -> None:
    """Also while training, where a pruner asks, as in transformers."""
    seen: list[set[str]] = []

    def objective(metrics: dict[str, Any]) -> float:
        seen.append({name for name in metrics if name.endswith("_loss")})
        return float(metrics["eval_a_loss"] + metrics["eval_b_loss"])

    args = {"eval_strategy": "steps", "eval_steps": 1}
    trainer = trainer_of(tmp_path, args=args)
    trainer.eval_dataset = {"a": rows(8), "b": rows(4)}
    best = trainer.hyperparameter_search(rates, objective, n_trials=1)
    assert seen == [{"eval_a_loss", "eval_b_loss"}] * 2
    trainer.args.eval_strategy = "no"
    again = trainer.hyperparameter_search(
        lambda trial: {"learning_rate": best.hyperparameters["learning_rate"]},
        objective,
        n_trials=1,
    )
    assert again.objective == best.objective


def test_only_the_first_parameter_of_model_init_is_the_trial(tmp_path: Path) -> None:
    config, found = tiny().config, []

    def make(trial: Any, width: int) -> Any:
        found.append((trial is not None, width))
        return ea.BertForSequenceClassification(config)

    for init in (
        lambda trial, width=16: make(trial, width),
        lambda trial=None, **more: make(trial, more.get("width", 16)),
        functools.partial(make, width=16),
    ):
        found.clear()
        trainer = trainer_of(tmp_path, model_init=init)
        assert found == [(False, 16)]
        trainer.hyperparameter_search(rates, n_trials=1)
        assert found[1:] == [(True, 16)] * len(found[1:])
        assert len(found) > 1
    trainer_of(tmp_path, model_init=lambda width=16: make(None, width))
    assert found[-1] == (False, 16)
    with pytest.raises(ea.ConfigError, match=r"needs trial, width.*default to width,"):
        trainer_of(tmp_path, model_init=make)
