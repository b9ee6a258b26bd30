"""Checks and converts the arguments of a tokenizer call: options, texts, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError

MAX_TEXT_CHARS = 1_000_000

TRUNCATION: dict[Any, str | None] = {
    False: None,
    None: None,
    "do_not_truncate": None,
    True: "longest_first",
    "longest_first": "longest_first",
    "only_first": "only_first",
    "only_second": "only_second",
}
PADDING: dict[Any, str | None] = {
    False: None,
    None: None,
    "do_not_pad": None,
    True: "longest",
    "longest": "longest",
    "max_length": "max_length",
}
#: Padding value of each column of a call; None: the id of the tokenizer's pad token.
FILLED: dict[str, Any] = {
    "input_ids": None,
    "token_type_ids": 0,
    "attention_mask": 0,
    "offset_mapping": (0, 0),
}


def choice(table: Mapping[Any, str | None], value: Any, name: str) -> str | None:
    try:
        return table[value]
    except (KeyError, TypeError):
        known = ", ".join(repr(key) for key in table if key is not None)
        raise ConfigError(
            f"{name}={value!r} is not known; use one of {known}"
        ) from None


def check_tensors(value: Any) -> None:
    """Refuse a ``return_tensors`` that is neither None nor "np"."""
    if value not in (None, "np"):
        raise ConfigError(
            f"return_tensors={value!r} is not known; use None or 'np' "
            "(models here take NumPy arrays)"
        )


def text_batch(
    text: Any, text_pair: Any, single: bool
) -> tuple[list[str], list[str] | None]:
    """Returns lists of checked texts, from one text or a batch."""
    if single:
        if text_pair is not None and not isinstance(text_pair, str):
            raise InputError("text is one str but text_pair is not; give one str each")
        texts, pairs = [text], None if text_pair is None else [text_pair]
    else:
        texts, pairs = _as_list(text, "text"), None
        if text_pair is not None:
            pairs = _as_list(text_pair, "text_pair")
        elif texts and all(isinstance(row, tuple) and len(row) == 2 for row in texts):
            texts, pairs = map(list, zip(*texts, strict=True))
    for name, values in (("text", texts), ("text_pair", pairs or [])):
        for index, value in enumerate(values):
            check_text(value, name if single else f"{name}[{index}]", MAX_TEXT_CHARS)
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(
            f"text has {len(texts)} rows but text_pair has {len(pairs)}; "
            "every text needs its pair"
        )
    return texts, pairs


def _as_list(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)):
        raise InputError(
            f"{name} is {type(values).__name__}; expected text (str), or a list of "
            "texts where the other one is a list"
        )
    try:
        return list(values)
    except TypeError:
        raise InputError(
            f"{name} is {type(values).__name__}; expected text or a list of texts"
        ) from None


def refuse_long(lengths: Sequence[int], limit: int, single: bool) -> None:
    for index, length in enumerate(lengths):
        if length > limit:
            where = "" if single else f" (text {index})"
            raise InputError(
                f"sequence length {length} > max_length {limit}{where}; "
                "pass truncation=True"
            )


def id_array(name: str, rows: list[list[Any]]) -> np.ndarray:
    """Converts rows of numbers to [B, T]; rows of pairs (offsets) to [B, T, 2]."""
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise InputError(
            f"{name}: rows of lengths {min(lengths)} to {max(lengths)} make no array; "
            "pass padding=True"
        )
    shape = (len(rows), max(lengths, default=0))
    pair = (2,) if name == "offset_mapping" else ()
    return np.array(rows, dtype=np.int64).reshape(*shape, *pair)


def as_columns(encoded: Any) -> dict[str, list[Any]]:
    """Returns columns of lists, from rows or from columns of lists or arrays."""
    if isinstance(encoded, Mapping):
        columns = {name: list(values) for name, values in encoded.items()}
    else:
        rows = _as_list(encoded, "encoded_inputs")
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InputError(
                    f"encoded_inputs[{index}] is {type(row).__name__}; expected a row "
                    "as a call of the tokenizer gives it"
                )
            if row.keys() != rows[0].keys():
                raise InputError(
                    f"encoded_inputs[{index}] has the keys {list(row)}; expected "
                    f"{list(rows[0])}, as the rows before"
                )
        names = rows[0] if rows else ()
        columns = {name: [row[name] for row in rows] for name in names}
    if not columns.get("input_ids"):
        raise InputError("encoded_inputs: no row with input_ids; expected one or more")
    if np.ndim(columns["input_ids"][0]) == 0:
        raise InputError("encoded_inputs is one row; expected a list of rows")
    lengths = [len(row) for row in columns["input_ids"]]
    for name in FILLED.keys() & columns:
        columns[name] = [np.asarray(row).tolist() for row in columns[name]]
        if [len(row) for row in columns[name]] != lengths:
            raise InputError(f"encoded_inputs: {name} has other lengths than input_ids")
    return columns


def value_array(name: str, values: list[Any]) -> np.ndarray:
    """Converts a column without padding to an array of numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        array = np.asarray(values, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: the rows make no array of numbers; leave this key out"
        )
    return array


def check_text(value: Any, where: str, limit: int) -> str:
    """Return ``value`` if it is text that the library accepts; else InputError."""
    if not isinstance(value, str):
        raise InputError(
            f"{where} is {type(value).__name__} {value!r:.40}; expected text (str)"
        )
    if len(value) > limit:
        raise InputError(
            f"{where} has {len(value)} characters; at most {limit} are taken, "
            "split it first"
        )
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} holds half a surrogate pair at character {error.start}; "
                "it is no valid Unicode"
            ) from None
    return value
