"""The Trainer on a tiny model: loop, events, results and errors."""

from __future__ import annotations

import json
import os
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
)
from evolving_attention.training import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    get_last_checkpoint,
)


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # slow, and nothing crashes here


# ------------------------------------------------------------------- the loop


def test_training_lowers_the_loss_and_reports_as_hugging_face(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, num_train_epochs=6, save_strategy="epoch")
    before = trainer.evaluate(make_rows(40))["eval_loss"]
    output = trainer.train()
    assert output.global_step == trainer.state.global_step == 30
    assert trainer.evaluate(make_rows(40))["eval_loss"] < before - 0.1
    assert set(output.metrics) == {
        "train_runtime",
        "train_samples_per_second",
        "train_steps_per_second",
        "train_loss",
        "epoch",
    }
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logs] == list(range(2, 31, 2))
    assert set(logs[0]) == {"loss", "grad_norm", "learning_rate", "epoch", "step"}
    assert output.training_loss == pytest.approx(np.mean([e["loss"] for e in logs]))
    assert logs[0]["epoch"] == pytest.approx(0.4)
    files = sorted(p.name for p in (tmp_path / "out" / "checkpoint-30").iterdir())
    assert files == [
        "config.json",
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "trainer_state.json",
        "training_args.json",
    ]


@pytest.mark.parametrize(
    ("options", "steps", "epoch"),
    [
        ({"num_train_epochs": 3}, 15, 3.0),
        ({"num_train_epochs": 0.5}, 3, 0.6),
        ({"max_steps": 7}, 7, 1.4),
        ({"num_train_epochs": 2, "gradient_accumulation_steps": 3}, 4, 2.0),
        ({"num_train_epochs": 1, "per_device_train_batch_size": 64}, 1, 1.0),
        (
            {
                "num_train_epochs": 1,
                "per_device_train_batch_size": 16,
                "dataloader_drop_last": True,
            },
            2,
            1.0,
        ),
        ({"num_train_epochs": 0}, 0, 0.0),
    ],
)
def test_number_of_steps(
    tmp_path: Path, options: dict[str, Any], steps: int, epoch: float
) -> None:
    trainer = make_trainer(tmp_path, **options)
    assert trainer.train().global_step == steps
    assert trainer.state.epoch == pytest.approx(epoch)


def test_accumulation_equals_one_large_batch(tmp_path: Path) -> None:
    results = []
    for size, accumulation in ((8, 1), (4, 2), (2, 4)):
        model = FakeModel(dropout=0.0)
        make_trainer(
            tmp_path / str(size),
            model,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulation,
            train_sampling_strategy="sequential",
        ).train()
        results.append(
            np.concatenate([np.asarray(p).ravel() for p in model.parameters()])
        )
    np.testing.assert_allclose(results[1], results[0], atol=2e-5)
    np.testing.assert_allclose(results[2], results[0], atol=2e-5)


def test_same_seed_same_bits_other_seed_other_bits(tmp_path: Path) -> None:
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        model = FakeModel()
        make_trainer(tmp_path / name, model, seed=seed).train()
        digests.append(digest(model))
    assert digests[0] == digests[1] != digests[2]


