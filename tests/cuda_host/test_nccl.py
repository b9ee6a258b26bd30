"""Several processes train on GPUs and exchange gradients through NCCL.

Emulated GPUs use its stand-in (nccl.cpp), found through EA_NCCL like a user's own
library. With two real GPUs, the tests that need no emulation run on them. The
requirements on CPU ranks in tests/test_distributed*.py apply here too.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from helpers_distributed import Ended, alone, needs_mpi, python, run

import evolving_attention as ea
from evolving_attention import _core, durable

STAND_IN = Path(_core.__file__).parent / "ea_cuda_host_nccl.so"
EMULATED = STAND_IN.exists()
LIBRARY = {"EA_NCCL": str(STAND_IN)} if EMULATED else {}

pytestmark = pytest.mark.skipif(
    not EMULATED and len(ea.devices()) < 3,
    reason="no two GPUs, and none emulated (tools/run_cuda_host.sh makes such a build)",
)
of_the_emulation = pytest.mark.skipif(not EMULATED, reason="needs emulated GPUs")

EVOLVING = {"kind": "evolving", "alpha": 0.2, "beta": 0.1, "conv_init": "identity"}
SMALL = {"num_hidden_layers": 1}
SHORT: dict[str, Any] = {
    "device": "cuda",
    "folder": "run",
    "rows": 30,
    "num_train_epochs": 1,
    "eval_strategy": "no",
    "save_steps": 2,
    "model": SMALL,
}
# Steps of 6 batches: with 8 batches an epoch, some ranks have none at its end.
JOBS: dict[str, dict[str, Any]] = {
    "evolving, dropout": {"model": {**SMALL, "attention": EVOLVING}},
    "tied embeddings, bfloat16": {
        "model": {
            **SMALL,
            "name": "BertForMaskedLM",
            "dtype": "bfloat16",
            "tie_word_embeddings": True,
        },
        "max_grad_norm": 0.0,
    },
    "looked at after every step": {"bad_row": 5, "on_nonfinite": "skip"},
}
IN_STEP = 6


def jobs(processes: int) -> list[dict[str, Any]]:
    """Returns the jobs for that many processes: six batches a step in total."""
    return [
        {
            **SHORT,
            "folder": f"run-{number}",
            "num_train_epochs": 2,
            "logging_steps": 2,
            "save_steps": 4,
            **job,
            "gradient_accumulation_steps": IN_STEP // processes,
        }
        for number, job in enumerate(JOBS.values())
    ]


def start(folder: Path, count: int, *jobs: dict[str, Any], **variables: str) -> Ended:
    """Runs jobs in ``count`` processes, on two GPUs or on an emulated one each."""

    def of(rank: int) -> dict[str, str]:
        own = {"CUDA_VISIBLE_DEVICES": str(rank)} if EMULATED and count > 2 else {}
        return {**LIBRARY, **own, **variables}

    return run(folder, "ranks", count, *jobs, timeout=240, variables=of)


def checkpoints(folder: Path) -> dict[str, list[bytes]]:
    """Returns the weights and optimizer files of every checkpoint."""
    found = {}
    for path in durable.list_checkpoints(folder):
        durable.verify_directory(path)
        files = sorted(path.glob("*.safetensors"))
        found[path.name] = [file.read_bytes() for file in files]
    return found


def logged(folder: Path) -> list[Any]:
    """Returns the logged losses and gradient norms."""
    state = json.loads((folder / "trainer_state.json").read_text())
    return [
        {k: v for k, v in line.items() if k in ("step", "loss", "grad_norm")}
        for line in state["log_history"]
    ]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Runs the jobs in one process, on one emulated GPU."""
    ended = alone(tmp_path_factory.mktemp("one"), *jobs(1), timeout=240)
    assert ended.codes == [0], ended.text
    return ended


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=of_the_emulation)])
def test_the_same_bits_as_one_process(count: int, one: Ended, tmp_path: Path) -> None:
    ended = start(tmp_path, count, *jobs(count))
    assert set(ended.codes) == {0}, ended.text
    for number, name in enumerate(JOBS):
        (expected,) = one.results(number)
        for rank, result in enumerate(ended.results(number)):
            assert result["device"] == f"cuda:{rank if count == 2 else 0}"
            assert result["sent"][0] == result["sent"][1] > 3, "none while it ran"
            for key in ("weights", "predictions", "loss", "steps", "rng"):
                assert result[key] == expected[key], (name, key)
            if "on_nonfinite" not in JOBS[name]:  # steps 2 and 4 are logged
                assert result["waits"] == [0, 1, 0], name
        mine, theirs = (folder / f"run-{number}" for folder in (tmp_path, one.folder))
        assert logged(mine) == logged(theirs), name
        assert checkpoints(mine) == checkpoints(theirs), name


