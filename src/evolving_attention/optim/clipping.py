"""The global gradient norm, and gradient clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["clip_grad_norm_", "clip_scale", "global_grad_norm"]


def global_grad_norm(parameters: Sequence[Any]) -> float:
    """Returns the L2 norm of all gradients together; a missing one counts as zero."""
    from evolving_attention import _core

    return float(_core.global_grad_norm(list(parameters)))


def clip_scale(norm: float, max_norm: float) -> float:
    """Returns the factor that scales norm ``norm`` down to at most ``max_norm``."""
    return min(1.0, max_norm / (norm + 1e-6))


def clip_grad_norm_(parameters: Sequence[Any], max_norm: float) -> float:
    """Scales all gradients so that their global L2 norm is at most ``max_norm``.

    Gradients are unchanged if the norm is not finite.

    Args:
        parameters: tensors; those without a gradient are ignored.
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
