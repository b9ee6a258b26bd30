"""Errors of ea.functional name the function that was called, not its kernel."""

from __future__ import annotations

import numpy as np
import pytest
from support.table import CASES

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F


def test_refused_integers_name_the_function(monkeypatch):
    monkeypatch.setattr(_core, "ops", F)
    refused = {}
    for case in CASES:
        if case.wide or case.op not in _core.op_names():
            continue
        inputs = [ea.Tensor(np.zeros(shape, np.int64)) for shape in case.shapes]
        try:
            case.call(*inputs)
        except ea.InputError as error:
            refused[str(case)] = str(error).startswith(f"[{case.op}] ")
    assert len(refused) > 50
    assert [case for case, well in refused.items() if not well] == []


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: F.einsum("ij,jk", [[1]], [[1]]), "einsum"),
        (lambda: F.stack([[1], [1.0]]), "stack"),
        (lambda: F.stack([1.0], 7), "stack"),
        (lambda: F.max(np.zeros((0, 2))), "max"),
        (lambda: F.mse_loss(np.zeros(0, "f4"), np.zeros(0, "f4")), "mse_loss"),
        (lambda: F.embedding([[1.0]], [0.5]), "embedding"),
        (lambda: F.gather_rows([[1.0]], [0.5]), "gather_rows"),
    ],
)
def test_other_refusals_name_the_function(call, place):
    with pytest.raises(ea.InputError, match=rf"^\[{place}\] "):
        call()


def test_evolving_attention_names_itself():
    q = np.ones((1, 2, 3, 4), "f4")
    with pytest.raises(ea.DTypeError, match=r"^\[evolving_attention\] expected two"):
        F.evolving_attention(q, q, q, prev=np.ones((1, 2, 3, 3)), alpha=0.5)
    with pytest.raises(ea.ConfigError, match=r"scale='a', expected a number"):
        F.evolving_attention(q, q, q, scale="a")
