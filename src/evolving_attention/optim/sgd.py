"""Stochastic gradient descent on the C++ core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.optim.base import Optimizer
from evolving_attention.optim.rules import check_flag, check_number


class SGD(Optimizer):
    """Gradient descent with momentum, equal to ``torch.optim.SGD``.

    Per parameter θ with gradient g, learning rate η, momentum μ, decay λ:

        g ← g + λ·θ   (or, decoupled, θ ← θ − η·λ·θ)
        m ← μ·m + g
        θ ← θ − η·m   (or, with nesterov, θ ← θ − η·(g + μ·m))

    m starts at 0 and is float32; bfloat16 parameters also have a float32 master copy.
    With μ = 0 there is no m: θ ← θ − η·g.

    Args:
        params: tensors, or groups: dicts with ``"params"`` and optionally ``"lr"`` and
            ``"weight_decay"``, which may be changed between steps.
        lr: learning rate, >= 0.
        momentum: μ in [0, 1).
        weight_decay: λ >= 0.
        nesterov: look one momentum step ahead; needs a nonzero momentum.
        decoupled_weight_decay: shrink the parameters, as AdamW does, instead of adding
            the decay to the gradients.

    Raises:
        ConfigError: a value is out of range, or there is nothing to optimize.

    Example::

        optimizer = ea.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    Source: Sutskever et al., On the Importance of Initialization and Momentum in Deep
    Learning, ICML 2013.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_number("SGD", "momentum", momentum, below=1.0)
        check_flag("SGD", "nesterov", nesterov)
        check_flag("SGD", "decoupled_weight_decay", decoupled_weight_decay)
        if nesterov and not momentum:
            raise ConfigError(
                "SGD: nesterov=True with momentum=0, expected a momentum to look ahead "
                "by; give one such as 0.9, or leave nesterov out"
            )
        self.momentum, self.nesterov = float(momentum), nesterov
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, lr, weight_decay)

    def _make(self) -> Any:
        from evolving_attention import _core

        return _core.SGD(
            self._params, self.momentum, self.nesterov, self.decoupled_weight_decay
        )
