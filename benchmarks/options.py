"""The command-line options that benchmarks share, each defined once."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from benchmarks.models import DTYPES, KINDS, SIZES
from benchmarks.race import SIDES

DATA = Path(os.environ.get("EVOLVING_ATTENTION_DATA", "../shared/data")) / "glue"

OPTIONS: dict[str, dict[str, Any]] = {
    "data": {"type": Path, "help": "folder of GLUE, or of its task"},
    "size": {"choices": SIZES, "default": "base"},
    "kinds": {"nargs": "+", "choices": KINDS, "default": list(KINDS)},
    "sentences": {"type": int},
    "batch": {"type": int, "default": 8},
    "length": {"type": int, "default": 128},
    "dtype": {"choices": DTYPES, "default": "float32"},
    "isa": {"choices": ("avx2",), "help": "hold both sides to it"},
    "threads": {"type": int, "default": 2},
    "rounds": {"type": int, "default": 5},
    "side": {"choices": ("both", "ours", "torch"), "default": "both"},
    "sides": {"nargs": "+", "choices": SIDES, "default": list(SIDES)},
    "dry": {"action": "store_true", "help": "write no JSON"},
}
# Options about where and whether to write, not about what is measured.
NO_SETTINGS = frozenset({"data", "dry", "child"})


def parser(doc: str | None, *names: str, **defaults: object) -> argparse.ArgumentParser:
    """Returns a parser with the named options; ``defaults``: options with their own.

    Args:
        doc: the script's docstring, whose first line is the description.
    """
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    for name, spelled in OPTIONS.items():
        if name in names or name in defaults:
            own = {"default": defaults[name]} if name in defaults else {}
            made.add_argument(f"--{name}", **{**spelled, **own})
    return made


def settings(options: argparse.Namespace, *without: str) -> dict[str, Any]:
    """Returns the options that a record stores: all that determine what is measured."""
    left_out = NO_SETTINGS.union(without)
    return {k: v for k, v in vars(options).items() if k not in left_out}
