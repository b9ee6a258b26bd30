"""Tracks new task heads and warns once when one predicts untrained; hashes weights."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from typing import Any

import ml_dtypes

from evolving_attention.device_names import host_array
from evolving_attention.notices import say

_HASHED = 100_000  # values of a parameter


class NewHead:
    """Parameters of a head that were drawn at random; shared by copies of a model.

    Args:
        model: the model, with these parameters as drawn.
        names: names of the parameters.
    """

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._drawn = weights_hash(model, self.names)
        self._is_told = False

    def predicts(self, model: Any) -> None:
        """Warns at the first prediction if the parameters are still as drawn."""
        if self._is_told:
            return
        self._is_told = True
        if weights_hash(model, self.names) == self._drawn:
            say(
                f"{type(model).__name__} predicts with an untrained head: "
                f"{', '.join(self.names)} are new and random; fine-tune the model "
                "(Trainer.train, --do_train) or load a checkpoint that has them"
            )


def weights_hash(model: Any, names: Container[str] | None = None) -> str:
    """Hashes values as bfloat16, so a change of element type has no effect.

    At most 100,000 values of a parameter count, evenly spread.

    Args:
        model: the model.
        names: names of the parameters; default: all.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in model.named_parameters():
        if names is None or name in names:
            values = host_array(tensor).ravel()
            some = values[:: 1 + values.size // _HASHED]
            digest.update(some.astype(ml_dtypes.bfloat16).tobytes())
    return digest.hexdigest()
