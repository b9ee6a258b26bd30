"""One line for the reader where the package chose something in the caller's place."""

from __future__ import annotations

import logging

from evolving_attention.errors import ConfigError

__all__ = ["say"]

LOGGER = logging.getLogger("evolving_attention")


def say(text: str, said: set[str] | None = None) -> None:
    """Log one line, of several processes in the first one alone.

    The level is WARNING, which Python shows on stderr where no logging is set up;
    ``log_level="error"`` silences it.

    Args:
        text: what was chosen, and the option that changes it.
        said: lines that were said before; they are not said again.
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
    except ConfigError:  # told by what joins the other processes
        return True
