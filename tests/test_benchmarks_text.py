"""Benchmarks of text nets: batches of both sides, runs over seeds, arms, rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import curves, text_seeds
from benchmarks.rows import rows_of

import evolving_attention as ea
from evolving_attention.data.features import Features

WORDS, WIDTH = 20, 6


def rows(count: int, seed: int = 0, pairs: bool = False) -> Features:
    """Random texts of 1 to 9 words, with three classes."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(1, 10, count)])
    ids = rng.integers(3, WORDS, offsets[-1])
    types = rng.integers(0, 2, offsets[-1]) if pairs else None
    return Features(ids, offsets, types, rng.integers(0, 3, count))


def texts(task: str, data: Path, count: int | None) -> text_seeds.Texts:
    pairs = task == "snli"
    parts = (rows(n, n, pairs) for n in (80, 20, 30))
    vectors = np.random.default_rng(0).normal(size=(WORDS, WIDTH))
    return text_seeds.Texts(*parts, vectors.astype(np.float32), 3, 1 + pairs)


def test_text_nets_run_over_seeds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curves.harness, "machine", lambda threads: {})
    monkeypatch.setattr(text_seeds, "texts", texts)
    words = "--tiny --tasks sst5 snli --seeds 2 --epochs 2 --threads 1"
    words += " --arms text_transformer pa3_text_transformer ea_text_transformer"
    words += f" --result {tmp_path / 'runs.json'}"
    text_seeds.main(words.split())
    shown = capsys.readouterr().out
    for task in ("sst5", "snli"):
        assert f"| {task} | runs | test accuracy, equal updates |" in shown
    for arm in ("pa3_text_transformer", "ea_text_transformer"):
        assert shown.count(f"| {arm} − text_transformer | 2 |") == 2
    text_seeds.main(words.split())  # nothing is trained again
    assert "commit" not in capsys.readouterr().out


def test_arms_of_text_nets_share_their_start_and_have_their_convolutions() -> None:
    states = {}
    for arm in text_seeds.ARMS:
        ea.manual_seed(3)
        net = text_seeds.model_of(arm, "snli", texts("snli", Path(), None))
        states[arm] = net.state_dict()
    plain = states[text_seeds.BASE]
    counts = {}
    for arm, state in states.items():
        same = (np.array_equal(value, state[name]) for name, value in plain.items())
        assert all(same), arm
        own = [name for name in set(state) - set(plain) if name.endswith("weight")]
        assert all("evolving_conv" in name for name in own)
        counts[arm] = len(own)
    assert counts == {
        "text_transformer": 0,
        "ea_text_transformer": 2,  # one in each layer but the first
        "pa0_text_transformer": 0,
        "pa_text_transformer": 2,
        "pa2_text_transformer": 4,
        "pa3_text_transformer": 6,
    }


@pytest.mark.parametrize("pairs", [False, True])
def test_both_sides_have_the_same_rows(pairs: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from benchmarks import text_nets

    given = rows(11, pairs=pairs)
    order = np.random.default_rng(1).permutation(11)
    found = text_nets.batches(given, 4, order)
    assert [len(each.labels) for each in found] == [4, 4, 3]
    assert 0.0 < text_nets.padding(found) < 1.0
    ids, types = [], []
    for each in found:
        padded, kinds, lengths = each.padded
        assert padded.shape[1] == lengths.max()
        valid = torch.arange(padded.shape[1]) < lengths[:, None]
        assert torch.equal(padded[valid], torch.from_numpy(each.packed["input_ids"]))
        assert not padded[~valid].any()
        ids += [row[:n].tolist() for row, n in zip(padded, lengths, strict=True)]
        types += [row[:n].tolist() for row, n in zip(kinds, lengths, strict=True)]
    assert ids == [given[i]["input_ids"].tolist() for i in order]
    if pairs:
        assert types == [given[i]["token_type_ids"].tolist() for i in order]


def test_text_nets_are_timed_after_a_comparison(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks import text_nets

    monkeypatch.setattr(
        text_nets, "rows_of", lambda task, data, count: (rows(count), WORDS)
    )
    words = "--tiny --dry --rounds 1 --threads 1 --sentences 12 --batch 4"
    text_nets.main([*words.split(), "--arms", "pa_text_conv_transformer"])
    shown = capsys.readouterr().out
    assert "pa_text_conv_transformer  ours is " in shown
    monkeypatch.setitem(text_nets.TOLERANCE, "float32", 0.0)
    with pytest.raises(SystemExit, match="text_cnn: the sides differ by"):
        text_nets.main([*words.split(), "--arms", "text_cnn"])


def test_the_faster_way_of_padding_is_the_headline() -> None:
    seconds = {"ours": 1.0, "torch": 4.0, "torch, grouped by length": 2.5}
    result = {
        side: {"median_s": s, "min_s": s, "sentences_per_s": 640 / s}
        for side, s in seconds.items()
    }
    record = {
        "settings": {
            "task": "sst2",
            "words": "fixed",
            "dtype": "float32",
            "batch": 64,
        },
        "results": {"text_cnn": {**result, "padding": 0.6, "difference": 1e-6}},
    }
    first, second = rows_of("textnets-sst2-fixed-float32", record)
    assert (first.ratio, second.ratio) == (2.5, 4.0)
    assert (first.headline, second.headline) == (True, False)
    assert first.ours == "640 /s, best 640"
    assert first.other == "256 /s, best 256 (torch, grouped by length)"
