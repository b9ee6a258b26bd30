"""Selects the layers whose outputs a caller asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from evolving_attention.errors import InputError


def wanted_indices(name: str, wanted: Any, count: int) -> list[int] | None:
    """Returns layer indices: all for True, the listed ones, or None for False."""
    if wanted is None or wanted is False:
        return None
    if wanted is True and not count:
        raise InputError(f"{name}=True: this model has no such layers; leave it out")
    if wanted is True:
        return list(range(count))
    if not isinstance(wanted, Iterable):
        raise InputError(
            f"{name}={wanted!r}: expected True or a list of integers; one layer is "
            f"[{wanted!r}]"
        )
    chosen = []
    for index in wanted:
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise InputError(f"{name}={wanted!r}: expected True or a list of integers")
        if not -count <= index < count:
            raise InputError(
                f"{name}: index {index} is outside 0 to {count - 1} of this model"
            )
        chosen.append(int(index) % count)
    return chosen
