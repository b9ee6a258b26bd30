"""Executes each notebook in a fresh kernel; notebooks that fail or are slow are errors.

    python tools/run_notebooks.py [NOTEBOOK ...] [--seconds 60] [--write]

Nothing is saved without --write, which stores the outputs without times.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent


def shorten(text: str, head: int = 4000, tail: int = 1000) -> str:
    """Returns both ends of a long error: its location and its last lines."""
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n...\n{text[-tail:]}"


def execute(file: Path, seconds: float, write: bool) -> str | None:
    """Runs one notebook from the repository's root; returns why it failed, or None."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(
        notebook, timeout=int(seconds), resources={"metadata": {"path": str(REPO)}}
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError) as error:
        return shorten(re.sub(r"\x1b\[[0-9;]*m", "", str(error)))
    if write:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, file)
    return None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; the exit code is the number of failed notebooks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each")
    parser.add_argument("--write", action="store_true", help="store the outputs")
    options = parser.parse_args(arguments)
    files = options.notebooks or sorted((REPO / "notebooks").glob("*.ipynb"))
    if not files:
        print("run_notebooks: no notebooks found", file=sys.stderr)
        return 1
    failed = 0
    for file in files:
        begin = time.perf_counter()
        reason = execute(file, options.seconds, options.write)
        took = time.perf_counter() - begin
        if reason is None and took > options.seconds:
            reason = f"took longer than {options.seconds:.0f} s"
        failed += reason is not None
        print(f"{'FAILED' if reason else 'ok':6s} {took:6.1f} s  {file.name}")
        if reason:
            print(reason, file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
