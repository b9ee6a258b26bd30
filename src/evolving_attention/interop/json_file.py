"""Strict reader of JSON in a checkpoint folder: one object, no duplicate keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from evolving_attention.errors import CheckpointError, Error
from evolving_attention.interop.paths import read_inside


def read_object(folder: Path, name: str, limit: int) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint folder, following no link.

    Raises:
        CheckpointError: as :func:`~evolving_attention.interop.paths.read_inside`, or
            the file is not an object in strict JSON.
    """
    data = read_inside(folder, name, limit)
    return parse_object(data, str(folder / name), CheckpointError)


def parse_object(data: bytes, source: str, error: type[Error]) -> dict[str, Any]:
    r"""Parse JSON text that must be one object.

    Strings may hold half of a surrogate pair, such as ``"\ud83d"`` alone: class labels
    do, and Python's names of files that are not UTF-8.

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
