"""The log of steps that wait for no device: one row at one address, then kept."""

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


def address(tensor: Any) -> int:
    return np.asarray(tensor).__array_interface__["data"][0]


def test_the_factor_stays_at_one_address():
    log, places = _core.StepLog(), set()
    for _ in range(3):
        for gradient in (3.0, 4.0, math.nan):
            log.add_loss(number(1.0), 1.0)
            places.add(address(log.finish([parameter(gradient)], 1.0)))
        log.look()
    assert len(places) == 1


def test_every_step_begins_with_no_loss():
    log = _core.StepLog()
    for _ in range(2):
        for value in (2.0, 5.0, math.inf, 7.0):
            log.add_loss(number(99.0), 0.5)
            log.restart_step()
            log.add_loss(number(value), 0.5)
            log.add_loss(number(value), 0.25)
            log.finish([parameter(1.0)], 0.0)
        rows = log.look()
        assert [row[0] for row in rows] == [1.5, 3.75, math.inf, 5.25]
        assert [row[2] for row in rows] == [True, True, False, False]


def test_a_row_is_kept_by_itself():
    log, p = _core.StepLog(), parameter(3.0)
    log.add_loss(number(1.0), 1.0)
    scale = log.finish([p], 0.3, keep=False)
    assert scale.item() == pytest.approx(0.1, rel=1e-5)
    assert log.steps == 0
    log.keep()
    # A recording of the step writes to the same row, unseen by the log.
    np.asarray(scale)[...] = math.nan
    log.keep()
    assert log.steps == 2
    assert [(row[0], row[2]) for row in log.look()] == [(1.0, True), (1.0, False)]
    log.add_loss(number(2.0), 1.0)
    assert log.finish([p], 0.0).item() == 1.0  # after a look steps are judged anew
    assert log.look() == [(2.0, 3.0, True)]


def test_the_parts_of_a_step_come_in_their_order():
    log, p = _core.StepLog(), parameter(1.0)
    with pytest.raises(errors.ConfigError, match="no step is finished"):
        log.keep()
    with pytest.raises(errors.ConfigError, match="has no loss"):
        log.finish([p], 0.0)
    log.add_loss(number(1.0), 1.0)
    with pytest.raises(errors.ConfigError, match="no step is finished"):
        log.keep()
    with pytest.raises(errors.ConfigError, match="in the middle of a step"):
        log.look()
    log.finish([p], 0.0, keep=False)
    with pytest.raises(errors.ConfigError, match="has no loss"):
        log.finish([p], 0.0)
    with pytest.raises(errors.ConfigError, match="finished and not kept"):
        log.add_loss(number(1.0), 1.0)
    with pytest.raises(errors.ConfigError, match="before the last step is kept"):
        log.look()
    log.restart_step()  # forgets it
    log.add_loss(number(4.0), 1.0)
    log.finish([p], 0.0, keep=False)
    log.keep()
    assert [row[0] for row in log.look()] == [4.0]


def test_a_log_has_room_for_so_many_steps():
    log, p = _core.StepLog(), parameter(1.0)
    log.add_loss(number(1.0), 1.0)
    log.finish([p], 0.0)
    for _ in range(log.capacity - 1):
        log.keep()
    with pytest.raises(errors.ConfigError, match="since the last look"):
        log.keep()
    with pytest.raises(errors.ConfigError, match="since the last look"):
        log.add_loss(number(1.0), 1.0)
    assert len(log.look()) == log.capacity
    log.add_loss(number(1.0), 1.0)
