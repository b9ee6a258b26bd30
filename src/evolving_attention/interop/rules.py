"""How names of a checkpoint become names of a model: rules that are data.

A :class:`NameTable` says, for one architecture, which prefix the base model has inside
of a headed one, how old names read today, which buffers are no weights, which names are
copies of others, and what may be missing or left over. Patterns are regular expressions
that must match a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["NameTable", "Tie", "matches"]


@dataclass(frozen=True)
class Tie:
    """A name that only repeats another: ``alias`` holds the values of ``target``."""

    alias: str
    target: str


@dataclass(frozen=True)
class NameTable:
    """The names of one architecture.

    Attributes:
        architecture: ``model_type`` of its config.json.
        prefix: what the base model's names begin with inside of a headed model.
        renames: pairs (pattern, replacement) for ``re.sub``, applied in order.
        ignored: patterns of buffers that hold no weights.
        ties: names that repeat other names; given with the prefix.
        allowed_new: patterns of the model's names that a checkpoint may lack.
        allowed_unexpected: patterns of a checkpoint's names that a model may lack.
    """

    architecture: str
    prefix: str
    renames: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    ties: tuple[Tie, ...]
    allowed_new: tuple[str, ...]
    allowed_unexpected: tuple[str, ...]

    def canonical(self, name: str) -> str | None:
        """Today's spelling of a checkpoint's name, or None for a buffer."""
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return None if matches(name, self.ignored) else name

    def place(self, name: str, expected: Collection[str]) -> str | None:
        """The model's name for a canonical name, the prefix added or taken off."""
        for candidate in (
            name,
            f"{self.prefix}{name}",
            name.removeprefix(self.prefix),
        ):
            if candidate in expected:
                return candidate
        return None


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether any of the patterns matches the whole name."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)
