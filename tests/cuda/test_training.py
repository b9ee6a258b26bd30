"""Training on a CUDA device: the CPU's within stated bounds, and the same bits twice.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_gpu import last_cuda_device
from helpers_models import draw, labels_for, tiny
from helpers_steps import assert_same_course, three_steps

import evolving_attention as ea
from evolving_attention import _core, optim

LAST = last_cuda_device()
EVOLVING = ea.attention.Evolving(0.3, 0.4)
# Largest differences from the CPU over three steps: loss and gradient norm (relative),
# weights (in units of the learning rate). In float32 sums differ in their last bits.
# bfloat16 has 8 bits: an activation rounded to the other neighbour moves later values
# by 2^-8. Weights below 1 are up to 2^-8 = 4 units apart; two such steps are allowed.
BOUNDS = {"float32": (2e-6, 2e-6, 0.01), "bfloat16": (2.0**-6, 2.0**-5, 8.0)}


def train(device: str, name: str, attention: Any, dtype: str) -> dict[str, Any]:
    """Losses, norms and weights of three clipped steps."""
    model = tiny(name, attention, dtype, num_hidden_layers=2).to(device).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    batch = draw((5, 9, 1), model.config.model_type)
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    return three_steps(model, optimizer, inputs, 0.5)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("attention", [None, EVOLVING], ids=["vanilla", "evolving"])
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "BertForMaskedLM"])
def test_training_agrees_with_the_cpu(name: str, attention: Any, dtype: str):
    of_loss, of_norm, steps = BOUNDS[dtype]
    want = train("cpu", name, attention, dtype)
    got = train(LAST, name, attention, dtype)
    assert_same_course(got.pop("log"), want.pop("log"), of_loss, of_norm)
    for key, value in want.items():
        difference = np.abs(got[key].astype(np.float64) - value.astype(np.float64))
        # A shift of all keys changes no softmax: the gradient is only noise.
        noise = key.endswith("key.bias")
        assert difference.max() <= (8.0 if noise else steps) * 1e-3, key


def test_training_twice_gives_the_same_bits():
    first, second = (
        train("cuda", "BertForMaskedLM", EVOLVING, "bfloat16") for _ in range(2)
    )
    assert {k: v.tobytes() for k, v in first.items()} == {
        k: v.tobytes() for k, v in second.items()
    }


class Waits(ea.TrainerCallback):
    """Records at each step's begin how often the host has waited for a device."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.seen.append(_core.host_waits())


def trained(folder: Path, device: str) -> tuple[ea.Trainer, Waits]:
    """Trains briefly, with an evaluation at the end."""
    waits = Waits()
    rows = [{"input_ids": [3 + i % 30, 4, 5 + i], "label": i % 2} for i in range(12)]
    arguments = ea.TrainingArguments(
        str(folder),
        device=device,
        num_train_epochs=1,
        per_device_train_batch_size=2,
        logging_steps=4,
        eval_strategy="epoch",
        save_strategy="no",
        log_level="error",
    )
    model = tiny("BertForSequenceClassification", EVOLVING, num_hidden_layers=2)
    trainer = ea.Trainer(
        model, arguments, train_dataset=rows, eval_dataset=rows[:3], callbacks=[waits]
    )
    trainer.train()
    return trainer, waits


def test_the_trainer_logs_what_it_does_on_the_cpu(tmp_path: Path):
    want, _ = trained(tmp_path / "cpu", "cpu")
    got, waits = trained(tmp_path / "cuda", "auto")
    assert got.model.device == "cuda:0"
    assert np.diff(waits.seen).tolist() == [0, 0, 0, 1, 0]
    for ours, theirs in zip(got.state.log_history, want.state.log_history, strict=True):
        for key in ("loss", "grad_norm", "eval_loss", "train_loss"):
            assert ours.get(key, 0.0) == pytest.approx(theirs.get(key, 0.0), rel=1e-5)
