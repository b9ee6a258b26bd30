"""Memory of tensors: current use, peak use, and an estimate for a training step.

ea.memory.reset_peak()
model(**batch).loss.backward()
print(ea.memory.peak() - ea.memory.current())

print(ea.plan(model, batch))  # before the first step
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention import _core
from evolving_attention.autograd import kept_buffers
from evolving_attention.device_names import host_array
from evolving_attention.errors import InputError, ShapeError
from evolving_attention.memory.probes import Probe, Probes, probes_of

__all__ = ["Plan", "current", "peak", "plan", "reset_peak"]


def current(device: str = "cpu") -> int:
    """Returns the bytes that tensors hold on a device now.

    Example:
        >>> import evolving_attention as ea
        >>> before = ea.memory.current()
        >>> kept = ea.Tensor([0.0] * 1024)
        >>> ea.memory.current() - before
        4096
    """
    return int(_core.current_memory(device))


def peak(device: str = "cpu") -> int:
    """Returns the most bytes that tensors held at once since :func:`reset_peak`.

    Example:
        >>> import evolving_attention as ea
        >>> ea.memory.reset_peak()
        >>> before = ea.memory.current()
        >>> ea.Tensor([0.0] * 1024).sum().item()
        0.0
        >>> ea.memory.peak() - before >= 4096
        True
    """
    return int(_core.peak_memory(device))


def reset_peak(device: str = "cpu") -> None:
    """Restarts the measurement of :func:`peak` from the current use."""
    _core.reset_peak_memory(device)


@dataclass(frozen=True)
class Plan:
    """Bytes of one training step, by purpose.

    Attributes:
        parameters: parameters and buffers, which exist already.
        gradients: gradients of trained parameters; for tables, only the used rows.
        optimizer: moments and copies that the optimizer keeps.
        activations: memory that the forward pass keeps for the backward pass.
        peak: the most that the step holds at once. Backward frees activations while
            gradients are created, so this is less than the sum.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    peak: int

    def __str__(self) -> str:
        rows = {name: getattr(self, name) / 2**20 for name in self.__annotations__}
        return "\n".join(f"{name:12s}{mib:12,.1f} MiB" for name, mib in rows.items())


def plan(
    model: Any, batch: Mapping[str, Any], *, optimizer: str | None = "adamw"
) -> Plan:
    """Estimates the memory of a training step on ``batch``, before it starts.

    The model runs a few small batches made from this one. The memory they keep shows
    how the activations grow; some of them, mostly of at most 128 tokens, or of a few
    images, show the working memory beyond that. Where maps take much of it, two more
    have up to a quarter of the batch's sequences.
    Weights, gradients, running statistics and random generators are unchanged;
    :func:`peak` restarts.

    Args:
        model: a model of this package, with gradient checkpointing and frozen
            parameters as it will be trained.
        batch: the inputs of the call, padded or packed, including labels.
        optimizer: its name, as in ``ea.optim.create``; None: no optimizer.

    Returns:
        A :class:`Plan`. It is an estimate: in tests ``peak`` is within a quarter of the
        measured peak. It counts tensors, but not the interpreter, the data or cached
        free blocks.

    Raises:
        InputError, ShapeError, DTypeError: the batch does not fit this model, or every
            parameter is frozen.
        ConfigError: there is no such optimizer.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.BertConfig(vocab_size=30, num_hidden_layers=2, hidden_size=48)
        >>> model = ea.BertForSequenceClassification(config)
        >>> batch = {"input_ids": [[2, 17, 9, 3]] * 8, "labels": [0, 1] * 4}
        >>> needed = ea.plan(model, batch)
        >>> if needed.peak > 8 * 2**30:
        ...     model.gradient_checkpointing_enable()
    """
    if not isinstance(batch, Mapping):
        raise InputError(
            f"plan: the batch is of type {type(batch).__name__}, expected a dict of "
            f"the inputs of {type(model).__name__}, labels included"
        )
    first = getattr(model, "needed", ("",))[0]
    if first == "features":
        raise InputError(
            f"plan: {type(model).__name__} takes a graph, expected a model of batches; "
            "train a step and read ea.memory.peak()"
        )
    if batch.get(first) is None:
        raise InputError(
            f"plan: the batch has {', '.join(batch) or 'nothing'}, expected the inputs "
            f"of {type(model).__name__}, {first} among them"
        )
    trained = [t for _, t in model.named_parameters() if t.requires_grad]
    if not trained:
        raise InputError(
            f"plan: every parameter of {type(model).__name__} is frozen, expected one "
            "to train; set requires_grad = True"
        )
    inputs = {k: _array(k, v) for k, v in batch.items() if v is not None}
    probes = probes_of(inputs, model)
    with _unchanged(model):
        kept = [_kept(model, probe.inputs) for probe in probes.kept]
        activations = _grown(probes.kept, kept, probes.kept_grows)
        at_work = _working(model, probes, activations)
    parameters = sum(_bytes(t) for _, t in model._state())
    gradients = sum(_gradient_bytes(t, probes.tokens) for t in trained)
    moments = _optimizer_bytes(optimizer, trained)
    # The first gradients arrive while nearly all activations are still held: the
    # gradients of one layer, or nearly all of them in convolutional networks, whose
    # last stages have most parameters and the smallest images. Allocator blocks are
    # up to 1/8 larger than their tensors.
    equal = not hasattr(model.config, "hidden_sizes")
    layers = max(1, sum(model.config.stacks.values())) if equal else 1
    first_layer = (activations + at_work) * 9 // 8 + gradients // layers
    held = parameters + moments
    peak_bytes = held + max(first_layer, gradients)
    return Plan(parameters, gradients, moments, activations, peak_bytes)


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return host_array(value)
    except ValueError as error:
        raise ShapeError(
            f"plan: {name} is no rectangular array: its rows differ in length; pad "
            "them to one length, or pass packed rows with sequence_offsets"
        ) from error


