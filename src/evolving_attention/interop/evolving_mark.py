"""Mark of checkpoints whose attention no other library can compute.

Another library's BERT would ignore the convolutions and compute something else. So a
marked folder has its own ``model_type``, which automatic classes refuse, and its own
weight file names, which a class that ignores ``model_type`` does not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVOLVING = "evolving_"  # prefix of model_type and of weight file names


def is_marked(config: Mapping[str, Any]) -> bool:
    """Whether a config.json belongs to a marked checkpoint."""
    return str(config.get("model_type")).startswith(EVOLVING)


def base_type(config: Mapping[str, Any]) -> Any:
    """Returns the architecture: ``model_type`` without the mark; None if missing."""
    said = config.get("model_type")
    return said.removeprefix(EVOLVING) if isinstance(said, str) else said


def weights_stem(config: Mapping[str, Any]) -> str:
    """Returns the prefix of the weight file names."""
    return f"{EVOLVING}model" if is_marked(config) else "model"
