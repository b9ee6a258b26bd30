"""Rewrites error messages from Python's spelling to the command line's."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable, Iterator

from evolving_attention.errors import (
    BackendUnavailable,
    CheckpointError,
    ConfigError,
    InputError,
)

_VALUE = (
    r"'[^']*'(?: or '[^']*')*|\"[^\"]*\"|True|False|None|"
    r"-?(?:nan|inf|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
)
_WORD = r"(?:'[^']*'|[^\s,()]+)"
_CONFIG = r"(unknown option '[^']*', expected one of [^;]*)"  # not options of a command

# Names in Python of options that the command line calls otherwise.
_ALIASES = {
    "hidden_dropout_prob": "dropout",
    "learnable": "evolving_learnable",
    "random_state": "seed",
}


def as_flags(message: str, names: Iterable[str]) -> str:
    """Returns the message with each option of ``names`` written as a flag.

    The list of a config's options, of which some have the same names, stays.

    Example:
        >>> as_flags("Options: seed=-1, expected 0 or more; set fast=True", {"seed"})
        '--seed -1: expected 0 or more; set fast=True'
    """
    # For "label_column= (--label_column_name)", with both spellings, keep the flag.
    message = re.sub(rf"(?<!\w)\w+=(?:{_VALUE})? \((--[^()]*)\)", r"\1", message)
    longest_first = sorted(names, key=len, reverse=True)
    for own, flag in _ALIASES.items():
        if flag in longest_first and own not in longest_first:
            message = re.sub(rf"(?<!\w){own}(?= ?=| is )", flag, message)
    option = "|".join(map(re.escape, longest_first))
    valued = rf"(?<![\w./'\"-])({option}) ?= ?({_VALUE})(?![\w'])"
    message = re.sub(valued, _flag, message)
    found = rf"^(?:\w+: )?({option}) is ({_VALUE})(?=, expected)"
    message = re.sub(found, _flag, message)
    # Plain words such as "seed" stay; only a name with _ can be nothing else but an
    # option.
    bare = "|".join(re.escape(name) for name in longest_first if "_" in name)
    if bare:
        parts = re.split(_CONFIG, message)
        word = rf"(?<![\w./'\"-])({bare})(?![\w/(=]|\.\w)"
        parts[::2] = [re.sub(word, r"--\1", part) for part in parts[::2]]
        message = "".join(parts)
    message = message.replace("ea.devices()", "evolving-attention doctor")
    message = re.sub(r"^\w+Arguments: (?=--)", "", message)
    return re.sub(rf"^(?:\w+: )?(--\w+(?: {_WORD})?), exp", r"\1: exp", message)


@contextlib.contextmanager
def in_flags(names: Iterable[str]) -> Iterator[None]:
    """Inside the block, error messages name options as flags."""
    try:
        yield
    except (BackendUnavailable, CheckpointError, ConfigError, InputError) as error:
        message = as_flags(str(error), names)
        error.args = (message, *error.args[1:])
        if isinstance(error, ImportError):
            error.msg = message  # what str() returns
        raise


def _flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    if value == "True":
        return f"--{name}"
    words = [shlex.quote(word.strip("'\"")) for word in value.split(" or ")]
    return f"--{name} {' or '.join(words)}"
