"""A new task head, and the line that says that it predicts before any training."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes

from evolving_attention.device_names import host_array
from evolving_attention.notices import say

__all__ = ["NewHead"]


class NewHead:
    """Parameters of a head that were drawn at random; copies of a model share it.

    Args:
        model: has these parameters as they were drawn.
        names: of the parameters.
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._drawn = self._digest(model)
        self._is_told = False

    def predicts(self, model: Any) -> None:
        """Say once that the model predicts, if the parameters are still as drawn."""
        if self._is_told:
            return
        self._is_told = True
        if self._digest(model) == self._drawn:
            say(
                f"{type(model).__name__} predicts with an untrained head: "
                f"{', '.join(self.names)} are new and random; fine-tune the model "
                "(Trainer.train, --do_train) or load a checkpoint that has them"
            )

    def _digest(self, model: Any) -> bytes:
        """The values as bfloat16, which a change of the element type leaves alone."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in model.named_parameters():
            if name in self.names:
                digest.update(host_array(tensor).astype(ml_dtypes.bfloat16).tobytes())
        return digest.digest()
