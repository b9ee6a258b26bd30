"""Parses the targets of ``to()``, and checks that an element type holds the values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from evolving_attention.errors import ConfigError, Error


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


def refuse_overflow(
    values: np.ndarray, dtype: str, where: str, error: type[Error]
) -> None:
    """Refuse finite numbers that become infinite in a narrower element type.

    Args:
        values: the numbers; only wider types than ``dtype`` are read.
        dtype: name of a model's element type.
        where: what holds the numbers, for the message.
        error: class of the error to raise.

    Raises:
        Error: of class ``error``: names the number.
    """
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if not values.size or values.dtype.itemsize <= kind.itemsize:
        return
    largest = np.float64(max(float(values.max()), -float(values.min())))
    with np.errstate(over="ignore"):
        overflows = np.isfinite(largest) and np.isinf(largest.astype(kind))
    if overflows:
        limit = float(ml_dtypes.finfo(kind).max)
        raise error(
            f"{where} holds a number of size {largest:.6g}, which is more than {dtype} "
            f"holds, expected at most {limit:.6g}; correct it, or let the model be of "
            f"{values.dtype}"
        )
