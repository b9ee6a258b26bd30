"""The longest text that a model reads, from its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolving_attention.interop.evolving_mark import base_type


def token_limit(config: Any) -> int | None:
    """Returns the token limit of a config or a config.json; None: no limit."""
    values = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(values, Mapping):
        return None
    most = values.get("max_position_embeddings")
    if base_type(values) == "roberta" and isinstance(most, int):
        pad = values.get("pad_token_id")
        most -= 2 if pad is None else pad + 1  # positions start after the padding's
    return most if isinstance(most, int) else None
