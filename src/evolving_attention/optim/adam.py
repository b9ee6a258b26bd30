"""Adam, AdamW and RAdam on the C++ core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from evolving_attention.optim.base import Optimizer
from evolving_attention.optim.rules import check_betas, check_flag, check_number


class _Adam(Optimizer):
    """Adam's family: optimizers with two moments per parameter."""

    _kind: ClassVar[str]  # the class of the core

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        name = type(self).__name__
        check_number(name, "eps", eps, above=True)
        check_betas(name, betas)
        self.betas, self.eps = (float(betas[0]), float(betas[1])), float(eps)
        super().__init__(params, lr, weight_decay)

    def _make(self, **own: Any) -> Any:
        from evolving_attention import _core

        made = getattr(_core, self._kind)
        return made(self._params, *self.betas, self.eps, **own)


class Adam(_Adam):
    """Adam with weight decay added to the gradients, equal to ``torch.optim.Adam``.

    Per parameter θ with gradient g at step t (from 1), learning rate η, decay λ:

        g ← g + λ·θ
        m ← β₁·m + (1−β₁)·g,   v ← β₂·v + (1−β₂)·g²
        θ ← θ − η · m̂ / (√v̂ + ε),   m̂ = m/(1−β₁ᵗ),  v̂ = v/(1−β₂ᵗ)

    λ·θ is the gradient of an L2 norm in the loss, λ/2·|θ|².

    Args:
        params: tensors, or groups: dicts with ``"params"`` and optionally ``"lr"`` and
            ``"weight_decay"``, which may be changed between steps.
        lr: learning rate, >= 0.
        betas: decay of the two moments, each in [0, 1).
        eps: ε > 0, added to the root.
        weight_decay: λ >= 0.

    Raises:
        ConfigError: a value is out of range, or there is nothing to optimize.

    Example::

        optimizer = ea.optim.Adam(model.parameters(), lr=4e-4, weight_decay=2e-6)

    Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.
    """

    _kind = "Adam"


class AdamW(_Adam):
    """Adam with decoupled weight decay, equal to ``torch.optim.AdamW``.

    Per parameter θ with gradient g at step t (from 1), learning rate η, decay λ:

        θ ← θ − η·λ·θ
        m ← β₁·m + (1−β₁)·g,   v ← β₂·v + (1−β₂)·g²
        θ ← θ − η · m̂ / (√v̂ + ε),   m̂ = m/(1−β₁ᵗ),  v̂ = v/(1−β₂ᵗ)

    Moments are float32; bfloat16 parameters also have a float32 master copy.

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

    _kind = "AdamW"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class RAdam(_Adam):
    """Adam with a rectified learning rate, equal to ``torch.optim.RAdam``.

    Per parameter θ with gradient g at step t (from 1), learning rate η, decay λ:

        g ← g + λ·θ   (or, decoupled, θ ← θ − η·λ·θ)
        m ← β₁·m + (1−β₁)·g,   v ← β₂·v + (1−β₂)·g²
        θ ← θ − η · m̂ · r·√(1−β₂ᵗ) / (√v + ε)   where ρ > 5, else  θ ← θ − η · m̂

    with m̂ = m/(1−β₁ᵗ), ρ∞ = 2/(1−β₂) − 1, ρ = ρ∞ − 2t·β₂ᵗ/(1−β₂ᵗ) and
    r² = (ρ−4)(ρ−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρ): while v is based on few gradients, the update
    is not divided by it, which makes a warm-up unnecessary.

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

    _kind = "RAdam"

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
        check_flag("RAdam", "decoupled_weight_decay", decoupled_weight_decay)
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay)

    def _make(self, **own: Any) -> Any:
        return super()._make(**own, decoupled=self.decoupled_weight_decay)
