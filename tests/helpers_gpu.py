"""Finds a GPU or the reason why there is none; copies tensors of any device."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core

PRETENDED = ("fake device", "emulated GPU")  # tests/fake_device, tests/cuda_host


def why_no_gpu() -> str:
    """Returns why no GPU can be used; "" for a GPU, or with EA_TEST_PRETENDED=1."""
    found = [what for name, what in ea.devices().items() if name != "cpu"]
    if not found:
        return "no GPU: " + "; ".join(_core.unusable_devices().values())
    pretended = any(word in found[0] for word in PRETENDED)
    if pretended and os.environ.get("EA_TEST_PRETENDED") != "1":
        return f"no GPU: {found[0]} is none (EA_TEST_PRETENDED=1 takes it)"
    return ""


def last_cuda_device() -> str:
    """Returns the last GPU, emulated or not; skips the calling module without one."""
    if len(ea.devices()) == 1 or ("copy", "cuda") not in {
        (kernel, one) for kernel, one, _ in _core.kernel_entries("cuda")
    }:
        pytest.skip("no GPU, and no emulation of one", allow_module_level=True)
    return list(ea.devices())[-1]


def array(tensor: Any) -> np.ndarray:
    """Returns a copy on the host, in the tensor's own type."""
    return np.array(np.asarray(tensor.to("cpu")))


def bits(tensors: Any) -> list[bytes]:
    """Returns the bytes of each tensor."""
    return [array(t).tobytes() for t in tensors]
