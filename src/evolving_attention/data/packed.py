"""Batches without padding, and the data sets that build them, for any kind of data."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from evolving_attention.errors import InputError

Array = np.ndarray[Any, Any]
SPAN = ("start_positions", "end_positions")  # targets of question answering
TARGETS = ("labels", "masked", *SPAN)  # for batches that do not declare their targets


class Batch(dict[str, Array]):
    """B rows as arrays, named as the arguments of the model's call.

    Three names are special: ``sequence_offsets`` int64 [B + 1], the start of each row
    in the arrays of tokens; ``decoder_sequence_offsets``, likewise for target tokens;
    and ``row_ids`` int64 [B], the indices of the rows in their data set, which are not
    passed to the model.

    Args:
        arrays: the arrays by name.
        tokens: names of the arrays [total, …] with an entry per token (or time step),
            if the batch has any; all others have an entry per row.
        decoder_tokens: names of the arrays with an entry per target token.
        targets: names of the targets of the loss; a batch that has none of them has no
            loss.
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        tokens: Collection[str] = (),
        targets: Collection[str] = ("labels",),
        decoder_tokens: Collection[str] = (),
    ) -> None:
        super().__init__(arrays)
        self.tokens = frozenset(tokens) & self.keys()
        self.decoder_tokens = frozenset(decoder_tokens) & self.keys()
        self.targets = frozenset(targets)


def tokens_of(batch: Mapping[str, Array]) -> Collection[str]:
    """Returns the names of token arrays; in a dict, arrays with one entry per token.

    If there are as many tokens as rows, the distinction does not matter.
    """
    if isinstance(batch, Batch):
        return batch.tokens
    total = batch["sequence_offsets"][-1]
    return [
        name
        for name, value in batch.items()
        if name != "sequence_offsets" and len(value) == total
    ]


@runtime_checkable
class PackedDataset(Protocol):
    """A data set that builds its own batches; the Trainer needs nothing else.

    To support a new kind of data, write a class with these methods, and a model that
    accepts its batches.

    A data set whose rows are drawn again in each epoch also has ``of_epoch(epoch)``,
    which returns the data set of that epoch: with the same rows, lengths and
    fingerprint.
    """

    def __len__(self) -> int:
        """Number of rows N."""

    @property
    def lengths(self) -> Array:
        """Tokens of each row, int64 [N], for grouping rows by length."""

    def gather(self, indices: Array) -> Batch:
        """Returns the batch of the rows with these indices, with ``row_ids``.

        It may run in another thread, so it must not use the global random generators.
        """

    def fingerprint(self) -> str:
        """Returns a hash of all rows, which a resumed run compares."""


def each(rows: Any) -> Iterator[Any]:
    """Iterates over len(rows) rows: PyTorch data sets may not end by themselves."""
    return islice(rows, len(rows))


def digest(count: int, rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns blake2b over a count, and over arrays with names, shapes and dtypes.

    Raises:
        InputError: an entry of a row is not numeric; names the row.
    """
    found = hashlib.blake2b(digest_size=16)
    found.update(str(count).encode())
    for index, row in enumerate(rows):
        for name, value in row.items():
            if value is None:
                continue
            try:
                values = np.asarray(value)
                values = values.astype("<i8" if values.dtype.kind in "iub" else "<f8")
            except (TypeError, ValueError):
                raise InputError(
                    f"row {index} of the data set: {name} is {value!r:.60}, expected "
                    "numbers; number the labels, and tokenise text"
                ) from None
            found.update(f"{name}{values.shape}{values.dtype.kind}".encode())
            found.update(values.tobytes())
    return found.hexdigest()


class PackedRows(Sequence[dict[str, Any]]):
    """N rows stored flat: the base of this package's :class:`PackedDataset` classes.

    A subclass has an attribute for each array it names, [total, …], in addition to
    ``offsets`` int64 [N + 1] and ``labels`` [N], [N, L] or None. Row i is a dict of its
    part of each array, and its label as a scalar, or its L labels [1, L].
    """

    tokens: ClassVar[tuple[str, ...]]
    place: ClassVar[str] = "row {} of {} rows"  # for messages
    offsets: Array
    labels: Array | None

    def _arrays(self) -> dict[str, Array]:
        """Returns the token arrays that this data set has."""
        found = {name: getattr(self, name) for name in self.tokens}
        return {name: array for name, array in found.items() if array is not None}

    def _gathered(self, indices: Any) -> dict[str, Array]:
        """Returns token arrays, ``offsets`` and ``labels`` of these rows."""
        indices = np.asarray(indices, dtype=np.int64)
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = np.zeros(len(indices) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # token j of the batch is at (its row's start) + (j - the row's offset)
        shift = np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        source = np.arange(offsets[-1]) + shift
        arrays = {name: a.take(source, axis=0) for name, a in self._arrays().items()}
        labels = {} if self.labels is None else {"labels": self.labels[indices]}
        return {**arrays, "offsets": offsets, **labels}

    def take(self, indices: Any) -> Any:
        """Returns these rows as a data set."""
        raise NotImplementedError

    @property
    def lengths(self) -> Array:
        """Tokens, or time steps, of each row: int64 [N]."""
        return np.diff(self.offsets)

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these rows; token ids become int64."""
        arrays = self._gathered(indices)
        arrays["sequence_offsets"] = arrays.pop("offsets")
        arrays["row_ids"] = np.asarray(indices, dtype=np.int64)
        for name in self.tokens:
            if name in arrays and arrays[name].dtype.kind == "i":
                arrays[name] = arrays[name].astype(np.int64)
        return Batch(arrays, self.tokens)

    def fingerprint(self) -> str:
        """Returns a hash of all rows."""
        first, *rest = self._arrays().items()
        arrays = dict([first, ("offsets", self.offsets), *rest])
        return digest(len(self), [{**arrays, "labels": self.labels}])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(self.place.format(position, len(self)))
        position %= len(self)
        span = slice(self.offsets[position], self.offsets[position + 1])
        row: dict[str, Any] = {name: a[span] for name, a in self._arrays().items()}
        if self.labels is not None:
            own = self.labels[position : position + 1]
            row["labels"] = own.item() if own.ndim == 1 else own
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))
