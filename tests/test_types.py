"""Type information for editors and mypy is complete and installed."""

from __future__ import annotations

import ast
import importlib
import importlib.resources
import importlib.util
import runpy
import subprocess
import sys

import pytest

import evolving_attention as ea


def imported(source: str) -> dict[str, str]:
    """Maps names to modules for the imports below ``if TYPE_CHECKING:``."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in ast.walk(node):
                if isinstance(line, ast.ImportFrom):
                    assert all(a.asname in (a.name, None) for a in line.names)
                    found |= {alias.name: str(line.module) for alias in line.names}
    return found


def test_the_mark_of_a_typed_package_is_installed():
    package = importlib.resources.files("evolving_attention")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("_core").joinpath("ops.pyi").is_file()


def test_the_root_shows_every_public_name_to_editors():
    source = importlib.resources.files("evolving_attention").joinpath("__init__.py")
    shown = imported(source.read_text(encoding="utf-8"))
    assert shown.pop("*") == "evolving_attention.modeling"
    assert shown == {**ea._LAZY, **dict.fromkeys(ea._ROOMS, "evolving_attention")}


def test_functional_shows_every_operation_to_editors(repo):
    from evolving_attention import _core as core

    package = repo / "src" / "evolving_attention"
    source = (package / "functional" / "__init__.py").read_text(encoding="utf-8")
    assert imported(source) == {"*": "evolving_attention._core.ops"}
    stub = ast.parse((package / "_core" / "ops.pyi").read_text(encoding="utf-8"))
    shown = [node.name for node in stub.body if isinstance(node, ast.FunctionDef)]
    assert sorted(shown) == sorted(core.op_names())
    for name in shown:
        assert callable(getattr(ea.functional, name)), name


@pytest.mark.parametrize("program", ["functions", "training", "generation"])
def test_the_typed_programs_run(repo, program):
    path = repo / "tests" / "typing" / f"{program}.py"
    runpy.run_path(str(path), run_name="__main__")


def mypy(repo, program) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy (tools/requirements.txt)")
    command = [sys.executable, "-m", "mypy", str(program)]
    return subprocess.run(command, cwd=repo, capture_output=True, text=True)


def test_mypy_sees_every_public_name(repo, tmp_path):
    lines = ["import evolving_attention as ea"]
    for name in ea.__all__:
        try:
            inside = getattr(ea, name)
        except ea.MissingExtraError:
            continue
        rooms = getattr(inside, "__all__", ()) if name in ea._ROOMS else ()
        lines += [f"print(ea.{name})", *(f"print(ea.{name}.{one})" for one in rooms)]
    assert len(lines) > 200
    (tmp_path / "names.py").write_text("\n".join(lines), encoding="utf-8")
    done = mypy(repo, tmp_path / "names.py")
    assert done.returncode == 0, done.stdout


def test_mypy_shows_a_function_that_is_not_there(repo, tmp_path):
    text = "from evolving_attention import functional as F\nF.relu(1.0)\nF.rleu(1.0)\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    done = mypy(repo, tmp_path / "program.py")
    assert done.returncode == 1
    assert "program.py:3:" in done.stdout
    assert "program.py:2:" not in done.stdout
