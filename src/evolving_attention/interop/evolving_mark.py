"""The mark of checkpoints whose attention no other library computes.

BERT of another library would ignore the convolutions and answer otherwise. So a marked
folder has a ``model_type`` of its own, which automatic classes refuse, and its weights
have file names of their own, which a class that ignores ``model_type`` does not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EVOLVING", "base_type", "is_marked", "weights_stem"]

EVOLVING = "evolving_"  # in front of model_type and of the weights' file name


def is_marked(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a marked checkpoint."""
    return str(config.get("model_type")).startswith(EVOLVING)


def base_type(config: Mapping[str, Any]) -> Any:
    """The architecture: ``model_type`` without the mark, None where it is not said."""
    said = config.get("model_type")
    return said.removeprefix(EVOLVING) if isinstance(said, str) else said


def weights_stem(config: Mapping[str, Any]) -> str:
    """What the names of the weight files begin with."""
    return f"{EVOLVING}model" if is_marked(config) else "model"
