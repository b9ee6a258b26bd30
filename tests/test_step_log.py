"""Log of steps whose results are read later: losses, norms and order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from evolving_attention import _core, errors


def number(value: float) -> Any:
    return _core.Tensor(np.array(value))


def parameter(gradient: float) -> Any:
    p = _core.Tensor(np.zeros(1), requires_grad=True)
    p.grad = _core.Tensor(np.array([gradient]))
    return p


def test_every_step_begins_with_no_loss():
    log = _core.StepLog()
    for _ in range(2):  # look() starts a new round
        for value in (2.0, 5.0, math.inf, 7.0):
            log.add_loss(number(99.0), 0.5)
            log.restart_step()
            log.add_loss(number(value), 0.5)
            log.add_loss(number(value), 0.25)
            log.finish([parameter(3.0)], 0.0)
        rows = log.look()
        assert [row[0] for row in rows] == [1.5, 3.75, math.inf, 5.25]
        assert [row[1] for row in rows] == [3.0] * 4
        assert [row[2] for row in rows] == [True, True, False, False]


def test_the_factor_clips_the_norm():
    log = _core.StepLog()
    log.add_loss(number(1.0), 1.0)
    scale = log.finish([parameter(3.0)], 0.3)
    assert scale.item() == pytest.approx(0.1, rel=1e-5)


def test_the_parts_of_a_step_come_in_their_order():
    log, p = _core.StepLog(), parameter(1.0)
    with pytest.raises(errors.ConfigError, match="has no loss"):
        log.finish([p], 0.0)
    log.add_loss(number(1.0), 1.0)
    with pytest.raises(errors.ConfigError, match="in the middle of a step"):
        log.look()
    log.finish([p], 0.0)
    with pytest.raises(errors.ConfigError, match="has no loss"):
        log.finish([p], 0.0)
    assert [row[0] for row in log.look()] == [1.0]


def test_a_log_has_room_for_so_many_steps():
    log = _core.StepLog()
    for _ in range(log.capacity):
        log.add_loss(number(1.0), 1.0)
        log.finish([], 0.0)
    with pytest.raises(errors.ConfigError, match="since the last look"):
        log.add_loss(number(1.0), 1.0)
    assert len(log.look()) == log.capacity
    log.add_loss(number(1.0), 1.0)
