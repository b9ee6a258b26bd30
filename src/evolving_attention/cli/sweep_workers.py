"""The processes of a sweep: each trains one trial and reports its result."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """How the process of a trial ended.

    Attributes:
        results: results of the training; None: it failed.
        error: class and message of the error; None: the process died.
        errno: error number of a disk error.
        code: the process's exit code, below 0 for a signal.
    """

    results: dict[str, Any] | None = None
    error: tuple[str, str] | None = None
    errno: int | None = None
    code: int = 0


class Worker:
    """A process that trains one trial.

    Args:
        trial: the trial, kept for the caller.
        command: the training command.
        given: its options.
        log: file for the output of the process.
        folder: working directory of the process; None: the current one.
    """

    def __init__(
        self,
        trial: Any,
        command: str,
        given: dict[str, Any],
        log: Path,
        folder: str | None = None,
    ) -> None:
        self.trial, self.log, self._said = trial, log, b""
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "evolving_attention.cli.trial"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=folder,
                start_new_session=True,  # Ctrl-C goes to the sweep, which stops it
            )
        line = json.dumps({"command": command, "given": given}) + "\n"
        try:
            os.write(self._stdin, line.encode())
        except BrokenPipeError:  # it died at once; answer() reports that
            return

    @property
    def _stdin(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    @property
    def stdout(self) -> int:
        """The descriptor, readable when the process sends a message or ends."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def read(self) -> bool:
        """Reads the process's messages; returns whether it has ended."""
        more = os.read(self.stdout, 1 << 16)
        self._said += more
        return not more

    def answer(self) -> Answer:
        """Wait for the end of the process."""
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            told = json.loads(self._said)
        except ValueError:
            return Answer(code=code)
        if "results" in told:
            return Answer(told["results"], code=code)
        error = (told["error"], told["message"])
        return Answer(None, error, told.get("errno"), int(told["code"]))

    def stop(self) -> None:
        """Ask the process to save and exit."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process now."""
        if self._process.poll() is None:
            self._process.kill()


def ready(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """Returns workers that have ended; waits at most ``seconds``."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        found = [key.data for key, _ in selector.select(seconds)]
    return [worker for worker in found if worker.read()]
