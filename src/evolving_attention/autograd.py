"""Turns gradients and training mode off; keeps a model's running statistics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])


class no_grad(ContextDecorator):  # noqa: N801 - the usual name in this field
    """Disables gradient recording: ``with ea.no_grad():`` or ``@ea.no_grad()``.

    Applies to the current thread. Results created inside do not require gradients, and
    intermediate values are freed at once. A decorated generator function records
    nothing between its yields.
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
        if not inspect.isgeneratorfunction(func):
            return super().__call__(func)

        @functools.wraps(func)
        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            # Recording is off while the generator runs, not while its caller does.
            generator = func(*args, **kwargs)
            resume, given = generator.send, None
            while True:
                with no_grad():
                    try:
                        made = resume(given)
                    except StopIteration as end:
                        return end.value
                try:
                    resume, given = generator.send, (yield made)
                except GeneratorExit:
                    with no_grad():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, given = generator.throw, error

        return cast(_Function, steps)


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


def buffer_copies(buffers: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Returns each buffer with a copy, for :func:`put_back`; on their own device."""
    return [(buffer, buffer.clone()) for buffer in buffers]


def put_back(copies: list[tuple[Any, Any]]) -> None:
    """Restores buffers to the copies that :func:`buffer_copies` made."""
    for buffer, copy in copies:
        buffer.copy_(copy)


@contextmanager
def kept_buffers(model: Any) -> Iterator[None]:
    """Restores the model's running statistics, if it has any, after the block."""
    copies = buffer_copies(t for _, t in getattr(model, "named_buffers", tuple)())
    try:
        yield
    finally:
        put_back(copies)
