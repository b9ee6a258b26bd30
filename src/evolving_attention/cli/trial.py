"""One trial of a sweep in its own process: reads its options, reports its result.

``python -m evolving_attention.cli.trial`` takes one JSON line on stdin, ``{"command":
…, "given": {…}}``, and writes ``{"results": …}`` or ``{"error": …, "message": …}`` to
stdout. When stdin is closed, the sweep has ended: the trial saves and exits. Processes
that write the same log run one after the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
from typing import Any

from evolving_attention.cli import common
from evolving_attention.cli.spelling import in_flags
from evolving_attention.cli.trainings import training


def main() -> int:
    """Run the trial; return the exit code."""
    wanted = json.loads(_line())
    with contextlib.suppress(OSError):  # no file: nobody shares it
        fcntl.flock(2, fcntl.LOCK_EX)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answer:
        os.dup2(2, 1)  # any other output belongs to the log
        threading.Thread(target=_leave_with_the_sweep, daemon=True).start()
        code, told = 0, {}
        try:
            told = _run(wanted["command"], wanted["given"])
        except (Exception, KeyboardInterrupt) as error:
            code = common.tell(error)
            told = {
                "error": type(error).__name__,
                "message": common.message(error),
                "errno": getattr(error, "errno", None),
                "code": code,
            }
        answer.write(json.dumps(told))
    return code


def _run(command: str, given: dict[str, Any]) -> dict[str, Any]:
    from evolving_attention.durable import plain

    chosen = training(command)
    with in_flags(chosen.fields().options):
        results = chosen.results(given) or {}
    return {"results": plain({k: v for k, v in results.items() if k != "table"})}


def _line() -> bytes:
    """Reads the first line of stdin without buffering."""
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            break
        line += more
    return line


def _leave_with_the_sweep() -> None:
    """Wait for the end of stdin, then save and exit as after SIGTERM."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
