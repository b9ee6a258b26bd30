"""The seed of a fit, and whose turn it is with the global random generators."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError

_TURN = threading.RLock()


def _renew() -> None:
    """Replaces the lock, which a thread that is not in this process may hold."""
    global _TURN
    _TURN = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Keeps other threads out of the global random generators during the block.

    The generators of the core, NumPy and Python belong to the process: two fits in
    threads would seed, use and restore them between each other's steps, and neither
    would be repeatable.
    """
    with _TURN:
        yield


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
        with turn():  # None: NumPy's own generator, which a fit in a thread has seeded
            return int(check_random_state(given).randint(most))
    except ValueError:
        raise ConfigError(
            f"{type(estimator).__name__}: random_state={given!r}, expected a whole "
            "number from 0, a numpy Generator or RandomState, or None; random_state=0 "
            "makes runs repeatable"
        ) from None
