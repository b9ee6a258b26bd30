"""The collator of multiple choice: pads texts of unequal length into one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.collate import LABELS, collate_labels, collate_padded
from evolving_attention.data.packed import Batch
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole

_FIELDS = ("input_ids", "attention_mask", "token_type_ids")
_PADDING = (True, "longest", "max_length")


class DataCollatorForMultipleChoice:
    """Pads the C texts of each of B questions to one length.

    Names and defaults are those of transformers' collator. Padding has no effect on the
    model's results.

    Args:
        tokenizer: its ``pad_token_id`` fills ``input_ids``.
        padding: True or "longest": to the longest text; "max_length".
        max_length: length with ``padding="max_length"``.
        pad_to_multiple_of: pad the length up to a multiple of this.
        return_tensors: only "np".

    Call it with B rows, each the tokenizer's output for the texts of one question:
    ``input_ids`` and, if present, ``attention_mask`` and ``token_type_ids`` are lists
    of C lists, ``label`` (or ``labels``) is the number of the right text. Returns these
    fields as int64 [B, C, T], and ``labels`` int64 [B].

    Raises:
        ConfigError: an option cannot be used.
        InputError: questions differ in the number of texts, or a row is invalid.

    Example:
        >>> from types import SimpleNamespace
        >>> import evolving_attention as ea
        >>> collate = ea.DataCollatorForMultipleChoice(SimpleNamespace(pad_token_id=0))
        >>> batch = collate([{"input_ids": [[5, 6, 7], [8]], "label": 1}])
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([[[5, 6, 7], [8, 0, 0]]], [1])
    """

    def __init__(
        self,
        tokenizer: Any,
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str = "np",
    ) -> None:
        where = type(self).__name__
        if padding not in _PADDING or (padding == 1 and padding is not True):
            raise ConfigError(
                f"{where}: padding={padding!r}, expected True, 'longest' or "
                "'max_length'; the texts of a batch need one length"
            )
        if return_tensors != "np":
            raise ConfigError(
                f"{where}: return_tensors={return_tensors!r}, expected 'np' (models "
                "here take NumPy arrays)"
            )
        sizes = {"max_length": max_length, "pad_to_multiple_of": pad_to_multiple_of}
        given = {name: size for name, size in sizes.items() if size is not None}
        check_whole(where, 1, "correct it, or leave it out", **given)
        if padding == "max_length" and max_length is None:
            raise ConfigError(f'{where}: padding="max_length" needs max_length')
        self.tokenizer, self.padding = tokenizer, padding
        self.max_length, self.pad_to_multiple_of = max_length, pad_to_multiple_of

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> Batch:
        """Returns the batch of these rows."""
        count, texts = _texts(features)
        fixed = self.max_length if self.padding == "max_length" else None
        pad = self.tokenizer.pad_token_id or 0
        flat = collate_padded(texts, pad_token_id=pad, pad_to_length=fixed)
        missing = -flat["input_ids"].shape[1] % (self.pad_to_multiple_of or 1)
        arrays = {}
        for name in _FIELDS:
            if name in flat:
                fill = pad if name == "input_ids" else 0
                wide = np.pad(flat[name], ((0, 0), (0, missing)), constant_values=fill)
                arrays[name] = wide.reshape(len(features), count, -1)
        labels = collate_labels(
            [{n: row[n] for n in LABELS if n in row} for row in features]
        )
        if labels is not None:
            arrays["labels"] = labels
        return Batch(arrays)


def _texts(features: Sequence[Mapping[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    """Returns the number of texts per question, and a row for each text.

    Raises:
        InputError: the numbers differ, or a field has another number of lists.
    """
    counts = [len(row.get("input_ids", ())) for row in features]
    if not counts or min(counts) < 1 or len(set(counts)) > 1:
        raise InputError(
            f"multiple choice: the questions of the batch have {counts} texts, "
            "expected one number for all, 1 or more; fill up with empty texts, or "
            "leave questions out"
        )
    found = []
    for where, row in enumerate(features):
        fields = {name: row[name] for name in _FIELDS if name in row}
        for name, lists in fields.items():
            if len(lists) != counts[0]:
                raise InputError(
                    f"multiple choice: row {where} has {counts[0]} texts but "
                    f"{len(lists)} {name}, expected one each; tokenise them together"
                )
        found += [
            {name: lists[i] for name, lists in fields.items()} for i in range(counts[0])
        ]
    return counts[0], found
