"""Cost of an extension, counted in the diffs of three toys.

``tests/price`` holds the whole diff of a toy attention kind, a toy operation and a toy
model family. Here each is applied to a copy of the sources and its files are counted;
``tools/run_price.sh`` builds a copy with all three and runs ``tests/price``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PATCHES = Path(__file__).parent / "price"


@dataclass(frozen=True)
class Price:
    """New files, and existing files that gain lines.

    ``lines``: the most lines that any of these files gains.
    """

    new: int
    edited: int
    lines: int


PRICES = {
    "kind": Price(new=2, edited=0, lines=0),
    "operation": Price(new=6, edited=2, lines=3),
    "family": Price(new=4, edited=1, lines=8),
}


@dataclass
class Change:
    """Changes of a patch to one file."""

    new: bool
    added: int = 0
    removed: int = 0


def changes_of(patch: str) -> dict[str, Change]:
    """Returns the changes of a diff by file path."""
    found: dict[str, Change] = {}
    for part in re.split(r"^diff --git ", patch, flags=re.M)[1:]:
        head, *hunks = re.split(r"^@@ .*$", part, flags=re.M)
        path = re.search(r"^\+\+\+ b/(.+)$", head, re.M)
        assert path, f"a file is removed or renamed: {head}"
        change = found[path[1]] = Change(new="\nnew file mode" in head)
        for line in "".join(hunks).splitlines():
            change.added += line.startswith("+")
            change.removed += line.startswith("-")
    return found


@pytest.fixture(scope="module")
def tree(repo, tmp_path_factory):
    """Returns a copy of the sources, to which the patches are applied in turn."""
    copy = tmp_path_factory.mktemp("price")
    for folder in ("src/cpp", "src/evolving_attention"):
        built = shutil.ignore_patterns("__pycache__", "*.so", "*.so.*")
        shutil.copytree(repo / folder, copy / folder, ignore=built)
    return copy


def apply(patch: Path, tree: Path) -> None:
    """Applies a diff; fails with the parts that no longer fit."""
    if shutil.which("git"):
        command = ["git", "apply", "--whitespace=nowarn", str(patch)]
    elif shutil.which("patch"):
        command = ["patch", "-p1", "--forward", f"--input={patch}"]
    else:
        pytest.skip("neither git nor patch is here to apply a diff")
    done = subprocess.run(
        command,
        cwd=tree,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)},
    )
    assert done.returncode == 0, f"{patch.name}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", PRICES)
def test_a_change_costs_no_more(name, tree):
    patch = PATCHES / f"{name}.patch"
    changes = changes_of(patch.read_text())
    edited = {path: change for path, change in changes.items() if not change.new}
    price = PRICES[name]
    assert len(changes) - len(edited) == price.new, sorted(changes)
    assert len(edited) == price.edited, sorted(edited)
    for path, change in edited.items():
        assert change.removed == 0, f"{path}: a list only grows"
        assert change.added <= price.lines, path
    existing = {path for path in changes if (tree / path).exists()}
    assert existing == set(edited)
    apply(patch, tree)
    assert all((tree / path).exists() for path in changes)


def test_contributing_lists_the_files(repo):
    text = (repo / "CONTRIBUTING.md").read_text()
    for name in PRICES:
        for path in changes_of((PATCHES / f"{name}.patch").read_text()):
            said = re.sub(r"toy_(echo|curve|net)", "x", path)
            assert f"`{said}`" in text, f"{name}: {said}"
