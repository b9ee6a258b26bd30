"""Runs in which one process dies, fails, is told to end, or differs from the rest."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers_distributed import needs_mpi, python, run

from evolving_attention import durable
from evolving_attention.distributed import links
from evolving_attention.distributed.launch import Launch
from evolving_attention.distributed.world import World
from evolving_attention.errors import ConfigError
from evolving_attention.training.parallel import Team

WAYS = [pytest.param("mpi", marks=needs_mpi), "ranks"]
SHORT: dict[str, Any] = {"folder": "run", "eval_strategy": "no", "save_steps": 2}


@pytest.mark.parametrize("how", WAYS)
def test_a_killed_rank_ends_the_others(how: str, tmp_path: Path) -> None:
    began = time.monotonic()
    ended = run(tmp_path, how, 2, {**SHORT, "event": ["kill", 1, 4]}, timeout=30)
    assert time.monotonic() - began < 20
    assert all(code != 0 for code in ended.codes), ended.text
    (result,) = ended.results()
    assert result["error"] == "PeerLost"
    assert "rank 1 (process " in result["message"]
    assert "checkpoint-2: start all ranks again with resume" in result["message"]
    assert result["message"] in ended.text
    (last,) = durable.list_checkpoints(tmp_path / "run")
    durable.verify_directory(last)
    whole = run(tmp_path / "whole", "ranks", 2, SHORT)
    again = run(tmp_path, how, 2, {**SHORT, "resume": True})
    assert set(again.codes) == {0}, again.text
    assert again.results()[0]["weights"] == whole.results()[0]["weights"]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failing_rank_tells_the_others_why(failing: int, tmp_path: Path) -> None:
    ended = run(tmp_path, "ranks", 3, {**SHORT, "event": ["fail", failing, 1]})
    assert ended.codes == [1, 1, 1]
    for rank, result in enumerate(ended.results()):
        assert "the disk of this rank is on fire" in result["message"]
        own = rank == failing
        assert result["error"] == ("RuntimeError" if own else "PeerLost")
        if not own:
            assert f"rank {failing} (process" in result["message"]
            assert "there is no checkpoint in" in result["message"]


def test_a_rank_that_fails_in_an_evaluation(tmp_path: Path) -> None:
    """Rank 0 saves what was trained, and only then there is one way on."""
    job = {**SHORT, "eval_strategy": "steps", "eval_steps": 2, "save_steps": 100}
    ended = run(tmp_path, "ranks", 2, {**job, "event": ["fail scoring", 1, 3]})
    assert ended.codes == [1, 1], ended.text
    lost, failed = ended.results()
    assert failed["message"] == "the disk of this rank is on fire"
    assert "is on fire; the last checkpoint is" in lost["message"], lost
    assert "there is no checkpoint" not in lost["message"]
    assert lost["message"].count("start all ranks") == 1


@pytest.mark.parametrize("failing", [0, 1])
def test_an_evaluation_in_on_train_end_of_a_failed_run(
    failing: int, tmp_path: Path
) -> None:
    """Its messages would meet those of the step that others are in."""
    job = {**SHORT, "save_strategy": "no", "final": True}
    ended = run(tmp_path, "ranks", 2, {**job, "event": ["fail", failing, 3]})
    assert ended.codes == [1, 1], ended.text
    found = ended.results()
    own, other = found[failing], found[1 - failing]
    assert own["error"] == "RuntimeError"
    assert own["message"] == "the disk of this rank is on fire"
    assert other["error"] == "PeerLost"
    assert "gave up: RuntimeError: the disk of this rank" in other["message"]
    assert "evaluated at the end" not in ended.text
    assert not durable.list_checkpoints(tmp_path / "run")


def test_an_evaluation_in_on_train_end_after_a_loss_that_is_not_finite(
    tmp_path: Path,
) -> None:
    """All ranks have stopped at the same step, and can go on together."""
    ended = run(tmp_path, "ranks", 2, {**SHORT, "bad_row": 5, "final": True})
    assert {result["error"] for result in ended.results()} == {"NonFiniteError"}
    assert ended.text.count("evaluated at the end") == 2


def test_a_save_that_finds_a_bad_number_stops_all_ranks_at_one_point(
    tmp_path: Path,
) -> None:
    """Only rank 0 saves; the others hear of it before they go on."""
    job = {**SHORT, "event": ["spoil", 0, 2], "final": True}
    ended = run(tmp_path, "ranks", 2, job)
    own, other = ended.results()
    assert own["error"] == other["error"] == "NonFiniteError", ended.text
    assert "checkpoint-2: parameter classifier.bias" in own["message"]
    assert own["message"] == other["message"]
    assert ended.text.count("evaluated at the end") == 2


@pytest.mark.parametrize("how", WAYS)
def test_a_signal_to_one_rank_stops_all(how: str, tmp_path: Path) -> None:
    ended = run(tmp_path, how, 2, {**SHORT, "event": ["signal", 1, 3]})
    assert set(ended.codes) == {143}, ended.text
    for result in ended.results():
        assert result["error"] == "Interrupted"
        assert "SIGTERM after step 3" in result["message"]
    newest = durable.list_checkpoints(tmp_path / "run")[0]
    assert newest.name == "checkpoint-3"
    durable.verify_directory(newest)


def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    """All ranks stop; one report names the rows of the rank with that loss."""
    ended = run(tmp_path, "ranks", 2, {**SHORT, "bad_row": 5})
    assert ended.codes == [1, 1]
    messages = {result["message"] for result in ended.results()}
    assert len(messages) == 1
    assert {result["error"] for result in ended.results()} == {"NonFiniteError"}
    report = json.loads((tmp_path / "run" / "nonfinite-report.json").read_text())
    assert 5 in report["row_ids"]
    assert len(report["row_ids"]) == 4


def test_decisions_of_the_callbacks_of_rank_0(tmp_path: Path) -> None:
    stops = {
        "on_train_begin": 0,
        "on_epoch_begin": 1,
        "on_step_end": 1,
        "on_log": 1,
        "on_save": 2,
        "on_epoch_end": 6,
        "on_evaluate": 6,
    }
    job = {**SHORT, "eval_strategy": "epoch", "num_train_epochs": 3}
    jobs = [{**job, "folder": event, "stop": event} for event in stops]
    ended = run(tmp_path, "ranks", 2, *jobs)
    assert ended.codes == [0, 0], ended.text
    for number, (event, steps) in enumerate(stops.items()):
        found = [result["steps"] for result in ended.results(number)]
        assert found == [steps, steps], event


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"differs": "arguments"}, "TrainingArguments.learning_rate is 1.0 on rank 1"),
        ({"differs": "data"}, "the run's data is"),
        (
            {"differs": "frozen", "frozen": ["bert.encoder"]},
            "the frozen parameters bert.encoder.layer.0.",
        ),
        (
            {"differs": "test data", "max_steps": 1},
            "this evaluation's number of rows is 2 on rank 1 and 3 on rank 0",
        ),
        ({"differs": "test labels", "max_steps": 1}, "this evaluation's row hash is"),
        (
            {"differs": "call", "max_steps": 1},
            "metric_key_prefix is test on rank 1 and eval on rank 0",
        ),
        ({"auto_find_batch_size": True}, "auto_find_batch_size=True with 2 processes"),
        ({"device": "cuda:1"}, "device='cuda:1' with 2 processes, expected 'cuda'"),
    ],
)
def test_ranks_that_differ(job: dict[str, Any], words: str, tmp_path: Path) -> None:
    ended = run(tmp_path, "ranks", 2, {**SHORT, **job})
    assert ended.codes == [1, 1]
    for result in ended.results():
        assert result["error"] == "ConfigError"
        assert words in result["message"]


def test_running_statistics_are_refused() -> None:
    class WithBatchNorm:
        def named_buffers(self) -> list[tuple[str, Any]]:
            return [("norm.running_mean", None)]

    team = object.__new__(Team)
    team.size = 2
    with pytest.raises(ConfigError, match=r"running statistics \(norm\.running_mean\)"):
        team.begin(WithBatchNorm(), lambda: None, 25.0)


def test_nothing_is_imported_before_it_is_needed() -> None:
    found = python(
        "import sys, evolving_attention as ea; ea.Trainer, ea.distributed\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'mpi4py'])",
        OMPI_COMM_WORLD_RANK="0",
        OMPI_COMM_WORLD_SIZE="2",
    )
    assert found.strip() == "[]"


MEET = """
import sys
if {hide}: sys.modules["mpi4py"] = None
import evolving_attention as ea
try:
    ea.distributed.world()
