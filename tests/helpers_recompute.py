"""Runs with and without gradient checkpointing that must give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers_models import arrays_of, assert_same_bits, draw, gradients, labels_for

import evolving_attention as ea
from evolving_attention import _core

LENGTHS = (5, 9, 1, 17)
ASKED = ("hidden_states", "attentions", "attention_logits")


def calls(kernel: str) -> int:
    return sum(n for name, _, n in _core.kernel_entries() if name == kernel)


def softmaxes() -> int:
    """Returns the number of layers run so far, in training or evaluation."""
    return calls("fused_attention_forward") + calls("softmax_forward")


def both(run: Callable[[bool], dict[str, Any]], again: int | None = None) -> None:
    """Checks that ``run`` gives equal bits and generator states with recomputation.

    Args:
        run: called with whether to recompute.
        again: additional layers that recomputation runs; None: any number.
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
    """Returns a loss that depends on every output, including those of the layers."""
    parts = [] if out.loss is None else [out.loss]
    for name in ("pooler_output", "last_hidden_state", *ASKED):
        value = getattr(out, name)
        tensors = value if isinstance(value, tuple) else [value]
        parts += [(t * t).sum() for t in tensors if t is not None and t.requires_grad]
    loss = parts[0]
    for part in parts[1:]:
        loss = loss + part * 0.01
    return loss


def trained(model: Any, passes: int = 2, **inputs: Any) -> dict[str, Any]:
    """Returns outputs of ``passes`` passes, and their accumulated gradients."""
    found: dict[str, Any] = {}
    for i in range(passes):
        out = model(**inputs)
        found |= {f"{i} {k}": np.array(v) for k, v in arrays_of(out).items()}
        total(out).backward()
        del out
    return found | gradients(model)
