"""Finds the origin of a NaN or infinity.

The search repeats the step's forward pass with the same dropout and checks, in the
order of the computation, labels, optimizer state, weights, layer outputs, logits, loss
and gradients. It runs only after a non-finite step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from evolving_attention.autograd import kept_buffers
from evolving_attention.device_names import host_array
from evolving_attention.errors import NonFiniteError
from evolving_attention.training import runtime
from evolving_attention.training.batches import (
    inputs_of,
    row_count,
    row_ids,
    single_row,
    target_count,
)

_LOGITS = ("logits", "start_logits", "end_logits", "seq_relationship_logits")


def all_finite(value: Any) -> bool:
    """Whether an array of any type has neither NaN nor infinity."""
    array = host_array(value)
    if array.dtype.kind in "iubSU":
        return True
    return bool(np.isfinite(array).all())


def optimizer_tensors(
    optimizer: Any, named: dict[int, str]
) -> Iterator[tuple[str, Any]]:
    """Yields (readable name, value) of the optimizer's state, by parameter name."""
    for key, value in optimizer.state_dict().items():
        kind, _, number = key.rpartition(".")
        if kind:
            yield f"{kind} of {named.get(int(number), f'parameter {number}')}", value


def parameter_names(optimizer: Any) -> dict[int, str]:
    """Returns the name of each numbered parameter, if the groups have names."""
    names = [n for group in optimizer.param_groups for n in group.get("names", [])]
    return dict(enumerate(names))


def check_finite(model: Any, optimizer: Any | None, what: str) -> None:
    """Rejects non-finite weights or optimizer state.

    Raises:
        NonFiniteError: the message names the first such tensor.
    """
    buffers = getattr(model, "named_buffers", tuple)  # running statistics, if any
    tensors: dict[str, Iterable[tuple[str, Any]]] = {
        "parameter": model.named_parameters(),
        "buffer": buffers(),
    }
    for kind, named in tensors.items():
        for name, value in named:
            if not all_finite(value):
                raise NonFiniteError(
                    f"{what}: {kind} {name} holds NaN or infinity, expected finite "
                    "weights; nothing was saved, restore finite ones",
                    {"tensor": name, "kind": kind},
                )
    if optimizer is None:
        return
    for name, value in optimizer_tensors(optimizer, parameter_names(optimizer)):
        if not all_finite(value):
            raise NonFiniteError(
                f"{what}: optimizer state {name} holds NaN or infinity, expected "
                "finite moments; nothing was saved, restore finite ones",
                {"tensor": name, "kind": "optimizer state"},
            )


def nonfinite_report(
    model: Any,
    optimizer: Any,
    batches: list[dict[str, Any]],
    bad: int | None,
    random_state: tuple[int, int],
    **facts: Any,
) -> dict[str, Any]:
    """Returns the report of a step whose loss or gradient is not finite.

    Args:
        model, optimizer: in their state before the step, with the gradients.
        batches: the step's batches, or the one with a non-finite loss.
        bad: index of that batch in the step; None if only gradients are not finite.
        random_state: the core's state at the start of that batch's forward pass.
        **facts: step, epoch, loss, grad_norm: copied into the report.

    Returns:
        ``tensor`` and ``kind``: the first non-finite tensor; ``row_ids``: rows of the
        batch; ``bad_row_ids``: those whose own loss is not finite, or all of them;
        ``parameters``, ``gradients``: names of all non-finite ones.
    """
    parameters = [n for n, p in model.named_parameters() if not all_finite(p)]
    gradients = [
        n
        for n, p in model.named_parameters()
        if p.grad is not None and not all_finite(p.grad)
    ]
    states = [
        name
        for name, value in optimizer_tensors(optimizer, parameter_names(optimizer))
        if not all_finite(value)
    ]
    kind, tensor = _first(
        model, batches, bad, random_state, parameters, states, gradients
    )
    rows = [int(i) for batch in batches for i in row_ids(batch)]
    return {
        **facts,
        "kind": kind,
        "tensor": tensor,
        "batch_in_step": bad,
        "row_ids": rows,
        "bad_row_ids": _bad_rows(model, batches) if bad is not None else rows,
        "parameters": parameters,
        "optimizer_state": states,
        "gradients": gradients,
    }


def _first(
    model: Any,
    suspects: list[dict[str, Any]],
    bad: int | None,
    random_state: tuple[int, int],
    parameters: list[str],
    states: list[str],
    gradients: list[str],
) -> tuple[str, str]:
    """Returns (kind, name) of the first non-finite tensor in computation order."""
    for batch in suspects:
        if "labels" in batch and not all_finite(batch["labels"]):
            return "input", "labels"
    if states:  # it spoils parameters; the reverse cannot happen
        return "optimizer state", states[0]
    if parameters:
        return "parameter", parameters[0]
    if bad is not None:
        return _first_activation(model, suspects[0], random_state)
    if gradients:  # backward runs from the last parameter to the first
        return "gradient", gradients[-1]
    return "gradient", "the norm over all gradients (each one is finite)"


def _first_activation(
    model: Any, batch: dict[str, Any], random_state: tuple[int, int]
) -> tuple[str, str]:
    """Repeats the forward pass and names the first non-finite layer output."""
    after = runtime.core_random_state()
    runtime.set_core_random_state(random_state)
    try:
        with runtime.no_grad(), kept_buffers(model):
            out = model(**inputs_of(batch), output_hidden_states=True)
    finally:
        runtime.set_core_random_state(after)
    hidden = getattr(out, "hidden_states", None)
    if hidden is not None:
        layers = hidden.items() if isinstance(hidden, dict) else enumerate(hidden)
        for layer, value in layers:
            if not all_finite(value):
                return "activation", f"hidden_states[{layer}]"
    for name in _LOGITS:
        value = getattr(out, name, None)
        if value is not None and not all_finite(value):
            return "activation", name
    return "loss", "loss"


def _bad_rows(model: Any, suspects: list[dict[str, Any]]) -> list[int]:
    """Returns rows whose own loss is not finite; all rows if there is no such row."""
    every = [int(i) for batch in suspects for i in row_ids(batch)]
    guilty = []
    with runtime.evaluating(model):
        for batch in suspects:
            for row in range(row_count(batch)):
                one = single_row(batch, row)
                loss = model(**inputs_of(one)).loss
                if target_count(one) and not all_finite(loss):
                    guilty.append(int(row_ids(one)[0]))
    return guilty or every
