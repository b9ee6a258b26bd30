"""Frozen parameters (requires_grad = False) cost nothing and change nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers_models import SIZES, draw, labels_for, tiny
from helpers_recompute import calls

import evolving_attention as ea
from evolving_attention import CheckpointError, ConfigError
from evolving_attention.device_names import host_array
from evolving_attention.training import Trainer, TrainingArguments

HEAD = ("classifier", "bert.pooler")
DECAY = {"learning_rate": 0.01, "weight_decay": 0.1}


def model_with(trained: tuple[str, ...], dtype: str = "float32") -> Any:
    """Returns a model with dropout in which only names with these prefixes train."""
    model = tiny(dtype=dtype)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith(trained)
    return model


def rows(count: int = 12) -> list[dict[str, Any]]:
    random = np.random.default_rng(3)
    return [
        {"input_ids": random.integers(3, SIZES["vocab_size"], 6), "label": i % 2}
        for i in range(count)
    ]


def trainer_of(model: Any, folder: Any, optimizer: Any = None, **options: Any) -> Any:
    options = {"max_steps": 4, "per_device_train_batch_size": 3, **DECAY, **options}
    arguments = TrainingArguments(
        str(folder), disable_tqdm=True, save_strategy="no", **options
    )
    given = (optimizer, None)
    return Trainer(model, arguments, train_dataset=rows(), optimizers=given)


def weights(model: Any) -> dict[str, bytes]:
    return {n: host_array(p).tobytes() for n, p in model.named_parameters()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_trainer_trains_the_rest_as_if_it_were_alone(dtype, tmp_path):
    model, other = (model_with(HEAD, dtype) for _ in range(2))
    before = weights(model)
    trainer = trainer_of(model, tmp_path / "a", bf16=dtype == "bfloat16")
    trainer.train()
    moved = {name for name, bits in weights(model).items() if bits != before[name]}
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert moved == trained
    assert all(p.grad is None for p in model.parameters())
    state = trainer.optimizer.state_dict()
    assert sum(key.startswith("exp_avg.") for key in state) == len(trained)
    assert sum(key.startswith("master.") for key in state) == (
        len(trained) if dtype == "bfloat16" else 0
    )

    named = [(n, p) for n, p in other.named_parameters() if p.requires_grad]
    groups = ea.optim.decay_groups(named, DECAY["weight_decay"])
    alone = ea.optim.AdamW(groups, lr=DECAY["learning_rate"])
    options = {"adam_epsilon": 1e-8, "bf16": dtype == "bfloat16"}
    trainer_of(other, tmp_path / "b", alone, **options).train()
    assert weights(model) == weights(other)


def test_a_resumed_run_has_the_same_bits(tmp_path):
    options = {"max_steps": 4, "per_device_train_batch_size": 3, **DECAY}
    arguments = {"save_strategy": "steps", "save_steps": 2, "disable_tqdm": True}
    found = []
    for resume in (None, str(tmp_path / "checkpoint-2")):
        folder = tmp_path / "again" if resume else tmp_path
        model = model_with(HEAD)
        args = TrainingArguments(str(folder), **options, **arguments)
        Trainer(model, args, train_dataset=rows()).train(resume_from_checkpoint=resume)
        found.append(weights(model))
    assert found[0] == found[1]
    for trained, words in {
        ("classifier",): r"pooler\S+\) was trained in that run and is frozen",
        (*HEAD, "bert.encoder.layer.2"): r"layer\.2\S+\) was not in that .* is trained",
        ("bert.pooler", "bert.encoder.layer.2.output.dense"): r"requires_grad",
    }.items():
        args = TrainingArguments(str(tmp_path / "other"), **options, **arguments)
        with pytest.raises(CheckpointError, match=words):
            Trainer(model_with(trained), args, train_dataset=rows()).train(
                resume_from_checkpoint=str(tmp_path / "checkpoint-2")
            )


def test_a_run_of_nothing_is_refused(tmp_path):
    model = model_with(())
    with pytest.raises(ConfigError, match=r"Trainer: all \d+ parameters .* frozen"):
        trainer_of(model, tmp_path).train()


ADAM = ("exp_avg", "exp_avg_sq")
MOMENTS = {
    "AdamW": (ea.optim.AdamW, ADAM),
    "RAdam": (ea.optim.RAdam, ADAM),
    "SGD": (partial(ea.optim.SGD, momentum=0.9), ("momentum_buffer",)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_optimizers_skip_frozen_parameters_as_torch_does(name):
    make, moments = MOMENTS[name]
    ones = [ea.Tensor(np.ones(3, np.float32), requires_grad=True) for _ in range(3)]
    ones[1].requires_grad = False
    optimizer = make(ones, lr=0.1, weight_decay=0.5)
    for _ in range(2):
        sum((p * p).sum() for p in ones).backward()
        ones[1].grad = ea.Tensor(np.ones(3, np.float32))  # left from before
        optimizer.step()
        optimizer.zero_grad()
    np.testing.assert_array_equal(ones[1], np.ones(3))
    assert sorted(optimizer.state_dict()) == [
        *sorted(["missed", *(f"{moment}.{i}" for moment in moments for i in (0, 2))]),
        "step",
    ]
    assert optimizer.state_dict()["missed"].tolist() == [0, 2, 0]
    assert np.asarray(ones[0])[0] < 1
    again = make(ones, lr=0.1, weight_decay=0.5)
    free = ea.Tensor(np.ones(3, np.float32), requires_grad=True)
    again.load_state_dict(optimizer.state_dict())
    with pytest.raises(CheckpointError, match=r"parameter 1 was not .* is trained"):
        make([ones[0], free, ones[2]]).load_state_dict(optimizer.state_dict())
    ones[1].requires_grad = True
    sum((p * p).sum() for p in ones).backward()
    optimizer.step()
    assert np.asarray(ones[1])[0] < 1
    assert f"{moments[0]}.1" in optimizer.state_dict()


def test_gradients_that_no_optimizer_uses_are_forgotten(tmp_path):
    """The norm used for clipping is that of one step, not of all steps so far."""
    norms = []
    for optimized in (HEAD, ("",)):
        model = tiny(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        chosen = [p for n, p in model.named_parameters() if n.startswith(optimized)]
        optimizer = ea.optim.AdamW(chosen, lr=0.0)
        trainer = trainer_of(model, tmp_path / optimized[0], optimizer, logging_steps=1)
        trainer.train()
        log = trainer.state.log_history
        norms.append([entry["grad_norm"] for entry in log if "grad_norm" in entry])
    assert len(norms[0]) == 4
    assert norms[0] == norms[1]


def test_frozen_parameters_stay_so_in_another_type():
    model = model_with(HEAD)
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
    for other in (model.copy(), model.copy("float64"), model.to("bfloat16")):
        found = [n for n, p in other.named_parameters() if not p.requires_grad]
        assert found == frozen


def change_type(model: Any) -> None:
    assert model.to("bfloat16") is model


def change_size(model: Any) -> None:
    model.interpolate_positions(12)


@pytest.mark.parametrize("change", [change_type, change_size])
def test_an_optimizer_of_replaced_parameters_refuses_to_step(change):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = ea.ViTConfig(image_size=8, patch_size=4, intermediate_size=8, **sizes)
    model = ea.ViTForImageClassification(config)
    optimizer = ea.optim.AdamW(model.parameters(), lr=0.1)
    optimizer.step()
    change(model)
    with pytest.raises(
        ConfigError, match=r"frozen .* create the optimizer after model"
    ):
        optimizer.step()
    assert all(parameter.requires_grad for parameter in model.parameters())
    ea.optim.AdamW(model.parameters(), lr=0.1).step()


@pytest.mark.parametrize("trained_layers", [0, 1, 3])
@pytest.mark.parametrize("kind", [None, ea.attention.Evolving(0.3, 0.4)])
def test_backward_stops_at_the_first_layer_that_is_trained(kind, trained_layers):
    """Kernel calls show products and attention of trained layers only."""
    model, batch = tiny(attention=kind), draw()
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    first = SIZES["num_hidden_layers"] - trained_layers
    prefixes = tuple(f"bert.encoder.layer.{i}." for i in range(first, 3))
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith((*HEAD, *prefixes))
    loss = model(**inputs).loss
    names = ("matmul", "fused_attention_backward", "layer_norm_backward")
    before = {name: calls(name) for name in names}
    loss.backward()
    done = {name: calls(name) - before[name] for name in names}
    assert done["fused_attention_backward"] == trained_layers
    assert done["layer_norm_backward"] == 2 * trained_layers
    # Two products for each of a layer's six dense parts and of the head's two. The
    # first trained part needs no input gradient: query, key and value of its layer,
    # or the head's lower part.
    expected = 12 * trained_layers + (1 if trained_layers else 3)
    assert done["matmul"] == expected
