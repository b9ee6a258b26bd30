"""Pre-training benchmarks: both sides have the same loss; curves over seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_pretraining import dataset, documents, write

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import figures
from benchmarks import pretraining_curves as curves


def test_both_sides_have_one_loss_and_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("transformers", reason="needs transformers")
    from benchmarks import pretraining as script

    import evolving_attention as ea

    made = ea.create_model

    def small(name: str, **settings: Any) -> Any:
        sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
        return made(name, num_hidden_layers=2, **{**sizes, **settings})

    monkeypatch.setattr(ea, "create_model", small)
    monkeypatch.setattr(script, "VOCABULARY", 130)
    rows, tokenizer = dataset(tmp_path)
    model = script.our_model("vanilla", "small", "float32")
    peer, collator = script.peer_of(model, tokenizer)
    some = script.groups(rows, 3, 2)
    batch = dict(rows.gather(some[0]))
    del batch["row_ids"]
    start = script.start_losses(model, peer, batch)
    assert start["ours"] == pytest.approx(start["torch"], abs=1e-5)
    plain = [[script.plain_row(rows, int(i)) for i in group] for group in some]
    for group in plain:
        masked = collator(group)
        shown = torch.where(
            masked["labels"] >= 0, masked["labels"], masked["input_ids"]
        )
        assert shown.tolist() == [row["input_ids"] for row in group]
    script.torch_steps(peer, collator, plain, "float32")()
    script.our_steps(model, rows, some)()
    after = script.start_losses(model, peer, batch)
    assert all(abs(after[side] - start[side]) > 1e-6 for side in after)


def test_a_run_of_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "VOCABULARY", 120)
    file = write(tmp_path / "corpus.txt", documents(40))
    data = curves.Data(file, tmp_path / "cache", length=24)
    total = len(data.train) + len(data.held_out)
    assert len(data.held_out) == round(total * curves.HELD_OUT)
    assert 2 < data.frequencies < np.log(120)
    found = curves.run(data, "residual", 2, 3e-3, 1, updates=4, every=2)
    assert [point["update"] for point in found["curve"]] == [2, 4]
    assert found["ended"] == "finite"
    again = curves.run(data, "residual", 2, 3e-3, 1, updates=4, every=2)
    assert again["curve"] == found["curve"]
    broken = curves.run(data, "vanilla", 2, 1e30, 1, updates=4, every=2)
    assert curves.failed(broken)


def test_the_table_counts_runs_that_fail() -> None:
    def run(seed: int, rate: float, loss: float, ended: str = "finite") -> Any:
        curve = [{"update": 9, "loss": loss, "accuracy": 0.25}]
        names = {"layers": 24, "arm": "vanilla", "rate": rate, "seed": seed}
        return {**names, "curve": curve, "ended": ended, "frequencies": 6.0}

    runs = [run(1, 0.1, 4.0), run(2, 0.1, 5.0), run(3, 0.1, 6.5)]
    runs += [run(1, 0.5, 3.0, "not finite"), run(2, 0.5, 9.0)]
    lines = curves.table(runs).splitlines()
    assert lines[2] == "| 24 | vanilla | 4.500 ± 0.707, 25.0 %, 1 of 3 | –, 2 of 2 |"


def test_the_figure_has_every_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [
        {
            **{"layers": layers, "arm": arm, "rate": rate, "seed": seed},
            "curve": [{"update": at, "loss": 5 - at / rate / seed} for at in (1, 2)],
            "frequencies": 5.5,
        }
        for layers in (12, 24)
        for arm in curves.ARMS
        for rate in (10.0, 20.0)
        for seed in (1, 2)
    ]
    whole = figures.held_out_losses(runs, tmp_path / "a.svg").read_bytes()
    again = figures.held_out_losses(runs, tmp_path / "b.svg").read_bytes()
    fewer = figures.held_out_losses(runs[:-1], tmp_path / "c.svg").read_bytes()
    assert whole == again
    assert whole.count(b"<path") > fewer.count(b"<path")
