"""Maps names of a checkpoint to names of a model, by rules that are data.

A :class:`NameTable` defines for one architecture the prefix of the base model inside a
headed one, new names for old ones, buffers that are not weights, names that are copies
of others, and names that may be missing or unused. Patterns are regular expressions
that must match a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["NameTable", "Tie", "matches"]


@dataclass(frozen=True)
class Tie:
    """A duplicate name: ``alias`` holds the values of ``target``.

    A model that has the alias as a parameter of its own does not tie the two.

    Attributes:
        repeats: whether every model of the architecture may find the alias beside the
            target, not only those with the head that the alias belongs to. Equal values
            are left out, others count as unexpected.
    """

    alias: str
    target: str
    repeats: bool = False


@dataclass(frozen=True)
class NameTable:
    """The names of one architecture.

    Attributes:
        architecture: ``model_type`` of its config.json.
        prefix: prefix of the base model's names inside a headed model.
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
        """The current form of a checkpoint's name, or None for a buffer."""
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return None if matches(name, self.ignored) else name

    def place(self, name: str, expected: Collection[str]) -> str | None:
        """The model's name for a canonical name, with the prefix added or removed."""
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
