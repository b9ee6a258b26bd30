"""The mark of checkpoints whose attention no other library computes.

Another library's BERT would ignore the convolutions and compute something else. So a
marked folder has its own ``model_type``, which automatic classes refuse, and its own
names of weight files, which a class that ignores ``model_type`` does not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EVOLVING", "base_type", "is_marked", "weights_stem"]

EVOLVING = "evolving_"  # in front of model_type and of the weights' file name


def is_marked(config: Mapping[str, Any]) -> bool:
    """Whether a config.json belongs to a marked checkpoint."""
    return str(config.get("model_type")).startswith(EVOLVING)


def base_type(config: Mapping[str, Any]) -> Any:
    """The architecture: ``model_type`` without the mark, or None if it is missing."""
    said = config.get("model_type")
    return said.removeprefix(EVOLVING) if isinstance(said, str) else said


def weights_stem(config: Mapping[str, Any]) -> str:
    """The prefix of the names of the weight files."""
    return f"{EVOLVING}model" if is_marked(config) else "model"
