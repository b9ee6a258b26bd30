"""Handles signals that end a process in training: finish the step, save, then leave.

The first signal only sets a flag that the loop reads after each step; the second one
acts at once, unless it is SIGHUP. Signals that the process ignores stay ignored: SIGHUP
of ``nohup``, SIGINT of a script's background commands.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalReceived(Exception):
    """Raised inside the loop after a signal, to save and leave; not seen by callers."""


class InterruptGuard:
    """Context manager that records the first signal instead of ending the process.

    Outside the main thread Python delivers no signals, and the guard does nothing.

    Attributes:
        received: number of the received signal, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
        elif number != signal.SIGHUP:  # the shell and the terminal may both send it
            raise KeyboardInterrupt

    @property
    def name(self) -> str:
        """Name of the received signal, for messages."""
        return signal.Signals(self.received).name if self.received else "no signal"

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            for number in HANDLED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()
