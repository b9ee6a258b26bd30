"""Parses the targets of ``to()``: a device, an element type, or both."""

from __future__ import annotations

from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["named", "sorted_targets"]


def named(target: Any) -> str:
    """Returns the name of an element type or device of NumPy or PyTorch, or a name.

    Example:
        >>> import numpy as np
        >>> named(np.float64), named("cuda:1")
        ('float64', 'cuda:1')
    """
    return str(getattr(target, "__name__", target)).removeprefix("torch.")


def sorted_targets(
    targets: tuple[Any, ...], dtype: Any, device: Any
) -> tuple[str | None, str | None]:
    """Returns (dtype, device) from positional targets, in any order, and named ones.

    Raises:
        ConfigError: nothing is given, or two of one kind.
    """
    dtype, device = (None if one is None else named(one) for one in (dtype, device))
    for target in map(named, targets):
        is_device = target in ("cpu", "auto", "gpu") or target.startswith(
            ("cuda", "cpu:")
        )
        taken = device if is_device else dtype
        if taken is not None:
            raise ConfigError(
                f"to: {target!r} with {taken!r}, expected one dtype and one device "
                "at most"
            )
        if is_device:
            device = target
        else:
            dtype = target
    if dtype is None and device is None:
        raise ConfigError(
            "to: nothing is asked for, expected a dtype such as 'float32' or a device "
            "such as 'cpu'"
        )
    return dtype, device
