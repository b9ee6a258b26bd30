"""A model on another device, in another element type, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.modeling.element_type import convert

if TYPE_CHECKING:
    from evolving_attention.modeling.base import PreTrainedModel

__all__ = ["place", "sorted_targets"]


def sorted_targets(
    targets: tuple[Any, ...], dtype: str | None, device: str | None
) -> tuple[str | None, str | None]:
    """(dtype, device) from positional targets in any order, and the named ones.

    Raises:
        ConfigError: none is given, or two of one sort.
    """
    for target in targets:
        is_device = isinstance(target, str) and (
            target in ("cpu", "auto", "gpu") or target.startswith(("cuda", "cpu:"))
        )
        taken = device if is_device else dtype
        if taken is not None:
            raise ConfigError(
                f"to: {target!r} beside {taken!r}, expected one dtype and one device "
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


def place(model: PreTrainedModel, dtype: str | None, device: str | None) -> None:
    """Turn ``model`` into ``dtype`` and move it to ``device``, where they are given.

    Raises:
        ConfigError: there is no such element type or device name.
        BackendUnavailable: this build or machine has no such device.
        OutOfMemory: the device cannot hold it; the model stays where it was.
    """
    where = resolve_device(device) if device is not None else None
    if dtype is not None:
        convert(model, dtype)
    if where is not None and where != model.device:
        model._core.to(where)
