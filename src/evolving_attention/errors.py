"""Exception classes; a message says what, where, what was expected, what to do.

All errors of the package derive from :class:`Error` and from the built-in class a
caller would expect, so ``except ValueError`` keeps working. The C++ core raises the
same classes: its bindings look them up here by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

__all__ = [
    "BackendUnavailable",
    "CheckpointError",
    "ConfigError",
    "ConfigFileError",
    "DTypeError",
    "DataError",
    "DeviceError",
    "Error",
    "InputError",
    "Interrupted",
    "KernelNotFound",
    "MissingExtraError",
    "NonFiniteError",
    "OutOfMemory",
    "PeerLost",
    "ShapeError",
    "UnsafeCheckpointError",
    "require",
]


class Error(Exception):
    """Root of all errors that this package raises on purpose."""


class ConfigError(Error, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""


class InputError(Error, ValueError):
    """Data passed to a model or function cannot be used as it is."""


class ShapeError(InputError):
    """An array has the wrong number of axes or the wrong size along one."""


class DTypeError(InputError, TypeError):
    """An array has an element type that the operation does not accept."""


class DeviceError(InputError):
    """Tensors are on devices that cannot be combined, or that NumPy cannot read."""


class DataError(InputError):
    """A row of a data file cannot be used; says file, line and column.

    Args:
        reason: what is wrong, what was expected, and what to do.
        file: path of the file, as the caller named it.
        line: line number, from 1.
        column: character column in the line, from 1.
    """

    def __init__(
        self,
        reason: str,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason, self.file, self.line, self.column = reason, file, line, column


class CheckpointError(Error, OSError):
    """A checkpoint is missing, incomplete, corrupt, or does not fit the model."""


class UnsafeCheckpointError(CheckpointError):
    """A checkpoint asks for something outside the allow-list; nothing of it was run."""


class ConfigFileError(CheckpointError, ConfigError):
    """The file of a folder's config is cut or damaged, or not JSON."""


class BackendUnavailable(Error, ImportError):
    """A requested device or library is not available."""


class MissingExtraError(Error, ImportError):
    """An optional library is not installed; the message names the extra to install."""


class KernelNotFound(Error, LookupError):
    """No implementation of a kernel supports these arguments on this device."""


class OutOfMemory(Error, MemoryError):
    """An allocation failed or would exceed the memory limit."""


class PeerLost(Error, ConnectionError):
    """Another process of a distributed run died, gave up, or does not answer."""


class NonFiniteError(Error, ArithmeticError):
    """A loss or gradient became NaN or infinite; ``report`` has step, rows, tensor."""

    def __init__(self, message: str, report: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.report = report or {}


class Interrupted(Error, KeyboardInterrupt):
    """A signal interrupted training; the message says what was saved and where."""

    def __init__(self, message: str, signal_number: int = 2) -> None:
        super().__init__(message)
        self.signal_number = signal_number


MISSPELT = 0.85  # similarity of a word and what it must have meant


def suggestion(
    word: object, known: Iterable[str], otherwise: str = "", near: float = 0.6
) -> str:
    """Returns ``did you mean 'near'?`` with the known word nearest to an unknown one.

    Args:
        word: the word that was given.
        known: the accepted words.
        otherwise: the text if no word is near.
        near: least similarity, difflib's; ``MISSPELT`` where the word may be right.
    """
    import difflib  # needed only after a typing error

    found = difflib.get_close_matches(str(word), list(known), n=1, cutoff=near)
    return f"did you mean {found[0]!r}?" if found else otherwise


def require(module: str, *, extra: str, why: str) -> ModuleType:
    """Import an optional library, or say which extra installs it.

    Args:
        module: dotted name to import, for example ``"sklearn.metrics"``.
        extra: name of the extra in ``pip install "evolving-attention[EXTRA]"``.
        why: what needs the library, as a phrase that completes "… is needed".

    Raises:
        MissingExtraError: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module.split('.')[0]} is needed {why}, and could not be imported "
            f'({error}); run: pip install "evolving-attention[{extra}]"'
        ) from error
