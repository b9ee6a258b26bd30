"""The checkers of tools/ on examples: each passes a good tree and rejects a bad one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def load(name: str) -> ModuleType:
    """Imports one script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers, size, stubs = load("check_layers"), load("check_size"), load("gen_stubs")


def tree(root: Path, files: dict[str, str]) -> Path:
    """Writes files given by relative path."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


GOOD = {
    "runtime/check.h": "#include <string>\n",
    "tensor/shape.h": '#include "runtime/check.h"\n',
    "kernels/softmax.h": '#include "tensor/shape.h"\n',
    "kernels/ref/softmax.cpp": '#include <Eigen/Core>\n#include "kernels/softmax.h"\n',
    "kernels/cpu/simd/softmax.cpp": '#include "kernels/softmax.h"\n',
    "ops/shape_ops.h": '#include "tensor/shape.h"\n',
    "ops/linear.h": '#include "tensor/shape.h"\n',
    "models/bert.cpp": '#include "ops/shape_ops.h"\n// #include "bindings/x.h"\n',
    "bindings/module.cpp": '#include <pybind11/pybind11.h>\n#include "ops/linear.h"\n',
}


def test_layers_accept_a_lawful_tree(tmp_path, capsys):
    assert layers.main(["--root", str(tree(tmp_path, GOOD)), "--graph"]) == 0
    assert "kernels/ref    -> kernels            1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("runtime/x.h", '#include "tensor/shape.h"', "lies in tensor"),
        ("kernels/x.h", '#include "kernels/ref/y.h"', "cannot be placed"),
        ("kernels/x.h", '#include "../tensor/shape.h"', None),
        ("kernels/ref/x.cpp", '#include "kernels/cpu/simd/softmax.cpp"', "kernels/cpu"),
        ("ops/x.cpp", '#include "kernels/ref/softmax.cpp"', "lies in kernels/ref"),
        ("nn/x.cpp", '#include "kernels/softmax.h"', "lies in kernels"),
        ("models/x.cpp", '#include "ops/linear.h"', "lies in ops"),
        ("bindings/x.cpp", '#include "kernels/ref/softmax.cpp"', "lies in kernels/ref"),
        ("ops/x.cpp", "#include <Eigen/Core>", "is open to kernels/ref only"),
        ("kernels/cpu/x.cpp", "#include <Eigen/Core>", "is open to kernels/ref only"),
        ("nn/x.cpp", "#include <pybind11/numpy.h>", "is open to bindings only"),
        ("ops/x.cpp", '#  include "nowhere.h"', "no such file of ours"),
        ("ops/x.cpp", '#include "../../outside.h"', "no such file of ours"),
        ("ops/x.cpp", "#include <boost/any.hpp>", "unknown library"),
        ("ops/x.cpp", "#include HEADER", "computed include"),
        ("misc/x.cpp", "", "room 'misc' is not in the table"),
    ],
)
def test_layers_refuse(tmp_path, capsys, file, line, reason):
    tree(tmp_path, {"outside.h": ""})
    root = tree(tmp_path / "core", GOOD | {file: f"\n{line}\n"})
    if reason is None:
        assert layers.main(["--root", str(root)]) == 0
        return
    assert layers.main(["--root", str(root)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(file)
    assert reason in error


def test_layers_refuse_a_folder_that_is_not_there(tmp_path):
    assert layers.main(["--root", str(tmp_path / "none")]) == 1


def test_the_table_itself_only_points_downwards():
    order = list(layers.MAY_INCLUDE)
    for room, others in layers.MAY_INCLUDE.items():
        for other in others:
            at = order.index(other.split("/")[0] if "." in other else other)
            assert at < order.index(room), (room, other)


def function(lines: int) -> str:
    """Returns a C++ function of exactly ``lines`` lines, with braces in literals."""
    body = '  use(\'{\', "{{", R"(})");  // {\n' * (lines - 3)
    return f"template <class T>\nvoid f(int a) {{\n{body}}}\n"


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("src/a.py", "x = 1\n" * 200, None),
        ("src/a.py", "x = 1\n" * 601, "601 lines, limit 600"),
        ("src/a.py", "x = 1\n" * 250, "median file has 250"),
        ("tools/a.py", "def f():\n" + "    x = 1\n" * 79, None),
        ("tools/a.py", "def f():\n" + "    x = 1\n" * 80, "f has 81 lines"),
        ("tests/a.py", "class A:\n  async def g():\n" + "    y\n" * 80, "g has 81"),
        ("src/cpp/a.cpp", "namespace ea {\nint x;\n" + function(80) + "}\n", None),
        ("src/cpp/a.cpp", "namespace ea {\n" + function(81) + "}\n", "f has 81 lines"),
        ("src/cpp/a.h", "struct A {\n" + "  int x;\n" * 90 + "};\n", None),
        ("src/cpp/a.h", "const int a[] = {\n" + "  f(1),\n" * 90 + "};\n", None),
        (
            "src/cpp/a.h",
            "struct A {\n  A() : x_(1) {\n" + "    ++x_;\n" * 85 + "  }\n};\n",
            "A has",
        ),
    ],
)
def test_size_limits(tmp_path, capsys, file, text, reason):
    assert size.main(["--root", str(tree(tmp_path, {file: text}))]) == bool(reason)
    assert (reason or "") in capsys.readouterr().err


def test_size_refuses_a_tree_without_sources(tmp_path):
    assert size.main(["--root", str(tmp_path)]) == 1


def test_size_prints_the_ten_largest(tmp_path, capsys):
    tree(tmp_path, {f"src/{i:02d}.py": "x = 1\n" * i for i in range(1, 15)})
    assert size.main(["--root", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["14", "src/14.py"]
    assert len(lines) == 12


def test_size_counts_neither_comments_nor_docstrings(tmp_path):
    tree(
        tmp_path,
        {
            "bindings/x.cpp": '// a\nf(R"(Sums.\n\n    y = a\n)");\n\nint b;\n',
            "kernels/x.cpp": 'f(R"(one\ntwo)");  /* three\n four */\n',
            "x.py": '"""Doc.\n\nMore.\n"""\n\nx = 1  # one\n# two\n',
        },
    )
    counts = {"bindings/x.cpp": 2, "kernels/x.cpp": 2, "x.py": 1}
    for name, lines in counts.items():
        assert size.code_lines(tmp_path / name) == lines, name


def test_stubs_difference_names_what_changed():
    old, new = {"_core.pyi": "def f() -> int: ...\n"}, {"_core.pyi": "x: int\n"}
    assert stubs.difference(old, old) == ""
    assert "-def f() -> int: ..." in stubs.difference(old, new)
    assert "+x: int" in stubs.difference({}, new)


FUTURE = "from __future__ import annotations\n"


def test_stubs_drop_addresses_and_import_numpy():
    assert "0x" not in stubs.tidy("x = <object at 0x7f12>", "__init__.pyi")
    text = stubs.tidy(f"{FUTURE}x: numpy.ndarray\n", "__init__.pyi")
    assert "annotations\nimport numpy\nx:" in text


def test_stubs_are_typed_throughout():
    text = "def f(a: Packing = None, b: typing.Any = None, *args, **kwargs): ...\n"
    assert stubs.tidy(text, "__init__.pyi").endswith(
        "def f(a: Packing | None = None, b: typing.Any = None, *args: typing.Any, "
        "**kwargs: typing.Any): ...\n"
    )


def test_stubs_of_operations_take_arrays():
    tensor = "evolving_attention._core.Tensor"
    text = stubs.tidy(f"{FUTURE}def f(x: {tensor}) -> {tensor}: ...\n", "ops.pyi")
    assert text.endswith(f"def f(x: TensorLike) -> {tensor}: ...\n")
    assert "import TensorLike" in text


def test_stub_check_fails_when_out_of_step(monkeypatch, capsys):
    monkeypatch.setattr(stubs, "generate", lambda: {"_core.pyi": "x: int\n"})
    monkeypatch.setattr(stubs, "existing", lambda: {"_core.pyi": "x: str\n"})
    assert stubs.main(["--check"]) == 1
    assert "-x: str" in capsys.readouterr().out
    monkeypatch.setattr(stubs, "existing", lambda: {"_core.pyi": "x: int\n"})
    assert stubs.main(["--check"]) == 0


ROOMS = [
    "attention",
    "cli",
    "data",
    "demo",
    "distributed",
    "estimators",
    "interop",
    "metrics",
    "modeling",
    "optim",
    "plots",
    "text",
    "training",
]


def lint_imports(repo: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Runs lint-imports with the repository's settings on a generated package."""
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("import-linter is not installed")
    command = [program, "--config", str(repo / ".importlinter"), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("training", "import evolving_attention.modeling", None),
        ("plots", "import matplotlib", None),
        (
            "attention",
            "from evolving_attention import modeling",
            "cli -> estimators -> training",
        ),
        ("modeling", "from ..training import x", "cli -> estimators -> training"),
        ("data", "def f():\n    import evolving_attention.cli", "metrics, data, text"),
        ("distributed", "import evolving_attention.training", "distributed knows"),
        ("plots", "from evolving_attention.data import x", "plots know only"),
        ("plots", "import torch", "plots know only"),
        ("cli", "import transformers", "nothing in the package imports torch"),
    ],
)
def test_import_law(repo, tmp_path, module, line, broken):
    files = {f"evolving_attention/{room}/__init__.py": "x = 1\n" for room in ROOMS}
    files["evolving_attention/__init__.py"] = ""
    files[f"evolving_attention/{module}/extra.py"] = line + "\n"
    done = lint_imports(repo, tree(tmp_path, files))
    if broken is None:
        assert done.returncode == 0, done.stdout + done.stderr
        return
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [text for text in done.stdout.splitlines() if "BROKEN" in text]
    assert any(text.startswith(broken) for text in lines)


