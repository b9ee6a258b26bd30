"""Targets of estimators: checks of labels and values, and the validation split."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from evolving_attention.errors import DTypeError, InputError, ShapeError, require

Array = np.ndarray[Any, Any]
_SPLIT = 0x53504C4954  # key of a separate random stream


class Kind(NamedTuple):
    """Words for the rows that the targets belong to, for messages."""

    many: str
    one: str
    extra: str
    values: str  # advice for targets that are values
    held: str = ""  # advice where no row is held out, beside validation_fraction


SERIES = Kind(
    "series",
    "series",
    "timeseries",
    "for values of a scale use ea.TimeSeriesRegressor",
)
PICTURES = Kind(
    "pictures", "picture", "image", "values of a scale are not supported here"
)
NODES = Kind(
    "nodes",
    "node",
    "graphs",
    "values of a scale are not supported here",
    ", or pass a validation_mask",
)


def missing(y: Array) -> Array:
    """Returns which targets are NaN, NaT, infinite, None or pandas' NA, like y."""
    if y.dtype.kind == "O":  # among text, pandas marks a missing label by NaN
        na = (one is None or type(one).__name__ == "NAType" or one != one for one in y)
        return np.fromiter(na, bool, len(y))
    if y.dtype.kind in "mM":
        return np.isnat(y)
    return ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(y.shape, bool)


def unmixed(y: Any) -> Any:
    """Returns a list of text and other things as an array of objects, else y itself.

    NumPy would turn all of them into text, and a missing label into the class "nan".
    """
    if not isinstance(y, (list, tuple)):
        return y
    try:
        cells = np.array(y, dtype=object)
    except ValueError:  # of unequal shapes, which is refused with its reason later
        return y
    text = sum(isinstance(one, str) for one in cells.flat)
    return cells if 0 < text < cells.size else y


def refuse_masked(given: Any, name: str) -> None:
    """Refuse an array of ``numpy.ma`` with masked values, which NumPy would read.

    Raises:
        InputError: it has some.
    """
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(
            f"{name} has masked values, expected a value for each row; leave those "
            "rows out"
        )


def one_dimensional(y: Any, count: int, name: str = "y", kind: Kind = SERIES) -> Array:
    """Returns one target per row, [N]; a column [N, 1] is accepted with a warning.

    Raises:
        InputError: there are no targets, or masked ones.
        ShapeError: the shape is wrong, or the numbers of targets and rows differ.
    """
    if y is None:
        raise InputError(
            f"requires {name} to be passed, but the target {name} is None: expected "
            f"one target for each of the {count} {kind.many}; pass fit(X, {name})"
        )
    refuse_masked(y, name)
    validation = require(
        "sklearn.utils.validation", extra=kind.extra, why=f"for targets of {kind.many}"
    )
    try:
        array = validation.column_or_1d(unmixed(y), warn=True)
    except ValueError as error:
        raise ShapeError(
            f"{name}: {error}; expected one target per {kind.one}, [{count}]"
        ) from None
    if len(array) != count:
        raise ShapeError(
            f"{name}: {len(array)} targets for {count} {kind.many} (inconsistent "
            "numbers of samples), expected one each; check the selection"
        )
    return np.asarray(array)


def refuse_disorder(y: Any, ids: tuple[Any, ...] | None, name: str = "y") -> None:
    """Refuse a pandas ``y`` whose index has the labels of the series in another order.

    Targets belong to the series by position, never by their index.

    Args:
        y: the targets, in any form.
        ids: labels of the series in X; None: they have none.
        name: name of the targets in messages.

    Raises:
        InputError: names the first target that is out of order.
    """
    if ids is None or not hasattr(y, "iloc"):
        return
    index = tuple(y.index)
    if index == ids or len(index) != len(ids) or set(index) != set(ids):
        return
    row = next(i for i, one in enumerate(ids) if one != index[i])
    raise InputError(
        f"{name}[{row}] belongs to {index[row]!r}, expected {ids[row]!r}: the index "
        "has the labels of the series in X in another order; sort it alike, by "
        f"{name}.sort_index() for a table with the index (series, time), or "
        f"{name}.loc[X.index] for one with a series in each row"
    )


