"""Rules that keep a benchmark record out of the README; the order of the sides."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import harness, inference, isa, options, race, report, rules
from benchmarks.rows import ROWS, rows_of

SETTINGS = {"size": "base", "batch": 8, "length": 128, "dtype": "float32"}


def side(median: float, spread: float = 0.02) -> dict[str, float]:
    return {"median_s": median, "min_s": 0.9 * median, "spread": spread}


def record(ours: float = 2.0, spread: float = 0.02, date="2026-01-02", **machine):
    """Returns a record of the training step that follows the rules."""
    base = {"cpu": "A CPU", "cores": 2, "threads": 2, "isa": ["avx2"]}
    base |= {"gemm_gflops": {"torch": 170.4}, "commit": "abc1234"}
    base |= {"load_at_start": 0.2, "clean": True}
    sides = {"ours": side(ours), "torch": side(3.0, spread)}
    return {
        "name": "training-base",
        "date": date,
        "machine": base | machine,
        "results": {"evolving": sides},
        "settings": SETTINGS,
    }


def test_what_marks_a_record() -> None:
    assert rules.marks(record()) == []
    assert rules.marks(record(spread=0.15)) == []
    assert rules.marks(record(spread=0.16)) == ["torch spreads by 16%"]
    assert rules.marks(record(load_at_start=1.0)) == []
    (busy,) = rules.marks(record(load_at_start=1.2))
    assert busy == "began at load 1.2 on 2 cores"
    assert rules.marks(record(load_at_start=1.2, cores=16)) == []
    assert rules.marks(record(clean=False)) == ["code not committed"]
    three = record(spread=0.5, load_at_start=2.0, clean=False)
    assert len(rules.marks(three)) == 3
    assert not rules.admitted(three)
    points = {"results": {"length": [{"vanilla": side(1.0, 0.3)}]}}
    assert rules.marks(record() | points) == ["vanilla spreads by 30%"]


def test_records_from_before_the_rule_stay() -> None:
    old = record(spread=0.9)
    del old["machine"]["load_at_start"]
    assert rules.marks(old) == ["before the rule"]
    assert rules.admitted(old)


@pytest.fixture
def pages(tmp_path):
    """Writes records and runs the report; returns the texts of README and page."""

    def made(*records):
        results = tmp_path / "results"
        results.mkdir(exist_ok=True)
        for number, one in enumerate(records):
            (results / f"{number}.json").write_text(json.dumps(one))
        paths = [tmp_path / "README.md", tmp_path / "page.md"]
        for path in paths:
            path.write_text(f"{report.BEGIN}\n{report.END}\n")
        words = ["--readme", str(paths[0]), "--page", str(paths[1])]
        words += ["--figures", str(tmp_path / "figures"), "--results", str(results)]
        assert report.main(words) == 0
        assert report.main([*words, "--check"]) == 0
        return [path.read_text() for path in paths]

    return made


def test_a_marked_record_is_on_the_page_alone(pages) -> None:
    readme, page = pages(record(), record(4.0, date="2026-01-03", clean=False))
    assert "| 2000 ms, min 1800 | 3000 ms, min 2700 | 1.50× |" in readme
    assert "4000" not in readme
    assert "length 128 [marked below] | 4000 ms" in page
    assert (
        "| training-base | A CPU | 2026-01-03 | abc1234 | 0.2 | code not committed |"
        in page
    )


def test_nothing_but_marked_records_leaves_the_readme_empty(pages) -> None:
    readme, page = pages(record(load_at_start=3.0))
    assert readme == f"{report.BEGIN}\n\n{report.END}\n"
    assert "began at load 3.0 on 2 cores" in page


def test_every_cpu_has_its_newest_record(pages) -> None:
    other = record(2.5, cpu="B CPU", date="2026-01-03")
    readme, page = pages(record(), record(4.0, date="2026-01-02"), other)
    assert "2000 ms" not in page
    assert page.index("A CPU, 2") < page.index("| 4000 ms") < page.index("B CPU, 2")
    assert page.index("B CPU, 2") < page.index("| 2500 ms")
    assert "A CPU" not in readme
    assert "| 2500 ms" in readme


def test_the_figure_names_the_cpus_where_there_are_several() -> None:
    one = record()
    assert [row.what for row in report.headlines([one])] == [
        "evolving BERT-base training step, float32, batch 8, length 128"
    ]
    names = [row.what for row in report.headlines([one, record(cpu="B CPU")])]
    assert [name.rpartition(", ")[2] for name in names] == ["A CPU", "B CPU"]


def test_an_old_record_stays_and_says_so(pages) -> None:
    old = record()
    del old["machine"]["clean"]
    readme, page = pages(old)
    assert "2000 ms" in readme
    assert "[marked below]" not in page
    assert "| 2026-01-02 | abc1234 | 0.2 | before the rule |" in page


def test_the_readme_has_every_row_that_it_names() -> None:
    if not any(harness.RESULTS.glob("*.json")):
        pytest.skip("needs benchmarks/results, which the sdist leaves out")
    text = report.README.read_text(encoding="utf-8")
    assert [what for what in report.FRONT if f"| {what} |" not in text] == []


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *own, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a source, a script, a page and a record, all committed."""
    for name in ("src/cpp/a.cpp", "benchmarks/x.py", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(rules, "REPOSITORY", tmp_path)
    return tmp_path


def test_the_commit_and_whether_it_is_clean(repository) -> None:
    name, clean = rules.commit()
    assert clean
    assert git(repository, "rev-parse", "HEAD").startswith(name)
    results = repository / "benchmarks" / "results"
    results.mkdir()
    (results / "new.json").write_text("{}")  # written by an earlier run
    (repository / "README.md").write_text("2\n")
    assert rules.commit() == (name, True)
    (repository / "src" / "new.cpp").write_text("1\n")
    assert rules.commit() == (f"{name}+", False)


def test_no_repository_is_not_clean(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(rules, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert rules.commit() == ("unknown", False)


def test_records_older_than_their_code(repository, capsys) -> None:
    one = record(commit=rules.commit()[0])
    (repository / "README.md").write_text("2\n")
    git(repository, "commit", "-qam", "page")
    assert rules.older(one) is None
    (repository / "src/cpp/a.cpp").write_text("2\n")
    git(repository, "commit", "-qam", "code")
    assert rules.older(one).startswith("1 commits since")
    report.say_older([one, record() | {"name": "other"}])
    out = capsys.readouterr().out
    assert out.startswith(
        "older than the code it measures: training-base, A CPU (1 commits"
    )
    assert "other" not in out
    assert "not in this history" in rules.older(record(commit="fffffff+"))
    (repository / "src/cpp/a.cpp").write_text("1\n")
    git(repository, "commit", "-qam", "code taken back")
    assert rules.older(one) is None


@pytest.mark.parametrize(
    ("name", "before", "after", "same"),
    [
        ("a.cpp", "int a;  // old\n", "// new\nint a; /* x\n */\n", True),
        ("a.cu", 'f("// old");\n', 'f("// new");\n', False),
        ("a.h", 'f(R"(// old)");\n', 'f(R"(// new)");\n', False),
        ("a.h", "f(1'000, 'a');\n", "f(1'000, 'b');\n", False),
        ("a.py", 'def f():\n    "Old"\n', 'def f():  # new\n    "New"\n', True),
        ("a.py", 'x = """Old."""\n', 'x = """New."""\n', False),
        ("CMakeLists.txt", "# old\n", "# new\n", False),
    ],
)
def test_comments_do_not_age_a_record(repository, name, before, after, same) -> None:
    file = repository / "src/cpp" / name
    file.write_text(before)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "before")
    one = record(commit=rules.commit()[0])
    file.write_text(after)
    git(repository, "commit", "-qam", "after")
    assert (rules.older(one) is None) == same


@pytest.mark.parametrize(("changed", "which"), [("cuda", "gpu"), ("cpu", "cpu")])
def test_a_record_is_as_old_as_the_kernels_it_ran(repository, changed, which) -> None:
    one = {"cpu": record(commit=rules.commit()[0])}
    one["gpu"] = {**one["cpu"], "machine": {**one["cpu"]["machine"], "gpu": "A GPU"}}
    kernel = repository / "src/cpp/kernels" / changed / "a.cpp"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "code")
    older = {name for name in one if rules.older(one[name])}
    assert older == {which}


def test_every_kind_of_record_names_what_it_measures() -> None:
    assert rules.MEASURED.keys() == ROWS.keys()
    for script, paths in rules.MEASURED.values():
        for path in (f"benchmarks/{script}.py", *paths):
            found = Path(rules.__file__).resolve().parent.parent / path
            assert found.exists(), path


def test_a_record_has_the_load_at_the_start_and_the_commit(monkeypatch) -> None:
    monkeypatch.setattr(harness, "LOAD_AT_START", 0.25)
    monkeypatch.setattr(harness, "gemm_rates", lambda: {})
    monkeypatch.setattr(rules, "commit", lambda: ("abc", True))
    found = harness.machine(2)
    wanted = {"load_at_start": 0.25, "commit": "abc", "clean": True}
    assert found.items() >= wanted.items()


def test_rounds_are_five_or_more_by_default() -> None:
    assert options.OPTIONS["rounds"]["default"] >= 5
    for script in Path(options.__file__).parent.glob("*.py"):
        text = script.read_text(encoding="utf-8")
        for number in re.findall(r"\brounds\"?(?:=|: )(\d+)", text):
            assert int(number) >= 5, script.name


def test_minima_stand_beside_medians() -> None:
    assert "2000.0 ms (min 1800.0)" in harness.shown(side(2.0))
    (row,) = rows_of("training-base", record())
    assert row.ours == "2000 ms, min 1800"


def test_the_faster_of_eager_and_compiled_makes_the_headline() -> None:
    one = record()
    sides = one["results"]["evolving"]
    sides["torch.compile"] = side(2.5)
    sides["start_loss"] = {"ours": 0.7, "torch": 0.7}
    first, second = rows_of("training-base", one)
    assert (first.headline, first.ratio, first.peer) == (True, 1.25, "torch.compile")
    assert first.other == "2500 ms, min 2250 (torch.compile)"
    assert (second.headline, second.ratio, second.peer) == (False, 1.5, "PyTorch eager")
    sides["torch.compile"] = {"skipped": "no compiler"}
    first, second = rows_of("training-base", one)
    assert (first.headline, first.peer) == (True, "PyTorch eager")
    assert second.other == "torch.compile: no compiler"


def test_demo_rows() -> None:
    results = {"demo": side(20.0) | {"peak_bytes": 2**29}}
    (row,) = rows_of("demo", {"results": results})
    assert row.ours == "20.0 s, min 18.0, 512 MiB"
    assert not row.headline


# --- the sides ------------------------------------------------------------------------


def test_kinds_and_sides_take_turns(monkeypatch) -> None:
    order: list[str] = []

    class Fake:
        def __init__(self, name, wanted):
            self.name, self.built = f"{wanted['kind']} {name}", {"build_s": 0.0}

        def load(self, name, batches):
            pass

        def outputs(self, name):
            return np.ones((1, 2))

        def run(self, name):
            order.append(self.name)
            return 1.0 + ("evolving" in self.name)

        def close(self):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    def request(shape, dtype, *rest):
        kind = "vanilla" if shape.alpha is None else "evolving"
        return {"threads": 1, "kind": kind, "dtype": dtype}

    monkeypatch.setattr(race, "Worker", Fake)
    monkeypatch.setattr(race, "request", request)
    given = {"size": "tiny", "kinds": ["vanilla", "evolving"], "dtype": "float32"}
    given |= {"threads": 1, "rounds": 2, "sides": ["ours", "torch eager"]}
    found = inference.measure((1, 4), argparse.Namespace(**given))
    turn = ["vanilla ours", "vanilla torch eager"]
    turn += ["evolving ours", "evolving torch eager"]
    assert order == turn[::-1] + turn + turn[::-1]
    for kind, result in found.items():
        work = {"gemm_limit_s": 0.5, "flops": result.pop("flops")}
        found[kind] = result | {"work": work}
    made = {"results": found, "settings": SETTINGS | {"interleaved": True}}
    last = rows_of("inference-tiny", made)[-1]
    assert last.what.startswith("evolving over vanilla, BERT-base inference")
    assert last.ours == "2.00, by minima 2.00"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs torch")


def test_the_peer_of_conv1d_computes_as_many_outputs(torch, monkeypatch) -> None:
    from benchmarks import conv1d

    made = []
    convolve = torch.nn.functional.conv1d

    def seen(*all, **options):
        made.append(convolve(*all, **options))
        return made[-1]

    monkeypatch.setattr(torch.nn.functional, "conv1d", seen)
    (shape,) = conv1d.TINY
    ours, theirs = (
        side_of(shape, conv1d.draw(shape), "float32")[2]()
        for side_of in (conv1d.our_side, conv1d.torch_side)
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)
    assert {y.shape[-1] for y in made} == {max(shape.drawn())}


@pytest.mark.parametrize("fails", [False, True])
def test_torch_compile_is_a_peer_of_training(torch, monkeypatch, fails, capsys) -> None:
    from benchmarks import training

    asked = []

    def compiles(model):
        asked.append(model)
        if fails:
            model.forward = lambda *_: torch.full((), 1.0).no_such_thing
        return model

    monkeypatch.setattr(torch, "compile", compiles)
    monkeypatch.setattr(isa, "reported", dict)
    monkeypatch.setattr(harness, "measured_machine", lambda *_: record()["machine"])
    monkeypatch.setattr(harness, "measure_gemm_again", lambda *_: None)
    words = ["--size", "tiny", "--batch", "1", "--length", "8", "--rounds", "1"]
    training.main([*words, "--kinds", "evolving", "--dry"])
    out = capsys.readouterr().out
    assert len(asked) == 1
    if fails:
        told = r"torch\.compile +not measured: AttributeError: 'Tensor' object"
        assert re.search(told, out)
    else:
        assert re.search(r"torch\.compile +\d+\.\d ms \(min \d", out)
    assert re.search(r"evolving +torch +\d+\.\d ms \(min \d", out)


def test_torch_compile_is_not_held_to_avx2(torch, monkeypatch) -> None:
    from benchmarks import training

    given = {"size": "tiny", "batch": 1, "length": 8, "dtype": "float32"}
    chosen = argparse.Namespace(**given, side="both", isa="avx2")
    contenders, skipped, _ = training.build("vanilla", chosen)
    assert list(contenders) == ["ours", "torch", training.ONEDNN]
    assert skipped == {"torch.compile": "its code is not held to an instruction set"}


def test_inference_has_records_of_both_shapes(monkeypatch) -> None:
    sizes = []
    monkeypatch.setattr(inference, "measure", lambda *all: sizes.append(all[0]) or {})
    monkeypatch.setattr(harness, "measured_machine", lambda *_: record()["machine"])
    inference.main(["--dry"])
    assert sizes == [(8, 128), (2, 512)]
