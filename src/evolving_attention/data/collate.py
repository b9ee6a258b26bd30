"""Builds one batch of arrays from rows of token ids: packed (no padding) or padded.

Training uses packed batches: the concatenated ids of all rows, and ``sequence_offsets``
int64 [B + 1], the start of each row. A row is a dict with ``input_ids`` (ints) and
optionally ``attention_mask`` (1 for tokens, 0 for padding, on either side),
``token_type_ids``, ``label`` or ``labels``, and ``start_positions`` with
``end_positions`` (positions in ``input_ids``); other keys are ignored. Models of pairs
have a target in ``labels`` (:func:`collate_pairs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.packed import SPAN, Batch, each
from evolving_attention.errors import InputError

IGNORED = -100  # label of tokens that the loss ignores
_CHOICES = (
    "; for multiple choice pass data_collator=ea.DataCollatorForMultipleChoice("
    "tokenizer)"
)
LABELS = ("labels", "label")  # the first key that a row has is used
_PER_TOKEN = ("input_ids", "token_type_ids", *LABELS)


def collate_packed(
    rows: Sequence[Mapping[str, Any]], row_ids: Sequence[int] | None = None
) -> Batch:
    """Builds one packed batch.

    Args:
        rows: B rows as described above.
        row_ids: index of each row in its data set, for error reports.

    Returns:
        ``input_ids`` int64 [total], ``sequence_offsets`` int64 [B + 1], and if the rows
        have them ``token_type_ids`` int64 [total], ``labels`` [B] (int64, or float32
        when any label is a float; int64 [total] for one label per token),
        ``start_positions`` and ``end_positions`` int64 [B], ``row_ids`` int64 [B].
        Padding is removed. A mask that excludes tokens between others cannot be packed;
        such a batch is returned padded, with ``attention_mask``.

    Raises:
        InputError: a row has no ids, its fields differ in length, its mask contains
            values other than 0 and 1 or no 1, or only some rows have a field.
    """
    batch = _packed(rows, row_ids)
    return pad_batch(batch) if "attention_mask" in batch else batch


def _packed(rows: Sequence[Mapping[str, Any]], row_ids: Sequence[int] | None) -> Batch:
    """Builds a packed batch; ``attention_mask`` [total] if a mask has inner zeros."""
    rows = [unpadded(row, where) for where, row in enumerate(rows)]
    ids = [_ids(row, "input_ids", where) for where, row in enumerate(rows)]
    offsets = np.cumsum([0, *map(len, ids)])
    batch = {"input_ids": _joined(ids), "sequence_offsets": offsets}
    if _all_have(rows, "token_type_ids"):
        batch["token_type_ids"] = _joined(_per_token(rows, "token_type_ids"))
    if any("attention_mask" in row for row in rows):
        masks = [
            row.get("attention_mask", np.ones(len(one), dtype=np.int64))
            for row, one in zip(rows, ids, strict=True)
        ]
        batch["attention_mask"] = _joined(masks)
    tokens = {"input_ids", "token_type_ids", "attention_mask"}
    labels = collate_labels(rows)
    if labels is not None:
        batch["labels"] = labels
        if np.ndim(rows[0][_label_of(rows)]) == 1:
            tokens.add("labels")
    for name in SPAN:
        if _all_have(rows, name):
            batch[name] = _places(rows, name)
    if row_ids is not None:
        batch["row_ids"] = np.asarray(row_ids, dtype=np.int64)
    return Batch(batch, tokens, ("labels", *SPAN))


def collate_padded(
    rows: Sequence[Mapping[str, Any]],
    row_ids: Sequence[int] | None = None,
    *,
    pad_token_id: int = 0,
    pad_to_length: int | None = None,
) -> Batch:
    """Builds a padded batch: ``input_ids`` and ``attention_mask`` int64 [B, T], etc.

    T is the length of the longest row, or ``pad_to_length`` (run_glue's
    ``--pad_to_max_length``).
    """
    return pad_batch(
        _packed(rows, row_ids),
        pad_token_id=pad_token_id,
        pad_to_length=pad_to_length,
    )


def pad_batch(
    batch: Batch, *, pad_token_id: int = 0, pad_to_length: int | None = None
) -> Batch:
    """Converts a packed batch to its padded form.

    Raises:
        InputError: a row is longer than ``pad_to_length``.
    """
    offsets = batch["sequence_offsets"]
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    width = longest if pad_to_length is None else pad_to_length
    if longest > width:
        raise InputError(
            f"a row has {longest} tokens > pad_to_length {width}; tokenise with "
            f"max_length={width}"
        )
    real = np.arange(width) < lengths[:, None]
    padded = {"attention_mask": real.astype(np.int64)}
    fills = {"input_ids": pad_token_id, "token_type_ids": 0, "attention_mask": 0}
    if "labels" in batch and len(batch["labels"]) != len(lengths):
        fills["labels"] = IGNORED  # one label per token
    for name, fill in fills.items():
        if name in batch:
            array = np.full(real.shape, fill, dtype=np.int64)
            array[real] = batch[name]
            padded[name] = array
    rest = {n: batch[n] for n in ("labels", *SPAN, "row_ids") if n in batch}
    return Batch({**rest, **padded}, targets=("labels", *SPAN))


class PairRows(Sequence[Any]):
    """Rows of a source, ``input_ids``, and a target, its ``labels``, of any lengths.

    Rows are read when they are needed: a caller's own class may draw them at random.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Any]:
        return each(self.rows)

    def count_tokens(self) -> np.ndarray:
        """Returns the tokens of source and target of each pair: int64 [N]."""
        pairs = (_pair(row, where) for where, row in enumerate(self))
        return np.array([sum(map(len, pair)) for pair in pairs], np.int64)


