"""The doctor: reports what is there, survives what is not, and tests the core."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evolving_attention import diagnosis as room
from evolving_attention.cli import doctor as command

HAS_CORE = importlib.util.find_spec("evolving_attention._core") is not None
needs_core = pytest.mark.skipif(not HAS_CORE, reason="the core is not built")


def run_doctor(*words, **variables):
    """Runs the command in its own process; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "evolving_attention", "doctor", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def no_core(monkeypatch):
    why = "undefined symbol: x: reinstall with pip install ."
    monkeypatch.setattr(room, "_load_core", lambda: (None, why))
    monkeypatch.setattr(
        room, "loaded_runtimes", list
    )  # other tests may have loaded some


def test_a_missing_core_is_a_finding_not_an_exception(no_core):
    report = room.doctor()
    assert not report["ok"]
    failed = [check for check in report["checks"] if not check["ok"]]
    assert [check["name"] for check in failed] == ["the compiled core loads"]
    assert "undefined symbol: x" in failed[0]["detail"]
    assert "pip install" in failed[0]["detail"]


def test_a_missing_core_exits_with_backend_missing(no_core, capsys):
    import typer

    with pytest.raises(typer.Exit) as left:
        command.run(as_json=True)
    assert left.value.exit_code == 5
    assert "symbol: x" in json.loads(capsys.readouterr().out)["core"]["error"]


def test_missing_libraries_are_named(monkeypatch, no_core):
    monkeypatch.setattr(room, "_version", lambda name: None)
    first = room.doctor()["checks"][0]
    assert not first["ok"]
    assert "pip install numpy ml_dtypes" in first["detail"]


def test_two_openmp_runtimes_are_told(monkeypatch, no_core):
    paths = ["/a/libgomp.so.1", "/b/libiomp5.so"]
    found = [{"kind": f"OpenMP {p}", "path": p} for p in paths]
    monkeypatch.setattr(room, "loaded_runtimes", lambda: found)
    check = room.doctor()["checks"][1]
    assert not check["ok"]
    assert all(path in check["detail"] for path in paths)


def test_one_openmp_runtime_twice_is_told_too(monkeypatch, no_core):
    found = [
        {"kind": "GNU OpenMP", "path": p} for p in ("/a/libgomp.so", "/b/libgomp.so")
    ]
    monkeypatch.setattr(room, "loaded_runtimes", lambda: found)
    assert not room.doctor()["checks"][1]["ok"]


def test_self_test_reports_failures_on_one_line(monkeypatch):
    def broken(core):
        raise RuntimeError("first line\n" + "second line " * 1000)

    monkeypatch.setattr(room, "_matmul", broken)
    monkeypatch.setattr(room, "_training", lambda core: "fine")
    monkeypatch.setattr(room, "_threads", lambda core: "fine")
    checks = room.self_test(core=object())
    assert [check["ok"] for check in checks] == [False, True, True]
    assert checks[0]["detail"] == "RuntimeError: first line"


def test_a_core_that_does_not_load_says_how_to_get_one(monkeypatch):
    def absent(name):
        raise ImportError("undefined symbol: x")

    monkeypatch.setattr(room.importlib, "import_module", absent)
    found = room._load_core()
    assert found == (None, "undefined symbol: x: reinstall with pip install .")


def test_every_library_of_an_extra_is_looked_for():
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text()
    extras = text.split("[project.optional-dependencies]")[1].split("\nnotebooks")[0]
    wanted = set(re.findall(r'"([\w-]+)>', extras))
    assert wanted == {name for name, _ in room.OPTIONAL[:-1]}


def test_variables_are_shown_without_the_secret(monkeypatch):
    for name in ("EA_DISABLE", "EA_SECRET"):
        monkeypatch.setenv(name, "winograd")
    shown = room._system()["variables"]
    assert (shown["EA_DISABLE"], shown["EA_SECRET"]) == ("winograd", "(set)")


@needs_core
def test_the_limit_of_memory_is_shown(capsys):
    from evolving_attention import _core

    before = _core.memory_limit()
    try:
        _core.set_memory_limit(3 * 2**30)
        command._print(room.doctor(run_self_test=False))
    finally:
        _core.set_memory_limit(before)
    assert "tensors may take 3.0 GiB" in " ".join(capsys.readouterr().out.split())


def test_a_folder_that_cannot_be_read_has_unknown_space(monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv("HF_HOME", "/elsewhere/hub")
    monkeypatch.setattr(room.Path, "exists", refuse)
    assert room._disk()[1] == {
        "what": "hub cache",
        "path": "/elsewhere/hub",
        "free": None,
    }


@needs_core
@pytest.mark.parametrize("name", ["EA_KERNEL", "EA_NUM_THREADS"])
def test_a_wrong_variable_is_a_finding(name):
    code, out, _ = run_doctor("--json", EA_PROFILE="1", **{name: "x"})
    report = json.loads(out)
    assert (code, report["system"]["variables"][name]) == (5, "x")
    assert name in report["core"]["error"]
    assert "pip install" not in report["core"]["error"]


def test_cuda_lists_where_it_looked(monkeypatch, tmp_path):
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    cuda = room._cuda()
    assert cuda["available"] is False
    assert str(tmp_path / "libcuda.so.1") in cuda["found"]
    assert set(cuda["found"]) <= set(cuda["looked_for"])


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "unknown"), (0, "0.0 B"), (1536, "1.5 KiB"), (3 * 2**40, "3.0 TiB")],
)
def test_sizes(count, text):
    assert command.size(count) == text


@needs_core
def test_the_core_passes_its_self_test():
    checks = room.self_test()
    assert [c["name"] for c in checks if not c["ok"]] == [], checks
    assert sum(c["seconds"] for c in checks) < 10


@needs_core
def test_json_has_everything_and_stdout_has_nothing_else():
    code, out, _ = run_doctor("--json")
    report = json.loads(out)
    assert code == 0, report["checks"]
    for key in ("isa_found", "isa_used", "onednn_version", "onednn_isa", "num_threads"):
        assert report["core"][key], key
    kinds = {runtime["kind"] for runtime in report["runtimes"]}
    assert "oneDNN" in kinds or sys.platform != "linux"
    assert all(disk["free"] > 0 for disk in report["disk"])


@needs_core
def test_text_is_plain_without_a_terminal_or_with_no_color():
    code, out, _ = run_doctor("--no-self-test", NO_COLOR="1", TERM="xterm")
    assert code == 0, out
    assert "\x1b[" not in out
    for word in ("instruction sets", "oneDNN", "CUDA", "absent", "free on", "threads"):
        assert word in out
