"""Log lines that tell the user about a choice the package made."""

from __future__ import annotations

import logging

from evolving_attention.errors import ConfigError

LOGGER = logging.getLogger("evolving_attention")


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
