"""A progress bar for long work in terminals and notebooks; elsewhere silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from evolving_attention.notices import note

SHOWN_AFTER = 1.0  # seconds; shorter work shows no bar
REFRESH_SECONDS = 0.5


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def duration(seconds: float) -> str:
    """Formats seconds as ``m:ss`` or ``h:mm:ss``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class ProgressBar:
    """Shows the progress of a task that takes longer than a second.

    Args:
        what: the task, in one word.
        total: number of units; None if unknown.
        disabled: show nothing.

    Use it in a ``with`` block and call :meth:`advance` after each part.
    """

    def __init__(self, what: str, total: int | None, disabled: bool = False) -> None:
        self.what, self.total, self.done = what, total, 0
        self._began = self._drawn = time.monotonic()
        self._draw = None if disabled else _display()
        self._is_shown = False

    def advance(self, units: int) -> None:
        """Count more units as done."""
        self.done += units
        now = time.monotonic()
        first = SHOWN_AFTER if not self._is_shown else REFRESH_SECONDS
        if self._draw is not None and now - self._drawn >= first:
            self._drawn, self._is_shown = now, True
            self._draw(self.text())

    def text(self) -> str:
        """Returns a line such as ``predict 320/1000, 0:04 < 0:09, 75.3/s``."""
        used = max(time.monotonic() - self._began, 1e-9)
        rate = self.done / used
        if self.total is None or not self.done:
            return f"{self.what} {self.done}, {duration(used)}, {rate:.1f}/s"
        left = duration((self.total - self.done) / rate)
        return (
            f"{self.what} {self.done}/{self.total}, {duration(used)} < {left}, "
            f"{rate:.1f}/s"
        )

    def close(self) -> None:
        """Draw the last state, if the bar was shown."""
        if self._draw is not None and self._is_shown:
            self._draw(self.text(), True)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _display() -> Callable[..., None] | None:
    """Returns a function that draws (text, is it the last); None without a display."""
    if in_notebook():
        return _Notebook()
    if sys.stderr is not None and sys.stderr.isatty():
        return _to_terminal
    return None


def _to_terminal(text: str, last: bool = False) -> None:
    """Replaces the line of the cursor."""
    note(f"\r\x1b[K{text}", end="\n" if last else "")


class _Notebook:
    """One line of a notebook's output, which is replaced in place."""

    handle: Any = None

    def __call__(self, text: str, last: bool = False) -> None:
        from IPython.display import HTML, display

        page = HTML(f"<pre>{text}</pre>")
        if self.handle is None:
            self.handle = display(page, display_id=True)
        else:
            self.handle.update(page)
