"""Parallel text: two UTF-8 files, plain or gzip, whose lines translate each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from evolving_attention.data.lines import (
    checked_line,
    first_line,
    open_text,
    raw_lines,
)
from evolving_attention.data.report import RowCollector
from evolving_attention.errors import DataError, InputError


class _Sides(NamedTuple):
    source: list[str]
    target: list[str]
    files: tuple[str, str] = ("source", "target")


class ParallelText(_Sides):
    """Sentences and their translations, pair by pair.

    Attributes:
        source: N sentences.
        target: their translations.
        files: names of the two files, for messages.

    Raises:
        InputError: a side is not a list of texts, or the sides differ in length.
    """

    __slots__ = ()

    def __new__(
        cls,
        source: Iterable[str],
        target: Iterable[str],
        files: tuple[str, str] = _Sides._field_defaults["files"],
    ) -> ParallelText:
        first = as_texts(source, "ParallelText: source")
        second = as_texts(target, "ParallelText: target")
        if len(first) != len(second):
            raise InputError(
                f"ParallelText: {len(first)} sources and {len(second)} targets, "
                "expected as many of both, a translation for each sentence; check the "
                "lists"
            )
        return super().__new__(cls, first, second, files)


def as_texts(texts: Any, where: str) -> list[str]:
    """Returns the texts as a list.

    Args:
        texts: any iterable of str.
        where: the called function and the name of its argument.

    Raises:
        InputError: the value is something else, such as a single text.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        kind = type(texts).__name__
        raise InputError(f"{where} is a {kind}, expected a list of texts; pass [text]")
    found = list(texts)
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(
                f"{where}[{index}] is a {type(text).__name__}, expected a text; pass a "
                "list of str"
            )
    return found


def sentences(handle: BinaryIO, name: str) -> Iterator[str]:
    """Yields the lines of an open file, without line ends; empty lines are kept.

    A file must end all lines with LF, or all with CR LF; a byte-order mark at its start
    is removed.

    Raises:
        DataError: a line is not UTF-8 (says line, column and byte), holds a NUL or a
            carriage return, or is too long.
    """
    collector, crlf = RowCollector(name), False
    for number, (raw, ended) in enumerate(raw_lines(handle), start=1):
        if number == 1:
            raw = first_line(raw, collector)
            crlf = ended and raw.endswith(b"\r")
        text = checked_line(raw, crlf if ended else None)
        if not isinstance(text, str):
            raise DataError(text[1], name, number, text[0])
        yield text


def iter_sentences(file: str | Path) -> Iterator[str]:
    """Yields the lines of a text file; gzip is detected by the first bytes.

    Raises:
        DataError: the file is missing or a damaged archive, or a line is bad.
    """
    path = Path(file)
    with open_text(path) as handle:
        yield from sentences(handle, str(path))


def read_sentences(file: str | Path) -> list[str]:
    """Returns all lines of a text file; see :func:`iter_sentences`.

    Raises:
        DataError: as for :func:`iter_sentences`, or the file is empty.
    """
    found = list(iter_sentences(file))
    if not found:
        raise DataError(
            "the file is empty, expected a sentence in each line; check the path",
            str(file),
        )
    return found


def read_parallel(source: str | Path, target: str | Path) -> ParallelText:
    """Reads sentences and translations from two files, line by line.

    Empty lines are kept, so that line i of one file belongs to line i of the other.

    Args:
        source, target: text files, plain or gzip.

    Raises:
        DataError: a file cannot be read (see :func:`read_sentences`), or one has more
            lines than the other.

    Example::

        text = read_parallel("train.en.gz", "train.de.gz")
        text.source[0], text.target[0]
    """
    sides = [(str(file), read_sentences(file)) for file in (source, target)]
    (short, fewer), (longer, more) = sorted(sides, key=lambda side: len(side[1]))
    if len(fewer) < len(more):
        raise DataError(
            f"this line has no partner: {longer} has {len(more)} lines and {short} "
            f"{len(fewer)}, expected as many; the first line that is missing, or split "
            "in two, may be an earlier one",
            longer,
            len(fewer) + 1,
        )
    return ParallelText(sides[0][1], sides[1][1], (str(source), str(target)))
