"""Series with targets from files: one part, and a data set of two parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention.data.series_axes import refuse_other_steps
from evolving_attention.errors import InputError

_SHOWN = 6  # most labels in a summary


@dataclass(frozen=True, repr=False)
class SeriesPart:
    """Series with their targets.

    Attributes:
        X: array [n, channels, length], or a list of arrays [channels, length].
        y: labels [n] as text, or values [n] as float64; None: there are none.
        is_regression: whether the targets are values.
        source: the file.
        ids: names of the series [n] in the file, or None.
        channel_names: names of the channels in the file, or None.
        step_names: names of the time steps, if each row is a series, or None.
    """

    X: Any
    y: Any
    is_regression: bool
    source: str
    ids: tuple[str, ...] | None = None
    channel_names: tuple[str, ...] | None = None
    step_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"SeriesPart({self._summary()}; {self.source})"

    def _summary(self) -> str:
        """Returns the numbers of series, channels and time steps, and the targets."""
        lengths = [int(np.shape(one)[-1]) for one in self.X]
        least, most = min(lengths, default=0), max(lengths, default=0)
        steps = str(most) if least == most else f"{least} to {most}"
        if self.y is None:
            targets = "no targets"
        elif self.is_regression:
            targets = f"values {np.min(self.y):.4g} to {np.max(self.y):.4g}"
        else:
            names = [str(label) for label in np.unique(self.y)]
            more = f", … ({len(names)})" if len(names) > _SHOWN else ""
            targets = f"labels {', '.join(names[:_SHOWN])}{more}"
        return (
            f"{len(self)} series, {self.channels if len(self) else 0} channels, "
            f"{steps} time steps; {targets}"
        )

    @property
    def longest(self) -> int:
        """Time steps of the longest series."""
        return max(int(np.shape(one)[-1]) for one in self.X)

    @property
    def channels(self) -> int:
        """Number of channels of the first series."""
        return int(np.shape(self.X[0])[0])


@dataclass(frozen=True, repr=False)
class SeriesDataset:
    """A training and a test part under one name."""

    name: str
    train: SeriesPart
    test: SeriesPart

    def __repr__(self) -> str:
        return (
            f"SeriesDataset({self.name!r}, train: {self.train._summary()}, "
            f"test: {self.test._summary()})"
        )

    @property
    def is_regression(self) -> bool:
        """Whether the targets are values."""
        return self.train.is_regression

    @property
    def longest(self) -> int:
        """Time steps of the longest series in both parts."""
        return max(self.train.longest, self.test.longest)


def check_parts(train: SeriesPart, test: SeriesPart) -> None:
    """Refuse two parts that do not belong to one data set.

    Raises:
        InputError: the parts differ in channels, in names of channels or time steps,
            or in the kind of targets.
    """
    if train.channels != test.channels:
        raise InputError(
            f"{test.source}: {test.channels} channels, expected {train.channels} as in "
            f"{train.source}; are they of one data set?"
        )
    names = [part.channel_names for part in (train, test)]
    if None not in names and names[0] != names[1]:
        raise InputError(
            f"{test.source}: the channels {', '.join(names[1] or ())}, expected "
            f"{', '.join(names[0] or ())} as in {train.source}; order the columns alike"
        )
    refuse_other_steps(test.step_names, train.step_names, test.source, train.source)
    labelled = train.y is not None and test.y is not None
    if labelled and train.is_regression != test.is_regression:
        raise InputError(
            f"{test.source}: targets of another kind, expected those of {train.source}"
            "; are they of one data set?"
        )
