"""Runs the trials of a sweep as Ray tasks, on this machine or on a cluster.

A task starts the process of a trial, as the sweep itself does without Ray, and waits
for its end: the same command in the same folder. So a folder that all machines can
access by the same path contains the files of all trials.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolving_attention.cli.sweep_workers import Answer, Worker, ready
from evolving_attention.errors import PeerLost
from evolving_attention.training.ray_tasks import RayTasks


class RayWorkers:
    """Starts trials as Ray tasks.

    Args:
        ray: the connection.
        cpus: CPUs per trial, and its number of threads.
        gpus: GPUs per trial.

    Raises:
        ConfigError: no machine of Ray has that many.
    """

    def __init__(self, ray: RayTasks, cpus: int, gpus: int) -> None:
        ray.check(cpus, gpus)
        self.ray, self.cpus, self.gpus = ray, cpus, gpus

    def start(
        self, trial: Any, command: str, given: dict[str, Any], log: Path
    ) -> RayWorker:
        """Start a trial as soon as a machine has free resources."""
        here = str(Path.cwd())
        words = command, given, str(log.absolute()), here
        task = self.ray.start(_trial, *words, cpus=self.cpus, gpus=self.gpus)
        return RayWorker(trial, task, log, self.ray)

    def ready(self, workers: Sequence[RayWorker], seconds: float) -> list[RayWorker]:
        """Returns workers that have ended; waits at most ``seconds``."""
        ended = self.ray.ready([worker.task for worker in workers], seconds)
        return [worker for worker in workers if worker.task in ended]


class RayWorker:
    """A trial that Ray runs; has the methods of :class:`.Worker` that a sweep uses.

    Args:
        trial: the trial, kept for the caller.
        task: the Ray task.
        log: file for the output of the trial.
        ray: the connection.
    """

    def __init__(self, trial: Any, task: Any, log: Path, ray: RayTasks) -> None:
        self.trial, self.task, self.log, self._ray = trial, task, log, ray

    def answer(self) -> Answer:
        """Wait for the end of the trial."""
        try:
            return Answer(*self._ray.result(self.task))
        except PeerLost as error:
            return Answer(None, ("PeerLost", str(error)))

    def stop(self) -> None:
        """Ask the trial to save and exit."""
        self._ray.stop(self.task)

    def kill(self) -> None:
        """End the task now; its trial saves and exits when it notices."""
        self._ray.stop(self.task, force=True)


def _trial(
    command: str, given: dict[str, Any], log: str, folder: str
) -> tuple[Any, ...]:
    """Run a trial in a process of this machine; returns the fields of its Answer.

    Args:
        command, given, log: as in :class:`.Worker`.
        folder: folder to which paths are relative.
    """
    for path in (Path(folder), Path(log).parent):
        if not path.is_dir():
            host = socket.gethostname()
            message = (
                f"{path}: not on {host}, expected a folder that all machines of Ray "
                "see by the same path; start the sweep in a shared folder"
            )
            return None, ("DataError", message), None, 3
    worker = Worker(None, command, given, Path(log), folder)
    while True:
        try:
            if ready([worker], 1.0):
                return tuple(worker.answer())
        except KeyboardInterrupt:  # the sweep is stopping
            worker.stop()
