"""Lines for the user on stderr; among them, choices that the package made."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Any

from evolving_attention.errors import ConfigError

LOGGER = logging.getLogger("evolving_attention")


class LossyStream:
    """A text stream that loses what cannot be written, because nobody can read it.

    Args:
        stream: another stream, or None, which loses all text.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, if the stream is open and takes it."""
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, if it is open and takes what is left."""
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()


def note(text: str, end: str = "\n") -> None:
    """Write a line to stderr; work goes on where nobody can read it.

    Nothing is written if the process has no stderr, or it is closed, its reader has
    exited, or its disk is full.
    """
    print(text, end=end, file=LossyStream(sys.stderr), flush=True)


def say(text: str, said: set[str] | None = None) -> None:
    """Log one line; among several processes only the first one logs.

    The level is WARNING, which Python shows on stderr where no logging is set up;
    ``log_level="error"`` silences it.

    Args:
        text: what was chosen, and the option that changes the choice.
        said: lines logged before, which are not logged again.
    """
    if said is not None:
        if text in said:
            return
        said.add(text)
    if _is_first():
        LOGGER.warning("%s", text)


def _is_first() -> bool:
    from evolving_attention import distributed

    try:
        return distributed.is_first()
    except ConfigError:  # the code that joins the other processes reports it
        return True
