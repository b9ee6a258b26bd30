"""Image benchmarks: peers with our results, records of runs, training input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import harness, images
from benchmarks.peers.image_engines import ENGINES, our_model
from benchmarks.rows import rows_of


def shaken(model: Any) -> dict[str, np.ndarray]:
    """Perturbs the weights, so that none stays at 0 or 1; returns them."""
    rng = np.random.default_rng(1)
    state = {}
    for name, value in model.state_dict().items():
        array = np.asarray(value)
        state[name] = array + rng.uniform(0.0, 0.2, array.shape).astype(array.dtype)
    model.load_state_dict(state)
    return state


@pytest.mark.parametrize("kind", ["vanilla", "evolving"])
@pytest.mark.parametrize("name", ["aa_resnet50", "vit_b16"])
def test_the_peer_has_our_loss_and_gradients(name: str, kind: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from benchmarks.peers.torch_images import peer_of

    sizes = images.sizes_of(name, kind, "tiny")
    model = our_model(name, sizes, "float32")
    peer = peer_of(sizes, shaken(model)).train()
    peer = peer.to(memory_format=torch.channels_last)
    pixels, labels = images.pictures(sizes, 3)
    ours = model.train()(pixels, labels).loss
    x = torch.from_numpy(pixels).contiguous(memory_format=torch.channels_last)
    loss = torch.nn.functional.cross_entropy(peer(x), torch.from_numpy(labels))
    assert float(ours.item()) == pytest.approx(loss.item(), abs=1e-5)
    ours.backward()
    loss.backward()
    theirs = dict(peer.named_parameters())
    assert any("evolving_conv" in name for name in theirs) == (kind == "evolving")
    for name, parameter in model.named_parameters():
        expected = theirs[name].grad.numpy()
        bound = 1e-3 * max(float(np.abs(expected).max()), 1e-3)
        found = parameter.grad.numpy()
        np.testing.assert_allclose(found, expected, atol=bound, err_msg=name)


@pytest.mark.parametrize("name", ["resnet50", "vit_b16"])
def test_every_engine_has_the_same_logits(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    sizes = images.sizes_of(name, "vanilla", "tiny")
    request = {
        **{"task": "inference", "model": name, "sizes": sizes, "batch": 2},
        **{"dtype": "float32", "threads": 1},
        "weights": images.common_weights(name, sizes, tmp_path),
    }
    batch = images.pictures(sizes, 2)
    found = {}
    for side in ("ours", "torch"):
        engine = ENGINES[side](request)
        found[side] = engine.run(engine.prepare(*batch))
    bound = 1e-4 * np.abs(found["torch"]).max()
    np.testing.assert_allclose(found["ours"], found["torch"], atol=bound)


def test_a_run_writes_a_record(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "gemm_rates", lambda *all: {"ours": 100.0})
    words = "--size tiny --rounds 1 --threads 1 --models vit_b16 --batches 2"
    images.main([*words.split(), "--measure", "training", "--sides", "ours"])
    assert "evolving over vanilla" in capsys.readouterr().out
    (file,) = tmp_path.iterdir()
    record = json.loads(file.read_text())
    assert record["name"] == "images-training-vit_b16-2x16-float32"
    theirs = {"median_s": 2.0, "min_s": 1.0, "peak_bytes": 2**30}
    for result in record["results"].values():
        result["torch"] = theirs
    images.compare(record["results"])
    found = rows_of(record["name"], record)
    assert [row.what for row in found] == [
        "vanilla ViT-B/16 training step, float32, batch 2",
        "vanilla ViT-B/16 training step, float32, batch 2: peak memory",
        "evolving ViT-B/16 training step, float32, batch 2",
        "evolving ViT-B/16 training step, float32, batch 2: peak memory",
        "evolving ViT-B/16 training step, float32, batch 2",
    ]
    assert found[1].other == "1.00 GiB"
    assert found[-1].other.endswith("(ours, vanilla)")


def test_files_are_the_input_of_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    monkeypatch.setattr(harness, "gemm_rates", lambda *all: {"ours": 100.0})
    words = "--size tiny --rounds 1 --threads 1 --models vit_b16 --batches 2"
    images.main([*words.split(), "--measure", "input", "--dry"])
    assert "a step on files takes" in capsys.readouterr().out
