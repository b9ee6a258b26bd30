"""Decides which records the README may show, and which are older than their code."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parent.parent

MOST_SPREAD = 0.15  # interquartile range over median, of any side
MOST_LOAD = 0.5  # per core: 1 on 2 cores
BEFORE = "before the rule"

# Code that is built and run: changes to it make a tree dirty, pages and results do not.
CODE = (
    "src",
    "benchmarks",
    "cmake",
    "CMakeLists.txt",
    "pyproject.toml",
    ":(exclude)benchmarks/results",
)

_CORE = ("src/cpp", "src/evolving_attention/modeling", "src/evolving_attention/optim")
_ALL = ("src/cpp", "src/evolving_attention")
# Script and paths of the measured code, by the first word of a record's name.
MEASURED: dict[str, tuple[str, tuple[str, ...]]] = {
    "training": ("training", _CORE),
    "inference": ("inference", _CORE),
    "lengths": ("lengths", _CORE),
    "cola": ("cola", (*_CORE, "src/evolving_attention/training")),
    "squad": ("squad", (*_CORE, "src/evolving_attention/training")),
    "corpus": ("corpus", (*_CORE, "src/evolving_attention/data")),
    "memory": ("step_memory", _CORE),
    "import": ("import_cost", _ALL),
    "demo": ("demo_cost", _ALL),
    "repeat": ("repeat", _ALL),
    "samebits": ("same_bits", _CORE),
    "growth": ("growth", _CORE),
    "conv1d": ("conv1d", ("src/cpp",)),
    "csan": ("csan", ("src/cpp",)),
    "series": ("series", _CORE),
    "translation": ("translation", _CORE),
    "generation": ("generation", _CORE),
    "pretraining": ("pretraining", _CORE),
    "t5": ("t5", _CORE),
    "textnets": ("text_nets", _CORE),
    "graph": ("graph", _CORE),
    "images": ("images", (*_CORE, "src/evolving_attention/data")),
    "gpu": ("gpu", _CORE),
    "versions": ("versions", _CORE),
}


def git(*words: str) -> str | None:
    """Returns git's output for this repository; None if git fails or is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), *words],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return None if done.returncode else done.stdout.strip()


def commit() -> tuple[str, bool]:
    """Returns the short hash of the commit under test, and whether its code is clean.

    The hash ends with + if the code was changed; "unknown" is not clean.
    """
    name = git("describe", "--always", "--exclude=*")
    if not name:
        return "unknown", False
    clean = git("status", "--porcelain", "--", *CODE) == ""
    return name + ("" if clean else "+"), clean


def spreads(results: Any, side: str = "") -> Iterator[tuple[float, str]]:
    """Yields (spread, side) of everything that was timed."""
    if isinstance(results, dict):
        if "spread" in results:
            yield float(results["spread"]), side
        for name, one in results.items():
            yield from spreads(one, str(name))
    elif isinstance(results, list):
        for one in results:
            yield from spreads(one, side)


def marks(record: Record) -> list[str]:
    """Returns what keeps a record out of the README; ``BEFORE`` alone does not.

    Records made before the rule lack the fields it checks.
    """
    machine = record["machine"]
    if "load_at_start" not in machine or "clean" not in machine:
        return [BEFORE]
    found = []
    widest = max(spreads(record["results"]), default=(0.0, ""))
    if widest[0] > MOST_SPREAD:
        found.append(f"{widest[1]} spreads by {widest[0]:.0%}")
    if machine["load_at_start"] > MOST_LOAD * machine["cores"]:
        load, cores = machine["load_at_start"], machine["cores"]
        found.append(f"began at load {load:.1f} on {cores} cores")
    if not machine["clean"]:
        found.append("code not committed")
    return found


def admitted(record: Record) -> bool:
    """Returns whether the README may show the record."""
    return marks(record) in ([], [BEFORE])


# A C++ string or character literal, which is kept, or a comment or white space.
_CPP = re.compile(
    r"""(?P<kept>R"([^(\s]*)\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|//[^\n]*|/\*.*?\*/|\s+",
    re.DOTALL,
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code(blob: str, suffix: str) -> str:
    """Returns a file's text without comments and docstrings, for comparison."""
    text = git("cat-file", "blob", blob) or ""
    if suffix in {".h", ".cpp", ".cu", ".cuh"}:
        return _CPP.sub(lambda found: found["kept"] or "", text)
    if suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def changes_code(line: str) -> bool:
    """Returns whether a line of ``git diff --raw`` changes more than comments."""
    described, path = line.split("\t", 1)
    *_, before, after, status = described.split()
    suffix = Path(path).suffix
    return status != "M" or code(before, suffix) != code(after, suffix)


def older(record: Record) -> str | None:
    """Returns how the record's code has changed since, or None if it has not.

    The CPU does not run the kernels of CUDA, nor a GPU those of the CPU. Code that was
    changed and changed back counts as unchanged, and so do comments. Needs git and the
    history.
    """
    script, paths = MEASURED.get(record["name"].split("-")[0], ("", _ALL))
    other = "cpu" if "gpu" in record["machine"] else "cuda"
    paths = (*paths, f":(exclude)src/cpp/kernels/{other}")
    made = str(record["machine"].get("commit", "unknown")).rstrip("+")
    own = (f"benchmarks/{script}.py",) if script else ()
    raw = ("diff", "--raw", "--no-abbrev", "--no-renames")
    changed = git(*raw, made, "HEAD", "--", *paths, *own)
    if changed is None:
        return f"commit {made} is not in this history"
    if not any(map(changes_code, changed.splitlines())):
        return None
    count = git("rev-list", "--count", f"{made}..HEAD", "--", *paths, *own)
    return f"{count} commits since {made}"
