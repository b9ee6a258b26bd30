"""Device names: lists the devices, resolves ``auto``, copies values to the host."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError

LOGGER = logging.getLogger("evolving_attention")

#: If one of these files exists, the system has an NVIDIA GPU (the last is for WSL).
GPU_FILES = ("/proc/driver/nvidia/gpus", "/dev/nvidiactl", "/dev/dxg")


def devices() -> dict[str, str]:
    """Returns the usable devices, CPU first: device name to description.

    Example::

        >>> list(ea.devices())
        ['cpu']

    ``ea.doctor()["devices"]`` says why a type of device is missing.
    """
    from evolving_attention import _core

    return dict(_core.devices())


def resolve_device(name: str) -> str:
    """Returns the full name of a device: ``cuda`` is ``cuda:0``, ``auto`` the best one.

    ``auto`` is the CPU if no GPU can be used. If the machine has a GPU nevertheless,
    the log gives the reason, once per process.

    Raises:
        ConfigError: no device has this name.
        BackendUnavailable: this build or machine does not have the device.
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
    """Returns a tensor of any device, or an array-like, as a NumPy array.

    The tensor may be PyTorch's, also with a gradient or in bfloat16. For a CPU tensor
    the array shares the tensor's memory.
    """
    if hasattr(value, "detach"):
        value = value.detach()
    if getattr(value, "device", "cpu") != "cpu" and hasattr(value, "to"):
        value = value.to("cpu")
    try:
        return np.asarray(value)
    except TypeError:  # PyTorch converts no bfloat16 to NumPy, but lends its memory
        from evolving_attention import _core

        return np.asarray(_core.from_dlpack(value))