def test_notebook_runner_fails_on_a_failing_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    run_notebooks = load("run_notebooks")
    cells = [nbformat.v4.new_code_cell("assert 1 + 1 == 3", id="one")]
    bad = tmp_path / "bad.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), bad)
    assert run_notebooks.main([str(bad)]) == 1


def test_skipped_tests_are_named_for_another_run(tmp_path, monkeypatch, capsys):
    tests = """import pytest
def test_runs(): pass
@pytest.mark.parametrize("x", ["a b", "c-1"])
def test_asks(x): pytest.skip("no")
class TestAll:
    def test_inside(self): pytest.skip("no")
"""
    whole = "import pytest\npytest.importorskip('no_such_module')\n"
    tree(tmp_path, {"tests/deep/test_a.py": tests, "tests/test_b.py": whole})
    shared = "from helpers_c import pytest\ndef test_it(): pass\n"  # at one line
    tree(tmp_path, {"tests/helpers_c.py": whole, "tests/test_c.py": shared})
    tree(tmp_path, {"tests/test_d.py": shared})
    command = [sys.executable, "-m", "pytest", "-q", "--junitxml=r.xml", "-n", "2"]
    command.append("tests")
    options = {"cwd": tmp_path, "capture_output": True, "timeout": 60, "check": False}
    subprocess.run(command, **options)
    monkeypatch.chdir(tmp_path)
    assert load("skipped_tests").main(["r.xml"]) == 0
    again = [
        "tests/deep/test_a.py::TestAll::test_inside",
        "tests/deep/test_a.py::test_asks[a b]",
        "tests/deep/test_a.py::test_asks[c-1]",
        "tests/test_b.py",
        "tests/test_c.py",
        "tests/test_d.py",
    ]
    assert capsys.readouterr().out.splitlines() == again
    listed = tmp_path / "reasons"
    for reasons, code in (("no_such_module\n# a\n\n^no ", 0), ("# a\n^no ", 1)):
        listed.write_text(reasons)
        given = ["--unexpected", str(listed), "r.xml"]
        assert load("skipped_tests").main(given) == code
    first, second, last = capsys.readouterr().err.splitlines()
    assert first.startswith("tests/test_b.py: skipped: ")
    assert second.startswith("tests/test_c.py: skipped: ") or second.startswith(
        "tests/test_d.py: skipped: "
    )
    assert "could not import 'no_such_module'" in first
    assert last.startswith("2 tests were skipped for reasons that ")
