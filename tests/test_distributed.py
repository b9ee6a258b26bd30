"""Several processes train to the same bits as one process, over MPI and over TCP."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers_distributed import Ended, alone, needs_mpi, run

from evolving_attention import durable
from evolving_attention.training.parallel import Team

EVOLVING = {"kind": "evolving", "alpha": 0.2, "beta": 0.1, "conv_init": "identity"}
# A step takes 6 batches: an epoch of 11 leaves some ranks without one in its last step.
JOBS: dict[str, dict[str, Any]] = {
    "evolving, dropout": {"model": {"attention": EVOLVING}},
    "partly frozen": {"frozen": ["bert.embeddings", "bert.encoder.layer.0"]},
    "tied embeddings, bfloat16, recomputed": {
        "model": {
            "name": "BertForMaskedLM",
            "dtype": "bfloat16",
            "tie_word_embeddings": True,
        },
        "gradient_checkpointing": True,
        "per_device_train_batch_size": 3,
        "label_smoothing_factor": 0.1,
    },
    "a row whose loss is not finite": {"bad_row": 5, "on_nonfinite": "skip"},
    "a step without targets, then a part of one": {
        "unlabelled": 34,
        "train_sampling_strategy": "sequential",
    },
    "vanilla, random order, no clipping": {
        "train_sampling_strategy": "random",
        "max_grad_norm": 0.0,
        "include_num_input_tokens_seen": "all",
    },
}
VOLATILE = ("runtime", "per_second", "best_model_checkpoint")
IN_STEP = 6


def jobs(processes: int) -> list[dict[str, Any]]:
    """Returns the jobs for ``processes`` processes: six batches per step in total."""
    return [
        {**job, "gradient_accumulation_steps": IN_STEP // processes}
        for job in JOBS.values()
    ]


def lasting(value: Any) -> Any:
    """Drops entries that measure time or name folders."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not any(w in k for w in VOLATILE)}
        return {k: lasting(v) for k, v in kept.items()}
    return [lasting(v) for v in value] if isinstance(value, list) else value


def state_of(folder: Path) -> Any:
    """Returns trainer_state.json without entries that measure time."""
    return lasting(json.loads((folder / "trainer_state.json").read_text()))


def checkpoints(folder: Path) -> dict[str, Any]:
    """Returns the weights, the optimizer's bytes and the state of every checkpoint."""
    found = {}
    for path in durable.list_checkpoints(folder):
        durable.verify_directory(path)
        tensors = [file.read_bytes() for file in sorted(path.glob("*.safetensors"))]
        found[path.name] = [*tensors, state_of(path)]
    return found


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The jobs, run in one process."""
    ended = alone(tmp_path_factory.mktemp("one"), *jobs(1))
    assert ended.codes == [0], ended.text
    return ended


WAYS = [
    pytest.param("mpi", 2, marks=needs_mpi),
    pytest.param("mpi", 3, marks=needs_mpi),
    ("ranks", 2),
]


@pytest.mark.parametrize(("how", "count"), WAYS)
def test_the_same_bits_as_one_process(
    how: str, count: int, one: Ended, tmp_path: Path
) -> None:
    ended = run(tmp_path, how, count, *jobs(count))
    assert set(ended.codes) == {0}, ended.text
    for number, name in enumerate(JOBS):
        (expected,) = one.results(number)
        found = ended.results(number)
        assert [result["rank"] for result in found] == list(range(count)), name
        assert [result["first"] for result in found] == [True] + [False] * (count - 1)
        for result in found:
            assert result["size"] == count
            assert result["sent"][0] == result["sent"][1] > 10, "none while it ran"
            for key in ("weights", "predictions", "loss", "metrics", "steps", "rng"):
                assert result[key] == expected[key], (name, key)
        mine, theirs = (folder / f"run-{number}" for folder in (tmp_path, one.folder))
        assert state_of(mine) == state_of(theirs), name
        assert checkpoints(mine) == checkpoints(theirs), name
        lines = (mine / "log.jsonl").read_text().splitlines()
        assert len(lines) == len((theirs / "log.jsonl").read_text().splitlines())


def test_a_run_goes_on_in_another_number_of_processes(
    one: Ended, tmp_path: Path
) -> None:
    """Two processes, killed, then one, then three: only batches per step matter."""
    job = {**JOBS["evolving, dropout"], "folder": "run-0"}
    two = {**job, "gradient_accumulation_steps": 3, "event": ["fail", 1, 4]}
    ended = run(tmp_path, "ranks", 2, two)
    assert ended.codes == [1, 1], ended.text
    ended = alone(tmp_path, {**job, "gradient_accumulation_steps": 6, "resume": True})
    assert ended.codes == [0], ended.text
    (expected,), (found, _) = one.results(0), ended.results(0)
    assert found["weights"] == expected["weights"]
    assert found["loss"] == expected["loss"]
    assert checkpoints(tmp_path / "run-0") == checkpoints(one.folder / "run-0")


def test_another_number_of_batches_a_step_is_refused(tmp_path: Path) -> None:
    job = {"folder": "run", "max_steps": 2, "eval_strategy": "no"}
    assert alone(tmp_path, job).codes == [0]
    ended = run(tmp_path, "ranks", 2, {**job, "resume": True, "max_steps": 4})
    assert ended.codes == [1, 1]
    for result in ended.results():
        assert result["error"] == "CheckpointError"
        words = "gradient_accumulation_steps 1 over all processes, this one 2"
        assert words in result["message"], result["message"]


@pytest.mark.parametrize(("quota", "share"), [(16, 4), (4, 2), (1, 1)])
def test_ranks_share_the_usable_cpus(
    monkeypatch: pytest.MonkeyPatch, quota: int, share: int
) -> None:
    monkeypatch.delenv("EA_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        "evolving_attention.training.runtime.usable_cpus", lambda: quota
    )
    cores = [list(range(8))] * 2
    rank: Any = SimpleNamespace(world=SimpleNamespace(cores=cores, local_rank=0))
    assert Team.threads(rank, None) == share
