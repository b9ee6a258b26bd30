"""The global gradient norm, and gradient clipping."""

from __future__ import annotations

from typing import Any

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.optim.rules import is_number


def _tensors(parameters: Any) -> list[Any]:
    """Returns the parameters as a list; one tensor may stand alone."""
    from evolving_attention._core import Tensor

    try:
        given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    except TypeError:  # no iterable
        given = [parameters]
    kinds = {*map(type, given)} - {Tensor}
    if wrong := [kind for kind in kinds if not issubclass(kind, Tensor)]:
        named = ", ".join(sorted(kind.__name__ for kind in wrong))
        raise InputError(
            f"gradients of {named}, expected tensors; pass model.parameters(), "
            "without the names"
        )
    return given


def global_grad_norm(parameters: Any) -> float:
    """Returns the L2 norm of all gradients together; a missing one counts as zero.

    Args:
        parameters: tensors, or one tensor.

    Raises:
        InputError: an entry is no tensor.
    """
    from evolving_attention import _core

    return float(_core.global_grad_norm(_tensors(parameters)))


def clip_scale(norm: float, max_norm: float) -> float:
    """Returns the factor that scales norm ``norm`` down to at most ``max_norm``."""
    return min(1.0, max_norm / (norm + 1e-6))


def clip_grad_norm_(parameters: Any, max_norm: float) -> float:
    """Scales all gradients so that their global L2 norm is at most ``max_norm``.

    Gradients are unchanged if the norm is not finite.

    Args:
        parameters: tensors, or one tensor; those without a gradient are ignored.
        max_norm: the limit, > 0.

    Returns:
        The norm before clipping.

    Raises:
        ConfigError: ``max_norm`` is not a positive number.
        InputError: an entry is no tensor.
    """
    from evolving_attention import _core

    if not is_number(max_norm) or not max_norm > 0:
        raise ConfigError(
            f"clip_grad_norm_: max_norm={max_norm!r}, expected a number > 0; use "
            "global_grad_norm() to measure without clipping"
        )
    return float(_core.clip_grad_norm(_tensors(parameters), float(max_norm)))
