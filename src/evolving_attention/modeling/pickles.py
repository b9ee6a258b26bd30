"""Pickling and deep copies of models."""

from __future__ import annotations

import copy
from typing import Any

_OF_CORE = ("_core", "_named", "_buffers")


class PickleMixin:
    """Supports pickle, joblib, multiprocessing and ``copy.deepcopy``.

    Weights are bit-identical; attention, type, device, mode, checkpointing and frozen
    parameters are preserved. Gradients are left out. To store a model, use
    ``save_pretrained``: loading a pickle runs code.
    """

    def __getstate__(self: Any) -> dict[str, Any]:
        return {
            "own": {k: v for k, v in vars(self).items() if k not in _OF_CORE},
            "tensors": [tensor for _, tensor in self._state()],
            "training": self.training,
            "checkpointing": self.is_gradient_checkpointing,
            "device": self.device,
        }

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        own = state["own"]
        self._build(own["config"], own["dtype"])
        vars(self).update(own)
        self._core.allocate()
        for (_, mine), saved in zip(self._state(), state["tensors"], strict=True):
            mine.copy_(saved.to("cpu"))
        for (_, mine), saved in zip(self._named, state["tensors"], strict=False):
            mine.requires_grad = saved.requires_grad
        self._core.to(state["device"])
        self._core.set_recompute(state["checkpointing"])
        self.train(state["training"])

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        memo[id(self)] = twin = self.copy()
        vars(twin.config).update(copy.deepcopy(vars(self.config), memo))
        for name, value in vars(self).items():
            if name not in vars(twin):
                setattr(twin, name, copy.deepcopy(value, memo))
        return twin
