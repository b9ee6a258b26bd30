"""Memory that is still available, and numbers of bytes for people."""

from __future__ import annotations

import contextlib
from pathlib import Path

from evolving_attention import _core
from evolving_attention.memory import current


def left(meminfo: str = "/proc/meminfo") -> int | None:
    """Returns the bytes still available to CPU tensors; None if nothing is known.

    The smaller of what ``ea.set_memory_limit`` or the control group leaves and what the
    machine has free, swap included.
    """
    found = []
    limit: int = _core.memory_limit()
    if limit:
        found.append(limit - current())
    with contextlib.suppress(OSError, LookupError, ValueError):
        lines = Path(meminfo).read_text(encoding="utf-8").splitlines()
        kib = {line.split(":")[0]: line.split()[1] for line in lines}
        found.append(1024 * (int(kib["MemAvailable"]) + int(kib["SwapFree"])))
    return max(0, min(found)) if found else None


def in_words(count: int) -> str:
    """Formats bytes for people."""
    if count < 2**30:
        return f"{count / 2**20:,.1f} MiB ({count:,} bytes)"
    return f"{count / 2**30:,.2f} GiB ({count:,} bytes)"
