"""Gradient checkpointing: the same bits, less memory, and safe edge cases."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from helpers_models import BODIES, assert_same_bits, draw, gradients, tiny
from helpers_recompute import ASKED, both, calls, inputs_of, switched, trained

import evolving_attention as ea
from evolving_attention import _core

KINDS = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(0.3, 0.4),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(0.3),
    "deep predictive": ea.attention.Predictive(0.3, num_layers=2),
}


# --- the same bits --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_outputs_and_gradients_have_the_same_bits(
    name: str, kind: str, dtype: str
) -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(name, KINDS[kind], dtype=dtype), on)
        ea.manual_seed(4)
        return trained(model, **inputs_of(model, padded=True))

    # A classifier does not recompute its last layer: 2 passes, 3 layers.
    classifier = "SequenceClassification" in name
    both(run, again=2 * (2 if classifier else 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_outputs_asked_for_take_part_with_the_same_bits(name: str, kind: str) -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(name, KINDS[kind]), on)
        asked = {f"output_{one}": True for one in ASKED}
        return trained(model, **inputs_of(model, **asked))

    both(run)


@pytest.mark.parametrize("path", [*ea.fast_paths(), "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_fast_path_off(kind: str, path: str) -> None:
    def run(on: bool) -> dict[str, Any]:
        found = {}
        for name in ("BertForSequenceClassification", "RobertaForMaskedLM"):
            model = switched(tiny(name, KINDS[kind]), on)
            part = trained(model, **inputs_of(model, output_hidden_states=[1]))
            found |= {f"{name} {key}": value for key, value in part.items()}
        return found

    ea.set_fast_path(path, False)
    both(run)


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads(threads: int) -> None:
    found = []
    count = ea.get_num_threads()
    try:
        for now in (count, threads):
            ea.set_num_threads(now)
            model = switched(tiny(attention=KINDS["evolving"]), True)
            found.append(trained(model, **inputs_of(model)))
    finally:
        ea.set_num_threads(count)
    assert_same_bits(*found)


def test_optimizer_steps_with_sparse_tables_and_frozen_parts() -> None:
    """Sparse gradients, and frozen parts: the embeddings, all layers."""

    def run(on: bool) -> dict[str, Any]:
        found = {}
        for part in ("nothing", "embeddings", "encoder"):
            ea.manual_seed(1)
            model = tiny(attention=KINDS["evolving"], vocab_size=3000)
            switched(model, on)
            for name, tensor in model.named_parameters():
                tensor.requires_grad = part not in name
            trained = [p for p in model.parameters() if p.requires_grad]
            optimizer = ea.optim.AdamW(trained, lr=1e-2)
            inputs = inputs_of(model)
            rows = calls("scatter_add_rows")
            for step in range(3):
                for _ in range(2):
                    model(**inputs).loss.backward()
                if step == 2:
                    grads = gradients(model)
                    assert not any(part in name for name in grads)
                    found |= {f"{part} grad {k}": v for k, v in grads.items()}
                optimizer.step()
                optimizer.zero_grad()
            if part == "nothing":
                assert calls("scatter_add_rows") > rows
            state = {k: np.array(v) for k, v in model.state_dict().items()}
            found |= {f"{part} {k}": v for k, v in state.items()}
        return found

    both(run)


# --- less memory ----------------------------------------------------------------------


def peak_of_a_step(on: bool, kind: str) -> int:
    """Returns the peak bytes of a training step of 10 layers, gradients included."""
    model = tiny(
        "BertForSequenceClassification",
        KINDS[kind],
        num_hidden_layers=10,
        hidden_size=48,
        intermediate_size=192,
        initializer_range=0.02,
    )
    switched(model, on)
    inputs = {**draw((40,) * 16).packed(), "labels": np.zeros(16, np.int64)}
    model(**inputs).loss.backward()
    model.zero_grad()
    _core.release_cached_memory()  # a cached block may be larger than needed
    before = _core.current_memory()
    _core.reset_peak_memory()
    model(**inputs).loss.backward()
    return _core.peak_memory() - before


@pytest.mark.parametrize("kind", KINDS)
def test_the_peak_of_a_step_is_at_most_half(kind: str) -> None:
    assert peak_of_a_step(True, kind) <= 0.5 * peak_of_a_step(False, kind)


# --- when it takes effect -------------------------------------------------------------


def test_evaluation_and_no_grad_are_not_changed() -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(attention=KINDS["evolving"]), on)
        inputs = inputs_of(model)
        with ea.no_grad():
            found = {"train": np.array(model(**inputs).logits)}
        model.eval()
        return found | trained(model, **inputs)

    both(run, again=0)


def test_the_switch() -> None:
    model = tiny()
    assert not model.is_gradient_checkpointing
    model.gradient_checkpointing_enable()
    assert model.copy("bfloat16").is_gradient_checkpointing
    model.to("float64")
    assert model.is_gradient_checkpointing
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing
    assert not model.copy().is_gradient_checkpointing
    for name in ("gradient_checkpointing", "activation_checkpointing"):
        with pytest.raises(ea.ConfigError, match=rf"{name}_kwargs=.*expected None"):
            getattr(model, f"{name}_enable")({"use_reentrant": False})
        assert not model.is_gradient_checkpointing
    model.activation_checkpointing_enable()
    assert model.is_activation_checkpointing
    assert model.is_gradient_checkpointing
    model.activation_checkpointing_disable()
    assert not model.is_gradient_checkpointing


@pytest.mark.parametrize("what", ["eval", "disable", "seed", "forget"])
def test_what_happens_between_the_passes_changes_nothing(what: str) -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(attention=KINDS["evolving"]), on)
        parameters = dict(model.named_parameters())
        loss = model(**inputs_of(model)).loss
        if what == "eval":
            model.eval()
        elif what == "disable":
            model.gradient_checkpointing_disable()
        elif what == "seed":
            ea.manual_seed(99)
        else:
            del model
            gc.collect()
        loss.backward()
        if what == "eval":
            assert not model.training
            with ea.no_grad():  # no layer keeps dropout from training
                first = np.array(model(**inputs_of(model)).logits)
                assert np.array_equal(model(**inputs_of(model)).logits, first)
        return {
            k: np.array(t.grad) for k, t in parameters.items() if t.grad is not None
        }

    both(run)


def test_a_second_backward_is_refused() -> None:
    model = switched(tiny("BertModel", KINDS["evolving"]), True)
    out = model(**inputs_of(model))
    loss = (out.last_hidden_state * out.last_hidden_state).sum()
    loss.backward()
    for root in (loss, (out.pooler_output * 2.0).sum()):
        with pytest.raises(ea.InputError, match="already used and freed"):
            root.backward()


# --- gradients are correct, not only equal --------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_match_finite_differences(kind: str) -> None:
    """Compares with float64 central differences in random directions, with dropout."""
    model = switched(tiny("BertModel", KINDS[kind], dtype="float64"), True)
    inputs = inputs_of(model)

    def loss() -> Any:
        ea.manual_seed(5)
        out = model(**inputs)
        return (out.last_hidden_state * out.pooler_output.sum()).sum()

    loss().backward()
    rng = np.random.default_rng(0)
    layers = [
        (n, t) for n, t in model.named_parameters() if ".layer." in n or "word" in n
    ]
    for name, tensor in layers:
        at = np.array(tensor)
        direction = rng.standard_normal(at.shape) / np.sqrt(at.size)
        expected = float((np.asarray(tensor.grad) * direction).sum())
        values = []
        for sign in (1, -1):
            tensor.copy_(at + sign * 1e-6 * direction)
            with ea.no_grad():
                values.append(loss().item())
        tensor.copy_(at)
        found = (values[0] - values[1]) / 2e-6
        assert abs(found - expected) <= 1e-5 * max(1.0, abs(expected)), name
