"""The guard of a training: which signals it records, and which stay ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from evolving_attention.training.interrupts import HANDLED, InterruptGuard


@pytest.fixture(autouse=True)
def handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_closed_terminal_asks_for_the_end_as_often_as_it_likes() -> None:
    def before(*_: object) -> None:
        """What SIGHUP did before the training."""

    signal.signal(signal.SIGHUP, before)
    with InterruptGuard() as guard:
        signal.raise_signal(signal.SIGHUP)  # by the shell
        signal.raise_signal(signal.SIGHUP)  # by the terminal
        assert (guard.received, guard.name) == (signal.SIGHUP, "SIGHUP")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGHUP) is before


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_that_the_process_ignores_stays_ignored(number: int) -> None:
    """nohup ignores SIGHUP, and shells SIGINT of a script's background commands."""
    signal.signal(number, signal.SIG_IGN)
    with InterruptGuard() as guard:
        signal.raise_signal(number)
        assert guard.received is None
    assert signal.getsignal(number) is signal.SIG_IGN
