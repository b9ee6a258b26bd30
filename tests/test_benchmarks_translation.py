"""Benchmarks of translation: the peers compute what we compute; runs over seeds."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import seeds

import evolving_attention as ea
from evolving_attention import translation

WORDS = 40


@pytest.fixture(scope="module")
def rows() -> Any:
    rng = np.random.default_rng(0)
    sides = [
        [[*rng.integers(3, WORDS, length), 2] for length in rng.integers(1, 9, 12)]
        for _ in range(2)
    ]
    return translation.ParallelDataset(*sides)


@pytest.mark.parametrize("kind", ["vanilla", "evolving"])
def test_the_peer_has_our_loss_and_gradients(kind: str, rows: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from benchmarks import translation as script
    from benchmarks.peers.torch_transformer import Translation

    ea.manual_seed(3)
    model = script.our_model(kind, "lite", vocabulary=WORDS)
    sizes = replace(script.SIZES["lite"], vocabulary=WORDS)
    peer = Translation(replace(sizes, alpha=0.1 if kind == "evolving" else None))
    (one,) = script.batches(rows, 10**6, 1, model.config.bos_token_id)
    losses = script.start_losses(model, peer, one)
    assert losses["ours"] == pytest.approx(losses["torch"], abs=1e-5)
    model(**one.packed, label_smoothing=script.SMOOTHING).loss.backward()
    peer(*one.padded, script.SMOOTHING).backward()
    theirs = dict(peer.named_parameters())
    for name, parameter in model.named_parameters():
        expected = theirs[name].grad
        expected = torch.zeros(()) if expected is None else expected
        bound = 1e-4 * max(float(expected.abs().max()), 1e-3)
        found = parameter.grad.numpy()
        np.testing.assert_allclose(found, expected.numpy(), atol=bound, err_msg=name)


@pytest.mark.parametrize("kind", ["vanilla", "evolving"])
def test_the_peer_has_nearly_the_same_loss_in_bfloat16(kind: str, rows: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from benchmarks import translation as script
    from benchmarks.peers.torch_transformer import Translation

    torch.manual_seed(3)
    sizes = replace(script.SIZES["lite"], vocabulary=WORDS)
    peer = Translation(replace(sizes, alpha=0.1 if kind == "evolving" else None)).eval()
    (one,) = script.batches(rows, 10**6, 1, 1)
    expected = float(peer(*one.padded, script.SMOOTHING))
    with torch.autocast("cpu", torch.bfloat16):
        found = peer(*one.padded, script.SMOOTHING)
    found.backward()
    assert float(found) == pytest.approx(expected, rel=2e-2)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("side", ["transformers", "ctranslate2"])
def test_other_generators_write_our_tokens(
    side: str, beams: int, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    pytest.importorskip(side, reason=f"needs {side}")
    from benchmarks import generation
    from benchmarks.peers.generators import ENGINES

    generation.prepare(tmp_path, "lite", ["vanilla"])
    request = {
        "folder": str(tmp_path),
        "model": "vanilla",
        "beams": beams,
        "new_tokens": 12,
        "dtype": "float32",
        "threads": 1,
    }
    (batch,) = generation.sources(3)[:1]
    found = {}
    for name in ("ours", side):
        engine = ENGINES[name](request)
        found[name] = engine.run(engine.prepare(*batch))
    np.testing.assert_array_equal(found["ours"], found[side])


@pytest.mark.parametrize(("beams", "targets"), [(1, 12), (4, 1 + 11 * 4)])
def test_operations_of_a_search_counted_by_hand(beams: int, targets: int) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks import generation

    sizes = {"d_model": 8, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    config = ea.TransformerConfig(
        vocab_size=30,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        **sizes,
    )
    two = np.array([3, 5])
    batches = [(np.ones((2, 5), int), two), (np.ones((2, 5), int), two + 1)]
    square, inner = 8 * 8, 8 * 24
    source = 2 * (4 * square + 2 * inner) + 3 * 2 * square  # cross keys, values
    target = 3 * (6 * square + 2 * inner) + 30 * 8
    expected = 2 * (18 * source + 4 * targets * target)
    assert generation.operations(config, batches, beams, 12) == expected


def test_runs_that_are_stored_are_not_repeated(tmp_path: Path) -> None:
    result, ran = tmp_path / "runs.json", []

    def series(count: int, **settings: int) -> list[dict[str, Any]]:
        return seeds.series(
            result,
            {"name": "x", "settings": settings, "runs": []},
            [{"arm": "a", "seed": seed} for seed in range(count)],
            lambda names: {"score": ran.append(names["seed"])},
            dict,
        )

    series(1, rate=1)
    assert [one["seed"] for one in series(3, rate=1)] == [0, 1, 2] == ran
    assert len(json.loads(result.read_text())["runs"]) == 3
    with pytest.raises(SystemExit, match="other settings"):
        series(1, rate=2)


def test_the_table_compares_pairs_at_equal_updates_and_seconds() -> None:
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("scipy", reason="needs scipy")
    from benchmarks import translation_seeds as script

    def run(arm: str, seed: int, slower: float, loss: float) -> dict[str, Any]:
        curve = [
            {"update": 10, "seconds": 10 * slower, "loss": loss + 1},
            {"update": 20, "seconds": 20 * slower, "loss": loss},
        ]
        test = {"bleu": [30.0 + seed, "signature"]}
        return {"arm": arm, "seed": seed, "curve": curve, "test": test}

    runs = [run("vanilla", s, 1, 2 + s / 10) for s in (1, 2)]
    runs += [run("evolving", s, 2, 1.9 + s / 10) for s in (1, 2)]
    lines = script.table(runs).splitlines()
    assert "loss after 20 s" in lines[0]
    assert lines[2].startswith("| vanilla | 2 | 2.150 ± 0.071 | 2.150 ± 0.071 | 31.5")
    assert lines[3].startswith("| evolving | 2 | 2.050 ± 0.071 | 3.050 ± 0.071")
    assert lines[4].startswith("| evolving − vanilla | 2 | -0.100 (-0.100 to -0.100)")
    assert " +0.900 (" in lines[4]


def test_the_peer_trains_on_every_pair_once_in_an_epoch(rows: Any) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks import translation_seeds as script

    lengths = rows.lengths * 300
    bins = script.epoch(lengths, np.random.default_rng(0))
    assert sorted(i for some in bins for i in some) == list(range(len(rows)))
    assert all(lengths[some].sum() <= 2048 or len(some) == 1 for some in bins)
    assert script.rate_of(0) == 0
    assert script.rate_of(400) == max(map(script.rate_of, range(2000)))


@pytest.mark.parametrize("kind", ["vanilla", "evolving", "predictive", "windows"])
def test_every_arm_starts_from_the_same_values(kind: str) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks import translation as script

    def state(arm: str) -> dict[str, Any]:
        ea.manual_seed(5)
        return dict(script.our_model(arm, "lite", vocabulary=WORDS).state_dict())

    own, vanilla = state(kind), state("vanilla")
    assert all("evolving_conv" in name for name in own.keys() - vanilla.keys())
    for name, value in vanilla.items():
        np.testing.assert_array_equal(np.asarray(own[name]), np.asarray(value), name)


def test_the_clock_counts_neither_waiting_nor_scoring() -> None:
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks.translation_seeds import Clock

    def work(seconds: float) -> float:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
        return 1.0

    clock = Clock(lambda: work(0.3), every=2, updates=3)
    clock.start()
    for done in (1, 2, 3):
        work(0.02)
        time.sleep(0.1)
        clock.step(done)
    assert [point["update"] for point in clock.curve] == [2, 3]
    first, last = (point["seconds"] for point in clock.curve)
    assert 0.04 <= first < last
    assert 0.06 <= last < 0.3
