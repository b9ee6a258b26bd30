"""Mistakes in launching several processes."""

from __future__ import annotations

from typing import Any

import evolving_attention as ea
from evolving_attention.distributed import from_environment
from mistakes.row import Row

PLACE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def launch(**variables: str) -> Any:
    """Reads these variables as a launcher sets them."""
    return lambda _: from_environment(variables)


def row(what: str, where: str, remedy: str, **variables: str) -> Row:
    return Row(launch(**variables), ea.ConfigError, what, where, remedy)


ROWS = {
    "WORLD_SIZE without RANK": row(
        r"WORLD_SIZE=2 without RANK",
        r"distributed",
        r"expected it in the environment; start the processes by mpirun",
        WORLD_SIZE="2",
        **PLACE,
    ),
    "RANK without WORLD_SIZE": row(
        r"RANK=1 without WORLD_SIZE",
        r"distributed",
        r"expected both; start .* unset WORLD_SIZE and RANK",
        RANK="1",
        **PLACE,
    ),
    "no address of rank 0": row(
        r"WORLD_SIZE=2 without MASTER_ADDR",
        r"distributed",
        r"give each RANK, WORLD_SIZE, MASTER_ADDR",
        WORLD_SIZE="2",
        RANK="0",
    ),
    "a rank that is too high": row(
        r"RANK=2",
        r"distributed",
        r"a whole number from 0 to 1",
        WORLD_SIZE="2",
        RANK="2",
        **PLACE,
    ),
    "a number of processes that is none": row(
        r"WORLD_SIZE=two",
        r"distributed",
        r"a whole number of at least 1",
        WORLD_SIZE="two",
        RANK="0",
        **PLACE,
    ),
    "no processes": row(
        r"WORLD_SIZE=0",
        r"distributed",
        r"a whole number of at least 1",
        WORLD_SIZE="0",
        RANK="0",
        **PLACE,
    ),
    "a port that is none": row(
        r"MASTER_PORT=70000",
        r"distributed",
        r"a whole number from 1 to 65534",
        WORLD_SIZE="2",
        RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="70000",
    ),
    "mpirun and RANK that disagree": row(
        r"RANK=0 of WORLD_SIZE=4, but mpirun says 1 of 2",
        r"distributed",
        r"expected the same from both; unset RANK",
        OMPI_COMM_WORLD_RANK="1",
        OMPI_COMM_WORLD_SIZE="2",
        WORLD_SIZE="4",
        RANK="0",
        **PLACE,
    ),
    "a rank of mpirun that is none": row(
        r"PMI_RANK=-1",
        r"distributed",
        r"a whole number from 0 to 1",
        PMI_RANK="-1",
        PMI_SIZE="2",
    ),
}
