"""AdamW and gradient clipping over the C++ core."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolving_attention.errors import CheckpointError, ConfigError, InputError

__all__ = [
    "AdamW",
    "clip_grad_norm_",
    "clip_scale",
    "decay_groups",
    "global_grad_norm",
]

NO_DECAY = ("bias", "LayerNorm.weight", "layer_norm.weight", "norm.weight")


class AdamW:
    """Adam with decoupled weight decay, equal to ``torch.optim.AdamW``.

    Per parameter θ with gradient g at step t (from 1), learning rate η, decay λ:

        θ ← θ − η·λ·θ
        m ← β₁·m + (1−β₁)·g,   v ← β₂·v + (1−β₂)·g²
        θ ← θ − η · m̂ / (√v̂ + ε),   m̂ = m/(1−β₁ᵗ),  v̂ = v/(1−β₂ᵗ)

    Moments are float32; for bfloat16 parameters so is a master copy of the weights.

    Args:
        params: tensors, or groups: dicts with ``"params"`` and optionally ``"lr"`` and
            ``"weight_decay"``, which may be changed between steps.
        lr: learning rate, >= 0.
        betas: decay of the two moments, each in [0, 1).
        eps: ε > 0, added to the root.
        weight_decay: λ >= 0.

    Raises:
        ConfigError: a value is out of range, or there is nothing to optimize.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        from evolving_attention import _core

        _check_number("lr", lr)
        _check_number("eps", eps, above=True)
        _check_number("weight_decay", weight_decay)
        _check_betas(betas)
        entries = _entries(params)
        if not entries:
            raise ConfigError(
                "AdamW: params is empty, expected tensors or groups of them; pass "
                "model.parameters()"
            )
        groups = entries if isinstance(entries[0], dict) else [{"params": entries}]
        defaults = {"lr": lr, "weight_decay": weight_decay}
        self.param_groups: list[dict[str, Any]] = []
        for group in groups:
            held = {**defaults, **_checked_group(group, len(self.param_groups))}
            self.param_groups.append(held)
        self._params = [p for group in self.param_groups for p in group["params"]]
        self.betas, self.eps = (float(betas[0]), float(betas[1])), float(eps)
        _check_parameters(self._params)
        ids = [i for i, group in enumerate(self.param_groups) for _ in group["params"]]
        self._core = _core.AdamW(
            self._params, float(lr), self.betas, self.eps, float(weight_decay), ids
        )

    def step(self, grad_scale: float = 1.0) -> None:
        """Update every parameter that has a gradient.

        Args:
            grad_scale: factor for all gradients, which stay as they are; clipping by
                it costs no pass over them.
        """
        for number, group in enumerate(self.param_groups):
            _check_number(f"param_groups[{number}]['lr']", group["lr"])
            _check_number(
                f"param_groups[{number}]['weight_decay']", group["weight_decay"]
            )
            self._core.set_group(
                number, float(group["lr"]), float(group["weight_decay"])
            )
        self._core.step(grad_scale)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self._core.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """``step`` and, per parameter i, ``exp_avg.i``, ``exp_avg_sq.i``, ``master.i``.

        The parameters are numbered through all groups; ``master.i`` exists for
        bfloat16 parameters only. The tensors are the optimizer's own, not copies.
        """
        return dict(self._core.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave.

        Raises:
            CheckpointError: the state belongs to other parameters.
        """
        if not isinstance(state, Mapping):
            raise CheckpointError(
                f"AdamW: the state is a {type(state).__name__}, expected the dict that "
                "state_dict() returned; pass that"
            )
        own = self.state_dict()
        if set(state) != set(own):
            odd = sorted(set(state) ^ set(own))
            raise CheckpointError(
                f"AdamW: the saved state does not fit the {len(self._params)} "
                f"parameters, first difference {odd[0]!r} of {len(odd)}; build the "
                "model, its element type and the groups as they were"
            )
        for name, tensor in own.items():
            if name != "step" and tuple(tensor.shape) != tuple(state[name].shape):
                raise CheckpointError(
                    f"AdamW: {name} has shape {tuple(state[name].shape)}, expected "
                    f"{tuple(tensor.shape)}; build the model as it was"
                )
        self._core.load_state_dict(state)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _check_number(name: str, value: Any, above: bool = False) -> None:
    """Refuse what is no finite number >= 0 (> 0 with ``above``)."""
    fits = _is_number(value) and math.isfinite(value)
    if not fits or value < 0 or (above and value == 0):
        expected = "> 0 and finite" if above else ">= 0 and finite"
        raise ConfigError(f"AdamW: {name}={value!r}, expected {expected}; correct it")


def _check_betas(betas: Any) -> None:
    """Refuse all but two numbers in [0, 1)."""
    pair = isinstance(betas, Sequence) and len(betas) == 2
    if not pair or not all(_is_number(beta) and 0 <= beta < 1 for beta in betas):
        raise ConfigError(
            f"AdamW: betas={betas!r}, expected two values in [0, 1), such as "
            "(0.9, 0.999); correct it"
        )


def _entries(params: Any) -> list[Any]:
    """The parameters or groups as a list: all of one sort."""
    from evolving_attention._core import Tensor

    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        raise ConfigError(
            f"AdamW: params is a {type(params).__name__}, expected tensors or groups "
            "of them; pass model.parameters(), or a list"
        )
    entries = list(params)
    groups = [isinstance(entry, Mapping) for entry in entries]
    if any(groups) and not all(groups):
        raise ConfigError(
            f"AdamW: params[{groups.index(False)}] is no group, expected either groups "
            "or tensors; put the tensor into a group: {'params': [tensor]}"
        )
    return entries


def _checked_group(group: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A group with its parameters as a list."""
    if "params" not in group:
        raise ConfigError(
            f"AdamW: group {number} has the keys {sorted(group)}, expected 'params' "
            "among them; list the group's tensors there"
        )
    return {**group, "params": list(group["params"])}


def _check_parameters(params: Sequence[Any]) -> None:
    """Refuse what cannot be trained, and what would be trained twice."""
    from evolving_attention._core import Tensor

    seen: dict[int, int] = {}
    for number, parameter in enumerate(params):
        if not isinstance(parameter, Tensor):
            what = type(parameter).__name__
            hint = (
                "pass model.parameters(), without the names"
                if isinstance(parameter, tuple)
                else "make it one: ea.Tensor(array, requires_grad=True)"
            )
            raise InputError(
                f"AdamW: parameter {number} is a {what}, expected a Tensor; {hint}"
            )
        if id(parameter) in seen:
            raise ConfigError(
                f"AdamW: parameter {number} is parameter {seen[id(parameter)]} once "
                "more, expected each once; leave it out of one group"
            )
        seen[id(parameter)] = number


def decay_groups(
    named_parameters: Iterable[tuple[str, Any]], weight_decay: float
) -> list[dict[str, Any]]:
    """Two groups for AdamW: weights with decay; biases and LayerNorm weights without.

    Args:
        named_parameters: pairs (name, tensor), as ``model.named_parameters()``.
        weight_decay: the decay of the first group.

    Returns:
        Groups with ``"params"``, ``"names"`` and ``"weight_decay"``; empty ones left
        out.
    """
    groups = [
        {"params": [], "names": [], "weight_decay": weight_decay},
        {"params": [], "names": [], "weight_decay": 0.0},
    ]
    for name, parameter in named_parameters:
        group = groups[1 if name.endswith(NO_DECAY) else 0]
        group["params"].append(parameter)
        group["names"].append(name)
    return [group for group in groups if group["params"]]


def global_grad_norm(parameters: Sequence[Any]) -> float:
    """The L2 norm of all gradients together; no gradient counts as zero."""
    from evolving_attention import _core

    return float(_core.global_grad_norm(list(parameters)))


def clip_scale(norm: float, max_norm: float) -> float:
    """The factor that brings gradients of norm ``norm`` to at most ``max_norm``."""
    return min(1.0, max_norm / (norm + 1e-6))


def clip_grad_norm_(parameters: Sequence[Any], max_norm: float) -> float:
    """Scale all gradients so that their common L2 norm is at most ``max_norm``.

    Gradients stay as they are when the norm is not finite.

    Args:
        parameters: tensors; those without gradient are left out.
        max_norm: the limit, > 0.

    Returns:
        The norm before clipping.

    Raises:
        ConfigError: ``max_norm`` is not positive.
    """
    from evolving_attention import _core

    if not max_norm > 0:
        raise ConfigError(
            f"clip_grad_norm_: max_norm={max_norm!r}, expected > 0; use "
            "global_grad_norm() to measure without clipping"
        )
    return float(_core.clip_grad_norm(list(parameters), float(max_norm)))