def class_targets(y: Any, count: int, kind: Kind = SERIES) -> Array:
    """Validate class labels [N]: at least two classes, all of one kind.

    Raises:
        InputError, ShapeError, DTypeError: the labels are invalid.
    """
    labels = one_dimensional(y, count, kind=kind)
    _refuse_nonfinite(labels, kind)
    multiclass = require(
        "sklearn.utils.multiclass", extra=kind.extra, why=f"for targets of {kind.many}"
    )
    try:
        multiclass.check_classification_targets(labels)
        classes = np.unique(labels)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"y: {error}; expected class labels, all text or all whole numbers; "
            f"{kind.values}"
        ) from None
    if len(classes) < 2:
        raise InputError(
            f"y: {len(labels)} {kind.many} (n_samples = {len(labels)}) of one class, "
            f"{classes.tolist()}, expected at least 2 classes to tell apart; check "
            "the selection"
        )
    return labels


def value_targets(y: Any, count: int) -> Array:
    """Validate the target values [N] of a regression; returns float64.

    Raises:
        InputError, ShapeError, DTypeError: values are not finite numbers, or too few.
    """
    values = one_dimensional(y, count)
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"y: {error}; expected real numbers; for class labels use "
            "ea.TimeSeriesClassifier"
        ) from None
    _refuse_nonfinite(values)
    if count < 2:
        raise InputError(
            "X: 1 series (n_samples = 1), expected at least 2 to learn from; add more"
        )
    return values


def _refuse_nonfinite(y: Array, kind: Kind = SERIES) -> None:
    bad = missing(y)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"y[{row}] = {y[row]}: contains NaN or infinity, expected a target for "
            f"every {kind.one}; leave {kind.many} without one out"
        )


def class_numbers(
    labels: Array,
    classes: Array,
    name: str = "y",
    kind: Kind = SERIES,
    rows: Array | None = None,
) -> Array:
    """Returns the index of every label among ``classes``: int64 [N].

    Args:
        labels: labels [N].
        classes: the labels of training.
        name: name of the labels in messages.
        kind: words for the rows, for messages.
        rows: row numbers of the labels in messages; None: from 0.

    Raises:
        InputError: a label is not one of the classes.
    """
    known = {label: number for number, label in enumerate(classes.tolist())}
    found = np.array([known.get(label, -1) for label in labels.tolist()], np.int64)
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        shown = [str(one) for one in (labels[row], *classes)]
        if shown[0] in shown[1:]:  # same text, other type: 1 and "1"
            shown = [repr(one) for one in (labels.tolist()[row], *known)]
        raise InputError(
            f"{name}[{row if rows is None else rows[row]}] = {shown[0]}: a label "
            f"unseen in training, expected one of {', '.join(shown[1:])}; leave the "
            f"{kind.one} out or train with that class"
        )
    return found


def split(
    count: int,
    fraction: float,
    seed: int,
    numbers: Array | None = None,
    kind: Kind = SERIES,
    stacklevel: int = 6,
) -> tuple[Array, Array]:
    """Returns the indices of a training and a validation part, each ascending.

    Args:
        count: number of series.
        fraction: share of the validation part, in [0, 1).
        seed: seed of the split.
        numbers: class of each series, for a stratified split; None: not stratified.
        kind: words for the rows, for messages.
        stacklevel: of the warning; by default at the line that calls ``fit``.

    Every class keeps at least one series in the training part, so the validation part
    of a set with tiny classes may be empty: a warning says so, unless fraction is 0.
    """
    generator = np.random.Generator(
        np.random.Philox(key=np.array([seed, _SPLIT], dtype=np.uint64))
    )
    groups = [np.arange(count)]
    if numbers is not None:
        groups = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    chosen = [
        generator.permutation(group)[
            : min(round(fraction * len(group)), len(group) - 1)
        ]
        for group in groups
    ]
    validation = np.sort(np.concatenate(chosen))
    if fraction and not len(validation):
        warnings.warn(_no_validation(groups, fraction, kind), stacklevel=stacklevel)
    return np.setdiff1d(np.arange(count), validation), validation


def _no_validation(groups: list[Array], fraction: float, kind: Kind) -> str:
    """Returns the warning that no row of these groups is held out."""
    count, largest = sum(map(len, groups)), max(map(len, groups))
    share = f" of the largest class, {largest}," if len(groups) > 1 else ""
    remedy = f"raise validation_fraction, such as to {1 / largest:.2g}"
    if largest == 1:
        remedy = f"add {kind.many}"
    return (
        f"validation_fraction={fraction} holds out none of {count} {kind.many}: the "
        f"share{share} rounds to 0. The last epoch is kept, and patience has no "
        f"effect; to choose the best epoch, {remedy}{kind.held}"
    )
