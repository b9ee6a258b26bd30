"""The global random generators: those of the core, NumPy and Python."""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["get_random_state", "kept_random_state", "set_random_state", "set_seed"]


def _core() -> Any:
    """The compiled core, loaded when first needed."""
    from evolving_attention import _core as core

    return core


def set_seed(seed: int) -> None:
    """Seeds the generators of the core, NumPy and Python, as Trainers do."""
    _core().manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def get_random_state() -> dict[str, Any]:
    """Returns the state of all three generators as JSON-serialisable values."""
    seed, offset = _core().get_rng_state()
    numpy_state: Any = np.random.get_state(legacy=True)
    kind, keys, position, has_gauss, gauss = numpy_state
    version, words, python_gauss = random.getstate()
    return {
        "core": [int(seed), int(offset)],
        "numpy": [kind, _pack(keys), int(position), int(has_gauss), float(gauss)],
        "python": [version, _pack(np.array(words, dtype=np.uint32)), python_gauss],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restores the result of :func:`get_random_state`."""
    _core().set_rng_state(tuple(state["core"]))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, _unpack(keys), *rest))
    version, words, gauss = state["python"]
    random.setstate((version, tuple(_unpack(words).tolist()), gauss))


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Restores the state of all three generators after the block."""
    before = get_random_state()
    try:
        yield
    finally:
        set_random_state(before)


def _pack(words: np.ndarray) -> str:
    return base64.b64encode(words.astype("<u4").tobytes()).decode("ascii")


def _unpack(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.uint32)