@needs_mpi
def test_mpirun_starts_them_too(
    one: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LIBRARY.items():
        monkeypatch.setenv(name, value)
    ended = run(tmp_path, "mpi", 2, jobs(2)[0], timeout=240)
    assert ended.codes == [0], ended.text
    for result in ended.results(0):
        assert result["weights"] == one.results(0)[0]["weights"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (["kill", 1, 4], "rank 1 (process "),  # the device has all its data
        (["kill early", 1, 4], "rank 1 (process "),  # the device would wait forever
        (["fail", 1, 4], "the disk of this rank is on fire"),
    ],
)
def test_a_rank_that_ends_ends_the_others(
    event: list[Any], words: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    ended = start(tmp_path, 2, {**SHORT, "event": event})
    assert all(code != 0 for code in ended.codes), ended.text
    result = ended.results()[0]
    assert result["error"] == "PeerLost"
    assert words in result["message"]
    assert "checkpoint-2: start all ranks again with resume" in result["message"]
    (last,) = durable.list_checkpoints(tmp_path / "run")
    durable.verify_directory(last)
    assert time.monotonic() - began < 60
    if event[0] == "kill early":
        whole = start(tmp_path / "whole", 2, SHORT)
        again = start(tmp_path, 2, {**SHORT, "resume": True})
        assert set(again.codes) == {0}, again.text
        for ours, theirs in zip(again.results(), whole.results(), strict=True):
            assert ours["weights"] == theirs["weights"]


def test_a_rank_that_hangs_is_given_up(tmp_path: Path) -> None:
    """The device waits for the rank, and the host for the device."""
    ended = start(tmp_path, 2, {**SHORT, "slow": [1, 4], "ddp_timeout": 5})
    assert ended.codes == [1, 1], ended.text
    first, second = ended.results()
    assert {first["error"], second["error"]} == {"PeerLost"}
    assert "distributed: cuda:0 has waited" in first["message"]
    assert "raise ddp_timeout; the last checkpoint is" in first["message"]


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    """All ranks stop when they read the results, with one report."""
    ended = start(tmp_path, 2, {**SHORT, "num_train_epochs": 2, "bad_row": 5})
    assert ended.codes == [1, 1], ended.text
    messages = {result["message"] for result in ended.results()}
    assert len(messages) == 1, messages
    assert {result["error"] for result in ended.results()} == {"NonFiniteError"}
    report = json.loads((tmp_path / "run" / "nonfinite-report.json").read_text())
    assert 5 in report["row_ids"]
    assert len(report["row_ids"]) == 4


@of_the_emulation
@pytest.mark.parametrize(
    ("count", "job", "variables", "error", "words"),
    [
        (2, {"device": "cuda:1"}, {}, "ConfigError", "device='cuda:1' with 2 proc"),
        (
            3,
            {},
            {"CUDA_VISIBLE_DEVICES": "0,1"},
            "ConfigError",
            "3 processes on the machine of rank 2, which sees 2 GPUs, expected one",
        ),
        (
            2,
            {},
            {"EA_NCCL": "/nowhere/libnccl.so.2"},
            "BackendUnavailable",
            "pip install nvidia-nccl-cu13 (-cu12 for a driver of CUDA 12), or name its "
            "file in EA_NCCL. Looked at: /nowhere/libnccl.so.2: /nowhere/libnccl",
        ),
        (
            2,
            {},
            {"EA_NCCL": "libm.so.6"},
            "BackendUnavailable",
            "libm.so.6: has no ncclGetVersion; 2.7 or newer is needed",
        ),
        (2, {}, {"EA_EMULATED_CUDA": "no_gpu"}, "BackendUnavailable", "shows no GPU"),
        (
            2,
            {},
            {"EA_EMULATED_NCCL": "init"},
            "Error",
            "[nccl] ncclCommInitRank: unhandled system error; set NCCL_DEBUG=INFO",
        ),
        (2, {}, {"EA_EMULATED_NCCL": "send"}, "Error", "internal error"),
        (
            2,
            {},
            {"EA_EMULATED_NCCL": "async"},
            "PeerLost",
            "NCCL says: remote process exited or there was a network error",
        ),
    ],
)
def test_what_cannot_be(
    count: int,
    job: dict[str, Any],
    variables: dict[str, str],
    error: str,
    words: str,
    tmp_path: Path,
) -> None:
    """Every rank ends with a typed error that names the defect."""
    ended = start(tmp_path, count, {**SHORT, **job}, **variables)
    assert ended.codes == [1] * count, ended.text
    errors = [result["error"] for result in ended.results()]
    assert error in errors, ended.text
    assert set(errors) <= {error, "PeerLost"}, ended.text
    text = " ".join(" ".join(result["message"] for result in ended.results()).split())
    assert words in text, text


DOCTOR = """
import evolving_attention as ea
print(ea.doctor(run_self_test=False)["cuda"]["nccl"])
"""


@of_the_emulation
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
except Exception as error:
    print(error)
try:
    _core.Communicator("cuda", 2, 0, b"short")
except Exception as error:
    print(error)
try:
    _core.exchange_library("cpu")
except Exception as error:
    print(error)
"""


@of_the_emulation
def test_a_communicator_of_one() -> None:
    found = python(ONE_RANK, EA_NCCL=str(STAND_IN)).splitlines()
    assert found[:2] == ["cuda:1 1 0 0.0 fine", "[0.0, 1.0, 2.0]"]
    assert found[2].startswith("[nccl] the exchange between the ranks was ended")
    assert found[3] == (
        "[nccl] the id has 5 bytes, expected the 128 of communicator_id()"
    )
    assert found[4].startswith("[communicator] ")
