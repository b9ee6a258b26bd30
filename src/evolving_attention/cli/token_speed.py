"""Tokens per second in the log of a training command."""

from __future__ import annotations

import time
from typing import Any

from evolving_attention.training.callbacks import TrainerCallback


class TokensPerSecond(TrainerCallback):
    """Adds the speed since the previous log to the logged values."""

    def __init__(self) -> None:
        self.before: tuple[float, int] | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Start the clock."""
        self.before = time.monotonic(), state.num_input_tokens_seen

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add ``tokens_per_s`` to logs of training steps."""
        logs, now = kwargs["logs"], time.monotonic()
        if self.before is None or "loss" not in logs:
            return
        seconds, tokens = now - self.before[0], state.num_input_tokens_seen
        logs["tokens_per_s"] = round((tokens - self.before[1]) / max(seconds, 1e-9))
        self.before = now, tokens
