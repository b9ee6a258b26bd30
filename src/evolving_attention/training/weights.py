"""Weights of training rows in the loss, by class and by row.

    loss of a batch = 1/B · sum over its B rows of w · (the loss of the row)

where w is the weight of the row's class times its ``sample_weight``, scaled to mean 1
over the training set. So the loss keeps its scale, and a row's gradient does not depend
on the other rows of the batch. Rows whose class is -100 have no loss and are not among
the B, nor in the mean. Evaluation is not weighted.
"""

from __future__ import annotations

import hashlib
import math
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from evolving_attention.data.collate import IGNORED, LABELS
from evolving_attention.data.columns import WEIGHT as KEY
from evolving_attention.data.row_forms import column_of
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.training import batches as b
from evolving_attention.training.arguments import TrainingArguments

if TYPE_CHECKING:
    from evolving_attention._core import Tensor

Array = np.ndarray[Any, Any]


class RowWeights:
    """The weight of every row of a training set; no weights if all are equal.

    Args:
        args: its ``class_weight`` is used.
        dataset: as the caller gave it, with or without a column ``sample_weight``.
        rows: its rows, from which batches are made.
        config: config of the model, which names its classes.
        own_loss: whether the caller's function computes the loss.

    Raises:
        ConfigError, InputError: weights are not numbers from 0 up, do not match the
            rows or classes, or are all 0.
    """

    def __init__(
        self,
        args: TrainingArguments,
        dataset: Any,
        rows: Any,
        config: Any,
        own_loss: bool,
    ) -> None:
        self.values: Array | None = None
        self._by_class: Array | None = None  # if only classes have weights
        self._labels: Array | None = None  # one for each row, where they are so
        given = column_of(dataset, KEY)
        by_class: Any = args.class_weight
        if given is None and by_class is None:
            return
        if own_loss:
            name = KEY if by_class is None else "class_weight"
            raise ConfigError(
                f"Trainer: {name} with compute_loss_func, expected one of the two; "
                "weigh the rows in the function, or leave it out"
            )
        weights = np.ones(len(rows))
        if given is not None:
            weights *= _checked(given, len(rows))
        if by_class is None:
            self._labels = _numbers(rows)
        else:
            self._labels = _labels(rows, getattr(config, "num_labels", 0) != 1)
            kept = self._labels[_have_class(self._labels)]
            each = _of_classes(by_class, kept, config)
            weights *= _weights_of(self._labels, each)
        counted = weights
        if self._labels is not None and getattr(config, "num_labels", 0) != 1:
            counted = weights[_have_class(self._labels)]
        if not counted.any():
            raise InputError(
                "Trainer: the weights of all training rows with a label are 0, "
                "expected some above; correct sample_weight or class_weight"
            )
        if (counted != counted[0]).any():
            self.values = (weights / counted.mean()).astype(np.float32)
            if given is None:
                self._by_class = (each / counted.mean()).astype(np.float32)

    def inputs_of(self, batch: b.Batch) -> b.Batch:
        """Returns the inputs of ``compute_loss``: the model's, and the row weights.

        Raises:
            InputError: a collator has made other rows than those that it was given.
        """
        inputs = b.inputs_of(batch)
        if self.values is not None:
            inputs[KEY] = self._of_rows(batch, self.values)
        return inputs

    def _of_rows(self, batch: b.Batch, values: Array) -> Array:
        """Returns the weight of each row of a batch: [B].

        A row's weight follows from its id. If the collator made other rows, or put them
        into another order, the weight of a class follows from the label in the batch.
        """
        labels: Array = host_array(batch.get("labels", []))
        rows = batch.get("row_ids")
        if rows is not None and not self._is_reordered(labels, rows):
            return values[rows]
        by_class, known = self._by_class, self._labels
        if (
            by_class is not None
            and known is not None
            and (labels.ndim == 1 and labels.dtype.kind in "iu")
            and np.isin(labels, known).all()
        ):
            return _weights_of(labels, by_class)
        given = KEY if by_class is None else "class_weight"
        raise InputError(
            "Trainer: data_collator made other rows than those it was given (labels "
            f"{reprlib.repr(labels.tolist())}), expected one for each, in their order, "
            f"to which {given} refers; keep the order, or leave {given} out and weigh "
            "the rows in an overridden compute_loss"
        )

    def _is_reordered(self, labels: Array, rows: Array) -> bool:
        """Whether a batch has the labels of these rows in another order.

        Other labels tell nothing: a collator may have numbered or scaled them anew.
        """
        if self._labels is None or labels.dtype.kind not in "biuf":
            return False
        own = self._labels[rows].astype(labels.dtype)
        if own.shape != labels.shape:
            return False
        has_nan = labels.dtype.kind == "f"
        same, sorted_same = (
            np.array_equal(a, b, equal_nan=has_nan)
            for a, b in ((own, labels), (np.sort(own), np.sort(labels)))
        )
        return sorted_same and not same

    def fingerprint(self) -> dict[str, str]:
        """Returns the part that a resumed run compares; empty if no row is weighted."""
        if self.values is None:
            return {}
        digest = hashlib.blake2b(self.values.tobytes(), digest_size=16)
        return {"weights": digest.hexdigest()}


