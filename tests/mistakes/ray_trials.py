"""Mistakes in searches whose trials are Ray tasks; Ray itself is not needed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evolving_attention as ea
from evolving_attention.cli.sweep_ray import _trial
from evolving_attention.cli.sweep_workers import Answer
from evolving_attention.training.ray_tasks import RayTasks
from mistakes.row import Row
from mistakes.searches import DONE, search, swept


class Lost(Exception):
    """Stands in for RayError, but is no RayTaskError."""


class OfTask(Lost):
    """Stands in for RayTaskError."""

    cause = Lost("No module named 'mine'")


class NoCluster:
    """Stands in for the module ``ray``: one machine of two CPUs."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=OfTask)

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def cluster_resources() -> dict[str, float]:
        return {"CPU": 2.0}

    @staticmethod
    def nodes() -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}]

    @staticmethod
    def put(value: Any) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

    @staticmethod
    def get(task: Any) -> Any:
        raise task


@contextmanager
def in_place_of_ray(module: Any) -> Iterator[None]:
    """Makes ``import ray`` return ``module``; other modules stay imported."""
    before = sys.modules.get("ray")
    sys.modules["ray"] = module
    try:
        yield
    finally:
        del sys.modules["ray"]
        if before is not None:
            sys.modules["ray"] = before


def with_ray(call: Callable[[Path], Any], module: Any = NoCluster) -> Any:
    """Runs ``call`` with ``module`` in place of ray."""

    def inside(folder: Path) -> Any:
        with in_place_of_ray(module):
            return call(folder)

    return inside


def lost_worker(_: Path) -> Any:
    died = Lost("The worker died unexpectedly")
    return RayTasks(None, None, "hyperparameter_search").result(died)


def unknown_module(_: Path) -> Any:
    return RayTasks(None, None, "hyperparameter_search").result(OfTask())


def nobody(_: Path) -> Any:
    """Connects to a port where nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    unconnected = type("Unconnected", (NoCluster,), {"is_initialized": lambda: False})
    with in_place_of_ray(unconnected):
        return RayTasks(address, None, "sweep --ray")


def other_machine(folder: Path) -> Any:
    """Runs a trial on a machine that lacks the folder of the sweep."""
    told = _trial("glue", {}, str(folder / "log"), str(folder / "away"))
    return swept(Answer(*told))(folder)


ROWS = {
    "a search over Ray without ray": Row(
        with_ray(search(backend="ray"), None),
        ea.MissingExtraError,
        r"ray is needed",
        r"hyperparameter_search",
        r"\[ray\]",
    ),
    "a sweep over Ray without ray": Row(
        with_ray(swept(DONE, ray="local"), None),
        ea.MissingExtraError,
        r"ray is needed",
        r"sweep --ray",
        r"\[ray\]",
    ),
    "a Ray that is not there": Row(
        nobody,
        ea.BackendUnavailable,
        r"no Ray answers at '127\.0\.0\.1:\d+'",
        r"sweep --ray",
        r"ray start --head, or choose local",
    ),
    "more CPUs than Ray has": Row(
        with_ray(search(backend="ray", resources_per_trial={"cpu": 3})),
        ea.ConfigError,
        r"3 CPUs and 0 GPUs.*\(2 CPUs and 0 GPUs\)",
        r"hyperparameter_search",
        r"lower them, or start Ray",
    ),
    "a GPU that Ray has not": Row(
        with_ray(swept(DONE, ray="local", words=["--device", "cuda"])),
        ea.ConfigError,
        r"1 GPUs",
        r"sweep --ray",
        r"start Ray where there are more",
    ),
    "resources that are none": Row(
        with_ray(search(backend="ray", resources_per_trial={"cpus": 1})),
        ea.ConfigError,
        r"\{'cpus': 1\}",
        r"resources_per_trial",
        r"\{\"cpu\": 2, \"gpu\": 0\}",
    ),
    "a pruner with Ray": Row(
        search(backend="ray", pruner=1),
        ea.ConfigError,
        r"pruner=1",
        r"hyperparameter_search",
        r"leave it out",
    ),
    "data that cannot go to Ray": Row(
        with_ray(search(backend="ray")),
        ea.InputError,
        r"cannot pickle '_thread\.lock'",
        r"hyperparameter_search",
        r"make files, locks and connections inside",
    ),
    "a process of Ray that dies": Row(
        with_ray(lost_worker),
        ea.PeerLost,
        r"Ray lost the process of a trial \(The worker died",
        r"hyperparameter_search",
        r"memory full",
    ),
    "a module that Ray's processes lack": Row(
        with_ray(unknown_module),
        ea.InputError,
        r"No module named 'mine'",
        r"hyperparameter_search",
        r"add their folder to PYTHONPATH",
    ),
    "a machine of Ray without the folder": Row(
        other_machine,
        ea.InputError,
        r"away: not on ",
        r"trial 0",
        r"start the sweep in a shared folder",
    ),
}
