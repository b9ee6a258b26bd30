"""Gradient checkpointing: the same bits, less memory, and no trap left open."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers_models import (
    MODELS,
    arrays_of,
    assert_same_bits,
    draw,
    gradients,
    labels_for,
    tiny,
)

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

KINDS = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(0.3, 0.4),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(0.3),
    "deep predictive": ea.attention.Predictive(0.3, num_layers=2),
}
LENGTHS = (5, 9, 1, 17)
ASKED = ("hidden_states", "attentions", "attention_logits")


def calls(kernel: str) -> int:
    return sum(n for name, _, n in _core.kernel_entries() if name == kernel)


def softmaxes() -> int:
    """How many layers were run, forward or in evaluation."""
    return calls("fused_attention_forward") + calls("softmax_forward")


def both(run: Callable[[bool], dict[str, Any]], again: int | None = None) -> None:
    """``run`` gives the same bits and generator with and without recomputation.

    Args:
        run: called with whether to recompute.
        again: how many layers the run with it computes more; None: any number.
    """
    found, states, layers = [], [], []
    for on in (False, True):
        ea.manual_seed(3)
        before = softmaxes()
        found.append(run(on))
        layers.append(softmaxes() - before)
        states.append(_core.get_rng_state())
    assert_same_bits(*found)
    assert states[0] == states[1]
    assert layers[0] > 0
    assert layers[1] - layers[0] == again if again is not None else layers[1]


def switched(model: Any, on: bool) -> Any:
    if on:
        model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing == on
    return model


def inputs_of(model: Any, padded: bool = False, **asked: bool) -> dict[str, Any]:
    batch = draw(LENGTHS, model.config.model_type, seed=3)
    labels = labels_for(model, batch)
    if padded and (labels is None or len(labels) == len(LENGTHS)):
        given = batch.padded(3, left=True)
    else:
        given = batch.packed()
    return {**given, **asked, **({} if labels is None else {"labels": labels})}


def total(out: Any) -> Any:
    """A loss in which every output takes part, those of the layers included."""
    parts = [] if out.loss is None else [out.loss]
    for name in ("pooler_output", "last_hidden_state", *ASKED):
        value = getattr(out, name)
        tensors = value.values() if isinstance(value, dict) else [value]
        parts += [(t * t).sum() for t in tensors if t is not None and t.requires_grad]
    loss = parts[0]
    for part in parts[1:]:
        loss = loss + part * 0.01
    return loss


def trained(model: Any, passes: int = 2, **inputs: Any) -> dict[str, Any]:
    """Outputs of passes whose gradients add up, and these gradients."""
    found: dict[str, Any] = {}
    for i in range(passes):
        out = model(**inputs)
        found |= {f"{i} {k}": np.array(v) for k, v in arrays_of(out).items()}
        total(out).backward()
        del out
    return found | gradients(model)


# --- the same bits --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_have_the_same_bits(
    name: str, kind: str, dtype: str
) -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(tiny(name, KINDS[kind], dtype=dtype), on)
        ea.manual_seed(4)
        return trained(model, **inputs_of(model, padded=True))

    # A classifier's last layer keeps what it made: 2 passes, 3 layers.
    classifier = "SequenceClassification" in name
    both(run, again=2 * (2 if classifier else 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
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
    """Rows of gradients, and parts without any: the first layer's input, the layers."""

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
    """Bytes a training step of 6 layers needs at its peak, gradients included."""
    model = tiny(
        "BertForSequenceClassification",
        KINDS[kind],
        num_hidden_layers=6,
        hidden_size=48,
        intermediate_size=192,
        initializer_range=0.02,
    )
    switched(model, on)
    inputs = {**draw((40,) * 16).packed(), "labels": np.zeros(16, np.int64)}
    model(**inputs).loss.backward()
    model.zero_grad()
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
            with ea.no_grad():  # no dropout is left behind in a layer
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


# --- gradients are right, not only equal ----------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_match_finite_differences(kind: str) -> None:
    """Central differences in float64 along random directions, dropout included."""
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


# --- a step written in Python ---------------------------------------------------------


def kind_of(step: Callable[..., Any]) -> Any:
    """A kind that is not registered, with this step and one parameter."""

    class Kind(ea.attention.CustomEvolve):
        def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
            return {"gain": np.full(1, 0.7)}

        def step(self, scores: Any, previous: Any, context: Any) -> Any:
            return step(scores, previous, context)

    return Kind()


def mixed(scores: Any, previous: Any, context: Any) -> Any:
    own = scores * context.parameters["gain"]
    return own if previous is None else F.axpby(0.5, own, 0.3, previous)


def in_another_thread(draws: int) -> None:
    def work() -> None:
        for _ in range(draws):
            F.dropout(ea.Tensor(np.ones(3, np.float32)), 0.5)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("carries", [1, 2])
def test_a_custom_step(carries: int) -> None:
    """It may draw random numbers, and other threads may draw in between."""
    steps = 0

    def step(scores: Any, previous: Any, context: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps <= 6:  # in the forward passes only
            in_another_thread(steps)
        maps = F.dropout(mixed(scores, previous, context), 0.2)
        return maps if carries == 1 else (maps * 0.9, maps)

    def run(on: bool) -> dict[str, Any]:
        nonlocal steps
        steps = 0
        model = switched(tiny("BertForMaskedLM", kind_of(step)), on)
        inputs = inputs_of(model)
        outs = [model(**inputs) for _ in range(2)]
        for out in outs:
            out.loss.backward()
        assert steps == (12 if on else 6)
        return gradients(model) | {str(i): np.array(o.loss) for i, o in enumerate(outs)}

    both(run, again=6)


def differing(how: str) -> Iterator[Callable[..., Any]]:
    """Steps that do not do the same the second time."""
    seen: set[int] = set()

    def step(scores: Any, previous: Any, context: Any) -> Any:
        first = context.layer not in seen
        seen.add(context.layer)
        maps = mixed(scores, previous, context)
        if how == "more" and not first:
            maps = F.dropout(F.dropout(maps, 0.1), 0.1)
        if how == "fewer" and first:
            maps = F.dropout(F.dropout(maps, 0.1), 0.1)
        if how == "error" and not first:
            raise ValueError("not again")
        return maps

    yield step


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("more", ea.InputError, "random streams.*gradient checkpointing off"),
        ("fewer", ea.InputError, "fewer random streams.*gradient checkpointing off"),
        ("error", ValueError, "not again"),
    ],
)
def test_a_custom_step_that_differs_is_noticed(
    how: str, error: type[Exception], words: str
) -> None:
    model = switched(tiny("BertModel", kind_of(next(differing(how)))), True)
    out = model(**inputs_of(model)).last_hidden_state
    before = _core.get_rng_state()
    with pytest.raises(error, match=words):
        (out * out).sum().backward()
    assert _core.get_rng_state() == before
    assert _core.is_grad_enabled()
    F.dropout(ea.Tensor(np.ones(3, np.float32)), 0.5)  # draws from the generator again
    assert _core.get_rng_state() == (before[0], before[1] + 1)