def collate_pairs(
    rows: Sequence[Mapping[str, Any]], row_ids: Sequence[int] | None = None
) -> Batch:
    """Builds one packed batch of pairs, as ``ParallelDataset`` does.

    Args:
        rows: dicts with ``input_ids``, perhaps padded, with an ``attention_mask``, and
            ``labels``, perhaps with -100 at their end.
        row_ids: see :func:`collate_packed`.

    Raises:
        InputError: a row lacks a side, or its mask has zeros between tokens.
    """
    pairs = [_pair(row, where) for where, row in enumerate(rows)]
    arrays: dict[str, np.ndarray] = {}
    for side, (name, offsets) in enumerate(
        (("input_ids", "sequence_offsets"), ("labels", "decoder_sequence_offsets"))
    ):
        arrays[name] = _joined([pair[side] for pair in pairs])
        arrays[offsets] = np.cumsum([0, *(len(pair[side]) for pair in pairs)])
    if row_ids is not None:
        arrays["row_ids"] = np.asarray(row_ids, dtype=np.int64)
    return Batch(arrays, tokens=["input_ids"], decoder_tokens=["labels"])


def _pair(row: Mapping[str, Any], where: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns source and target of a row, without padding."""
    own = {name: row[name] for name in ("input_ids", "attention_mask") if name in row}
    source = unpadded(own, where)
    if "attention_mask" in source:
        raise InputError(
            f"row {where} of the batch: attention_mask excludes tokens between others, "
            "expected zeros before or after them; leave those tokens out, or pass "
            "data_collator=, which makes padded batches"
        )
    target = _ids(row, label_of(row) or "labels", where)
    end = np.flatnonzero(target != IGNORED).max(initial=0) + 1
    return _ids(source, "input_ids", where), target[:end]


def unpadded(row: Mapping[str, Any], where: int = 0) -> Mapping[str, Any]:
    """Removes the padding of a row that its ``attention_mask`` marks.

    Keeps the span from the first token to the last one in all fields with one value per
    token. Keeps the mask only if it has zeros inside the span.

    Args:
        row: a row as described above; the mask holds integers or booleans.
        where: index of the row in its batch, for messages.

    Raises:
        InputError: the mask is not 0 and 1 with the length of ``input_ids``, or has no
            1.

    Example::

        unpadded({"input_ids": [5, 7, 0], "attention_mask": [1, 1, 0], "label": 1})
        # {"input_ids": [5, 7], "label": 1}
    """
    if not hasattr(row, "keys"):
        raise InputError(
            f"row {where} of the batch is a {type(row).__name__}, expected a dict with "
            "input_ids; convert it, or leave it out"
        )
    if "attention_mask" not in row or _array(row, "input_ids", where).ndim != 1:
        return row
    mask = _array(row, "attention_mask", where)
    length = len(row["input_ids"])
    tokens = np.flatnonzero(mask)
    if (
        mask.shape != (length,)
        or mask.dtype.kind not in "iub"
        or not len(tokens)
        or not ((mask == 0) | (mask == 1)).all()
    ):
        raise InputError(
            f"row {where} of the batch: attention_mask is {mask.dtype} of shape "
            f"{mask.shape}, {mask.tolist()!s:.60}; expected {length} integers or "
            "booleans, 1 for a token and 0 for padding, with at least one token; use "
            "the tokenizer's, or leave the row out"
        )
    span = slice(tokens[0], tokens[-1] + 1)
    cut = {name: value for name, value in row.items() if name != "attention_mask"}
    for name in _PER_TOKEN:
        if name in row and _array(row, name, where).ndim == 1:
            _check_length(row, name, where)
            cut[name] = row[name][span]
    for name in SPAN:
        if name in row:
            cut[name] = row[name] - span.start
    if len(tokens) < span.stop - span.start:
        cut["attention_mask"] = mask[span].astype(np.int64)
    return cut


def unused_keys(row: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a row that neither batches nor the training loss use."""
    label = label_of(row)
    used = {"input_ids", "attention_mask", "token_type_ids", label, "sample_weight"}
    used |= set(SPAN)
    return [str(name) for name in row if name not in used]


def collate_labels(rows: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
    """Collects the labels of rows; None if they have none.

    One label per row: [B], int64, or float32 if any is a float. One per token (masked
    language modelling): int64 [total], row after row. Several per row, as arrays [1,
    L]: [B, L].
    """
    name = _label_of(rows)
    if not _all_have(rows, name):
        return None
    kind = _array(rows[0], name, 0).ndim
    if kind == 1:
        return _joined(_per_token(rows, name))
    try:
        if kind == 2:
            return np.asarray(np.concatenate([row[name] for row in rows]), np.int64)
        labels = np.asarray([row[name] for row in rows])
    except (TypeError, ValueError):
        raise _unlike_the_first(rows, name) from None
    if labels.dtype.kind == "f":
        return labels.astype(np.float32)
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"labels are {labels.dtype}; expected int (classes) or float (regression)"
        )
    return labels.astype(np.int64)


def _unlike_the_first(rows: Sequence[Mapping[str, Any]], name: str) -> InputError:
    """Returns the error for labels that do not have one form in all rows."""
    shapes = [_array(row, name, where).shape for where, row in enumerate(rows)]
    bad = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
    return InputError(
        f"row {bad} of the batch: {name} is {rows[bad][name]!r:.60}, expected the form "
        f"of the batch's first, {rows[0][name]!r:.60}; give every row one number, or "
        "one per token"
    )


def _places(rows: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Collects a field with one position per row: int64 [B]."""
    places = np.asarray([row[name] for row in rows])
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise InputError(
            f"{name} are {places.dtype} of shape {places.shape[1:]} in a row, expected "
            "one int, the place of a token; convert them"
        )
    return places.astype(np.int64)


def _label_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the key of the rows' labels."""
    return (label_of(rows[0]) if rows else None) or "label"


def label_of(row: Mapping[str, Any]) -> str | None:
    """Returns the key of a row's label, None if it has none."""
    return next((name for name in LABELS if name in row), None)


def _per_token(rows: Sequence[Mapping[str, Any]], name: str) -> list[np.ndarray]:
    """Collects a field with one number per token, each as long as the row's ids."""
    arrays = [_ids(row, name, where) for where, row in enumerate(rows)]
    for where, row in enumerate(rows):
        _check_length(row, name, where)
    return arrays


def _check_length(row: Mapping[str, Any], name: str, where: int) -> None:
    if len(row[name]) != len(row["input_ids"]):
        raise InputError(
            f"row {where} of the batch: {len(row['input_ids'])} input_ids but "
            f"{len(row[name])} {name}; expected one each per token"
        )


def _all_have(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    having = sum(name in row for row in rows)
    if 0 < having < len(rows):
        lacking = next(i for i, row in enumerate(rows) if name not in row)
        raise InputError(f"row {lacking} of the batch has no {name!r} but others have")
    return having > 0


def _ids(row: Mapping[str, Any], name: str, where: int) -> np.ndarray:
    if name not in row:
        raise InputError(
            f"row {where} of the batch has no {name!r}, only {', '.join(row)}; "
            "tokenise the data set first (tokenize_dataset)"
        )
    array = _array(row, name, where)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise InputError(
            f"row {where} of the batch: {name} is {array.dtype} of shape "
            f"{array.shape}; expected a non-empty list of ints"
            f"{_CHOICES if array.ndim > 1 else ''}"
        )
    return array


def _array(row: Mapping[str, Any], name: str, where: int) -> np.ndarray:
    """Returns a field of a row as an array; 0-d if the row lacks it."""
    try:
        return np.asarray(row.get(name, 0))
    except ValueError:
        raise InputError(
            f"row {where} of the batch: {name} holds lists of different lengths, "
            f"expected one list of ints{_CHOICES}"
        ) from None


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    if not arrays:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.concatenate(arrays), dtype=np.int64)
