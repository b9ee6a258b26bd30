"""Checks the labels of models that classify whole texts or images."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import InputError


def check_labels(model: Any, labels: Any, item: str) -> None:
    """Rejects labels that a model would ignore, or of a shape for another problem.

    Args:
        model: a base model, or one for sequence or image classification.
        labels: [B], or [B, num_labels] of 0 and 1 for several labels per item.
        item: what a label belongs to, ``"text"`` or ``"image"``.

    Raises:
        InputError: names the model, and what it expects.
    """
    name = type(model).__name__
    if model.head == "base":
        task = "Sequence" if item == "text" else "Image"
        raise InputError(
            f"{name}: labels are given, but a model without a task has no loss; "
            "expected none; use a class with a task, such as "
            f"ea.AutoModelFor{task}Classification"
        )
    try:
        shape, count = np.shape(labels), model.config.num_labels
    except ValueError:  # rows of several lengths, which the core refuses
        return
    several = model.config.problem_type == "multi_label_classification"
    if several and (len(shape) != 2 or shape[1] != count):
        raise InputError(
            f"{name}: labels have shape {shape}, expected [B, {count}] of 0 and 1, for "
            "this model has problem_type 'multi_label_classification'; give a row for "
            f"each {item}"
        )
    if not several and len(shape) == 2 and shape[1] > 1:
        raise InputError(
            f"{name}: labels have shape {shape}, expected [B], one class for each "
            f"{item}; a list of labels per {item} needs problem_type="
            "'multi_label_classification'"
        )
