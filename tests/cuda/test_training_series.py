"""Training of time-series models on a CUDA device, against the CPU.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_gpu import last_cuda_device
from helpers_series import draw, targets_for, tiny
from helpers_steps import assert_same_course, three_steps
from series_data import TINY, waves

import evolving_attention as ea
from evolving_attention import optim

LAST = last_cuda_device()
# Largest differences from the CPU over three steps. Loss and gradient norm: relative.
# Tensors: relative to their largest move (at least 1 % of the largest of all, since a
# bias before a batch norm moves by noise alone) and to their largest value. float32:
# sums differ in their last bits. bfloat16: rounding to the other neighbour moves a
# value by 2^-8, which variances over few steps amplify, and stored weights move by two
# neighbours.
BOUNDS = {
    "float32": (1e-5, 1e-5, 0.001, 0.0),
    "bfloat16": (2.0**-6, 2.0**-4, 0.25, 2.0**-7),
}
NAMES = [
    f"EADCTransformerFor{task}"
    for task in ("Classification", "Regression", "Pretraining")
]


def train(device: str, name: str, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the tensors before training, and the results of three steps."""
    model = tiny(name, dtype).to(device).train()
    before = {key: value.copy() for key, value in model.state_dict().items()}
    batch = draw((5, 9, 7, 9, 8, 6, 9, 4))  # enough steps for batch norm's variances
    inputs = {**batch.packed(), **targets_for(model, batch)}
    optimizer = optim.RAdam(model.parameters(), lr=0.02, betas=(0.9, 0.99))
    return before, three_steps(model, optimizer, inputs, 4.0)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_training_agrees_with_the_cpu(name: str, dtype: str):
    of_loss, of_norm, of_move, of_value = BOUNDS[dtype]
    before, want = train("cpu", name, dtype)
    _, got = train(LAST, name, dtype)
    assert_same_course(got.pop("log"), want.pop("log"), of_loss, of_norm)
    assert any(key.endswith("running_var") for key in want)
    moves = {key: largest(value, before[key]) for key, value in want.items()}
    most = max(move for key, move in moves.items() if "running" not in key)
    for key, value in want.items():
        bound = of_move * max(moves[key], most / 100)
        bound += of_value * largest(value, np.zeros_like(value))
        assert largest(got[key], value) <= bound, key


def largest(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the largest difference between two arrays."""
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


@pytest.mark.parametrize("name", NAMES[:1])
def test_training_twice_gives_the_same_bits(name: str):
    first, second = (train("cuda", name, "bfloat16")[1] for _ in range(2))
    assert {k: v.tobytes() for k, v in first.items()} == {
        k: v.tobytes() for k, v in second.items()
    }


def test_an_estimator_fits_and_predicts_there(tmp_path: Path):
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    X, y = waves(12)
    options = {**TINY, "n_epochs": 2, "batch_size": 6, "validation_fraction": 0.0}
    here = ea.TimeSeriesClassifier(**options).fit(X, y)
    there = ea.TimeSeriesClassifier(**options, device="cuda").fit(X, y)
    assert there.model_.device == "cuda:0"
    for ours, theirs in zip(there.history_, here.history_, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    odds = there.predict_proba(X)
    np.testing.assert_allclose(odds, here.predict_proba(X), rtol=1e-4)
    there.save(tmp_path)
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    assert loaded.model_.device == "cpu"
    np.testing.assert_allclose(loaded.predict_proba(X), odds, rtol=1e-5)
