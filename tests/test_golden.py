"""Saved models compute what they computed when they were saved.

The folders in ``tests/golden`` were written by version 297bff6; see ``helpers_golden``.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers_golden import (
    CASES,
    DTYPES,
    GOLDEN,
    class_of,
    expected,
    load,
    passes,
    recorded,
    scale_of,
)

# Relative to the norm of an output, plus, for gradients, 30 % of the norm of all
# gradients: gradients of biases before a batch norm are 0 except for rounding. The
# bfloat16 bound is that of gradients in test_attention_contract.
BOUNDS = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.08}
FLOOR = 0.3


def test_every_folder_is_a_case():
    assert {path.name for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_the_recorded_ones(case, dtype):
    known = expected(case)
    model = load(case, dtype)
    assert type(model) is class_of(case)
    assert not model.load_report.new
    assert not model.load_report.unexpected
    seen = set()
    for call, arrays in passes(case, model):
        floor = FLOOR * norm_of_gradients(arrays)
        for name, value in arrays.items():
            seen.add(name)
            compare(known[name], name, value, dtype, floor, f"{call} {name}")
    assert seen == set(known)


def norm_of_gradients(arrays):
    squares = [
        np.linalg.norm(value.astype(np.float64)) ** 2
        for name, value in arrays.items()
        if name.startswith("gradient.")
    ]
    return sum(squares) ** 0.5


def compare(known, name, value, dtype, floor, where):
    error = np.abs(recorded(name, value) - known).max()
    scale = scale_of(name, value) + (floor if name.startswith("gradient.") else 0.0)
    assert error <= BOUNDS[dtype] * scale, where


def test_a_changed_weight_is_seen():
    model = load("bert-evolving", "float64")
    weight = dict(model.named_parameters())["bert.encoder.layer.1.output.dense.weight"]
    values = np.array(weight)
    values[3, 2] += 1e-9
    weight.copy_(values)
    known = expected("bert-evolving")
    for call, arrays in passes("bert-evolving", model):
        name = "eval.logits" if call == "eval" else "logits"
        with pytest.raises(AssertionError):
            compare(known[name], name, arrays[name], "float64", 0.0, call)
