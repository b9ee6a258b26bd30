"""Split batches keep the mean over targets; skipped steps leave no loss."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import FakeModel, make_rows, make_trainer
from helpers_models import NO_DROPOUT, tiny

import evolving_attention as ea
from evolving_attention.data.collate import collate_packed
from evolving_attention.training.batches import inputs_of, target_count
from evolving_attention.training.deferred import DeferredStepRunner
from evolving_attention.training.step import parts_of


@pytest.mark.parametrize("name", ["BertForTokenClassification", "BertForMaskedLM"])
def test_splits_keep_the_mean_over_tokens(name: str) -> None:
    """The gradient of a split batch is that of the batch, whatever is counted."""
    random, model = np.random.default_rng(0), tiny(name, **NO_DROPOUT)
    rows = []
    for row in range(8):
        labels = np.where(np.arange(9) <= row, random.integers(0, 2, 9), -100)
        labels = np.full(9, -100) if row < 2 else labels  # one split counts nothing
        rows.append({"input_ids": random.integers(5, 40, 9), "labels": labels})
    batch = collate_packed(rows, range(8))
    found = []
    for splits in (1, 4):
        parts = parts_of(batch, splits, 0.5)
        assert sum(share for _, share in parts) == pytest.approx(0.5)
        for parameter in model.parameters():
            parameter.grad = None
        for part, share in parts:
            (model(**inputs_of(part)).loss * share).backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        found.append([np.asarray(grad) for grad in grads])
    for whole, split in zip(*found, strict=True):
        np.testing.assert_allclose(split, whole, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["BertForTokenClassification", "BertForMaskedLM"])
@pytest.mark.parametrize("accumulated", [2, 3, 8])
def test_accumulated_batches_are_one_batch(
    tmp_path: Path, name: str, accumulated: int
) -> None:
    """Every target of a step counts alike, however many its batch has."""
    random, rows = np.random.default_rng(0), []
    for row in range(8):
        length = int(random.integers(row + 1, 10))
        labels = np.where(np.arange(length) <= row, random.integers(0, 2, length), -100)
        ids = random.integers(5, 40, length)
        rows.append({"input_ids": ids.tolist(), "labels": labels.tolist()})
    size = -(-8 // accumulated)
    logged, weights = [], []
    for batch, count in ((8, 1), (size, accumulated)):
        model = tiny(name, **NO_DROPOUT)
        trainer = make_trainer(
            tmp_path / f"{batch}",
            model,
            train_dataset=rows,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=count,
            max_steps=1,
            optim="sgd",
            learning_rate=1.0,
            train_sampling_strategy="random",
        )
        logged.append(trainer.train().training_loss)
        weights.append([np.asarray(p.detach()) for p in model.parameters()])
    assert logged[1] == pytest.approx(logged[0], rel=1e-6)
    for whole, parts in zip(*weights, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=0, atol=2e-6)


def test_parts_share_a_batch_without_targets_by_rows() -> None:
    rows = [{"input_ids": [5] * 3, "labels": [-100] * 3} for _ in range(3)]
    shares = [share for _, share in parts_of(collate_packed(rows), 2)]
    assert shares == [1 / 3, 2 / 3]
    floats = [{"input_ids": [5], "label": -100.0} for _ in range(3)]
    assert [s for _, s in parts_of(collate_packed(floats), 2)] == shares


def spans(*given: tuple[int, int], **more: Any) -> dict[str, Any]:
    starts, ends = zip(*given, strict=True)
    return {"start_positions": np.array(starts), "end_positions": ends, **more}


def test_starts_and_ends_in_their_sequences_are_targets() -> None:
    packed = {"input_ids": np.arange(5), "sequence_offsets": np.array([0, 3, 5])}
    assert target_count(spans((0, 2), (1, 1), **packed)) == 4
    assert target_count(spans((0, 2), (1, 2), **packed)) == 3
    assert target_count(spans((3, 3), (1, 1), **packed)) == 2
    assert target_count(spans((3, 3), (2, 2), **packed)) == 0
    assert target_count(spans((0, 3), (1, 2), **packed)) == 0  # no mean over ends
    ids = np.zeros((2, 3), np.int64)
    assert target_count(spans((0, 2), (1, 3), input_ids=ids)) == 3
    mask = np.array([[1, 1, 0], [0, 1, 1]])
    assert target_count(spans((0, 2), (0, 1), input_ids=ids, attention_mask=mask)) == 2


UNTAUGHT = {"label": -100}, {"start_positions": 9, "end_positions": 9}
TAUGHT = {"label": 1}, {"start_positions": 0, "end_positions": 2}
NAMES = "BertForSequenceClassification", "BertForQuestionAnswering"


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("accumulated", [1, 2])
def test_batches_without_targets_are_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: int,
    deferred: bool,
    accumulated: int,
) -> None:
    """A step with one is the step without it; a step without targets does nothing."""
    if deferred:
        monkeypatch.setattr(
            "evolving_attention.training.trainer.step_runner",
            lambda *_: DeferredStepRunner,
        )
    row = {"input_ids": [5, 6, 7]}
    first, other = {**row, **TAUGHT[kind]}, {**row, **UNTAUGHT[kind]}

    def run(*rows: dict[str, Any], size: int = 1, together: int = accumulated) -> Any:
        trainer = make_trainer(
            tmp_path / f"{len(list(tmp_path.iterdir()))}",
            tiny(NAMES[kind], **NO_DROPOUT),
            train_dataset=list(rows),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=together,
            num_train_epochs=1,
            lr_scheduler_type="constant",
            weight_decay=0.1,
            train_sampling_strategy="sequential",
        )
        before = [np.array(p) for p in trainer.model.parameters()]
        output = trainer.train()
        after = [np.array(p) for p in trainer.model.parameters()]
        return output.training_loss, after, before

    loss, weights, _ = run(first, together=1)
    with contextlib.ExitStack() as stack:
        if accumulated == 1:
            stack.enter_context(pytest.warns(UserWarning, match="without targets"))
        found, with_others, _ = run(first, other)
    assert found == loss
    assert all(map(np.array_equal, weights, with_others))
    with pytest.warns(UserWarning, match="a step without targets changes nothing"):
        found, after, before = run(other, other)
    assert np.isnan(found)
    assert all(map(np.array_equal, before, after))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_of_skipped_steps_has_no_loss(tmp_path: Path) -> None:
    rows = [{**row, "label": float("nan")} for row in make_rows(8, regression=True)]
    trainer = make_trainer(
        tmp_path, FakeModel(num_labels=1), train_dataset=rows, on_nonfinite="skip"
    )
    output = trainer.train()
    assert np.isnan(output.training_loss)
    assert output.metrics["train_skipped_steps"] == output.global_step == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_bad_loss_of_question_answering_is_skipped(tmp_path: Path) -> None:
    model = tiny("BertForQuestionAnswering", **NO_DROPOUT)
    weight = dict(model.named_parameters())["qa_outputs.weight"]
    weight.copy_(np.full(weight.shape, 3e38, np.float32))
    row = {"input_ids": [5, 6, 7], "start_positions": 0, "end_positions": 1}
    trainer = make_trainer(
        tmp_path, model, train_dataset=[row] * 8, on_nonfinite="skip"
    )
    assert trainer.train().metrics["train_skipped_steps"] == 2
    report = json.loads((tmp_path / "out" / "nonfinite-report.json").read_text())
    assert (report["kind"], report["tensor"]) == ("activation", "start_logits")


class Counted(FakeModel):
    """A model whose running statistic is the number of rows of its training passes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seen = ea.Tensor([0.0])

    def named_buffers(self) -> list[tuple[str, ea.Tensor]]:
        return [("seen", self.seen)]

    def __call__(self, input_ids: Any, sequence_offsets: Any, **others: Any) -> Any:
        if self.training:
            self.seen.copy_(np.asarray(self.seen) + len(sequence_offsets) - 1)
        return super().__call__(input_ids, sequence_offsets, **others)


