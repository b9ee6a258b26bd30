"""Parses the targets of ``to()``: a device, an element type, or both."""

from __future__ import annotations

from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["sorted_targets"]


def sorted_targets(
    targets: tuple[Any, ...], dtype: str | None, device: str | None
) -> tuple[str | None, str | None]:
    """Returns (dtype, device) from positional targets, in any order, and named ones.

    Raises:
        ConfigError: nothing is given, or two of one kind.
    """
    for target in targets:
        is_device = isinstance(target, str) and (
            target in ("cpu", "auto", "gpu") or target.startswith(("cuda", "cpu:"))
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
