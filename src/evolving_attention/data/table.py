"""A data set in memory: columns of equal length, read as a sequence of dicts."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from evolving_attention.data.labels import Labelled
from evolving_attention.data.report import RowReport
from evolving_attention.errors import InputError, ShapeError


class TableDataset(Labelled, Sequence[dict[str, Any]]):
    """Rows in memory; behaves as ``Sequence[dict]`` and as a table.

    Args:
        columns: name to values, all of one length.
        text_columns: the one or two columns that a model reads, in order.
        label_names: name of each class by its id; None for regression.
        has_labels: whether column ``label`` holds true labels (a test set without
            labels has -1 there).
        report: the report on every row of the file.
        label_column: name in the file of the column that is called ``label`` here.

    Example::

        train[0]                 # {"sentence": "…", "label": 1, "idx": 0}
        train.column("label")    # list of int
        train[:100], train.select([3, 1])    # data sets again
    """

    def __init__(
        self,
        columns: Mapping[str, Sequence[Any]],
        *,
        text_columns: Sequence[str],
        label_names: Sequence[str] | None = None,
        has_labels: bool = True,
        report: RowReport | None = None,
        label_column: str = "label",
    ) -> None:
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ShapeError(f"columns differ in length: {lengths}")
        self._columns = {name: list(values) for name, values in columns.items()}
        self._length = next(iter(lengths.values()), 0)
        self.text_columns = tuple(text_columns)
        self.label_names = None if label_names is None else tuple(label_names)
        self.has_labels = has_labels
        self.report = report
        self.label_column = label_column

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, str | tuple[str, ...]]:
        """Type of each column: "string", "int64", "float64", the class names."""
        kinds: dict[str, str | tuple[str, ...]] = {}
        for name, values in self._columns.items():
            if name == "label":
                kinds[name] = self.label_names or "float32"
            elif values and isinstance(values[0], int):
                kinds[name] = "int64"
            elif values and isinstance(values[0], float):
                kinds[name] = "float64"
            else:
                kinds[name] = "string"
        return kinds

    def column(self, name: str) -> list[Any]:
        """Returns all values of one column.

        Raises:
            InputError: the column does not exist.
        """
        try:
            return list(self._columns[name])
        except KeyError:
            raise InputError(
                f"no column {name!r}; this data set has {', '.join(self._columns)}"
            ) from None

    def select(self, indices: Sequence[int] | np.ndarray) -> TableDataset:
        """Returns a data set of the rows with these indices, in this order."""
        rows = [self._index(i) for i in np.asarray(indices, dtype=np.int64).tolist()]
        chosen = {
            name: [values[i] for i in rows] for name, values in self._columns.items()
        }
        return self._like(chosen)

    def relabelled(self, labels: Sequence[Any], names: Sequence[str]) -> TableDataset:
        """Returns a data set of these rows with other labels, of classes so named."""
        made = self._like({**self._columns, "label": list(labels)})
        made.label_names = tuple(names)
        return made

    def _like(self, columns: dict[str, list[Any]]) -> TableDataset:
        """Returns a data set like this one with other rows."""
        made = copy.copy(self)
        made._columns = columns
        made._length = len(next(iter(columns.values()), ()))
        return made

    def _index(self, index: Any) -> int:
        position = operator.index(index)
        if not -self._length <= position < self._length:
            raise IndexError(f"row {position} of a data set of {self._length} rows")
        return position % self._length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> TableDataset: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.select(range(*index.indices(self._length)))
        position = self._index(index)
        return {name: values[position] for name, values in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = tuple(self._columns)
        for values in zip(*self._columns.values(), strict=True):
            yield dict(zip(names, values, strict=True))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._length} rows: "
            f"{', '.join(self._columns)}; {self.num_labels} label(s))"
        )
