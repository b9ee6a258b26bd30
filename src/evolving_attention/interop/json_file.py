"""Strict reader of JSON in a checkpoint folder: one object, no duplicate keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from evolving_attention.errors import CheckpointError, Error
from evolving_attention.interop.paths import read_inside

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of a surrogate


def read_object(folder: Path, name: str, limit: int) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint folder, following no link.

    Raises:
        CheckpointError: as :func:`~evolving_attention.interop.paths.read_inside`, or
            the file is not an object in strict JSON.
    """
    data = read_inside(folder, name, limit)
    return parse_object(data, str(folder / name), CheckpointError)


def refuse_halves(data: bytes, value: Any, file_names: bool = False) -> None:
    r"""Refuse JSON that escapes half of a character, such as ``"\ud83d"`` alone.

    Python reads it, but neither UTF-8 nor the C++ core takes such a text.

    Args:
        data: the JSON text.
        value: what Python read.
        file_names: allow \udc80 to \udcff, which are bytes of names of files that are
            not UTF-8.

    Raises:
        ValueError: names the half.
    """
    if not _HALF.search(data):
        return
    allowed = "surrogateescape" if file_names else "strict"
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8", allowed)
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"a text holds {half!a}, half of a surrogate pair") from None


def parse_object(data: bytes, source: str, error: type[Error]) -> dict[str, Any]:
    """Parse JSON text that must be one object.

    Args:
        data: UTF-8 text; the caller has limited its size.
        source: the file, for messages.
        error: class of the error to raise.

    Raises:
        Error: of class ``error``: the text is not UTF-8, not JSON, has a duplicate key,
            NaN or infinity, is nested too deeply, or is not an object. The message
            names the position.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise error(f"{source}: has the key {key[:80]!r} twice; remove one")
            result[key] = value
        return result

    def no_constant(text: str) -> NoReturn:
        raise error(f"{source}: holds {text}, which is not JSON; write a finite number")

    try:
        value = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=unique,
            parse_constant=no_constant,
        )
        refuse_halves(data, value, file_names=True)
    except error:
        raise
    except RecursionError:
        raise error(
            f"{source}: is nested too deeply to be a JSON file of ours"
        ) from None
    except ValueError as problem:
        raise error(
            f"{source}: is not valid JSON ({problem}); download or save it again"
        ) from None
    if not isinstance(value, dict):
        raise error(
            f"{source}: holds a JSON {type(value).__name__}, expected an object {{...}}"
        )
    return value
