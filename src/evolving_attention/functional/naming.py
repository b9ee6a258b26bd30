"""Errors that name the function a user called, not the kernel it runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from evolving_attention.errors import InputError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def named(name: str, error: InputError) -> InputError:
    """Returns the error with ``name`` as its place: ``[relu] expected float32, …``."""
    return type(error)(re.sub(r"^\[[^\]:]*", lambda _: f"[{name}", str(error)))


def names_itself(function: _Function) -> _Function:
    """Wraps a function: errors of the operations that it calls have its name."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except InputError as error:
            raise named(function.__name__, error) from None

    return cast(_Function, call)
