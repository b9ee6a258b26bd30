"""Devices by name: which there are, what ``auto`` means here, and values from any."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError

__all__ = ["devices", "host_array", "resolve_device"]

LOGGER = logging.getLogger("evolving_attention")

#: One of these exists where the system sees an NVIDIA GPU (the last is that of WSL).
GPU_FILES = ("/proc/driver/nvidia/gpus", "/dev/nvidiactl", "/dev/dxg")


def devices() -> dict[str, str]:
    """Every device that can be used, by name, the CPU first, and what it is.

    Example::

        >>> list(ea.devices())
        ['cpu']

    Why a kind of device is not among them is in ``ea.doctor()["devices"]``.
    """
    from evolving_attention import _core

    return dict(_core.devices())


def resolve_device(name: str) -> str:
    """The full name of a device: ``cuda`` is ``cuda:0``, ``auto`` the best one there.

    ``auto`` is the CPU if no GPU can be used. If the machine has one nevertheless, the
    log names the reason, once a process.

    Raises:
        ConfigError: no device has such a name.
        BackendUnavailable: this build or machine has no such device.
    """
    from evolving_attention import _core

    if not isinstance(name, str):
        raise ConfigError(
            f"device={name!r}, expected a name such as 'cpu', 'cuda', 'cuda:1' or "
            "'auto'"
        )
    found: str = _core.resolve_device(name)
    if name == "auto" and found == "cpu" and any(map(os.path.exists, GPU_FILES)):
        _say_why_cpu()
    return found


@functools.cache
def _say_why_cpu() -> None:
    from evolving_attention import _core

    why = _core.unusable_devices().items()
    reasons = "; ".join(f"{kind}: {' '.join(text.split())}" for kind, text in why)
    LOGGER.info("device auto is the CPU: %s", reasons or "no GPU is there")


def host_array(value: Any) -> np.ndarray:
    """A tensor of any device, or an array-like, as an array the host can read.

    On the CPU it is the tensor's own memory.
    """
    if getattr(value, "device", "cpu") != "cpu" and hasattr(value, "to"):
        value = value.to("cpu")
    return np.asarray(value)
