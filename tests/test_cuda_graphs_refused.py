"""cuda_graphs=True where steps cannot be recorded: refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.training.recorded import check_recordable

ROWS = [{"input_ids": [3, 4, 5], "label": i % 2} for i in range(4)]
BESIDE = {
    "gradient_accumulation_steps": 2,
    "auto_find_batch_size": True,
    "on_nonfinite": "skip",
    "use_cpu": True,
}


@pytest.mark.parametrize("field", BESIDE)
def test_options_that_contradict_it_are_named(field: str):
    with pytest.raises(ea.ConfigError, match=f"cuda_graphs=True, expected {field}="):
        ea.TrainingArguments("out", cuda_graphs=True, **{field: BESIDE[field]})


def trainer(folder: Path, cls: type = ea.Trainer, **more: Any) -> ea.Trainer:
    arguments = ea.TrainingArguments(
        str(folder), device="cpu", cuda_graphs=True, log_level="error"
    )
    return cls(tiny(), arguments, train_dataset=ROWS, **more)


def test_the_cpu_is_refused(tmp_path: Path):
    with pytest.raises(ea.ConfigError, match="cuda_graphs=True with training on cpu"):
        trainer(tmp_path).train()
    assert not any(tmp_path.rglob("checkpoint-*"))


class OwnLoss(ea.Trainer):
    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        return super().compute_loss(model, inputs) * 0.5


class OwnEvent(ea.TrainerCallback):
    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Looks at gradients, say."""


class OwnModel:
    """One that takes part in training, but is none of ours."""


IN_THE_WAY = {
    "a compute_loss": lambda t: setattr(t, "__class__", OwnLoss),
    r"on_pre_optimizer_step\(\) of OwnEvent": lambda t: t.callback_handler.add(
        OwnEvent
    ),
    "a OwnModel": lambda t: setattr(t, "model", OwnModel()),
    "a object as optimizer": lambda t: setattr(t, "optimizer", object()),
    "2 processes": lambda t: setattr(t.team, "size", 2),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_is_in_the_way_is_named(what: str, tmp_path: Path):
    one = trainer(tmp_path)
    one.device = "cuda:0"  # as if there were one
    one.optimizer = ea.optim.AdamW(one.model.parameters())
    check_recordable(one)
    IN_THE_WAY[what](one)
    with pytest.raises(ea.ConfigError, match=f"cuda_graphs=True with {what}.*leave"):
        check_recordable(one)
