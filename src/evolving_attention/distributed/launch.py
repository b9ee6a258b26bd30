"""Reads the rank and the number of processes from the launcher's environment.

``mpirun`` sets ``OMPI_COMM_WORLD_*`` (Open MPI) or ``PMI_*`` (MPICH and related ones);
``torchrun`` and others set ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``MASTER_ADDR``
and ``MASTER_PORT``. Nothing is imported or connected here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from evolving_attention.errors import ConfigError

# (rank, size): variables set by MPI launchers
_MPI_NAMES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_SHORTEST_SECRET = 16
_HINT = (
    "start the processes by mpirun, or give each RANK, WORLD_SIZE, MASTER_ADDR and "
    "MASTER_PORT; for a run of one process unset WORLD_SIZE and RANK"
)


@dataclass(frozen=True)
class Launch:
    """One process of ``size``, and the ``transport`` of its messages.

    ``address`` and ``port`` are where rank 0 listens, and ``secret`` is known to all
    ranks and nobody else; all three are for ``"tcp"`` only.
    """

    rank: int
    size: int
    transport: str
    address: str = ""
    port: int = 0
    secret: str = field(default="", repr=False)


def from_environment(environ: Mapping[str, str] | None = None) -> Launch | None:
    """Returns how this process was launched; None for a run of one process.

    Raises:
        ConfigError: variables are missing, not numbers, or contradict each other.
    """
    environ = os.environ if environ is None else environ
    by_mpi = _from_mpi(environ)
    by_rank = _from_ranks(environ)
    if by_mpi is None:
        return by_rank
    if by_rank is not None and (by_rank.rank, by_rank.size) != (
        by_mpi.rank,
        by_mpi.size,
    ):
        raise ConfigError(
            f"distributed: RANK={by_rank.rank} of WORLD_SIZE={by_rank.size}, but "
            f"mpirun says {by_mpi.rank} of {by_mpi.size}, expected the same from both; "
            "unset RANK and WORLD_SIZE"
        )
    return by_mpi


def _from_mpi(environ: Mapping[str, str]) -> Launch | None:
    for rank, size in _MPI_NAMES:
        if rank in environ and size in environ:
            count = _whole(environ, size, 1)
            place = _whole(environ, rank, 0, count - 1)
            return Launch(place, count, "mpi") if count > 1 else None
    return None


def _from_ranks(environ: Mapping[str, str]) -> Launch | None:
    if "WORLD_SIZE" not in environ:
        if "RANK" in environ and ("MASTER_ADDR" in environ or "LOCAL_RANK" in environ):
            raise ConfigError(
                f"distributed: RANK={environ['RANK']} without WORLD_SIZE, expected "
                f"both; {_HINT}"
            )
        return None
    size = _whole(environ, "WORLD_SIZE", 1)
    if size == 1:
        return None
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if not environ.get(name):
            raise ConfigError(
                f"distributed: WORLD_SIZE={size} without {name}, expected it in the "
                f"environment; {_HINT}"
            )
    rank = _whole(environ, "RANK", 0, size - 1)
    port = _whole(environ, "MASTER_PORT", 1, 65534)
    # MASTER_PORT itself is in use by torchrun's agent
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        port += 1
    return Launch(rank, size, "tcp", environ["MASTER_ADDR"], port, _secret(environ))


def _secret(environ: Mapping[str, str]) -> str:
    """Returns ``EA_SECRET``; "" if it is not set."""
    secret = environ.get("EA_SECRET", "")
    if secret and len(secret) < _SHORTEST_SECRET:
        raise ConfigError(
            f"distributed: EA_SECRET has {len(secret)} characters, expected at least "
            f"{_SHORTEST_SECRET} that nobody can guess; make one with "
            "`openssl rand -hex 16` and give it to all ranks"
        )
    return secret


def _whole(
    environ: Mapping[str, str], name: str, low: int, high: int | None = None
) -> int:
    """Reads a whole number in [low, high] from the environment."""
    text = environ[name]
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low or (high is not None and value > high):
        span = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ConfigError(
            f"distributed: {name}={text}, expected a whole number {span}; {_HINT}"
        )
    return value