def test_a_second_train_starts_afresh(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    assert trainer.train().global_step == trainer.train().global_step == 10
    assert trainer.lr_scheduler.last_step == 10


def test_options_reach_model_optimizer_and_schedule(tmp_path: Path) -> None:
    model = FakeModel()
    trainer = make_trainer(
        tmp_path,
        model,
        label_smoothing_factor=0.1,
        weight_decay=0.3,
        lr_scheduler_type="cosine",
        warmup_steps=0.2,
        adam_beta1=0.8,
        include_num_input_tokens_seen="all",
    )
    trainer.train()
    assert model.smoothing_seen == 0.1
    decays = {
        n: g["weight_decay"] for g in trainer.optimizer.param_groups for n in g["names"]
    }
    assert decays == {
        "embeddings.word_embeddings.weight": 0.3,
        "classifier.weight": 0.3,
        "classifier.bias": 0.0,
    }
    assert trainer.optimizer.betas == (0.8, 0.999)
    rates = [e["learning_rate"] for e in trainer.state.log_history if "loss" in e]
    assert rates[0] == pytest.approx(0.025)  # step 2 of 10 with 2 steps of warm-up
    tokens = sum(len(row["input_ids"]) for row in make_rows(40))
    assert trainer.state.num_input_tokens_seen == 2 * tokens


def test_no_clipping_with_max_grad_norm_zero(tmp_path: Path) -> None:
    clipped, free = FakeModel(), FakeModel()
    make_trainer(tmp_path / "a", clipped, max_grad_norm=1e-3).train()
    make_trainer(tmp_path / "b", free, max_grad_norm=0).train()
    assert digest(clipped) != digest(free)


def test_a_subclass_may_change_the_loss(tmp_path: Path) -> None:
    class Halved(Trainer):
        def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
            return super().compute_loss(model, inputs) * 0.5

    options: dict[str, Any] = {"max_grad_norm": 0, "num_train_epochs": 1}
    plain = make_trainer(tmp_path / "a", **options)
    halved = make_trainer(tmp_path / "b", **options)
    halved.__class__ = Halved
    plain.train()
    halved.train()
    first, second = plain.state.log_history[0], halved.state.log_history[0]
    assert second["loss"] == pytest.approx(first["loss"] / 2, rel=0.05)
    assert second["grad_norm"] < 0.6 * first["grad_norm"]


class Recorder(TrainerCallback):
    """Records every event."""

    def __init__(self) -> None:
        self.events: list[str] = []


for _name in [n for n in dir(TrainerCallback) if n.startswith("on_")]:

    def _record(
        self: Any, a: Any, s: Any, c: Any, _name: str = _name, **k: Any
    ) -> None:
        self.events.append(_name)

    setattr(Recorder, _name, _record)


def test_events_come_in_hugging_faces_order(tmp_path: Path) -> None:
    recorder = Recorder()
    trainer = make_trainer(
        tmp_path,
        callbacks=[recorder],
        num_train_epochs=1,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        per_device_eval_batch_size=20,
    )
    trainer.train()
    step = ["on_pre_optimizer_step", "on_optimizer_step", "on_step_end", "on_log"]
    assert recorder.events == [
        "on_init_end",
        "on_train_begin",
        "on_epoch_begin",
        *["on_step_begin", "on_substep_end", *step],
        *["on_step_begin", *step],
        "on_epoch_end",
        *["on_prediction_step", "on_log", "on_evaluate", "on_save"],
        *["on_log", "on_train_end"],
    ]


def test_a_callback_can_stop_log_and_save(tmp_path: Path) -> None:
    class Steer(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kw: Any) -> Any:
            if state.global_step == 3:
                control.should_save = control.should_log = True
                control.should_training_stop = True
            return control

    trainer = make_trainer(tmp_path, callbacks=[Steer], logging_steps=100)
    assert trainer.train().global_step == 3
    assert get_last_checkpoint(tmp_path / "out").endswith("checkpoint-3")
    assert [e["step"] for e in trainer.state.log_history if "loss" in e] == [3]
    assert trainer.pop_callback(Steer) is not None
    assert trainer.pop_callback(Steer) is None


# ----------------------------------------------------- evaluation and prediction


def test_predictions_are_in_the_data_sets_order(tmp_path: Path) -> None:
    rows = make_rows(23, seed=5)
    trainer = make_trainer(tmp_path, per_device_eval_batch_size=4)
    output = trainer.predict(rows)
    model = trainer.model.eval()
    single = [
        np.asarray(model(r["input_ids"], [0, len(r["input_ids"])]).logits)[0]
        for r in rows
    ]
    np.testing.assert_allclose(output.predictions, np.stack(single), atol=1e-6)
    np.testing.assert_array_equal(output.label_ids, [r["label"] for r in rows])
    assert {"test_loss", "test_runtime", "test_samples_per_second"} <= set(
        output.metrics
    )


def packed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    lengths = [len(row["input_ids"]) for row in rows]
    return {
        "input_ids": np.concatenate([[], *(r["input_ids"] for r in rows)]).astype(int),
        "sequence_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(int),
        "labels": np.array([row["label"] for row in rows]),
    }


@pytest.mark.parametrize("name", ["windows", "drops", "sorts"])
def test_a_collator_may_make_other_rows(tmp_path: Path, name: str) -> None:
    made: list[dict[str, Any]] = []

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        some = {
            "windows": [row for row in rows for _ in range(2)],
            "drops": [row for row in rows if len(row["input_ids"]) > 3],
            "sorts": sorted(rows, key=lambda row: -len(row["input_ids"])),
        }[name]
        made.extend(some)
        return packed(some)

    rows = make_rows(23, seed=5)
    trainer = make_trainer(
        tmp_path,
        data_collator=collate,
        compute_metrics=lambda pair: {"n": len(pair.label_ids)},
        per_device_eval_batch_size=4,
    )
    output = trainer.predict(rows)
    count = {"windows": 46, "drops": len(made), "sorts": 23}[name]
    assert output.metrics["test_n"] == len(output.predictions) == count == len(made)
    inputs = packed(made)
    np.testing.assert_array_equal(output.label_ids, inputs.pop("labels"))
    expected = trainer.model.eval()(**inputs).logits
    np.testing.assert_allclose(output.predictions, np.asarray(expected), atol=1e-6)
    if name != "sorts":  # in the order of the data set
        places = [rows.index(row) for row in made]
        assert places == sorted(places)


def test_prediction_without_labels(tmp_path: Path) -> None:
    rows = [{"input_ids": row["input_ids"]} for row in make_rows(9)]
    output = make_trainer(tmp_path, compute_metrics=accuracy).predict(rows)
    assert output.label_ids is None
    assert output.predictions.shape == (9, 2)
    assert "test_loss" not in output.metrics
    assert "test_accuracy" not in output.metrics


def test_evaluation_loss_is_the_mean_over_rows_and_mode_is_kept(tmp_path: Path) -> None:
    rows = make_rows(21, seed=4)
    losses = [
        make_trainer(tmp_path, per_device_eval_batch_size=size).evaluate(rows)[
            "eval_loss"
        ]
        for size in (1, 4, 21)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    assert losses[2] == pytest.approx(losses[0], abs=1e-6)
    trainer = make_trainer(tmp_path, compute_metrics=accuracy)
    trainer.model.train()
    metrics = trainer.evaluate()
    assert trainer.model.training
    assert {"eval_loss", "eval_accuracy", "eval_runtime", "epoch"} <= set(metrics)


def test_several_evaluation_sets(tmp_path: Path) -> None:
    sets = {"matched": make_rows(8), "mm": make_rows(8, seed=3)}
    metrics = make_trainer(
        tmp_path, eval_dataset=sets, compute_metrics=accuracy
    ).evaluate()
    assert {"eval_matched_accuracy", "eval_mm_accuracy"} <= set(metrics)


def test_evaluation_does_not_change_training(tmp_path: Path) -> None:
    digests = []
    for name, strategy in (("a", "no"), ("b", "steps")):
        model = FakeModel()
        make_trainer(
            tmp_path / name, model, eval_strategy=strategy, eval_steps=1
        ).train()
        digests.append(digest(model))
    assert digests[0] == digests[1]


def test_a_collator_makes_the_batches(tmp_path: Path) -> None:
    seen = []

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        seen.append(len(rows))
        lengths = [len(row["input_ids"]) for row in rows]
        return {
            "input_ids": np.concatenate([row["input_ids"] for row in rows]),
            "sequence_offsets": np.concatenate([[0], np.cumsum(lengths)]),
            "labels": np.array([row["label"] for row in rows]),
        }

    own, packed = FakeModel(), FakeModel()
    make_trainer(tmp_path / "a", own, data_collator=collate).train()
    make_trainer(tmp_path / "b", packed).train()
    assert sum(seen) == 80
    assert digest(own) == digest(packed)


# --------------------------------------------------- best model, saving, stopping


def test_the_best_model_is_loaded_at_the_end(tmp_path: Path) -> None:
    values = iter([0.1, 0.9, 0.5, 0.4, 0.3])
    kept: dict[int, str] = {}

    class Keep(TrainerCallback):
        def on_epoch_end(self, args: Any, state: Any, control: Any, **kw: Any) -> None:
            kept[state.global_step] = digest(kw["model"])

    trainer = make_trainer(
        tmp_path,
        callbacks=[Keep()],
        compute_metrics=lambda pair: {"f1": next(values)},
        num_train_epochs=5,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
    )
    trainer.train()
    assert trainer.state.best_metric == 0.9
    assert trainer.state.best_global_step == 10
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-10")
    assert digest(trainer.model) == kept[10] != kept[25]
    names = {p.name for p in durable.list_checkpoints(tmp_path / "out")}
    assert {"checkpoint-25", "checkpoint-10"} <= names
    assert len(names) <= 3  # the newest, an older verified one, the best


def test_save_strategy_best_saves_only_improvements(tmp_path: Path) -> None:
    values = iter([0.5, 0.4, 0.6])
    trainer = make_trainer(
        tmp_path,
        compute_metrics=lambda pair: {"f1": next(values)},
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="best",
        metric_for_best_model="eval_f1",
    )
    trainer.train()
    found = [p.name for p in durable.list_checkpoints(tmp_path / "out")]
    assert found == ["checkpoint-15", "checkpoint-5"]


def test_early_stopping_waits_for_its_patience(tmp_path: Path) -> None:
    values = iter([0.5, 0.6, 0.55, 0.605, 0.7])
    trainer = make_trainer(
        tmp_path,
        compute_metrics=lambda pair: {"f1": next(values)},
        callbacks=[EarlyStoppingCallback(2, early_stopping_threshold=0.01)],
        num_train_epochs=9,
        eval_strategy="epoch",
        metric_for_best_model="f1",
    )
    assert trainer.train().global_step == 20


def test_save_total_limit_keeps_the_newest(tmp_path: Path) -> None:
    make_trainer(
        tmp_path, save_strategy="steps", save_steps=2, save_total_limit=2
    ).train()
    names = [p.name for p in durable.list_checkpoints(tmp_path / "out")]
    assert names == ["checkpoint-10", "checkpoint-8"]


@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    real, calls = durable.commit_directory, []

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs["step"])
        if kwargs["step"] == 4:
            raise CheckpointError("cannot save: disk full; free disk space")
        return real(*args, **kwargs)

    monkeypatch.setattr(durable, "commit_directory", failing)
    trainer = make_trainer(
        tmp_path, save_strategy="steps", save_steps=2, on_save_error=policy
    )
    if policy == "stop":
        with pytest.raises(CheckpointError, match="disk full"):
            trainer.train()
        assert get_last_checkpoint(tmp_path / "out").endswith("checkpoint-2")
    else:
        with pytest.warns(UserWarning, match="continues without.*disk full"):
            trainer.train()
        assert calls == [2, 4, 6, 8, 10]


def test_saved_models_and_results(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    output = trainer.train()
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", output.metrics)
    trainer.save_metrics(
        "eval", {"eval_loss": np.float32(0.5), "eval_f1": float("nan")}
    )
    folder = tmp_path / "out"
    together = json.loads((folder / "all_results.json").read_text())
    assert together["train_loss"] == output.training_loss
    assert together["eval_loss"] == 0.5
    assert together["eval_f1"] == "nan"
    state = json.loads((folder / "trainer_state.json").read_text())
    assert state["global_step"] == 10
    assert json.loads((folder / "training_args.json").read_text())["seed"] == 42
    assert (folder / "model.safetensors").is_file()


# ----------------------------------------------------------------- evaluation


def evaluated(trainer: Trainer) -> list[int]:
    """Trains; returns the steps after which the run was evaluated."""
    trainer.train()
    return [
        entry["step"] for entry in trainer.state.log_history if "eval_loss" in entry
    ]


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"eval_strategy": "steps", "eval_steps": 3}, [3, 6, 9, 10]),
        ({"eval_strategy": "steps", "eval_steps": 3, "eval_delay": 4}, [6, 9, 10]),
        ({"eval_strategy": "steps", "eval_steps": 3, "eval_delay": 6}, [6, 9, 10]),
        ({"eval_strategy": "steps", "eval_steps": 3, "eval_delay": 11}, []),
        ({"eval_strategy": "steps", "eval_steps": 5}, [5, 10]),
        ({"eval_strategy": "epoch", "num_train_epochs": 3}, [5, 10, 15]),
        ({"eval_strategy": "epoch", "num_train_epochs": 3, "eval_delay": 2}, [10, 15]),
        ({"eval_on_start": True}, [0]),
        ({"eval_on_start": True, "eval_strategy": "epoch"}, [0, 5, 10]),
    ],
)
def test_evaluation_begins_when_it_is_told_to(
    tmp_path: Path, options: dict[str, Any], steps: list[int]
) -> None:
    assert evaluated(make_trainer(tmp_path, **options)) == steps


