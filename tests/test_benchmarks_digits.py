"""Image benchmarks over seeds: chosen scores, comparisons, what arms share."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import cifar, curves, digits, seeds

pytest.importorskip("sklearn", reason="needs scikit-learn")


def test_validation_chooses_the_update_within_the_seconds() -> None:
    curve = {
        "seconds": [1.0, 2.0, 3.0, 4.0],
        "val_accuracy": [0.5, 0.8, 0.8, 0.7],
        "val_loss": [0.9, 0.6, 0.5, 0.1],
        "test_accuracy": [0.1, 0.2, 0.3, 0.4],
    }
    assert curves.chosen(curve, "test_accuracy") == 0.3
    assert curves.chosen(curve, "test_accuracy", 2.5) == 0.2
    assert curves.chosen(curve, "test_accuracy", 0.5) == 0.1  # at least one epoch


def test_pairs_are_compared_over_the_seeds_of_both() -> None:
    by_arm = {"base": {1: 1.0, 2: 2.0, 3: 9.0}, "ours": {1: 2.0, 2: 4.0}}
    values: dict[str, seeds.Value] = {"x": (1, lambda one: 10 * one)}
    lines = seeds.rows("of a test", by_arm, values, [("ours", "base")])
    assert lines[0] == "| of a test | runs | x |"
    assert lines[2] == "| base | 3 | 40.0 ± 43.6 |"
    mean, half = 15.0, 12.7062 * 5.0  # Student's t for one degree of freedom
    low, high = mean - half, mean + half
    assert lines[4] == f"| ours − base | 2 | +15.0 ({low:+.1f} to {high:+.1f}) |"


def test_digits_run_over_resamples(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curves.harness, "machine", lambda threads: {})
    words = "--seeds 2 --updates 2 --every 1 --batch 8 --width 8 --layers 2 --patch 4"
    words += f" --threads 1 --result {tmp_path / 'runs.json'}"
    digits.main(words.split())
    shown = capsys.readouterr().out
    assert "| vit | 2 |" in shown
    assert "| ea_vit − vit | 2 |" in shown
    digits.main(words.split())  # nothing is trained again
    assert "commit" not in capsys.readouterr().out


def test_digits_are_drawn_once_each_in_the_shares_of_their_classes() -> None:
    _, labels = digits.data()
    parts = digits.split(labels, 1)
    assert [len(part) for part in parts] == [1_000, 297, 500]
    assert len(np.unique(np.concatenate(parts))) == 1_797
    share = np.bincount(labels) / len(labels)
    for part in parts:
        assert np.abs(np.bincount(labels[part]) - share * len(part)).max() <= 1.0
    assert not np.array_equal(parts[2], digits.split(labels, 2)[2])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A tar like the real one: 12 training and 4 test pictures of two classes."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    rng = np.random.default_rng(0)
    with tarfile.open(tmp_path / "pictures.tar.gz", "w:gz") as packed:
        for part, count in (("train", 12), ("test", 4)):
            for i in range(count):
                pixels = rng.integers(0, 255, (32, 32, 3)).astype(np.uint8)
                held = io.BytesIO()
                image.fromarray(pixels).save(held, "PNG")
                entry = tarfile.TarInfo(f"{part}/{'ab'[i % 2]}/{i:04}.png")
                entry.size = held.tell()
                held.seek(0)
                packed.addfile(entry, held)
    return tmp_path / "pictures.tar.gz"


def test_cifar_runs_over_seeds(
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curves.harness, "machine", lambda threads: {})
    monkeypatch.setitem(
        cifar.SIZES, "cifar_net", {"image_size": 32, "hidden_sizes": [8, 8, 8, 8]}
    )
    words = f"--data {file} --seeds 2 --updates 2 --every 1 --batch 4 --threads 1"
    words += f" --result {tmp_path / 'runs.json'}"
    cifar.main(words.split())
    shown = capsys.readouterr().out
    assert "| narrow AA-ResNets | runs |" in shown
    assert "| ea_aa_resnet34 − aa_resnet34 | 2 |" in shown
    assert "| nets of CIFAR | runs |" in shown
    assert "| pa_cifar_net − cifar_net | 2 |" in shown


def test_arms_of_cifar_see_the_same_pictures(file: Path) -> None:
    pictures = cifar.data(file)
    assert [labels.tolist() for _, labels in pictures.values()] == [
        [0] * 6 + [1] * 6,
        [0] * 2 + [1] * 2,
    ]
    first, second = (cifar.parts_of(pictures, 32, 3) for _ in range(2))
    for part, other in zip(first, second, strict=True):
        found, same = (one.gather(range(4))["pixel_values"] for one in (part, other))
        assert np.array_equal(found, same)
    once, twice = (first[0].gather(range(4))["pixel_values"] for _ in range(2))
    assert not np.array_equal(once, twice)  # each pass draws new augmentations
    assert np.array_equal(*(first[2].gather([0])["pixel_values"] for _ in range(2)))


def test_arms_of_cifar_share_their_start() -> None:
    import evolving_attention as ea

    for arm, base in cifar.PAIRS.values():
        states = []
        for name in (base, arm):
            ea.manual_seed(3)
            states.append(cifar.model_of(name).state_dict())
        plain, other = states
        assert all(np.array_equal(value, other[name]) for name, value in plain.items())
        assert {name.split(".")[-2] for name in set(other) - set(plain)} == {
            "evolving_conv"
        }
