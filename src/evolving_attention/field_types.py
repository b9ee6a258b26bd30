"""Type checks of options, based on the annotations of the fields that hold them."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import inspect
import json
import math
import os
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from evolving_attention.errors import ConfigError

TRUE_WORDS = ("true", "yes", "on", "1", "t", "y")
FALSE_WORDS = ("false", "no", "off", "0", "f", "n")
NONE_WORDS = ("none", "null")

#: A string that may also be given as a ``pathlib.Path``.
PathText = Annotated[str, os.PathLike]

_MISFIT = object()
_NONE = type(None)


class Notation(NamedTuple):
    """How the user writes an option and its value (Python, command line, …)."""

    value: Callable[[Any], str]
    option: str


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


PYTHON = Notation(_short, "{}={}")
JSON = Notation(json.dumps, '"{}": {}')


def check_fields(options: Any) -> None:
    """Check every field of a dataclass object against its annotation.

    NumPy scalars, enum members and paths are replaced by equivalent plain values; an
    integer is accepted where a float is expected.

    Raises:
        ConfigError: names the class, field, value, expected type and what to write.

    Example:
        >>> @dataclasses.dataclass
        ... class Options:
        ...     bf16: bool = False
        ...     def __post_init__(self):
        ...         check_fields(self)
        >>> Options(bf16="no")
        Traceback (most recent call last):
        evolving_attention.errors.ConfigError: Options: bf16='no', expected True or \
False; write bf16=False, without quotes
    """
    cls: Any = type(options)
    hints = _hints(cls)
    for field in dataclasses.fields(options):
        given = getattr(options, field.name)
        fitted = check_type(
            hints[field.name], given, cls.__name__, field.name, default=field.default
        )
        if fitted is not given:
            object.__setattr__(options, field.name, fitted)  # these may be frozen


def check_whole(where: str, least: int = 1, remedy: str = "", **given: Any) -> None:
    """Checks that numbers, given by name, are whole and not below ``least``.

    Raises:
        ConfigError: names the function or class ``where``, the first other value and,
            if there is one, the ``remedy``.
    """
    for name, value in given.items():
        number = plain_scalar(value)
        if type(number) is not int or number < least:
            found = f"{name}={value!r}, expected a whole number, {least} or more"
            raise ConfigError(f"{where}: {found}" + (f"; {remedy}" if remedy else ""))


def check_attributes(options: Any) -> None:
    """Check the constructor arguments that an object keeps under the same names.

    Raises:
        ConfigError: as for :func:`check_fields`.
    """
    cls = type(options)
    for name, parameter in inspect.signature(cls).parameters.items():
        hint = _hints(cls.__init__).get(name, Any)
        given, default = getattr(options, name), parameter.default
        check_type(hint, given, cls.__name__, name, default=default)


def check_type(
    hint: Any,
    value: Any,
    who: str,
    name: str,
    notation: Notation = PYTHON,
    default: Any = dataclasses.MISSING,
) -> Any:
    """Returns ``value`` as a plain value of the type ``hint``.

    Args:
        hint: an annotation of None, bool, int, float, str, lists, dicts, ``Literal``,
            unions of them, or Any.
        value: what the user gave.
        who, name: the class and the option, for the message.
        notation: how the message writes the option.
        default: a valid value, for the message.

    Raises:
        ConfigError: the value has another type, or is NaN or infinite.
    """
    fitted = _fit(hint, value)
    if fitted is _MISFIT:
        found = notation.option.format(name, notation.value(value))
        expected = describe(hint, notation)
        advice = _advice(hint, plain_scalar(value), name, notation, default)
        raise ConfigError(f"{who}: {found}, expected {expected}; {advice}")
    return fitted


def plain_scalar(value: Any) -> Any:
    """Returns the Python value of a NumPy scalar or enum member, others unchanged."""
    if isinstance(value, enum.Enum):
        value = value.value
    return value.item() if isinstance(value, np.generic) else value


def is_unicode(text: Any) -> bool:
    """Whether a value is text that UTF-8 writes: without half of a surrogate pair."""
    if not isinstance(text, str):
        return False
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def members(hint: Any) -> tuple[Any, ...]:
    """Returns the alternatives of an annotation, without ``Annotated`` around them."""
    if typing.get_origin(hint) is Annotated:
        return members(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(m for part in typing.get_args(hint) for m in members(part))
    return (hint,)


def describe(hint: Any, notation: Notation = PYTHON) -> str:
    """Returns an annotation in words: ``a whole number or None``."""
    names: dict[Any, str] = {
        bool: f"{notation.value(True)} or {notation.value(False)}",
        int: "a whole number",
        float: "a number",
        str: "a string",
        _NONE: notation.value(None),
        dict: "a dict",
    }
    parts = []
    for member in members(hint):
        kind, inside = typing.get_origin(member) or member, typing.get_args(member)
        if kind is Literal:
            parts += [notation.value(word) for word in inside]
        elif kind is list:
            parts.append(f"a list (each {describe(inside[0], notation)})")
        else:
            parts.append(names[kind])
    return " or ".join(parts)


@functools.cache
def _hints(owner: Any) -> dict[str, Any]:
    return typing.get_type_hints(owner, include_extras=True)


def _fit(hint: Any, value: Any) -> Any:
    """Returns the value converted to ``hint``, or ``_MISFIT``."""
    kind, inside = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Annotated:
        if os.PathLike in inside and isinstance(value, os.PathLike):
            value = os.fspath(value)
        return _fit(inside[0], value)
    if kind in (typing.Union, types.UnionType):
        fitted = (_fit(member, value) for member in inside)
        return next((one for one in fitted if one is not _MISFIT), _MISFIT)
    if kind is list:
        if not isinstance(value, (list, tuple)):
            return _MISFIT
        items = [_fit(inside[0], item) for item in value]
        return _MISFIT if any(item is _MISFIT for item in items) else items
    if kind is Any or (kind is dict and isinstance(value, dict)):
        return value
    value = plain_scalar(value)
    return value if _is_plain(kind, inside, value) else _MISFIT


def _is_plain(kind: Any, words: tuple[Any, ...], value: Any) -> bool:
    """Whether a Python value has a simple type, or is one of a Literal's words."""
    if kind is Literal:
        return any(type(value) is type(word) and value == word for word in words)
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if kind in (bool, int, str, _NONE, dict):
        return type(value) is kind
    raise TypeError(f"options cannot have the annotation {kind!r}")


