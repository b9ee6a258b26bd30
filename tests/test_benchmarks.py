"""The benchmarks: harness, report, each script on a tiny model, and their peers."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference import evolving

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    growth,
    harness,
    import_cost,
    isa,
    lengths,
    race,
    repeat,
    report,
    versions,
)
from benchmarks.rows import ROWS, TITLES, rows_of, title_of
from benchmarks.worker import Worker


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


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "core"),
    [
        ("AuthenticAMD", 26, 2, "avx2 avx512f", " (Zen 5)"),
        ("AuthenticAMD", 25, 17, "avx2 avx512f", " (Zen 4)"),
        ("AuthenticAMD", 25, 1, "avx2", " (Zen 3)"),
        ("AuthenticAMD", 23, 207, "avx2", ""),
        ("GenuineIntel", 6, 207, "avx2 avx512f amx_bf16", " (Emerald Rapids)"),
        ("GenuineIntel", 6, 143, "avx2 avx512f amx_bf16", " (Sapphire Rapids)"),
        ("GenuineIntel", 6, 1, "avx2", ""),
        ("GenuineIntel", 26, 207, "avx2 avx512f", ""),
    ],
)
def test_a_cpu_is_named_with_its_core(tmp_path, vendor, family, model, flags, core):
    name = f"A Processor{core}"
    one = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
    one += "model name\t: A Processor\n"
    both = f"processor\t: 0\n{one}flags\t\t: fpu {flags}\n\nprocessor\t: 1\n{one}"
    (tmp_path / "cpuinfo").write_text(both + "power management:\n")
    assert harness.cpu_model(tmp_path / "cpuinfo") == (name, flags.split())
    assert harness.cpu_model(tmp_path / "none")[1] == []


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
    page = tmp_path / "page.md"
    page.write_text(readme.read_text())
    arguments = ["--readme", str(readme), "--results", str(tmp_path)]
    arguments += ["--page", str(page), "--figures", str(tmp_path / "figures")]
    assert report.main([*arguments, "--check"]) == 1
    assert report.main(arguments) == 0
    text = readme.read_text()
    assert "| 2000 ms | 3000 ms | 1.50× |" in text
    assert "old" not in text
    assert "A CPU, 2 cores, 2 threads, avx2; GEMM GFLOP/s: torch 170" in text
    assert text.startswith("# x\n")
    assert text.endswith("\nrest\n")
    assert "](figures/ratios.svg)" in text
    figure = (tmp_path / "figures" / "ratios.svg").read_bytes()
    assert b"<dc:date>" not in figure
    assert report.main([*arguments, "--check"]) == 0
    assert report.main(arguments) == 0
    assert (tmp_path / "figures" / "ratios.svg").read_bytes() == figure
    assert "### Training step\n\n| | ours |" in page.read_text()


def test_the_pages_hold_what_the_committed_results_say(capsys):
    if not any(harness.RESULTS.glob("*.json")):
        pytest.skip("needs benchmarks/results, which the sdist leaves out")
    assert report.main(["--check"]) == 0, capsys.readouterr().out


def test_no_results_leave_everything_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{report.BEGIN}\nold\n{report.END}\n")
    both = ["--readme", str(page), "--page", str(page), "--results", str(tmp_path)]
    assert report.main([*both, "--figures", str(tmp_path / "figures")]) == 0
    assert page.read_text() == f"{report.BEGIN}\n\n{report.END}\n"
    assert not (tmp_path / "figures").exists()


def test_every_benchmark_has_a_heading():
    assert TITLES.keys() == ROWS.keys()
    assert title_of("training-base", {"settings": {"isa": None}}) == "Training step"
    capped = title_of("training-base", {"settings": {"isa": "avx2"}})
    assert capped == "Training step, every library limited to AVX2"


def test_report_needs_its_markers():
    with pytest.raises(SystemExit, match="exactly once"):
        report.insert("no markers", "table")


def test_cola_rows_put_the_stronger_trainer_first():
    """The stronger one groups by length here; FRONT has the row of either."""
    seconds = {"ours vanilla": 1.0, "ours evolving": 1.25}
    seconds |= {"transformers": 2.0, "transformers grouped": 1.5}
    results = {
        name: {"sentences_per_s": 150 / s, "median_s": s, "min_s": 0.75 * s}
        for name, s in seconds.items()
    }
    found = rows_of("cola", {"results": results})
    first = [row for row in found if row.headline]
    assert [row.ratio for row in first] == [1.5, 1.2]
    assert all("grouped by length" in row.other for row in first)
    assert [row.ratio for row in found if not row.headline] == [2.0, 1.6]
    assert first[0].what == "vanilla MiniLM fine-tuned on CoLA, float32"
    assert first[0].ours == "150 sentences/s, best 200"
    assert first[0].other.startswith("100 sentences/s, best 133 (transformers' Tr")
    assert first[1].what in report.FRONT
    results["transformers"]["median_s"] = 1.25
    assert rows_of("cola", {"results": results})[0].other.endswith("dynamic padding)")


def test_inference_rows_put_the_fastest_other_first_and_name_who_is_missing():
    sides = {
        "ours": {"median_s": 0.2},
        "slow": {"median_s": 0.8},
        "fast": {"median_s": 0.1},
        "gone": {"skipped": "gone is not installed"},
        "work": {"gemm_limit_s": 0.15},
    }
    settings = {"size": "base", "batch": 8, "length": 128, "dtype": "float32"}
    record = {"results": {"vanilla": sides}, "settings": settings}
    rows = rows_of("inference-base", record)
    assert [row.ratio for row in rows] == [0.5, 4.0, None]
    assert [row.headline for row in rows] == [True, False, False]
    assert rows[0].markdown().endswith("| 200 ms | 100 ms (fast) | 0.50× | 75% |")
    assert "gone is not installed" in rows[2].markdown()


def test_a_ratio_of_versions_is_that_of_the_signed_ranks():
    # 2.5 % of the 2^6 choices of signs is one choice: the interval runs from the lowest
    # mean of a pair to the highest.
    found = versions.interval([1.0, 1.1, 1.2, 1.3, 1.4, 9.0])
    assert found["low"] == pytest.approx(1)
    assert found["high"] == pytest.approx(9)
    noise = np.random.default_rng(0).standard_t(2, (400, 15))
    held = 0
    for ratios in np.exp(0.02 * noise).tolist():
        found = versions.interval(ratios)
        held += found["low"] <= 1 <= found["high"]
    assert 0.92 < held / 400 < 0.98
    with pytest.raises(ValueError, match="5 ratios, expected 6 or more"):
        versions.interval([1.0] * 5)


def test_a_record_of_one_task_has_a_name_of_its_own():
    assert harness.only(["JapaneseVowels epoch"]) == "-japanesevowels-epoch"
    assert harness.only(["vanilla"]) == "-vanilla"
    assert harness.only(["vanilla", "evolving"]) == ""


def test_gemm_limit_takes_the_better_rate_of_the_same_type():
    record = {"gemm_gflops": {"torch": 100.0, "ours": 200.0}}
    record["gemm_gflops_bfloat16"] = {"torch": 400.0, "ours": 300.0}
    assert harness.gemm_limit(2e11, record, "float32") == 1.0
    assert harness.gemm_limit(2e11, record, "bfloat16") == 0.5


def test_gemm_rates_only_rise_when_they_are_measured_again(monkeypatch):
    record = {"gemm_gflops": {"torch": 100.0, "ours": 200.0}}
    found = {"torch": 150.0, "ours": 150.0}
    monkeypatch.setattr(harness, "gemm_rates", lambda dtype: found)
    harness.measure_gemm_again(record, "float32")
    assert record["gemm_gflops"] == {"torch": 150.0, "ours": 200.0}


def test_a_side_with_wrong_logits_is_not_timed(monkeypatch):
    class Fake:
        def __init__(self, side, request):
            self.side, self.built = side, {"build_s": 0.0}

        def load(self, name, batches):
            pass

        def outputs(self, name):
            return np.array([[1.0, 2.0 + 0.1 * (self.side == "wrong")]])

        def run(self, name):
            return 1.0

        def close(self):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(race, "Worker", Fake)
    monkeypatch.setattr(race, "request", lambda *all: {"threads": 1, "dtype": all[1]})
    one = [(np.ones((1, 2), np.int64), np.array([2]))]
    found = race.race(
        None, "float32", {"x": one}, threads=1, rounds=2, sides=("ours", "wrong")
    )["x"]
    assert found["ours"]["median_s"] == 1.0
    assert "differ by 5.0e-02" in found["wrong"]["skipped"]


def test_real_lengths_are_padded_to_the_longest_of_each_batch():
    made = lengths.batches([3, 1, 2, 5], 2, vocabulary=50)
    assert [ids.shape for ids, _ in made] == [(2, 3), (2, 5)]
    assert [n.tolist() for _, n in made] == [[3, 1], [2, 5]]
    assert np.count_nonzero(made[1][0]) == 7
    assert lengths.padding(made) == 1 - 11 / 16


def test_lengths_keep_each_order_when_it_is_timed(tmp_path, monkeypatch, capsys):
    """A run interrupted after one order leaves a record that the report can read."""
    files = []

    def cut_short(shape, dtype, sets, *, keep, **settings):
        assert list(sets) == ["random", "sorted"]
        keep("random", {"ours": harness.summarize([0.5]), "a": {"skipped": ""}})
        files.extend(tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "measured_machine", lambda *all: machine())
    monkeypatch.setattr(harness, "gemm_rates", lambda dtype: {})
    monkeypatch.setattr(lengths, "token_lengths", lambda *all: [5, 3, 9])
    monkeypatch.setattr(lengths, "race", cut_short)
    words = ["--task", "mrpc", "--size", "tiny", "--batch", "2", "--kinds", "vanilla"]
    with pytest.raises(KeyboardInterrupt):
        lengths.main(words)
    assert [file.suffix for file in files] == [".json"]
    record = json.loads(files[0].read_text())
    assert record["settings"]["task"] == "mrpc"
    random = record["results"]["vanilla"]["random"]
    assert random["ours"]["sentences_per_s"] == 6.0
    assert random["work"]["padding"] == 1 - 17 / 19
    assert "sorted" not in record["results"]["vanilla"]
    assert "vanilla, random rows" in capsys.readouterr().out
    (row,) = rows_of(record["name"], record)
    assert "MRPC's lengths, random rows" in row.what
    assert row.other == "a: it failed"


def test_a_side_that_differs_or_fails_is_not_timed_but_named():
    a = np.array([1.0, -2.0])
    assert race.difference(a * [1.0, 0.95], a) == pytest.approx(0.05)
    assert race.difference(a * np.nan, a) == np.inf
    assert race.difference(a[:1], a) == np.inf
    worker_error = {"ours": {"median_s": 1.0}, "x": {"skipped": "no"}}
    assert race.ratios(worker_error) == {}


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize(
    ("padded", "alpha", "others"),
    [
        (False, None, ("ctranslate2",)),
        (True, 0.3, ("torch eager", "onnxruntime", "openvino")),
    ],
)
def test_the_sides_agree_in_their_own_processes(peers, padded, alpha, others):
    """Each side runs once; all are compared with PyTorch, which has a process too."""
    shape = peers.Shape(2, 16, 2, 32, 40, 12, alpha=alpha, beta=0.5)
    some = lengths.batches([5, 9, 2], 3, 40)
    if not padded:
        some = [(some[0][0], np.full(3, 9))]
    settings = {"threads": 1, "rounds": 1, "padded": padded}
    sides = ("ours", *others)
    found = race.race(shape, "float32", {"set": some}, sides=sides, **settings)["set"]
    assert found.keys() == set(sides)
    for side, one in found.items():
        if side in ("ours", "torch eager") or "skipped" not in one:
            assert one["difference"] < 1e-5
            assert one["median_s"] > 0
        else:
            assert "install" in one["skipped"]


def test_a_worker_says_what_went_wrong(peers):
    with pytest.raises(RuntimeError, match="KeyError"):
        Worker("no such side", {"threads": 1})


@pytest.mark.parametrize(
    "name",
    ["step_memory", "growth", "same_bits", "conv1d", "csan", "series"],
)
def test_the_small_benchmarks_run(peers, name, capsys, monkeypatch):
    if name != "conv1d":  # one of them measures the rate of products
        monkeypatch.setattr(harness, "gemm_rate", lambda *all: 100.0)
    words = {
        "step_memory": ["--size", "tiny", "--batch", "1", "--length", "8"],
        "growth": ["--size", "tiny", "--lengths", "8", "--batches", "1"],
        "conv1d": ["--tiny", "--rounds", "1"],
        "csan": ["--batch", "1", "--length", "8", "--rounds", "1"],
        "series": ["--tiny", "--rounds", "1", "--kind", "evolving"],
        "same_bits": ["--size", "tiny", "--batch", "1", "--length", "8"],
    }[name]
    if name in ("growth", "same_bits"):
        words += ["--rounds", "1"]
    if name == "step_memory":
        words += ["--kinds", "vanilla", "--steps", "1"]
    importlib.import_module(f"benchmarks.{name}").main([*words, "--dry"])
    assert {
        "step_memory": "ours takes",
        "growth": "ratio",
        "conv1d": "backward",
        "csan": "of dense",
        "series": "inference",
        "same_bits": "same bits cost",
    }[name] in capsys.readouterr().out


def test_the_cost_of_imports(monkeypatch, capsys):
    ours = {n: s for n, s in import_cost.STATEMENTS.items() if "torch" not in s}
    statements = {"absent": "import no_such_module", **ours}
    monkeypatch.setattr(import_cost, "STATEMENTS", statements)
    import_cost.main(["--rounds", "1", "--dry"])
    absent, *measured = capsys.readouterr().out.splitlines()
    assert "not measured: ModuleNotFoundError: No module named" in absent
    assert [one.split("  ")[0] for one in measured] == list(ours)
    assert all(one.endswith(" MiB") for one in measured)


def test_seeds_together_and_alone_are_compared_by_their_bits(monkeypatch):
    def run(words: list[str], threads: int) -> float:
        out = Path(words[-1])
        together = words[words.index("--seeds") + 1 : -2] if "--seeds" in words else []
        for folder in [out / f"seed-{one}" for one in together] or [out]:
            folder.mkdir(parents=True)
            text = folder.name if right or together else "other"
            (folder / "model.safetensors").write_text(text)
        return 3.0 if together else 2.0

    monkeypatch.setattr(repeat, "run", run)
    for right in (True, False):
        found = repeat.measure(["glue"], seeds=2, rounds=1, threads=1)
        assert found["same_bits"] is right
        assert found["ratio"] == 0.75
    settings = {"seeds": 2, "steps": 10}
    (row,) = rows_of("repeat", {"results": {"seeds": found}, "settings": settings})
    assert row.ratio == pytest.approx(4 / 3)


def test_what_is_measured_is_seen_after_each_round():
    seen = [
        {name: list(some) for name, some in times.items()}
        for times in harness.interleaved({1: lambda: 2.5}, rounds=2)
    ]
    assert seen == [{1: [2.5]}, {1: [2.5, 2.5]}]


def test_the_dearest_odd_size_is_found():
    """An odd size is compared only with the sizes next to it."""

    def point(length: int, seconds: float) -> dict:
        one = {kind: {"median_s": seconds} for kind in growth.KINDS}
        return one | {"length": length, "flops": dict.fromkeys(growth.KINDS, length)}

    points = [point(63, 6.3), point(64, 6.4), point(65, 13.0), point(127, 99.0)]
    assert growth.odd_cost("length", points) == pytest.approx(2.0)
    assert growth.odd_cost("length", points[3:]) is None
    # The fixed cost of a step does not count against size 1; costing more than the
    # next size does.
    assert growth.odd_cost("length", [point(1, 3.0), point(2, 4.0)]) == 0.75
    assert growth.odd_cost("length", [point(63, 8.0), point(64, 6.4)]) == 1.25


def test_growth_is_drawn_from_its_record(tmp_path):
    one = {"vanilla": {"median_s": 0.1}, "evolving": {"median_s": 0.12}, "ratio": 1.2}
    series = [one | {"batch": 2, "length": n} for n in (32, 64)]
    record = {
        "name": "growth-base",
        "results": {"length": series, "batch": series},
        "settings": {"size": "base", "dtype": "float32"},
        "machine": machine(),
        "date": "2026-01-01",
    }
    assert report.figures([record], []).keys() == {"growth-base"}
    report.draw([record], [], tmp_path)
    ours = (tmp_path / "growth-base.svg").read_bytes()
    assert "32: 1.20, 64: 1.20" in rows_of("growth-base", record)[0].ours
    for point in series:
        point |= {"torch vanilla": {"median_s": 0.2}, "torch ratio": 1.4}
    report.draw([record], [], tmp_path)
    assert (tmp_path / "growth-base.svg").read_bytes().count(b"<path") > ours.count(
        b"<path"
    )


def test_a_held_run_starts_again_unless_every_library_is_held(monkeypatch):
    started = []
    monkeypatch.setattr(isa.os, "execve", lambda *all: started.append(all[1:]))
    monkeypatch.setenv("EA_MAX_ISA", "avx2")  # our own limit is not enough
    for name in set(isa.AVX2) - {"EA_MAX_ISA"}:
        monkeypatch.delenv(name, raising=False)
    isa.hold("t5", None, [])
    assert started == []
    isa.hold("t5", "avx2", ["--isa", "avx2"])
    ((words, variables),) = started
    assert words[-4:] == ["-m", "benchmarks.t5", "--isa", "avx2"]
    assert variables.items() >= isa.AVX2.items()
    for name, value in isa.AVX2.items():
        monkeypatch.setenv(name, value)
    isa.hold("t5", "avx2", [])
    assert len(started) == 1


def test_a_library_that_goes_past_avx2_stops_the_measurement():
    isa.check({"ours": "avx2", "torch, oneDNN": "Intel AVX2"})
    for told in ("avx512_core_bf16", "AVX512", "Intel AVX-512 with Intel DL Boost"):
        with pytest.raises(SystemExit, match="not held to it"):
            isa.check({"ours": "avx2", "other": told})


def test_every_library_tells_its_instruction_set(peers, monkeypatch):
    machine: dict = {}
    isa.tell(machine, None)
    found = machine["isa_reported"]
    assert found["torch, oneDNN"] != "not told"
    assert all(found.values())
    monkeypatch.setattr(isa, "reported", lambda: {"ours": "avx512_core"})
    with pytest.raises(SystemExit, match="not held to it"):
        isa.tell(machine, "avx2")


@pytest.mark.parametrize("name", ["training", "translation", "t5"])
def test_the_option_holds_the_benchmark(peers, monkeypatch, name):
    script = importlib.import_module(f"benchmarks.{name}")

    def stop(*words):
        raise RuntimeError(words)

    monkeypatch.setattr(isa, "hold", stop)
    with pytest.raises(RuntimeError, match=f"{name}.*avx2"):
        script.main(["--isa", "avx2", "--dry"])


@pytest.fixture(scope="module")
def peers():
    """The module of the BERT peer; skips without PyTorch."""
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
    config = transformers.BertConfig(**shape.config())
    theirs = transformers.BertForSequenceClassification(config).double().eval()
    state = {k: v for k, v in theirs.state_dict().items() if "position_ids" not in k}
    ids, labels = torch.randint(0, 20, (4, 7)), torch.tensor([0, 1, 2, 0])
    expected = theirs(ids, labels=labels).loss.item()
    for alpha in (None, 0.0):  # alpha = beta = 0 is the vanilla model
        ours = (
            peers.BertClassifier(replace(shape, alpha=alpha, beta=0.0)).double().eval()
        )
        ours.load_state_dict(state, strict=True)
        assert ours(ids, labels).item() == pytest.approx(expected, abs=1e-12)


def test_the_peer_with_products_of_onednn():
    """The oneDNN layers have the results and gradients of PyTorch's own."""
    torch = pytest.importorskip("torch")
    from benchmarks.peers.torch_linear import OneDnnLinear, with_onednn

    plain = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.Linear(40, 8))
    other = with_onednn(plain)
    assert all(type(layer) is OneDnnLinear for layer in other)
    assert type(plain[0]) is torch.nn.Linear
    inputs = torch.randn(3, 5, 24)
    found = []
    for net in (plain, other):
        x = inputs.clone().requires_grad_()
        y = net(x)
        (y**2).sum().backward()
        found.append([y, x.grad, *(p.grad for p in net.parameters())])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
