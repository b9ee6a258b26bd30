"""Parallel text from rows, in the format of ``datasets``: one dict for each pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evolving_attention.data.parallel_files import ParallelText
from evolving_attention.errors import InputError


def from_rows(
    rows: Iterable[Mapping[str, Any]], source: str, target: str
) -> ParallelText:
    """Reads sentences and translations from rows.

    Args:
        rows: dicts ``{"translation": {"en": …, "de": …}}``, the format of WMT sets in
            ``datasets``, or dicts with a column for each language.
        source, target: the keys of the two languages.

    Raises:
        InputError: a row lacks a language, or has a value that is not text.

    Example:
        >>> from_rows([{"translation": {"en": "A dog.", "de": "Ein Hund."}}],
        ...           "en", "de").target
        ['Ein Hund.']
    """
    sides: tuple[list[str], list[str]] = ([], [])
    for index, row in enumerate(rows):
        pair = row.get("translation", row)
        for side, key in zip(sides, (source, target), strict=True):
            text = pair.get(key)
            if not isinstance(text, str):
                raise InputError(
                    f"rows[{index}]: {key!r} is {text!r:.40}, expected a text with "
                    f"{', '.join(map(str, pair))}; check source and target"
                )
            side.append(text)
    return ParallelText(*sides, (source, target))
