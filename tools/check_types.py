"""Runs mypy --strict over the package, tests/typing and the pages' Python examples.

The settings are those of pyproject.toml. The fenced python blocks of README.md and of
each page in docs/ are checked as one program per page.

    python tools/check_types.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
CHECKED = ("src/evolving_attention", "tests/typing")


def examples(repo: Path) -> dict[str, str]:
    """Returns the Python programs by the name of the page that shows them."""
    found = {}
    for page in [repo / "README.md", *sorted((repo / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
        if blocks:
            found[page.stem] = "\n".join(blocks)
    return found


def main() -> int:
    """Returns mypy's exit code; its report names pages by ``examples/<page>.py``."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "examples"
        root.mkdir()
        for name, program in examples(REPO).items():
            (root / f"{name}.py").write_text(program, encoding="utf-8")
        files = [*CHECKED, *map(str, sorted(root.iterdir()))]
        command = [sys.executable, "-m", "mypy", "--no-error-summary", *files]
        return subprocess.run(command, cwd=REPO).returncode


if __name__ == "__main__":
    sys.exit(main())
