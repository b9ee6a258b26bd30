"""AdamW, RAdam and gradient clipping over the C++ core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.optim_rules import (
    check_betas,
    check_number,
    check_parameters,
    checked_group,
    entries_of,
)

__all__ = [
    "AdamW",
    "RAdam",
    "clip_grad_norm_",
    "clip_scale",
    "decay_groups",
    "global_grad_norm",
]

NO_DECAY = ("bias", "LayerNorm.weight", "layer_norm.weight", "norm.weight")


class _MomentOptimizer:
    """Groups, checks and state of the optimizers with two moments a parameter."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        name = self._name = type(self).__name__
        check_number(name, "lr", lr)
        check_number(name, "eps", eps, above=True)
        check_number(name, "weight_decay", weight_decay)
        check_betas(name, betas)
        entries = entries_of(name, params)
        if not entries:
            raise ConfigError(
                f"{name}: params is empty, expected tensors or groups of them; pass "
                "model.parameters()"
            )
        groups = entries if isinstance(entries[0], dict) else [{"params": entries}]
        defaults = {"lr": lr, "weight_decay": weight_decay}
        self.param_groups: list[dict[str, Any]] = []
        for group in groups:
            held = {**defaults, **checked_group(name, group, len(self.param_groups))}
            self.param_groups.append(held)
        self._params = [p for group in self.param_groups for p in group["params"]]
        self.betas, self.eps = (float(betas[0]), float(betas[1])), float(eps)
        check_parameters(name, self._params)
        ids = [i for i, group in enumerate(self.param_groups) for _ in group["params"]]
        self._core = self._make(
            (self._params, float(lr), self.betas, self.eps, float(weight_decay), ids)
        )

    def _make(self, settings: tuple[Any, ...]) -> Any:
        """The core's optimizer."""
        raise NotImplementedError

    def step(
        self, grad_scale: float = 1.0, scale: Any = None, prepared: bool = False
    ) -> None:
        """Update every parameter that has a gradient.

        Args:
            grad_scale: factor for all gradients, which stay as they are; clipping by
                it costs no pass over them.
            scale: a further factor, one float64 number on the parameters' device, so
                that nobody waits for it; where it is not finite, no parameter and no
                moment changes.
            prepared: read on the device what depends on the step: see
                :meth:`prepare_numbers`.

        Raises:
            ConfigError: ``prepared``, and the numbers of this step are not.
        """
        self._set_groups()
        self._core.step(grad_scale, scale, prepared)

    def prepare_numbers(self) -> None:
        """Put what rates, decays and the next step's number come to on the device.

        ``step(prepared=True)`` reads it there, at one address, as float32: what such a
        step starts can be recorded once and started again after the next call.
        """
        self._set_groups()
        self._core.prepare_numbers()

    def count_step(self) -> None:
        """Count the step whose numbers are prepared: a recording does it.

        Raises:
            ConfigError: they are not, or a rate has changed since.
        """
        self._set_groups()
        self._core.count_step()

    def _set_groups(self) -> None:
        """Tell the core the groups' rates and decays of now."""
        for number, group in enumerate(self.param_groups):
            check_number(self._name, f"param_groups[{number}]['lr']", group["lr"])
            check_number(
                self._name,
                f"param_groups[{number}]['weight_decay']",
                group["weight_decay"],
            )
            self._core.set_group(
                number, float(group["lr"]), float(group["weight_decay"])
            )

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
                f"{self._name}: the state is a {type(state).__name__}, expected the "
                "dict that state_dict() returned; pass that"
            )
        own = self.state_dict()
        if set(state) != set(own):
            odd = sorted(set(state) ^ set(own))
            raise CheckpointError(
                f"{self._name}: the saved state does not fit the {len(self._params)} "
                f"parameters, first difference {odd[0]!r} of {len(odd)}; build the "
                "model, its element type and the groups as they were"
            )
        for name, tensor in own.items():
            if name != "step" and tuple(tensor.shape) != tuple(state[name].shape):
                raise CheckpointError(
                    f"{self._name}: {name} has shape {tuple(state[name].shape)}, "
                    f"expected {tuple(tensor.shape)}; build the model as it was"
                )
        self._core.load_state_dict(state)


class AdamW(_MomentOptimizer):
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
        super().__init__(params, lr, betas, eps, weight_decay)

    def _make(self, settings: tuple[Any, ...]) -> Any:
        from evolving_attention import _core

        return _core.AdamW(*settings)


class RAdam(_MomentOptimizer):
    """Adam with a rectified learning rate, equal to ``torch.optim.RAdam``.

    Per parameter θ with gradient g at step t (from 1), learning rate η, decay λ:

        g ← g + λ·θ   (or, decoupled, θ ← θ − η·λ·θ)
        m ← β₁·m + (1−β₁)·g,   v ← β₂·v + (1−β₂)·g²
        θ ← θ − η · m̂ · r·√(1−β₂ᵗ) / (√v + ε)   where ρ > 5, else  θ ← θ − η · m̂

    with m̂ = m/(1−β₁ᵗ), ρ∞ = 2/(1−β₂) − 1, ρ = ρ∞ − 2t·β₂ᵗ/(1−β₂ᵗ) and
    r² = (ρ−4)(ρ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρ): while v rests on few gradients it is not
    divided by, which makes a warm-up unnecessary.

    Args:
        params: tensors, or groups: dicts with ``"params"`` and optionally ``"lr"`` and
            ``"weight_decay"``, which may be changed between steps.
        lr: learning rate, >= 0.
        betas: decay of the two moments, each in [0, 1).
        eps: ε > 0, added to the root.
        weight_decay: λ >= 0.
        decoupled_weight_decay: shrink the parameters, as AdamW does, instead of adding
            the decay to the gradients.

    Raises:
        ConfigError: a value is out of range, or there is nothing to optimize.

    Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, ICLR
    2020.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if not isinstance(decoupled_weight_decay, bool):
            raise ConfigError(
                f"RAdam: decoupled_weight_decay={decoupled_weight_decay!r}, expected "
                "True or False"
            )
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay)

    def _make(self, settings: tuple[Any, ...]) -> Any:
        from evolving_attention import _core

        return _core.RAdam(*settings, self.decoupled_weight_decay)


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
