"""Objects of a JSON file: JSON lines, or one array of objects, with their positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evolving_attention.data.lines import MAX_LINE_CHARS, open_file, read_lines
from evolving_attention.data.report import RowCollector
from evolving_attention.errors import DataError

MAX_ARRAY_BYTES = 1 << 30


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {double!r} appears twice")
    return result


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def read_objects(
    path: Path, collector: RowCollector
) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Yield (line, offset of the object in text, text, object) of a JSON file."""
    with open_file(path) as handle:
        start = handle.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        yield from _array(path, collector)
        return
    for number, text in read_lines(path, collector, header=False):
        try:
            value = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}; expected one object per line"
            collector.reject(number, error.colno, reason)
            continue
        except (ValueError, RecursionError) as error:
            collector.reject(number, 1, f"not usable JSON: {error}")
            continue
        if not isinstance(value, dict):
            found = type(value).__name__
            collector.reject(number, 1, f"a JSON {found}; expected an object per line")
            continue
        yield number, 0, text, value


def read_one_object(
    path: Path, expected: str, remedy: str = "correct it"
) -> dict[str, Any]:
    """Reads a file that is one JSON object.

    Args:
        path: the file.
        expected, remedy: what the file should hold and what to do, for messages.

    Raises:
        DataError: the file cannot be read or is not such an object; says where.
    """
    text = _text(path, f"convert the file, or {remedy}")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg}; expected {expected}; {remedy}"
        raise DataError(reason, str(path), error.lineno, error.colno) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not usable JSON: {error}; {remedy}", str(path)) from None
    if not isinstance(value, dict):
        reason = f"a JSON {type(value).__name__}; expected {expected}; {remedy}"
        raise DataError(reason, str(path))
    return value


def _text(path: Path, remedy: str) -> str:
    """Returns the text of a file that is one JSON value, or raises DataError."""
    with open_file(path) as handle:
        raw = handle.read(MAX_ARRAY_BYTES + 1)
    if len(raw) > MAX_ARRAY_BYTES:
        reason = "more than 1 GiB of JSON, expected less; split it, or use JSON lines"
        raise DataError(reason, str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        reason = f"byte 0x{raw[error.start]:02x} is not UTF-8; {remedy}"
        raise DataError(reason, str(path), line, column) from None


def _array(
    path: Path, collector: RowCollector
) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Yields objects of a file that is one JSON array; a syntax error ends the file."""
    text = _text(path, "convert the file")
    position, counted, line = text.index("[") + 1, 0, 1
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        if text[position : position + 1] == "]":
            rest = text[position + 1 :].strip()
            if rest:
                collector.fail(f"text after the JSON array: {rest[:40]!r}")
            return
        line += text.count("\n", counted, position)
        counted = position
        column = position - text.rfind("\n", 0, position)
        collector.seen()
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            collector.fail(f"the JSON array cannot be read on: {error}", line, column)
        piece = text[position:end]
        if isinstance(value, dict):
            yield line, column - 1, piece, value
        else:
            reason = f"a JSON {type(value).__name__}; expected an object"
            collector.reject(line, column, reason)
        position = end


def unclean(text: str) -> str:
    """Returns why a decoded JSON string cannot be used, or an empty string."""
    if len(text) > MAX_LINE_CHARS:
        return f"has {len(text)} characters; at most {MAX_LINE_CHARS} are taken"
    if "\0" in text:
        return "holds a NUL character; remove it"
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        return "holds half a surrogate pair; it is no valid Unicode"
    return ""
