"""The norm of all gradients, and scaling them to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["clip_grad_norm_", "clip_scale", "global_grad_norm"]


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
