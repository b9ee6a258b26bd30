"""Turns gradient recording, and a model's training mode, off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any, TypeVar

__all__ = ["evaluating", "no_grad"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class no_grad(ContextDecorator):  # noqa: N801 - the usual name in this field
    """Disables gradient recording: ``with ea.no_grad():`` or ``@ea.no_grad()``.

    Applies to the current thread. Results created inside do not require gradients, and
    intermediate values are freed at once.
    """

    def __enter__(self) -> None:
        from evolving_attention import _core

        self._core, self._before = _core, _core.set_grad_enabled(False)

    def __exit__(self, *_: object) -> None:
        self._core.set_grad_enabled(self._before)

    def _recreate_cm(self) -> no_grad:
        # A decorated function may call itself, so each call needs its own saved state.
        return no_grad()

    def __call__(self, func: _Function) -> _Function:
        return super().__call__(func)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Runs the block without dropout and gradients; restores the model's mode."""
    was_training = model.training
    model.eval()
    try:
        with no_grad():
            yield
    finally:
        model.train(was_training)
