"""Every task class and attention kind on a device the host cannot read.

The classes and kinds are read from the package, so new ones are tested automatically.
All results have the bits of the CPU's reference kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import (
    MODELS,
    all_settings,
    assert_same_bits,
    draw,
    inputs_for,
    padded_targets,
    run,
    tiny,
)
from support.cases import forced

import evolving_attention as ea
from evolving_attention import _core, optim
from evolving_attention import functional as F

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )

EVOLVING = ea.attention.Evolving(0.3, 0.4)
ASKED = dict.fromkeys(
    ("output_hidden_states", "output_attentions", "output_attention_logits"), True
)


@ea.attention.register("fake_device_kind")
class OfPython(ea.attention.CustomEvolve):
    """A kind whose step is written in Python, with its own parameters."""

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        return {} if layer == 0 else {"weight": np.full(num_heads, 0.5)}

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        if previous is None:
            return scores
        weight = context.parameters["weight"]
        return F.axpby(0.5, previous, 0.5, scores) * weight.sum()


def inputs_of(model: Any, padded: bool) -> dict[str, Any]:
    """Returns a ragged batch with the labels of the model's head."""
    batch = draw(architecture=model.config.model_type)
    if padded:
        return {**batch.padded(2), **padded_targets(model, batch, 2)}
    return inputs_for(model, batch)


def passes(device: str, name: str, attention: Any, **options: Any) -> dict[str, Any]:
    """Returns outputs, gradients and weights of two steps, and later outputs."""
    padded, recompute = options.pop("padded", False), options.pop("recompute", False)
    model = tiny(name, attention, **options).to(device)
    if recompute:
        model.gradient_checkpointing_enable()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    inputs = inputs_of(model, padded)
    ea.manual_seed(5)
    found: dict[str, Any] = {}
    for step in range(2):
        out, gradients = run(model.train(), **inputs, **ASKED)
        optimizer.step()
        found |= {f"{step} {key}": value for key, value in out.items()}
        found |= {f"{step} gradient of {key}": g for key, g in gradients.items()}
    out, _ = run(model.eval(), **inputs, **ASKED)
    return {**found, **out, **model.state_dict()}


def assert_as_on_the_cpu(name: str, attention: Any, **options: Any) -> None:
    with forced(("*", "ref")):
        want = passes("cpu", name, attention, **options)
    assert_same_bits(passes("cuda:1", name, attention, **options), want)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("padded", [False, True], ids=["packed", "padded"])
def test_every_class(name: str, padded: bool):
    assert_as_on_the_cpu(name, EVOLVING, padded=padded)


@pytest.mark.parametrize("setting", all_settings())
def test_every_kind(setting: dict[str, Any]):
    given = {key: value for key, value in setting.items() if value is not None}
    assert_as_on_the_cpu("RobertaForMaskedLM", given)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_a_kind_of_python(dtype: str, recompute: bool):
    assert_as_on_the_cpu(
        "BertForSequenceClassification", OfPython(), dtype=dtype, recompute=recompute
    )


@pytest.mark.parametrize("path", ea.fast_paths())
def test_the_ops_behind_each_fast_path(path: str):
    ea.set_fast_path(path, False)
    assert_as_on_the_cpu("BertForPreTraining", EVOLVING, padded=True)


# --- the Trainer ----------------------------------------------------------------------

TRAINERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulating": {"gradient_accumulation_steps": 2},
    "recomputing": {"gradient_checkpointing": True},
    "unclipped": {"max_grad_norm": 0.0},
    "going on": {"on_nonfinite": "warn"},
    "skipping": {"on_nonfinite": "skip", "label_smoothing_factor": 0.1},
    "bfloat16": {"bf16": True},
}


def trained(folder: Path, device: str, **options: Any) -> tuple[dict, Any, Any]:
    """Returns (weights, log history without times, predictions) of a short run."""
    dtype = "bfloat16" if options.get("bf16") else "float32"
    model = tiny("BertForSequenceClassification", EVOLVING, dtype)
    random = np.random.default_rng(3)
    rows = [
        {"input_ids": random.integers(1, 40, n).tolist(), "label": int(n % 2)}
        for n in (5, 8, 3, 9, 6, 7, 4, 8, 2, 6)
    ]
    arguments = ea.TrainingArguments(
        str(folder),
        device=device,
        num_train_epochs=3,
        per_device_train_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        logging_steps=3,
        save_strategy="epoch",
        load_best_model_at_end=False,
        log_level="error",
        **options,
    )
    trainer = ea.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:3])
    trainer.train()
    assert trainer.model.device == device
    logs = [
        {k: v for k, v in entry.items() if "runtime" not in k and "per_second" not in k}
        for entry in trainer.state.log_history
    ]
    return trainer.model.state_dict(), logs, trainer.predict(rows).predictions


@pytest.mark.parametrize("options", TRAINERS.values(), ids=TRAINERS)
def test_the_trainer(options: dict[str, Any], tmp_path: Path):
    with forced(("*", "ref")):
        weights, logs, predictions = trained(tmp_path / "cpu", "cpu", **options)
    found = trained(tmp_path / "cuda", "cuda:1", **options)
    assert_same_bits(found[0], weights)
    assert found[1] == logs
    assert np.array_equal(found[2], predictions)


class Waits(ea.TrainerCallback):
    """Records, at each step, how often the host has synchronised with a device."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seen.append(_core.host_waits())


def short_run(folder: Path, device: str, kind: type, **options: Any) -> ea.Trainer:
    arguments = ea.TrainingArguments(
        str(folder),
        device=device,
        num_train_epochs=1,
        per_device_train_batch_size=4,
        save_strategy="no",
        log_level="error",
        **options,
    )
    rows = [{"input_ids": [3 + i % 30, 4, 5], "label": i % 2} for i in range(40)]
    model = tiny("BertForSequenceClassification", EVOLVING)
    return kind(model, arguments, train_dataset=rows)


def test_steps_wait_for_the_device_only_to_log(tmp_path: Path):
    waits = Waits()
    trainer = short_run(tmp_path, "cuda", ea.Trainer, logging_steps=4)
    trainer.add_callback(waits)
    trainer.train()
    assert np.diff(waits.seen).tolist() == [0, 0, 0, 1, 0, 0, 0, 1, 0]
    assert _core.host_waits() == waits.seen[-1] + 1


class Spoiled(ea.Trainer):
    """Returns an infinite loss in the fourth step."""

    def compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super().compute_loss(model, inputs)
        return loss * float("inf") if self.state.global_step == 3 else loss


def test_a_spoiled_step_is_found_at_the_next_look(tmp_path: Path):
    found = []
    for device in ("cpu", "cuda"):
        with forced(("*", "ref")):
            trainer = short_run(tmp_path / device, device, Spoiled, logging_steps=50)
            with pytest.raises(ea.NonFiniteError, match="step 4") as error:
                trainer.train()
        report = json.loads((tmp_path / device / "nonfinite-report.json").read_text())
        found.append((str(error.value), report, trainer.model.state_dict()))
    assert found[1][:2] == found[0][:2]
    assert_same_bits(found[1][2], found[0][2])
