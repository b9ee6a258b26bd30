"""Runs functions with Ray, in processes of this machine or of a cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.errors import (
    BackendUnavailable,
    ConfigError,
    InputError,
    PeerLost,
    require,
)
from evolving_attention.training.runtime import usable_cpus

LOCAL = "local"
_SECONDS = 10.0  # timeout for an answer from a cluster's address


class RayTasks:
    """Runs functions as tasks of Ray, each in a process of its own.

    If this process is already connected to a Ray, that one is used and left running.

    Args:
        address: ``"local"``: processes of this machine, which end with this object;
            ``"auto"``: the cluster in ``RAY_ADDRESS``, or the one running on this
            machine; ``"HOST:PORT"``: that one. None: ``RAY_ADDRESS``, or local.
        num_cpus: CPUs of a local Ray; None: all.
        where: the feature that needs Ray, for messages.

    Raises:
        MissingExtraError: ray is not installed.
        BackendUnavailable: no Ray answers there.
    """

    def __init__(self, address: str | None, num_cpus: int | None, where: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # stopped tasks
        self._ray: Any = require("ray", extra="ray", why=f"for {where}")
        self._where = where
        self._own = not self._ray.is_initialized()
        if self._own:
            wanted = address or os.environ.get("RAY_ADDRESS") or LOCAL
            self._connect(wanted, num_cpus)

    def _connect(self, address: str, num_cpus: int | None) -> None:
        options: dict[str, Any] = {}
        if address == LOCAL:
            options["num_cpus"] = num_cpus or usable_cpus()
            options["include_dashboard"] = False
        try:
            if address not in (LOCAL, "auto"):
                _answers(address)
            self._ray.init(
                address=address, log_to_driver=False, logging_level="ERROR", **options
            )
        except (ValueError, OSError, RuntimeError) as error:
            raise BackendUnavailable(
                f"{self._where}: no Ray answers at {address!r} ({_short(error)}), "
                "expected local, auto or HOST:PORT of a running one; start it with ray "
                "start --head, or choose local"
            ) from error

    def __enter__(self) -> RayTasks:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._own:
            self._ray.shutdown()

    @property
    def cpus(self) -> int:
        """Number of CPUs of all machines."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    @property
    def largest(self) -> int:
        """Number of CPUs of the machine that has the most."""
        return int(max((one.get("CPU", 0) for one in self._machines()), default=0))

    @property
    def has_gpus(self) -> bool:
        """Whether a machine has a GPU."""
        return any(one.get("GPU", 0) for one in self._machines())

    def _machines(self) -> list[dict[str, float]]:
        return [one["Resources"] for one in self._ray.nodes() if one["Alive"]]

    def check(self, cpus: float, gpus: float) -> None:
        """Rejects a request that no machine can fulfil: Ray would wait for ever.

        Raises:
            ConfigError: the message says what is available.
        """
        machines = self._machines()
        if any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
            return
        there = "; ".join(
            f"{m.get('CPU', 0):g} CPUs and {m.get('GPU', 0):g} GPUs" for m in machines
        )
        raise ConfigError(
            f"{self._where}: a trial needs {cpus:g} CPUs and {gpus:g} GPUs, expected "
            f"no more than a machine of Ray has ({there}); lower them, or start Ray "
            "where there are more"
        )

    def put(self, value: Any) -> Any:
        """Sends a value to Ray once, for all tasks.

        Raises:
            InputError: it cannot be pickled.
        """
        try:
            return self._ray.put(value)
        except (TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{self._where}: what the trials need cannot be sent to other "
                f"processes ({_short(error)}), expected values that cloudpickle takes; "
                "make files, locks and connections inside the functions"
            ) from error

    def start(
        self, function: Callable[..., Any], *arguments: Any, cpus: float, gpus: float
    ) -> Any:
        """Starts ``function(*arguments)`` as soon as a machine has room for it.

        Returns:
            The task, for the methods below.
        """
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0}
        return self._ray.remote(function).options(**options).remote(*arguments)

    def ready(self, tasks: Sequence[Any], seconds: float) -> list[Any]:
        """Returns the finished tasks; waits up to ``seconds`` for the first of them."""
        if not tasks:
            return []
        wait = self._ray.wait
        found: list[Any] = wait(list(tasks), timeout=seconds)[0]
        return found and list(wait(list(tasks), num_returns=len(tasks), timeout=0)[0])

    def result(self, task: Any) -> Any:
        """Returns the function's result.

        Raises:
            PeerLost: the process or its machine died.
            InputError: the process cannot import what the function needs.
            Exception: the exception that the function raised.
        """
        kinds = self._ray.exceptions
        try:
            return self._ray.get(task)
        except kinds.RayTaskError as error:
            if not isinstance(error.cause, kinds.RayError):
                raise error.cause from None
            raise InputError(
                f"{self._where}: the processes of Ray cannot load what a trial needs "
                f"({_short(error.cause)}), expected modules that they can import; add "
                "their folder to PYTHONPATH before Ray is started"
            ) from error
        except kinds.RayError as error:
            raise PeerLost(
                f"{self._where}: Ray lost the process of a trial ({_short(error)}), "
                "expected it to end by itself; was it killed, or the memory full?"
            ) from error

    def stop(self, task: Any, force: bool = False) -> None:
        """Raises KeyboardInterrupt in the function; with ``force``, kills its process.

        A finished task is left alone: Ray 2.60 aborts the process that cancels a task
        whose result has arrived ("Tried to complete task that was not pending").
        """
        if not self.ready([task], 0.0):
            self._ray.cancel(task, force=force)


def _answers(address: str) -> None:
    """Tests an address by connecting: Ray itself would try for minutes.

    Raises:
        OSError, ValueError: there is no answer, or this is not an address.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host, int(port)), _SECONDS):
        pass


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200]
