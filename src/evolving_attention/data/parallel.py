"""The data set of translation: tokens of sources and targets, packed pair by pair."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from evolving_attention.data.packed import Batch, PackedRows, digest
from evolving_attention.data.parallel_files import ParallelText
from evolving_attention.errors import ConfigError, DataError, InputError
from evolving_attention.notices import say

Array = np.ndarray[Any, Any]
Longer = Literal["error", "cut"]
_Ids = Sequence[int] | np.ndarray  # ids of one sentence
_NO_LIMIT = 2**62
LONGER = ("error", "cut")  # handling of sentences longer than the position limit


class _Side(PackedRows):
    """Token ids of N sentences of one language."""

    tokens: ClassVar[tuple[str, ...]] = ("ids",)
    labels = None

    def __init__(self, rows: Sequence[_Ids]) -> None:
        self.offsets = np.cumsum([0, *map(len, rows)])
        flat = [np.asarray(row, np.int32) for row in rows]
        self.ids = np.concatenate(flat) if flat else np.zeros(0, np.int32)


def pack_sentences(rows: Sequence[_Ids]) -> dict[str, Array]:
    """Packs sentences as a model's source: ``input_ids`` and ``sequence_offsets``."""
    batch = _Side(rows).gather(np.arange(len(rows)))
    return {"input_ids": batch["ids"], "sequence_offsets": batch["sequence_offsets"]}


def encode(
    texts: Sequence[str],
    tokenizer: Any,
    longest: int,
    longer: Longer,
    name: str,
    first_line: int = 1,
) -> list[list[int]]:
    """Returns the token ids of each text, including the end token.

    Args:
        texts: sentences, line by line.
        tokenizer: one whose encoding ends with its end token.
        longest: maximum number of tokens the model accepts, including the end token.
        longer: handling of longer texts: ``"error"``, or ``"cut"``: keep their first
            tokens and the end token, and log how many were cut.
        name: name of the file or argument, for messages.
        first_line: line number of the first text.

    Raises:
        DataError: a text has more tokens; says which line.
    """
    if longer not in LONGER:
        raise ConfigError(
            f"longer={longer!r}, expected one of {', '.join(LONGER)}; choose one"
        )
    if not texts:
        return []
    every: dict[str, Any] = {"max_length": _NO_LIMIT}  # the limit is applied below
    rows: list[list[int]] = tokenizer(list(texts), **every).input_ids
    above = [index for index, row in enumerate(rows) if len(row) > longest]
    if above and longer == "error":
        raise DataError(
            f"has {len(rows[above[0]])} tokens, expected at most {longest}, the "
            f"model's positions ({len(above)} lines have more); shorten them, or cut "
            "them with longer='cut'",
            name,
            above[0] + first_line,
        )
    for index in above:
        rows[index] = [*rows[index][: longest - 1], rows[index][-1]]
    if above:
        say(
            f"{name}: {len(above)} of {len(rows)} lines have more than {longest} "
            "tokens and are cut (longer='cut')"
        )
    return rows


class ParallelDataset:
    """N pairs of sentences as token ids, as a data set for the Trainer.

    A batch holds ``input_ids`` and ``labels``, packed, with ``sequence_offsets`` and
    ``decoder_sequence_offsets``. ``lengths`` counts tokens of source and target.

    Args:
        source, target: token ids of each sentence, the end token last.

    Raises:
        InputError: the numbers of sentences differ, there are none, or one has no
            token.

    Example::

        text = read_parallel("train.en", "train.de")
        rows = ParallelDataset.from_text(text, tokenizer, longest=1024)
        ea.Trainer(model, arguments, train_dataset=rows).train()
    """

    def __init__(self, source: Sequence[_Ids], target: Sequence[_Ids]) -> None:
        if len(source) != len(target) or not len(source):
            raise InputError(
                f"ParallelDataset: {len(source)} sources and {len(target)} targets, "
                "expected as many of both, and at least one; check the files"
            )
        for name, rows in (("source", source), ("target", target)):
            empty = next((i for i, row in enumerate(rows) if not len(row)), None)
            if empty is not None:
                raise InputError(
                    f"ParallelDataset: {name}[{empty}] has no token, expected at least "
                    "the end token; leave the pair out"
                )
        self._source, self._target = _Side(source), _Side(target)

    @classmethod
    def from_text(
        cls,
        text: ParallelText,
        tokenizer: Any,
        longest: int,
        longer: Longer = "error",
    ) -> ParallelDataset:
        """Tokenizes pairs of sentences; pairs with an empty side are left out.

        Args:
            text: the result of ``read_parallel``.
            tokenizer, longest, longer: see :func:`encode`.

        Raises:
            DataError: a sentence is too long, or every pair has an empty side.
            InputError: ``text`` has another type.
        """
        if not isinstance(text, ParallelText):
            raise InputError(
                f"ParallelDataset.from_text: text is a {type(text).__name__}, expected "
                "a ParallelText: ParallelText(sentences, translations)"
            )
        kept = [
            index
            for index, pair in enumerate(zip(text.source, text.target, strict=True))
            if all(side.strip() for side in pair)
        ]
        left_out, named = len(text.source) - len(kept), " and ".join(text.files)
        if not kept:
            raise DataError(
                f"{named}: all {left_out} pairs have an empty side, expected "
                "sentences; check the files"
            )
        if left_out:
            say(f"{named}: {left_out} pairs with an empty side are left out")
        sides = []
        for name, lines in zip(text.files, (text.source, text.target), strict=True):
            # Empty lines are encoded too, so that line numbers in messages match the
            # file.
            rows = encode(lines, tokenizer, longest, longer, name)
            sides.append([rows[index] for index in kept])
        return cls(*sides)

    def __len__(self) -> int:
        return len(self._source)

    @property
    def lengths(self) -> Array:
        """Tokens of source and target of each pair: int64 [N]."""
        return np.asarray(self._source.lengths + self._target.lengths)

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these pairs."""
        source, target = self._source.gather(indices), self._target.gather(indices)
        arrays = {
            "input_ids": source["ids"],
            "sequence_offsets": source["sequence_offsets"],
            "labels": target["ids"],
            "decoder_sequence_offsets": target["sequence_offsets"],
            "row_ids": source["row_ids"],
        }
        return Batch(arrays, tokens=["input_ids"], decoder_tokens=["labels"])

    def fingerprint(self) -> str:
        """Returns a hash of all token ids."""
        sides = (self._source, self._target)
        rows = [{"ids": side.ids, "offsets": side.offsets} for side in sides]
        return digest(len(self), rows)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        position = operator.index(index)
        source, target = self._source[position], self._target[position]
        return {"input_ids": source["ids"], "labels": target["ids"]}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))