def test_an_attempt_out_of_memory_moves_no_running_statistics(tmp_path: Path) -> None:
    model = Counted()
    model.memory_limit = 3
    trainer = make_trainer(tmp_path, model, auto_find_batch_size=True, max_steps=1)
    with pytest.warns(UserWarning, match="but batch norm sees each part by itself"):
        trainer.train()
    assert (trainer.state.batch_splits, model.seen.item()) == (4, 8)
    model.memory_limit = 0
    with pytest.raises(ea.OutOfMemory):
        make_trainer(tmp_path, model, max_steps=1).train()
    assert model.seen.item() == 8


@pytest.mark.parametrize("bad", ["loss", "gradient"])
@pytest.mark.parametrize("policy", ["stop", "skip", "warn"])
def test_only_a_step_that_is_made_moves_running_statistics(
    tmp_path: Path, policy: str, bad: str
) -> None:
    model, rows = Counted(num_labels=1), make_rows(8, regression=True)
    if bad == "loss":
        rows[3]["label"] = float("nan")
    else:
        model.bad_gradient = float("inf")
    trainer = make_trainer(
        tmp_path, model, train_dataset=rows, on_nonfinite=policy, max_steps=1
    )
    if policy == "stop":
        with pytest.raises(ea.NonFiniteError):
            trainer.train()
    else:
        with pytest.warns(UserWarning, match="not finite"):
            trainer.train()
    assert model.seen.item() == (8 if policy == "warn" else 0)
