"""The benchmark harness and report, and the equations of the PyTorch peer."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference import evolving

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness, report


def test_rounds_alternate_and_warm_up_is_not_timed():
    calls: list[str] = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = harness.interleave(runs, rounds=3, warmup=1)
    assert "".join(calls) == "ba" + "ab" + "ba" + "ab"
    assert [len(t) for t in times.values()] == [3, 3]


def test_a_contender_may_time_itself():
    assert harness.interleave({"a": lambda: 2.5}, rounds=2) == {"a": [2.5, 2.5]}


def test_summary():
    one = harness.summarize([1.0, 4.0, 2.0, 3.0, 10.0])
    assert (one["median_s"], one["min_s"], one["max_s"]) == (3.0, 1.0, 10.0)
    assert one["spread"] == pytest.approx((7.0 - 1.5) / 3.0)
    assert harness.summarize([2.0])["spread"] == 0.0


def machine(**more):
    """A machine record as the harness writes it."""
    base = {"cpu": "A CPU", "cores": 2, "threads": 2, "isa": ["avx2"]}
    return base | {"gemm_gflops": {"torch": 170.4}} | more


def test_results_are_written_and_the_newest_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    sides = {"ours": {"median_s": 2.0}, "torch": {"median_s": 3.0}}
    settings = {"size": "base", "batch": 8, "length": 128, "dtype": "float32"}
    path = harness.write("training", machine(), {"evolving": sides}, settings=settings)
    assert path.name.startswith("training-a-cpu-2t-")
    older = json.loads(path.read_text()) | {"date": "2001-01-01"}
    older["results"] = {}
    (tmp_path / "a.json").write_text(json.dumps(older))
    readme = tmp_path / "README.md"
    readme.write_text(f"# x\n{report.BEGIN}\nold\n{report.END}\nrest\n")
    arguments = ["--readme", str(readme), "--results", str(tmp_path)]
    assert report.main([*arguments, "--check"]) == 1
    assert report.main(arguments) == 0
    text = readme.read_text()
    assert "| 2000 ms | 3000 ms | 1.50× |" in text
    assert "old" not in text
    assert "A CPU, 2 cores, 2 threads, avx2, GEMM GFLOP/s: torch 170" in text
    assert text.startswith("# x\n")
    assert text.endswith("\nrest\n")
    assert report.main([*arguments, "--check"]) == 0


def test_report_needs_its_markers():
    with pytest.raises(SystemExit, match="exactly once"):
        report.insert("no markers", "table")


def test_cola_rows_compare_with_dynamic_padding():
    rates = {"ours vanilla": 150.0, "transformers": 75.0, "ours evolving": 120.0}
    results = {k: {"sentences_per_s": v} for k, v in rates.items()}
    rows = report.cola_rows({"results": results})
    assert "| 150 sentences/s | 75 sentences/s | 2.00× |" in rows[0]
    assert "1.60×" in rows[1]
    assert len(rows) == 2


@pytest.fixture(scope="module")
def peers():
    """The peer's module, where PyTorch is installed."""
    pytest.importorskip("torch", reason="needs torch")
    from benchmarks.peers import torch_bert

    return torch_bert


def test_peer_evolves_its_maps_as_the_reference_does(peers):
    import torch

    shape = peers.Shape(2, 8, 2, 16, 20, 10, alpha=0.3, beta=0.6)
    torch.manual_seed(0)
    model = peers.BertClassifier(shape).double().eval()
    maps, scores = [], []
    for layer in model.bert.encoder.layer:
        module = layer.attention.get_submodule("self")

        def hook(module, inputs, outputs):
            x = inputs[0].detach()
            q, k = (
                f(x).view(1, 5, 2, 4).transpose(1, 2)
                for f in (module.query, module.key)
            )
            scores.append((q @ k.transpose(-1, -2) / 2.0)[0].detach().numpy())
            maps.append(outputs[1][0].detach().numpy())

        module.register_forward_hook(hook)
    model(torch.arange(5)[None], torch.tensor([1]))
    conv = model.bert.encoder.layer[1].attention.get_submodule("self").evolving_conv
    weights, bias = (
        [None, conv.weight.detach().numpy()],
        [None, conv.bias.detach().numpy()],
    )
    expected, _ = evolving.chain(np.stack(scores), weights, bias, 0.3, 0.6)
    assert np.allclose(maps, expected, atol=1e-12)


def test_peer_is_hugging_faces_bert(peers):
    import torch

    transformers = pytest.importorskip("transformers", reason="needs transformers")
    shape = peers.Shape(2, 8, 2, 16, 20, 10, labels=3, dropout=0.0)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=10,
        num_labels=3,
    )
    theirs = transformers.BertForSequenceClassification(config).double().eval()
    state = {k: v for k, v in theirs.state_dict().items() if "position_ids" not in k}
    ids, labels = torch.randint(0, 20, (4, 7)), torch.tensor([0, 1, 2, 0])
    expected = theirs(ids, labels=labels).loss.item()
    for alpha in (None, 0.0):  # 0 and 0 is the vanilla model
        ours = (
            peers.BertClassifier(replace(shape, alpha=alpha, beta=0.0)).double().eval()
        )
        ours.load_state_dict(state, strict=True)
        assert ours(ids, labels).item() == pytest.approx(expected, abs=1e-12)
