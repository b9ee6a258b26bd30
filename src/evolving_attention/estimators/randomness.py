"""The seed of a fit, drawn from an estimator's ``random_state``."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError

__all__ = ["seed_of"]


def seed_of(estimator: Any) -> int:
    """Returns a seed drawn from ``estimator.random_state``.

    Raises:
        ConfigError: ``random_state`` is not a source of random numbers.
    """
    from sklearn.utils import check_random_state

    given, most = estimator.random_state, np.iinfo(np.int32).max
    if isinstance(given, np.random.Generator):
        return int(given.integers(most))
    try:
        state = check_random_state(given)
    except ValueError:
        raise ConfigError(
            f"{type(estimator).__name__}: random_state={given!r}, expected a whole "
            "number from 0, a numpy Generator or RandomState, or None; random_state=0 "
            "makes runs repeatable"
        ) from None
    return int(state.randint(most))
