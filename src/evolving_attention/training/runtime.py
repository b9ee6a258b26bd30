"""The training loop's interface to the core: randomness, threads, gradients, memory."""

from __future__ import annotations

from typing import Any

from evolving_attention import _core
from evolving_attention.autograd import evaluating, no_grad
from evolving_attention.device_names import devices, resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.random_state import (
    get_random_state,
    kept_random_state,
    set_random_state,
    set_seed,
)

__all__ = [
    "evaluating",
    "get_random_state",
    "has_fast_bfloat16",
    "kept_random_state",
    "memory",
    "no_grad",
    "place_model",
    "recompute_activations",
    "release_cached_memory",
    "set_num_threads",
    "set_random_state",
    "set_seed",
    "usable_cpus",
]


def set_num_threads(count: int | None) -> None:
    """Sets the number of the core's threads; None keeps the current number."""
    if count is not None:
        _core.set_num_threads(count)


def usable_cpus() -> int:
    """Returns how many CPUs the process's affinity and its container's quota allow."""
    return int(_core.usable_cpus())


def core_random_state() -> tuple[int, int]:
    """(seed, offset) of the core's counter-based generator."""
    seed, offset = _core.get_rng_state()
    return seed, offset


def set_core_random_state(state: tuple[int, int]) -> None:
    """Sets (seed, offset), for example to repeat a forward pass with its dropout."""
    _core.set_rng_state(state)


def memory(device: str = "cpu") -> dict[str, int]:
    """Returns the core's allocated bytes on a device, now and at their peak."""
    now, peak = _core.current_memory(device), _core.peak_memory(device)
    return {"current": now, "peak": peak}


def place_model(model: Any, name: str) -> str:
    """Moves ``model`` to the named device; returns its device afterwards.

    ``auto`` does not move a model that is already on a GPU, or cannot be moved.

    Raises:
        BackendUnavailable: the device does not exist.
        ConfigError: the model cannot be moved.
    """
    at = str(getattr(model, "device", "cpu"))
    where = resolve_device(name)
    movable = hasattr(model, "device") and hasattr(model, "to")
    if where == at or (name == "auto" and (at != "cpu" or not movable)):
        return at
    if not movable:
        raise ConfigError(
            f"Trainer: device={name!r} with a {type(model).__name__} on {at}, expected "
            "a model with .device and .to(device=...), such as this package's; leave "
            "the option out"
        )
    model.to(device=where)
    return where


def recompute_activations(model: Any) -> None:
    """Turns on gradient checkpointing, so that ``model`` keeps few activations.

    Raises:
        ConfigError: the model does not support it.
    """
    if not hasattr(model, "gradient_checkpointing_enable"):
        raise ConfigError(
            f"Trainer: gradient_checkpointing=True with a {type(model).__name__}, "
            "expected a model with gradient_checkpointing_enable(), such as this "
            "package's; leave the option out"
        )
    model.gradient_checkpointing_enable()


def release_cached_memory() -> None:
    """Returns the allocators' cached memory to the system."""
    for name in devices():
        _core.release_cached_memory(name)


def has_fast_bfloat16(device: str = "cpu") -> bool:
    """Whether a device has instructions for matrix products in bfloat16."""
    if device != "cpu":
        return True  # all GPUs that the CUDA kernels run on
    info = _core.build_info()
    found = info["avx512_bf16"] or info["amx_bf16"]
    return bool(found and info["isa_used"] != "avx2")


def reset_peak_memory(device: str = "cpu") -> None:
    """Starts a new measurement of the peak."""
    _core.reset_peak_memory(device)
