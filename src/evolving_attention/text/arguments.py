"""Checks and converts the arguments of a tokenizer call: options, texts, results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole

#: A text or a batch; a row may be a pair, or the words of a text.
Texts: TypeAlias = str | Sequence[str] | Sequence[Sequence[str]]
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
    "special_tokens_mask": 1,
    "offset_mapping": (0, 0),
}
#: Columns of a call, in order, and the library's names of them.
COLUMNS = {
    "input_ids": "ids",
    "token_type_ids": "type_ids",
    "attention_mask": "attention_mask",
    "special_tokens_mask": "special_tokens_mask",
    "offset_mapping": "offsets",
}


class Call(NamedTuple):
    """The checked options of a tokenizer call.

    ``stride`` is None if truncated tokens make no further rows; ``places`` says whether
    the words and characters of tokens are needed, which takes the library longer.
    """

    columns: tuple[str, ...] = ("input_ids",)
    special: bool = True
    strategy: str | None = None
    limit: int | None = None
    stride: int | None = None
    words: bool = False
    padding: str | None = None
    multiple: int | None = None
    tensors: str | None = None
    places: bool = False


def choice(table: Mapping[Any, str | None], value: Any, name: str) -> str | None:
    try:
        return table[value]
    except (KeyError, TypeError):
        known = ", ".join(repr(key) for key in table if key is not None)
        raise ConfigError(
            f"{name}={value!r} is not known; use one of {known}"
        ) from None


def check_tensors(value: Any) -> Any:
    """Refuse a ``return_tensors`` that is neither None nor "np"."""
    if value not in (None, "np"):
        raise ConfigError(
            f"return_tensors={value!r} is not known; use None or 'np' "
            "(models here take NumPy arrays)"
        )
    return value


def check_stride(stride: Any, overflows: bool) -> int | None:
    """Returns the stride; None if truncated tokens make no further rows."""
    check_whole("tokenizer", 0, stride=stride)
    if stride and not overflows:
        raise ConfigError(
            f"stride={stride}, expected 0 without return_overflowing_tokens=True; "
            "pass that, or leave it out"
        )
    return stride if overflows else None


def text_batch(
    text: Any, text_pair: Any, words: bool
) -> tuple[bool, list[Any], list[Any] | None]:
    """Returns whether it is one text, and lists of checked texts.

    Args:
        text: one text, or a batch.
        text_pair: the second texts; None: there are none, or ``text`` has pairs.
        words: whether each text is a list of words.
    """
    single = _is_one(text, words)
    if single:
        if text_pair is not None and not _is_one(text_pair, words):
            raise InputError("text is one str but text_pair is not; give one str each")
        texts, pairs = [text], None if text_pair is None else [text_pair]
    else:
        texts, pairs = _as_list(text, "text"), None
        if text_pair is not None:
            pairs = _as_list(text_pair, "text_pair")
        elif (
            not words
            and texts
            and all(isinstance(t, (tuple, list)) and len(t) == 2 for t in texts)
        ):
            texts, pairs = map(list, zip(*texts, strict=True))
    check = _checked_words if words else check_text
    for name, values in (("text", texts), ("text_pair", pairs or [])):
        for index, value in enumerate(values):
            where = name if single else f"{name}[{index}]"
            values[index] = check(value, where, MAX_TEXT_CHARS)
    if pairs is not None and len(pairs) != len(texts):
        raise InputError(
            f"text has {len(texts)} rows but text_pair has {len(pairs)}; "
            "every text needs its pair"
        )
    return single, texts, pairs


def _is_one(text: Any, words: bool) -> bool:
    """Whether it is one text, not a batch."""
    if words and isinstance(text, (list, tuple)):
        return not text or isinstance(text[0], str)
    return isinstance(text, str)


def _checked_words(text: Any, where: str, limit: int) -> list[str]:
    if isinstance(text, str) or not isinstance(text, Iterable):
        raise InputError(
            f"{where} is {type(text).__name__} {text!r:.40}; expected a list of words "
            "with is_split_into_words=True; split it, or leave that option out"
        )
    words = [check_text(word, f"{where}[{i}]", limit) for i, word in enumerate(text)]
    check_text("".join(words), where, limit)
    return words


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
