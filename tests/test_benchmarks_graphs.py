"""Graph benchmarks: scores of runs over seeds, and sides that agree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import cora


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A graph of two groups in the format of cora.npz."""
    rng, nodes = np.random.default_rng(0), 1_600
    y = np.arange(nodes) % 2
    path = tmp_path / "cora.npz"
    np.savez(
        path,
        x_data=np.ones(2 * nodes, np.float32),
        x_indices=2 * rng.integers(0, 3, 2 * nodes) + np.repeat(y, 2),
        x_indptr=np.arange(0, 2 * nodes + 1, 2),
        x_shape=np.array([nodes, 6]),
        y=y,
        edges=np.sort(rng.integers(0, nodes, (3_000, 2)), axis=1),
        train_idx=np.arange(40),
        val_idx=np.arange(40, 100),
        test_idx=np.arange(100, 200),
    )
    return path


def curve(**columns: list[float]) -> dict[str, list[float]]:
    return {"update": [], "seconds": [1.0, 2.0, 3.0, 4.0], "test_loss": [], **columns}


def test_the_score_is_that_which_validation_chooses() -> None:
    one = curve(
        val_loss=[0.9, 0.5, 0.6, 0.4],
        val_accuracy=[0.5, 0.7, 0.8, 0.7],
        test_accuracy=[0.1, 0.2, 0.3, 0.4],
    )
    # The third epoch is better only in accuracy, the fourth only in loss.
    assert cora.chosen(one, "test_accuracy") == 0.2
    assert cora.chosen(one, "test_accuracy", seconds=1.5) == 0.1
    better = {**one, "val_accuracy": [0.5, 0.7, 0.8, 0.8]}
    assert cora.chosen(better, "test_accuracy") == 0.4


def test_runs_over_seeds_and_splits(
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cora.harness, "machine", lambda threads: {})
    words = f"--data {file} --seeds 2 --splits 1 --updates 4 --every 2 --threads 1"
    words += f" --result {tmp_path / 'runs.json'}"
    cora.main(words.split())
    shown = capsys.readouterr().out
    assert "| published split | runs |" in shown
    assert "| random splits | runs |" in shown
    assert "| ea_gat3 − gat3 | 2 |" in shown
    cora.main(words.split())  # nothing is trained again
    assert "commit" not in capsys.readouterr().out


def test_arms_share_their_start(file: Path) -> None:
    import evolving_attention as ea

    data = cora.Cora(file)
    states: list[dict[str, Any]] = []
    for arm in ("gat3", "ea_gat3"):
        ea.manual_seed(3)
        states.append(cora.model_of(arm, data).state_dict())
    plain, evolving = states
    assert all(np.array_equal(value, evolving[name]) for name, value in plain.items())
    assert {n for n in evolving if n not in plain} == {
        f"convs.1.evolving_conv.{part}" for part in ("weight", "bias")
    }


def test_random_splits_have_all_classes(file: Path) -> None:
    data = cora.Cora(file)
    train, val, test = data.split(1)
    assert np.bincount(data.classes[train]).tolist() == [20, 20]
    assert (len(val), len(test)) == (500, 1000)
    assert len(np.unique(np.concatenate([train, val, test]))) == 1540
    assert not np.array_equal(train, data.split(2)[0])


def test_the_peer_has_our_loss(file: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("torch_geometric", reason="needs torch_geometric")
    from benchmarks import graph

    problem = graph.cora(file)
    model = graph.our_model(problem, 2, False)
    found = graph.start_losses(problem, model, graph.Peer(problem, 2))
    assert found["ours"] == pytest.approx(found["torch"], abs=1e-6)
    for step in (
        graph.our_epoch(problem, model),
        graph.peer_epoch(problem, graph.Peer(problem, 2), False),
    ):
        step()
    large = graph.made(500, 2_000)
    assert large.edge_index.shape == (2, 2_000)
    most = np.bincount(large.edge_index[1]).max()
    assert most > 5 * 2_000 / 500  # hubs
