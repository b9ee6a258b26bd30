"""Docstrings of the functions and of Tensor: complete, and their examples run.

The standard is MLX's: one sentence, a formula, arguments, errors, a runnable example.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evolving_attention as ea
from evolving_attention import _core as core

STUBS = Path(__file__).parent.parent / "src" / "evolving_attention" / "_core"
CLASSES = ("Tensor", "Packing", "Edges")
HEADINGS = ("Args:", "Returns:", "Raises:", "Example:")
NO_FORMULA = {
    "Tensor",
    "Tensor.item",
    "Tensor.detach",
    "Tensor.numpy",
}  # nothing is computed


def parameters(node: ast.FunctionDef) -> list[str]:
    """Returns the names of the parameters, with stars, without self."""
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args) if a.arg != "self"]
    names += [f"*{args.vararg.arg}"] if args.vararg else []
    names += [a.arg for a in args.kwonlyargs]
    return names + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yields the public functions among the statements, without properties."""
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            continue
        if not node.name.startswith("_"):
            yield node


def documented() -> dict[str, tuple[Any, list[str]]]:
    """Maps dotted names to the object and the parameters its docstring must name."""
    ops = ast.parse((STUBS / "ops.pyi").read_text(encoding="utf-8"))
    found: dict[str, tuple[Any, list[str]]] = {}
    for node in functions(ops.body):
        found[f"ops.{node.name}"] = getattr(core.ops, node.name), parameters(node)
    classes = ast.parse((STUBS / "__init__.pyi").read_text(encoding="utf-8"))
    for cls in classes.body:
        if not isinstance(cls, ast.ClassDef) or cls.name not in CLASSES:
            continue
        owner = getattr(core, cls.name)
        for node in functions(cls.body):
            member = getattr(owner, node.name)
            found[f"{cls.name}.{node.name}"] = member, parameters(node)
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                found[cls.name] = owner, parameters(node)
    written = (
        ea.functional.evolving_attention,
        ea.functional.einsum,
        ea.functional.stack,
    )
    for function in written:
        names = [
            f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name
            for p in inspect.signature(function).parameters.values()
        ]
        found[f"functional.{function.__name__}"] = function, names
    return found


def properties() -> dict[str, Any]:
    """Maps dotted names to the public properties of the classes."""
    return {
        f"{name}.{member}": value
        for name in CLASSES
        for member, value in vars(getattr(core, name)).items()
        if isinstance(value, property) and not member.startswith("_")
    }


def text_of(documented: Any) -> str:
    """Returns the docstring without the signature that pybind11 prepends."""
    text = inspect.cleandoc(documented.__doc__ or "")
    return re.sub(r"\A\w+\(.*\) -> .*\n+", "", text)


def section(text: str, heading: str) -> str:
    """Returns the indented lines below a heading."""
    found = re.search(rf"^{heading}\n((?:    .*\n?|\n)+)", text + "\n", re.M)
    return found[1] if found else ""


def run(name: str, text: str) -> int:
    """Runs the examples and returns their number."""
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert doctest.DocTestRunner().run(test).failed == 0, name
    return len(test.examples)


def test_every_function_is_looked_at():
    names = set(documented())
    assert {f"ops.{name}" for name in core.op_names()} <= names
    assert {"Tensor.backward", "Tensor", "Packing", "Packing.pad"} <= names
    members = {name for name in vars(core.Tensor) if not name.startswith("_")}
    shown = {name.split(".")[-1] for name in (*names, *properties())}
    assert members <= shown


@pytest.mark.parametrize("name", documented())
def test_the_docstring_is_complete(name):
    found, wanted = documented()[name]
    text = text_of(found)
    summary = text.split("\n\n")[0]
    assert re.fullmatch(r"[A-Z][^\n]*\.", summary), f"{name}: no sentence: {summary!r}"
    assert len(summary) <= 85
    assert max(map(len, text.splitlines())) <= 92, f"{name}: a line is too long"
    listed = section(text, "Args:")
    for parameter in wanted:
        assert re.search(
            rf"^    ([\w, ]+, )?{re.escape(parameter)}[,:]", listed, re.M
        ), f"{name}: Args does not explain {parameter}"
    head = text.split("\nArgs:")[0].split("\nReturns:")[0]
    if name not in NO_FORMULA:
        assert re.search(r"^    .*=|^    >>>", head, re.M), f"{name}: no formula"
    places = [text.find(f"\n{h}\n") for h in HEADINGS if f"\n{h}\n" in text]
    assert places == sorted(places), f"{name}: sections out of order"
    if name.startswith(("ops.", "functional.")):
        for heading in ("Returns:", "Raises:"):
            assert section(text, heading), f"{name}: no section {heading}"
    classes = re.findall(
        r"^    ([A-Z]\w+(?:, [A-Z]\w+)*):", section(text, "Raises:"), re.M
    )
    for error in ", ".join(classes).split(", ") if classes else []:
        assert issubclass(getattr(ea.errors, error), ea.Error), f"{name}: {error}"
    assert run(name, text) >= 1, f"{name}: no example"


@pytest.mark.parametrize("name", properties())
def test_the_property_is_explained(name):
    text = text_of(properties()[name])
    assert re.match(r"[A-Z][^\n]*[.,]", text), f"{name}: no sentence"
    assert run(name, text) >= 1, f"{name}: no example"


def test_functional_has_the_docstrings_of_the_operations():
    for name in core.op_names():
        told = inspect.cleandoc(getattr(ea.functional, name).__doc__)
        assert told == text_of(getattr(core.ops, name)), name


def test_help_of_functional_begins_with_a_signature_that_can_be_read():
    for name in core.op_names():
        signature = str(inspect.signature(getattr(ea.functional, name)))
        for word in ("_core", "Supports", "Annotated", "'Tensor"):
            assert word not in signature, name
    lines = pydoc.render_doc(ea.functional.softmax, renderer=pydoc.plaintext)
    assert (
        "softmax(x: Tensor, axis: int | None = None, *, dim: int | None = None) -> "
        "Tensor\n    Normalises one axis to probabilities."
    ) in lines
