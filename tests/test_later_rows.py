"""Rows of a data set that are unlike its first one are errors that name them."""

from __future__ import annotations

import numpy as np
import pytest

from evolving_attention.data.collate import collate_packed
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.packed import digest
from evolving_attention.data.row_forms import rows_of
from evolving_attention.errors import InputError

TWO = {"input_ids": [5, 6]}
LATER_ROWS = {
    "nothing": (TWO, None, "row 1 of the batch is a NoneType, expected a dict"),
    "text": (TWO, "a b", "row 1 of the batch is a str, expected a dict"),
    "a number, not one per token": (
        {**TWO, "labels": [0, 1]},
        {**TWO, "labels": 1},
        r"row 1 of the batch: labels is int64 of shape \(\)",
    ),
    "one label per token, not a number": (
        {**TWO, "labels": 1},
        {**TWO, "labels": [0, 1]},
        r"row 1 of the batch: labels is \[0, 1\], expected the form of .* first, 1;",
    ),
    "several labels and one": (
        {**TWO, "labels": np.zeros((1, 2))},
        {**TWO, "labels": 1},
        "row 1 of the batch: labels is 1, expected the form of the batch's first",
    ),
    "texts of one question": (
        TWO,
        {"input_ids": [[5, 6], [7]]},
        "row 1 of the batch: input_ids holds lists of diff.*DataCollatorForMultipleCh",
    ),
    "masked texts of one question": (
        TWO,
        {"input_ids": [[5, 6], [7]], "attention_mask": [[1, 1], [1]]},
        "row 1 of the batch: input_ids holds lists of diff.*DataCollatorForMultipleCh",
    ),
}


@pytest.mark.parametrize("name", sorted(LATER_ROWS))
def test_a_later_row_of_another_form_is_named(name):
    first, later, message = LATER_ROWS[name]
    with pytest.raises(InputError, match=message):
        collate_packed([first, later])


@pytest.mark.parametrize(
    ("later", "found"),
    [({"label": 1}, "missing"), ({"input_ids": None}, "None"), ({"input_ids": 5}, "5")],
)
def test_a_row_without_ids_is_named_before_the_first_batch(later, found):
    says = f"row 1 of the data set: input_ids is {found}, expected a list of ints"
    with pytest.raises(InputError, match=says):
        PackedLoader([TWO, later], 2)


@pytest.mark.parametrize("labels", [["B-PER", "O"], [[1], [1, 2]]])
def test_labels_that_are_no_numbers_have_no_digest(labels):
    says = "row 1 of the data set: labels is .*, expected numbers"
    with pytest.raises(InputError, match=says):
        digest(2, [TWO, {**TWO, "labels": labels}])


@pytest.mark.parametrize("row", [None, "text", 5])
def test_later_rows_of_a_list_are_dicts(row):
    says = rf"train_dataset\[1\] is a {type(row).__name__}, expected a dict"
    with pytest.raises(InputError, match=says):
        rows_of([TWO, row], "train_dataset")
