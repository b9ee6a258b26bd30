"""The global random generators: those of the core, NumPy, Python and PyTorch.

PyTorch is never imported here: its generator counts from the moment that the program
has imported it, for collators and data sets that draw from it.
"""

from __future__ import annotations

import base64
import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np


def _core() -> Any:
    """The compiled core, loaded when first needed."""
    from evolving_attention import _core as core

    return core


def _torch() -> Any:
    """PyTorch if the program has imported it, else None."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_rng_state") else None


def set_seed(seed: int) -> None:
    """Seeds the generators of the core, NumPy, Python and PyTorch, as Trainers do."""
    _core().manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    if (torch := _torch()) is not None:
        torch.manual_seed(seed)


def get_random_state() -> dict[str, Any]:
    """Returns the state of all generators as JSON-serialisable values.

    ``torch`` is a key only if PyTorch is imported: its generator on the CPU.
    """
    seed, offset = _core().get_rng_state()
    numpy_state: Any = np.random.get_state(legacy=True)
    kind, keys, position, has_gauss, gauss = numpy_state
    version, words, python_gauss = random.getstate()
    state: dict[str, Any] = {
        "core": [int(seed), int(offset)],
        "numpy": [kind, _pack(keys), int(position), int(has_gauss), float(gauss)],
        "python": [version, _pack(np.array(words, dtype=np.uint32)), python_gauss],
    }
    if (torch := _torch()) is not None:
        state["torch"] = _encoded(bytes(torch.get_rng_state().tolist()))
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restores the result of :func:`get_random_state`.

    PyTorch's generator keeps its state where one of the two is missing.
    """
    _core().set_rng_state(tuple(state["core"]))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, _unpack(keys), *rest))
    version, words, gauss = state["python"]
    random.setstate((version, tuple(_unpack(words).tolist()), gauss))
    if "torch" in state and (torch := _torch()) is not None:
        octets = list(base64.b64decode(state["torch"]))
        torch.set_rng_state(torch.tensor(octets, dtype=torch.uint8, device="cpu"))


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Restores the state of all generators after the block."""
    before = get_random_state()
    try:
        yield
    finally:
        set_random_state(before)


def _pack(words: np.ndarray) -> str:
    return _encoded(words.astype("<u4").tobytes())


def _encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _unpack(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<u4").astype(np.uint32)