def weighted_loss(
    model: Any, inputs: dict[str, Any], weights: Array, label_smoothing: float
) -> Tensor:
    """Returns the weighted mean loss of a batch.

    Args:
        model: a model for sequence classification or regression.
        inputs: inputs of its call, with labels.
        weights: [B].
        label_smoothing: as in the model's own loss.

    Raises:
        InputError: there is not exactly one label for each row.
    """
    from evolving_attention import functional as F
    from evolving_attention._core import Tensor

    inputs = dict(inputs)
    labels = np.asarray(inputs.pop("labels"))
    logits = model(**inputs).logits
    if len(labels) != len(weights) or len(logits.shape) != 2:
        raise InputError(
            f"Trainer: labels have shape {labels.shape} for {len(weights)} weighted "
            "rows, expected one label for each row; leave class_weight and "
            "sample_weight out"
        )
    if logits.shape[1] == 1:
        values = Tensor(labels.reshape(-1, 1), dtype="float32").to(logits.device)
        error = F.sub(F.cast(logits, "float32"), values)
        rows = F.mean(F.mul(error, error), axis=1)
    elif labels.ndim == 2:
        target = Tensor(labels, dtype="float32").to(logits.device)
        each = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        rows = F.mean(each, axis=1)
    else:
        rows = F.cross_entropy(logits, labels, label_smoothing, reduction="none")
        counted = int(np.count_nonzero(_have_class(labels)))
        weights = weights * np.float32(len(labels) / max(1, counted))
    scales = Tensor(weights, dtype=rows.dtype).to(rows.device)
    return F.mean(F.mul(rows, scales))


def _have_class(labels: Array) -> Array:
    """Marks the rows whose label is not -100: bool [N]."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        return np.ones(len(labels), bool)
    return np.asarray(labels != IGNORED)


def _weights_of(labels: Array, each: Array) -> Array:
    """Returns the weight of the class of each row; 1 for rows without a class."""
    found = np.ones(len(labels), each.dtype)
    kept = _have_class(labels)
    found[kept] = each[labels[kept]]
    return found


def _checked(given: Any, count: int) -> Array:
    """Returns ``sample_weight`` as float64 [count]."""
    if isinstance(given, list) and any(weight is None for weight in given):
        raise InputError(
            f"Trainer: train_dataset[{given.index(None)}]: sample_weight is missing, "
            "expected a number in every row, or in none; give it one"
        )
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Trainer: sample_weight: {error}, expected one number for each row; "
            "correct the column"
        ) from None
    if weights.shape != (count,):
        raise InputError(
            f"Trainer: sample_weight has shape {weights.shape} for {count} rows, "
            "expected one number for each; correct the column"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InputError(
            f"Trainer: sample_weight of row {bad[0]} is {weights[bad[0]]}, expected a "
            "finite number from 0; correct it"
        )
    return weights


def _column(rows: Any) -> Any:
    """Returns the labels of all rows; none if the rows have no labels."""
    labels = getattr(rows, "labels", None)
    for key in LABELS:
        labels = column_of(rows, key) if labels is None else labels
    return [] if labels is None else labels


def _numbers(rows: Any) -> Array | None:
    """Returns a label for every row: [N]; None for other labels."""
    try:
        found = np.asarray(_column(rows))
    except ValueError:  # as many as each row has tokens
        return None
    return found if found.shape == (len(rows),) and found.dtype.kind in "biuf" else None


def _labels(rows: Any, classes: bool) -> Array:
    """Returns the class of every row: int64 [N]; -100 for none if all are classes."""
    found = np.asarray(_column(rows))
    if found.shape != (len(rows),) or found.dtype.kind not in "iu":
        raise ConfigError(
            "TrainingArguments: class_weight is given, expected one class for each row "
            f"of train_dataset, got labels {found.dtype} of shape {found.shape}; leave "
            "it out, or give rows a sample_weight"
        )
    bad = (found < 0) & ~(classes & (found == IGNORED))
    if bad.any():
        row = int(np.argmax(bad))
        raise ConfigError(
            f"TrainingArguments: class_weight is given and the label of "
            f"train_dataset[{row}] is {found[row]}, expected classes from 0; leave the "
            "row or class_weight out, or give rows a sample_weight"
        )
    return found.astype(np.int64)


def _of_classes(given: Any, labels: Array, config: Any) -> Array:
    """Returns the weight of every class: float64 [classes]."""
    names: dict[str, int] = dict(getattr(config, "label2id", None) or {})
    count = max(len(names), int(labels.max(initial=0)) + 1)
    where = "TrainingArguments: class_weight"
    each = np.ones(count)
    if given == "balanced":
        found = np.bincount(labels, minlength=count)
        return np.asarray(
            len(labels) / (max(1, (found > 0).sum()) * np.maximum(found, 1))
        )
    for name, weight in given.items():
        number = names.get(name, _number(name))
        if number is None or not 0 <= number < count:
            raise ConfigError(
                f"{where} has the class {name!r}, expected classes of the model: "
                f"{', '.join(names)}, or their numbers from 0; correct it"
            )
        if isinstance(weight, bool) or not _is_weight(weight):
            raise ConfigError(
                f"{where} of class {name!r} is {weight!r}, expected a finite number "
                "from 0; correct it"
            )
        each[number] = weight
    return each


def _number(name: Any) -> int | None:
    text = str(name)
    return int(text) if text.isdecimal() else None


def _is_weight(value: Any) -> bool:
    number = isinstance(value, (int, float, np.number))
    return number and math.isfinite(value) and value >= 0
