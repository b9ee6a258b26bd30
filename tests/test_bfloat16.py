"""bfloat16 against float32: logits, losses, gradients and fine-tuning, within bounds.

The bounds are those of docs/numerics.md. Both models have the same weights, apart from
rounding.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_fake_model import make_rows
from helpers_models import NO_DROPOUT, tiny
from test_trainer_core import make_trainer, tiny_bert

import evolving_attention as ea

# relative errors of the logits and of all gradients together; absolute loss error
RANDOM = {"logits": 0.1, "gradient": 0.15, "loss": 0.03}
PRETRAINED = {"logits": 0.03, "gradient": 0.02, "loss": 0.001}
STEP_LOSS, FINAL_LOSS = 0.06, 0.02  # fine-tuning: at every step, at the end
SETTINGS = {
    "vanilla": None,
    "evolving": ea.attention.Evolving(alpha=0.3, beta=0.2),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(alpha=0.3),
}
LENGTHS = [7, 19, 33, 2, 12, 5, 28, 16]
TEXTS = [
    "The cat sat on the mat.",
    "Mat the on sat cat the.",
    "Whom did you say that she had met before the war began?",
    "They am late.",
    "Nobody told us why the train had stopped in the tunnel.",
    "The book what I read were long and it was not good.",
    "Rain.",
    "She has lived here for ten years, and so have her brothers.",
] * 2


def outputs(model: Any, inputs: dict[str, Any]) -> tuple[np.ndarray, float, np.ndarray]:
    """Returns (logits, loss, all gradients in one vector) in float64."""
    out = model.train()(**inputs)
    out.loss.backward()
    gradients = [
        np.zeros(p.size) if p.grad is None else np.asarray(p.grad).ravel()
        for p in model.parameters()
    ]
    flat = np.concatenate([g.astype(np.float64) for g in gradients])
    return np.asarray(out.logits).astype(np.float64), out.loss.item(), flat


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def check(model: Any, inputs: dict[str, Any], bounds: dict[str, float]) -> None:
    """Compares the model in bfloat16 with itself in float32."""
    exact = outputs(model.copy("float32"), inputs)
    found = outputs(model.copy("bfloat16"), inputs)
    errors = {
        "logits": relative(found[0], exact[0]),
        "loss": abs(found[1] - exact[1]),
        "gradient": relative(found[2], exact[2]),
    }
    assert all(errors[name] <= bound for name, bound in bounds.items()), errors
    assert errors["logits"] > 0  # the model did run in bfloat16


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize(
    "name",
    [
        "BertForSequenceClassification",
        "RobertaForSequenceClassification",
        "BertForMaskedLM",
    ],
)
def test_a_random_model(name: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    ids = rng.integers(2, 40, offsets[-1])
    inputs = {
        "input_ids": ids,
        "sequence_offsets": offsets,
        "labels": ids if "LM" in name else rng.integers(0, 2, len(LENGTHS)),
    }
    check(tiny(name, SETTINGS[kind], **NO_DROPOUT), inputs, RANDOM)


def minilm_classifier(minilm: Path, kind: str, **options: Any) -> tuple[Any, Any]:
    """Returns (model, rows of TEXTS), the same in every call."""
    ea.manual_seed(1)
    tokenizer = ea.AutoTokenizer.from_pretrained(str(minilm))
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        str(minilm), num_labels=2, attention=SETTINGS[kind], **options
    )
    return model, [
        {"input_ids": ids, "label": 1 - i % 2}
        for i, ids in enumerate(tokenizer(TEXTS)["input_ids"])
    ]


@pytest.mark.parametrize("kind", ["vanilla", "evolving"])
def test_a_real_checkpoint(minilm: Path, kind: str) -> None:
    model, rows = minilm_classifier(minilm, kind, **NO_DROPOUT)
    ids = [row["input_ids"] for row in rows]
    inputs = {
        "input_ids": np.concatenate(ids),
        "sequence_offsets": np.concatenate([[0], np.cumsum(list(map(len, ids)))]),
        "labels": np.array([row["label"] for row in rows]),
    }
    check(model, inputs, PRETRAINED)


def compare_runs(folder: Path, model: Any, rows: Any, **options: Any) -> None:
    """Fine-tunes in both types; compares the losses of every step and at the end."""
    steps, ends = [], []
    for dtype in ("float32", "bfloat16"):
        trainer = make_trainer(
            folder / dtype,
            model.copy(dtype),
            precision=dtype,
            train_dataset=rows,
            gradient_accumulation_steps=1,
            **options,
        )
        before = trainer.evaluate(rows)["eval_loss"]
        trainer.train()
        log = [e["loss"] for e in trainer.state.log_history if "loss" in e]
        steps.append(np.array(log))
        ends.append(trainer.evaluate(rows)["eval_loss"])
        assert ends[-1] < before - 0.1  # it has learnt
    assert np.abs(steps[0] - steps[1]).max() <= STEP_LOSS
    assert abs(ends[0] - ends[1]) <= FINAL_LOSS


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("no_fsync")
def test_fine_tuning_a_random_model(tmp_path: Path, seed: int) -> None:
    options = {
        "num_train_epochs": 10,
        "per_device_train_batch_size": 8,
        "learning_rate": 3e-3,
        "seed": seed,
    }
    compare_runs(tmp_path, tiny_bert(), make_rows(64, seed=seed), **options)


@pytest.mark.usefixtures("no_fsync")
def test_fine_tuning_a_real_checkpoint(tmp_path: Path, minilm: Path) -> None:
    model, rows = minilm_classifier(minilm, "evolving")
    options = {"num_train_epochs": 6, "learning_rate": 2e-4}
    compare_runs(tmp_path, model, rows, per_device_train_batch_size=8, **options)
