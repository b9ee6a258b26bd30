"""A communicator of GPUs, on the emulated CUDA, by the stand-in for NCCL (nccl.cpp)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers_distributed import environment

from evolving_attention import _core

STAND_IN = Path(_core.__file__).parent / "ea_cuda_host_nccl.so"

pytestmark = pytest.mark.skipif(
    not STAND_IN.exists(),
    reason="no emulated GPU in this build (tools/run_cuda_host.sh makes one)",
)


def python(text: str, **variables: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


DOCTOR = """
import evolving_attention as ea
print(ea.doctor(run_self_test=False)["cuda"]["nccl"])
"""


def test_doctor_names_nccl() -> None:
    assert python(DOCTOR, EA_NCCL=str(STAND_IN)) == f"NCCL 2.27.7 ({STAND_IN})\n"
    missing = python(DOCTOR, EA_NCCL="/nowhere/libnccl.so.2")
    assert missing.startswith("[nccl] NCCL was not found")


ONE_RANK = """
import numpy as np
from evolving_attention import _core
ranks = _core.Communicator("cuda:1", 1, 0, _core.communicator_id("cuda:1"))
print(ranks.device, ranks.size, ranks.rank, ranks.busy(), ranks.failure() or "fine")
own = _core.Tensor(np.arange(3, dtype=np.float32), device="cuda:1")
(part,) = ranks.gather(own, [[3]], "float32")
ranks.join()
print(part.to("cpu").numpy().tolist())
ranks.abort()
ranks.abort()
try:
    ranks.gather(own, [[3]], "float32")
except _core_error as error:
    print(error)
try:
    _core.Communicator("cuda", 2, 0, b"short")
except _core_error as error:
    print(error)
try:
    _core.exchange_library("cpu")
except _core_error as error:
    print(error)
""".replace("_core_error", "Exception")


def test_a_communicator_of_one() -> None:
    found = python(ONE_RANK, EA_NCCL=str(STAND_IN)).splitlines()
    assert found[:2] == ["cuda:1 1 0 0.0 fine", "[0.0, 1.0, 2.0]"]
    assert found[2].startswith("[nccl] the exchange between the ranks was ended")
    assert found[3] == (
        "[nccl] the id has 5 bytes, expected the 128 of communicator_id()"
    )
    assert found[4].startswith("[communicator] ")
