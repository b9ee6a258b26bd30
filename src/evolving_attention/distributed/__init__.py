"""Several processes that train one model: ranks and communication.

A program with a Trainer only needs ``mpirun -n 2 python train.py``; see
docs/distributed.md. Imports and connections happen only when a Trainer is made (or
:func:`world` is called) in a process that a launcher started.
"""

from __future__ import annotations

from evolving_attention.distributed.launch import Launch, from_environment
from evolving_attention.distributed.world import World

__all__ = ["Launch", "World", "from_environment", "is_first", "world"]

_world: World | None = None


def is_first() -> bool:
    """Whether this process is rank 0 or the only one; does not connect.

    Raises:
        ConfigError: the launcher's variables are incomplete or contradictory.
    """
    launch = from_environment()
    return launch is None or launch.rank == 0


def world() -> World | None:
    """Returns the processes of this run, connected at the first call; None if alone.

    Raises:
        ConfigError: the launcher's variables are incomplete or contradictory.
        MissingExtraError, BackendUnavailable: the others are unreachable.
        PeerLost: one of them ended.
    """
    global _world
    if _world is None:
        launch = from_environment()
        if launch is None:
            return None
        if launch.transport == "mpi":
            from evolving_attention.distributed.mpi import MpiTransport

            _world = World(launch, MpiTransport(launch))
        else:
            from evolving_attention.distributed.tcp import TcpTransport

            _world = World(launch, TcpTransport(launch))
    return _world