def _grown(probes: list[Probe], found: list[int], wanted: list[int]) -> int:
    """Extrapolates the bytes found in small batches."""
    values = np.array(found, np.float64)
    rows = np.array([probe.grows for probe in probes], np.float64)
    growth, *_ = np.linalg.lstsq(rows, values, rcond=None)
    return max(0, round(float(growth @ np.array(wanted, np.float64))))


def _working(model: Any, probes: Probes, activations: int) -> int:
    """Extrapolates the working memory beyond what a step keeps.

    A head that reads all positions at once needs a fixed amount per sequence, which
    hides the layers' in short ones. So sequences are lengthened until the layers need
    twice the amount of the shortest. Where that is much, groups of sequences show what
    kernels hold for a few sequences at a time.
    """
    found: list[int] = []
    for probe in probes.used:
        if len(found) > 2 and found[-2] >= 2 * found[0]:
            break
        found.append(_used(model, probe.inputs))
    last = slice(len(found) - 2, len(found))
    layers = _grown(probes.used[last], found[last], probes.used_grows)
    if probes.groups and layers > activations // 4:
        used = [_used(model, probe.inputs) for probe in probes.groups]
        layers = min(layers, _grown(probes.groups, used, probes.group_grows))
    return max(layers, found[0] * probes.sequences)


def _bytes(tensor: Any) -> int:
    sizes = {"bfloat16": 2, "float32": 4, "float64": 8}
    return int(tensor.size) * sizes[str(tensor.dtype)]


def _gradient_bytes(tensor: Any, tokens: int) -> int:
    """Returns the bytes of a gradient; for a table, of the batch's rows and ids."""
    if not (tensor.is_table and "sparse_embeddings" in _enabled()):
        return _bytes(tensor)
    row = _bytes(tensor) // int(tensor.shape[0]) + 8
    return min(_bytes(tensor), tokens * row)


def _enabled() -> list[str]:
    return [name for name, on in _core.fast_paths().items() if on]


def _optimizer_bytes(name: str | None, trained: list[Any]) -> int:
    """Returns the optimizer's bytes, scaled up from one step on a small tensor."""
    if name is None:
        return 0
    from evolving_attention.optim import create

    size, total = 64, 0
    for dtype in {str(t.dtype) for t in trained}:
        small = _core.Tensor(np.zeros(size, np.float32)).to(dtype)
        weight = _core.Tensor(small, requires_grad=True)
        weight.grad = small
        used = create(name, [("weight", weight)], lr=0.0)
        used.step()
        state = used.state_dict()
        kept = sum(_bytes(state[key]) for key in state if key != "step")
        elements = sum(int(t.size) for t in trained if str(t.dtype) == dtype)
        total += kept * elements // size
    return total


def _kept(model: Any, inputs: Mapping[str, np.ndarray]) -> int:
    """Returns the bytes that a small batch's graph keeps for its backward pass."""
    return int(_root(model, inputs)._kept_bytes())


def _used(model: Any, inputs: Mapping[str, np.ndarray]) -> int:
    """Returns a small step's peak bytes beyond what it keeps, without gradients."""
    trained = [t for t in model.parameters() if t.requires_grad]
    vectors = [t for t in trained if t.ndim == 1]
    device, gradients = model.device, [t.grad for t in trained]
    try:
        for leaf in (*vectors, *trained):
            for tensor in trained:
                tensor.requires_grad = tensor is leaf
            root: Any = None
            _core.release_cached_memory(device)
            before = current(device)
            reset_peak(device)
            root = _root(model, inputs)
            if root.requires_grad:  # the first one used: backward passes all layers
                break
        kept = current(device) - before
        root.backward()
        return peak(device) - before - kept
    finally:
        for tensor, gradient in zip(trained, gradients, strict=True):
            tensor.requires_grad, tensor.grad = True, gradient


def _root(model: Any, inputs: Mapping[str, np.ndarray]) -> Any:
    output = model(**inputs)
    return output[0].sum() if output.loss is None else output.loss


@contextlib.contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Enables training mode and gradients; restores everything afterwards."""
    training, enabled = model.training, _core.is_grad_enabled()
    states = _core.get_rng_state()
    model.train()
    _core.set_grad_enabled(True)
    try:
        with kept_buffers(model):
            yield
    finally:
        _core.set_grad_enabled(enabled)
        model.train(training)
        _core.set_rng_state(states)
