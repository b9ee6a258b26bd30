"""Maps checkpoint names to model names, by rules that are data.

For one architecture, a :class:`NameTable` defines the prefix of the base model inside a
model with a head, renames of old names, buffers that are not weights, duplicate names,
and names that may be missing or unused. Patterns are regular expressions that must
match a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tie:
    """A duplicate name: ``alias`` holds the values of ``target``.

    A model that has the alias as its own parameter does not tie the two names.

    Attributes:
        repeats: whether every model of the architecture may find both the alias and the
            target, not only models with the head that the alias belongs to. Equal
            values are dropped, other values count as unexpected.
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
        ties: names that duplicate other names; given with the prefix.
        allowed_new: patterns of the model's names that a checkpoint may lack.
        allowed_unexpected: patterns of a checkpoint's names that a model may lack.
    """

    architecture: str
    prefix: str
    renames: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    ties: tuple[Tie, ...] = ()
    allowed_new: tuple[str, ...] = ()
    allowed_unexpected: tuple[str, ...] = ()

    def canonical(self, name: str) -> str | None:
        """Returns the current form of a checkpoint's name; None for a buffer."""
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return None if matches(name, self.ignored) else name

    def place(self, name: str, expected: Collection[str]) -> str | None:
        """Returns the model's name of a canonical name; adds or removes the prefix."""
        for candidate in (
            name,
            f"{self.prefix}{name}",
            name.removeprefix(self.prefix),
        ):
            if candidate in expected:
                return candidate
        return None


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether any pattern matches the whole name."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)
