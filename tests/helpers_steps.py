"""Training steps that do not synchronise, and tolerances between devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import _core

STEPS = 3


def three_steps(
    model: Any, optimizer: Any, inputs: Mapping[str, Any], max_norm: float
) -> dict[str, Any]:
    """Returns weights and ``log``: a row (loss, norm, finite) for each step.

    The host synchronises only when it reads the log.
    """
    log = _core.StepLog()
    ea.manual_seed(5)
    waits = _core.host_waits()
    for _ in range(STEPS):
        loss = model(**inputs).loss
        loss.backward()
        log.add_loss(loss, 1.0)
        optimizer.step(scale=log.finish(list(model.parameters()), max_norm))
        optimizer.zero_grad()
    assert _core.host_waits() == waits
    rows = np.array(log.look())
    assert _core.host_waits() == waits + (model.device != "cpu")
    assert rows[:, 2].all()
    return {"log": rows, **model.state_dict()}


def assert_same_course(
    ours: np.ndarray, theirs: np.ndarray, of_loss: float, of_norm: float
) -> None:
    """Checks that losses and norms of two logs agree within relative tolerances."""
    np.testing.assert_allclose(ours[:, 0], theirs[:, 0], rtol=of_loss)
    np.testing.assert_allclose(ours[:, 1], theirs[:, 1], rtol=of_norm)