def test_evaluation_on_start_changes_no_weight(tmp_path: Path) -> None:
    with_it, without = FakeModel(), FakeModel()
    trainer = make_trainer(tmp_path / "a", with_it, eval_on_start=True)
    first = make_trainer(tmp_path, FakeModel()).evaluate()["eval_loss"]
    assert evaluated(trainer) == [0]
    losses = [e["eval_loss"] for e in trainer.state.log_history if "eval_loss" in e]
    assert losses == [first]
    make_trainer(tmp_path / "b", without).train()
    assert digest(with_it) == digest(without)


def test_evaluation_on_start_is_not_the_best(tmp_path: Path) -> None:
    values = iter([0.9, 0.5, 0.6, 0.55, 0.5])
    trainer = make_trainer(
        tmp_path,
        compute_metrics=lambda pair: {"f1": next(values)},
        callbacks=[EarlyStoppingCallback(2)],
        num_train_epochs=9,
        eval_on_start=True,
        eval_strategy="epoch",
        save_strategy="best",
        metric_for_best_model="f1",
    )
    assert evaluated(trainer) == [0, 5, 10, 15, 20]
    assert (trainer.state.best_metric, trainer.state.best_global_step) == (0.6, 10)
    found = [path.name for path in durable.list_checkpoints(tmp_path / "out")]
    assert found == ["checkpoint-10", "checkpoint-5"]


def test_prediction_loss_only_keeps_no_outputs(tmp_path: Path) -> None:
    def never(pair: Any) -> dict[str, float]:
        raise AssertionError

    plain = make_trainer(tmp_path / "a", compute_metrics=accuracy)
    brief = make_trainer(
        tmp_path / "b", compute_metrics=never, prediction_loss_only=True
    )
    expected, found = plain.evaluate(), brief.evaluate()
    assert found["eval_loss"] == expected["eval_loss"]
    assert "eval_accuracy" in expected
    assert not [key for key in found if "accuracy" in key]
