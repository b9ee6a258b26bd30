"""Image networks rerun their blocks in backward: the same bits, less memory."""

from __future__ import annotations

from typing import Any

import helpers_cifar
import numpy as np
import pytest
from helpers_models import arrays_of, assert_same_bits, gradients
from helpers_recompute import calls, switched, total
from helpers_resnet import AUGMENTED, EVOLVING, SIZES, draw, tiny

import evolving_attention as ea
from evolving_attention import _core

ASKED = ("hidden_states", "attentions", "attention_logits", "attention_scores")
DROPOUT = {"conv_dropout_prob": 0.2, "hidden_dropout_prob": 0.2}
PLAIN, AUGMENTING = ea.ResNetForImageClassification, ea.AAResNetForImageClassification


def net(name: str, dtype: str = "float32", **more: Any) -> Any:
    kind, _, sizes = name.partition(" ")
    if kind == "plain":
        return tiny(PLAIN, SIZES[sizes], dtype, **more)
    if kind == "augmented":
        return tiny(AUGMENTING, AUGMENTED[sizes], dtype, attention=EVOLVING, **more)
    options = {"attention": EVOLVING, **DROPOUT, **more}
    return helpers_cifar.tiny(dtype=dtype, dense_connections=not sizes, **options)


NETS = (
    *(f"plain {sizes}" for sizes in SIZES),
    *(f"augmented {sizes}" for sizes in AUGMENTED),
    "cifar",
    "cifar sparse",
)


def inputs_of(model: Any, side: int = 32) -> dict[str, Any]:
    """Returns three images of the model's image size, or of ``side`` if it has none."""
    sizes = vars(model.config).get("image_size", side)
    height, width = sizes if isinstance(sizes, (list, tuple)) else (sizes, sizes)
    return {"pixel_values": draw(3, (height, width)), "labels": [1, 0, 4]}


def state_of(model: Any) -> dict[str, Any]:
    buffers = {f"buffer {name}": np.array(t) for name, t in model.named_buffers()}
    return gradients(model) | buffers


def compared(run: Any, again: bool = True) -> None:
    """Same bits with recomputation on and off; recomputing adds convolution calls."""
    found, states, convolved = [], [], []
    for on in (False, True):
        ea.manual_seed(5)
        before = calls("conv2d_forward") + calls("matmul")
        found.append(run(on))
        convolved.append(calls("conv2d_forward") + calls("matmul") - before)
        states.append(_core.get_rng_state())
    assert_same_bits(*found)
    assert states[0] == states[1]
    assert (convolved[1] > convolved[0]) == again


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", NETS)
def test_gradients_and_running_statistics_have_the_same_bits(
    name: str, dtype: str
) -> None:
    def run(on: bool) -> dict[str, Any]:
        model, found = switched(net(name, dtype), on), {}
        for i in range(2):
            out = model(**inputs_of(model))
            found |= {f"{i} {k}": np.array(v) for k, v in arrays_of(out).items()}
            out.loss.backward()
        return found | state_of(model)

    compared(run)


@pytest.mark.parametrize("name", NETS)
def test_outputs_asked_for_take_part(name: str) -> None:
    """Also maps of two attention layers in one block, and gradients of maps."""

    def run(on: bool) -> dict[str, Any]:
        model = switched(net(name), on)
        maps = ASKED if model.config.num_hidden_layers else ASKED[:1]
        out = model(**inputs_of(model), **{f"output_{one}": True for one in maps})
        kept = out.attention_logits or ()
        for one in kept:
            one.retain_grad()
        total(out).backward()
        grads = {f"map {i}": np.array(one.grad) for i, one in enumerate(kept)}
        return arrays_of(out) | grads | state_of(model)

    compared(run)


@pytest.mark.parametrize("name", ["plain basic", "augmented bottleneck", "cifar"])
def test_what_happens_between_the_passes_changes_nothing(name: str) -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(net(name), on)
        loss = model(**inputs_of(model)).loss
        model.eval()
        ea.manual_seed(9)
        loss.backward()
        assert not model.training
        return state_of(model)

    compared(run)


def test_evaluation_is_not_changed() -> None:
    def run(on: bool) -> dict[str, Any]:
        model = switched(net("augmented basic"), on).eval()
        out = model(**inputs_of(model))
        out.loss.backward()
        return arrays_of(out) | state_of(model)

    compared(run, again=False)


@pytest.mark.parametrize("name", ["plain", "augmented", "cifar"])
def test_a_step_needs_less_memory(name: str) -> None:
    depths = {"depths": [1, 8, 8] if name == "cifar" else [4, 6, 4]}
    sizes = "bottleneck" if name != "cifar" else ""
    found = []
    for on in (False, True):
        model = switched(net(f"{name} {sizes}".strip(), **depths), on)
        inputs = inputs_of(model, 64)
        model(**inputs).loss.backward()
        model.zero_grad()
        _core.release_cached_memory()
        before = _core.current_memory()
        _core.reset_peak_memory()
        model(**inputs).loss.backward()
        found.append(_core.peak_memory() - before)
    assert found[1] <= 0.6 * found[0]