def _advice(hint: Any, value: Any, name: str, notation: Notation, default: Any) -> str:
    """Returns advice on what to write in place of ``value``."""

    def write(instead: Any, how: str = "") -> str:
        text = notation.option.format(name, notation.value(instead))
        return f"write {text}{how}"

    kinds = members(hint)
    words = [w for k in kinds if typing.get_origin(k) is Literal for w in _words(k)]
    if isinstance(value, str):
        meant = _meant(kinds, value.strip())
        if meant is not _MISFIT:
            return write(meant, ", without quotes")
        if near := difflib.get_close_matches(value, words, n=1):
            return f"did you mean {notation.value(near[0])}?"
    if isinstance(value, float) and float in kinds:
        return "give a finite number"
    if type(value) in (int, float) and value in (0, 1) and bool in kinds:
        return write(bool(value))
    if type(value) is float and value.is_integer() and int in kinds:
        return write(int(value))
    if type(value) in (bool, int, float) and str in kinds:
        return write(str(value), ", in quotes")
    if words:
        return "choose one of them"
    if bool in kinds:
        return f"{write(True)} or {write(False).removeprefix('write ')}"
    if default is None:
        return "give one, or leave it out"
    known = default is not dataclasses.MISSING
    return write(default, ", for example") if known else "give one"


def _words(literal: Any) -> tuple[Any, ...]:
    return tuple(word for word in typing.get_args(literal) if isinstance(word, str))


def _meant(kinds: tuple[Any, ...], text: str) -> Any:
    """Returns the value that a quoted text was meant to be, or ``_MISFIT``."""
    for kind in (int, float):
        if kind in kinds or float in kinds:
            try:
                number = kind(text)
            except ValueError:
                continue
            return number if math.isfinite(number) else _MISFIT
    word = text.lower()
    if bool in kinds and word in (*TRUE_WORDS, *FALSE_WORDS):
        return word in TRUE_WORDS
    return None if _NONE in kinds and word in NONE_WORDS else _MISFIT
