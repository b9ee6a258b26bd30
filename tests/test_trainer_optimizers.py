"""Optimizer and schedule of a Trainer: given, assigned, or made by own methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.errors import ConfigError
from evolving_attention.training import Trainer, get_scheduler

STEPS = 3


def rows() -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    return [
        {"input_ids": random.integers(5, 40, 4 + i % 3).tolist(), "label": i % 2}
        for i in range(24)
    ]


def trainer_of(
    folder: Path, kind: type[Trainer] = Trainer, /, model: Any = None, **given: Any
) -> Trainer:
    args = {"output_dir": str(folder), "num_train_epochs": 1, "disable_tqdm": True}
    args |= {"save_strategy": "no", "lr_scheduler_type": "cosine", "warmup_steps": 0.4}
    if "model_init" not in given:
        model = model or tiny()
    return kind(model, args | given.pop("args", {}), train_dataset=rows(), **given)


def weights(model: Any) -> list[bytes]:
    return [np.asarray(p).tobytes() for _, p in model.named_parameters()]


def sgd(model: Any) -> Any:
    return ea.optim.SGD(model.parameters(), lr=0.1)


def halved(optimizer: Any) -> Any:
    return get_scheduler("polynomial", optimizer, 0, 2 * STEPS)


def expected(folder: Path, schedule: Any = None) -> list[bytes]:
    """The weights after training with ``sgd`` and a schedule of the arguments."""
    model = tiny()
    optimizer = sgd(model)
    made = schedule and schedule(optimizer)
    trainer_of(folder, model=model, optimizers=(optimizer, made)).train()
    return weights(model)


class Returns(Trainer):
    def create_optimizer(self) -> Any:
        return sgd(self.model)


class Sets(Trainer):
    def create_optimizer(self, model: Any = None) -> Any:
        if self.optimizer is None:
            self.optimizer = sgd(self.model)


class SetsBoth(Trainer):
    def create_optimizer_and_scheduler(self, num_training_steps: int) -> None:
        assert num_training_steps == STEPS
        self.optimizer = sgd(self.model)
        self.create_scheduler(num_training_steps)


class Changes(Trainer):
    def create_optimizer(self, model: Any = None) -> Any:
        super().create_optimizer(model)
        for group in self.optimizer.param_groups:
            group["lr"] *= 2
        return self.optimizer


class Schedules(Returns):
    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        assert num_training_steps == STEPS
        self.lr_scheduler = halved(optimizer)
        return self.lr_scheduler


@pytest.mark.parametrize("kind", [Returns, Sets, SetsBoth])
def test_an_overridden_method_gives_the_optimizer(kind: Any, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a", kind)
    trainer.train()
    assert weights(trainer.model) == expected(tmp_path / "b")
    assert type(trainer.optimizer) is ea.optim.SGD
    first = trainer.optimizer
    trainer.train()  # each run has its own
    assert trainer.optimizer is not first


def test_an_overridden_method_may_change_the_optimizer(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a", Changes)
    twice = trainer_of(tmp_path / "b", args={"learning_rate": 1e-4})
    trainer.train()
    twice.train()
    assert weights(trainer.model) == weights(twice.model)


def test_an_overridden_method_gives_the_schedule(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a", Schedules)
    trainer.train()
    assert weights(trainer.model) == expected(tmp_path / "b", halved)
    assert trainer.lr_scheduler.get_last_lr() == [pytest.approx(0.05)]


def test_what_is_assigned_trains(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a")
    trainer.optimizer = optimizer = sgd(trainer.model)
    trainer.train()
    assert trainer.optimizer is optimizer
    assert weights(trainer.model) == expected(tmp_path / "b")
    schedule = trainer.lr_scheduler
    trainer.train()  # the optimizer is the caller's, the schedule was the run's
    assert trainer.optimizer is optimizer
    assert trainer.lr_scheduler is not schedule

    trainer = trainer_of(tmp_path / "c")
    trainer.optimizer = sgd(trainer.model)
    trainer.lr_scheduler = halved(trainer.optimizer)
    trainer.train()
    assert weights(trainer.model) == expected(tmp_path / "d", halved)


def test_what_the_methods_made_is_assigned(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a")
    made = trainer.create_optimizer()
    assert made is trainer.optimizer is trainer.create_optimizer()
    assert trainer.create_scheduler(7) is trainer.lr_scheduler
    assert trainer.lr_scheduler.optimizer is made  # for 7 steps: a run makes its own
    for group in made.param_groups:
        group["lr"] = 1e-4
    trainer.train()
    assert trainer.optimizer is made
    other = trainer_of(tmp_path / "b", args={"learning_rate": 1e-4})
    other.train()
    assert weights(trainer.model) == weights(other.model)


def test_a_schedule_for_the_optimizer_of_the_last_run(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    trainer.train()
    last = trainer.optimizer
    trainer.lr_scheduler = schedule = halved(last)
    trainer.train()
    assert (trainer.optimizer, trainer.lr_scheduler) == (last, schedule)


def test_each_run_has_its_own_optimizer(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "a", model_init=tiny)
    trainer.train()
    first, bits = trainer.optimizer, weights(trainer.model)
    trainer.train()
    assert trainer.optimizer is not first
    assert weights(trainer.model) == bits
    trainer.lr_scheduler = None
    trainer.train()
    assert weights(trainer.model) == bits
    trainer.args.lr_scheduler_kwargs = {"num_cycle": 2}
    with pytest.raises(ConfigError, match="num_cycle"):
        trainer.train()
    trainer.args.lr_scheduler_kwargs, trainer.args.learning_rate = None, 1e-4
    trainer.train()  # not with the optimizer of the run that failed
    assert weights(trainer.model) != bits


@pytest.mark.parametrize("kind", [Trainer, Schedules])
def test_resumed_runs_have_the_same_bits(kind: Any, tmp_path: Path) -> None:
    def run(wanted: Any = None) -> list[bytes]:
        saving = {"save_strategy": "steps", "save_steps": 1}
        trainer = trainer_of(tmp_path, kind, args=saving)
        if kind is Trainer:
            trainer.optimizer = ea.optim.AdamW(trainer.model.parameters(), lr=0.01)
        trainer.train(wanted)
        return weights(trainer.model)

    whole = run()
    assert run(str(tmp_path / "checkpoint-1")) == whole


def test_what_cannot_train_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    trainer = trainer_of(tmp_path)
    trainer.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    with pytest.raises(ConfigError, match=r"is torch\.optim\.sgd\.SGD, .*ea\.optim\.S"):
        trainer.train()
    trainer.optimizer, trainer.lr_scheduler = None, halved(sgd(trainer.model))
    with pytest.raises(ConfigError, match="schedule without its optimizer"):
        trainer.train()
    trainer = trainer_of(tmp_path, model_init=tiny)
    trainer.train()
    trainer.optimizer = sgd(trainer.model)
    with pytest.raises(ConfigError, match="model_init with optimizers"):
        trainer.train()


def test_methods_that_make_nothing_are_refused(tmp_path: Path) -> None:
    name = "create_optimizer_and_scheduler"
    kind = type("Own", (Trainer,), {name: lambda self, num_training_steps: None})
    with pytest.raises(ConfigError, match=r"Own: optimizer is None .* set self\.opti"):
        trainer_of(tmp_path, kind).train()
    name = "create_scheduler"
    with pytest.raises(
        ConfigError, match=r"Own\.create_scheduler .*ted .*\(self, num_tr"
    ):
        type("Own", (Trainer,), {name: lambda self, num_training_steps: None})