except ea.Error as error:
    print(type(error).__name__, error)
"""


def test_without_mpi4py() -> None:
    variables = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    found = python(MEET.format(hide=True), **variables)
    assert found.startswith("MissingExtraError mpi4py is needed to reach the other")
    assert 'pip install "evolving-attention[distributed]"' in found


@needs_mpi
def test_another_mpi_than_that_of_mpirun() -> None:
    variables = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    found = python(MEET.format(hide=False), **variables)
    assert found.startswith("BackendUnavailable")
    assert "expected one MPI for both" in found


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_a_port_in_use() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        found = python(
            MEET.format(hide=False),
            RANK="0",
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(server.getsockname()[1]),
        )
    assert found.startswith("BackendUnavailable")
    assert "rank 0 of 2 cannot listen at 127.0.0.1:" in found
    assert "check MASTER_ADDR and MASTER_PORT" in found


class Late:
    """A transport that delivers the reason for a failure with a delay."""

    failed = False

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def progress(self, seconds: float) -> None:
        self.looks -= 1

    def heard(self) -> dict[int, str]:
        return {1: "the disk is on fire"} if self.looks <= 0 else {}


class Busy:
    """A device that waits for another rank."""

    def failure(self) -> str:
        return ""

    def busy(self) -> float:
        return 0.1


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> World:
    """Rank 0 of two, whose peer has ended."""
    monkeypatch.setattr(World, "_meet", lambda world: None)
    monkeypatch.setattr(World, "_dead", lambda world: [1])
    return World(Launch(0, 2, "tcp", "127.0.0.1", 1, ""), Late(2))


def test_the_last_words_of_a_rank_that_ended_since(alone: World) -> None:
    assert alone.lost() == "distributed: rank 1 gave up: the disk is on fire"


@pytest.mark.parametrize("looks", [3, 4])
def test_the_last_words_of_a_rank_that_a_device_waits_for(
    looks: int, alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_GRACE_SECONDS", 0.01)
    alone._transport.looks = looks
    watch = object.__new__(links.Links)
    watch.world, watch.ranks, watch.reason = alone, Busy(), ""
    watch._closed = threading.Event()
    reason = watch._what_is_wrong()
    assert reason == "distributed: rank 1 gave up: the disk is on fire"
