"""A coefficient passes through few files from the command line to the kernel."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers_commands import bert, own_rows

import evolving_attention as ea
from evolving_attention.cli import glue

ALPHA = 0.3137  # a value used nowhere else
PACKAGE = Path(ea.__file__).parent
CPP = Path(__file__).parent.parent / "src" / "cpp"
LIMIT = 18
# Python files outside the path: they look for other options among all given ones, and
# write the model card.
ASIDE = {
    "cli/commands.py",
    "cli/fine_tuning.py",
    "cli/repeat.py",
    "cli/glue_results.py",
    "cli/glue_run.py",
}
# Core sources that pass alpha, or the coefficients that closed_form.cpp derives from
# it, to the fused forward on a CPU.
CORE = {
    "bindings/attention.cpp",
    "nn/options.cpp",
    "nn/attention/spec.cpp",
    "nn/attention/evolve/evolving.cpp",
    "nn/attention/evolve/closed_form.cpp",
    "nn/attention/attention.cpp",
    "ops/fused_attention.cpp",
    "kernels/cpu/simd/fused_attention.cpp",
    "kernels/cpu/simd/fused_rows-inl.h",
}
# Other sources that name alpha: other kinds, the backward, unfused steps, generation,
# products and sums with their own alpha.
OTHERS = re.compile(
    r"kernels/(ref|cuda)/|nn/attention/evolve/|/(cached_attention|evolve\w*)\.cpp$"
    r"|/fused_(attention_backward|gradients-inl|maps)\.|bindings/\w+_ops\.cpp$"
)
NAMES = re.compile(r'\bEvolveCoefficients\b|\bin\.c\b|"alpha"|\bClosedFormView\b')


def holds(value: Any, depth: int = 2) -> bool:
    """Returns whether this is the coefficient or holds it under its name."""
    if isinstance(value, float):
        return value == ALPHA
    if isinstance(value, list):
        return depth > 0 and any(holds(one, depth - 1) for one in value[:40])
    if not isinstance(value, dict):
        value = getattr(value, "__dict__", {})
    return depth > 0 and holds(value.get("alpha"), depth - 1)


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Flags of ``glue`` that fine-tune a tiny evolving model for one step."""
    flags = {
        "model_name_or_path": bert(tmp_path / "model"),
        "output_dir": tmp_path / "out",
        "train_file": own_rows(tmp_path, 16, seed=0),
        "attention": "evolving",
        "alpha": ALPHA,
        "max_steps": 1,
    }
    return ["--do_train", *(str(w) for n, v in flags.items() for w in (f"--{n}", v))]


def test_alpha_passes_few_files(arguments: list[str]) -> None:
    passed: set[str] = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        source = frame.f_code.co_filename
        if event in ("call", "return") and source.startswith(str(PACKAGE)):
            name = Path(source).relative_to(PACKAGE).as_posix()
            if name not in passed and any(map(holds, frame.f_locals.values())):
                passed.add(name)

    sys.setprofile(watch)
    try:
        with pytest.raises(SystemExit) as left:
            glue.main(arguments)
    finally:
        sys.setprofile(None)
    assert not left.value.code
    assert "cli/attention_arguments.py" in passed  # the profiler hook works
    assert "attention/evolving.py" in passed
    way = passed - ASIDE
    assert len(way) + len(CORE) <= LIMIT, sorted(way)


def test_the_core_hands_it_on_in_no_other_file() -> None:
    found = set()
    for source in [*CPP.rglob("*.cpp"), *CPP.rglob("*-inl.h")]:
        name = source.relative_to(CPP).as_posix()
        if NAMES.search(source.read_text()) and not OTHERS.search(name):
            found.add(name)
    assert found <= CORE
    assert all((CPP / name).is_file() for name in CORE)
