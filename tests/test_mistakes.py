"""Users' mistakes: the error class, and a text that says what, where, what to do.

The rows are in tests/mistakes/; they run here, together with the mistakes that need
their own process: environment variables, command lines, memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mistakes import (
    files,
    generation,
    graphs,
    image_ops,
    images,
    inputs,
    launches,
    maps,
    pretraining,
    questions,
    ray_trials,
    searches,
    sequences,
    series,
    series_fits,
    series_tables,
    settings,
    t5,
    tensors,
    text_files,
    text_nets,
    time_series,
    translation,
)
from mistakes.row import IDS, Row, model

import evolving_attention as ea
from evolving_attention.cli.main import app

ROOMS = {
    "inputs": inputs,
    "tensors": tensors,
    "sequences": sequences,
    "maps": maps,
    "image operations": image_ops,
    "series": series,
    "time series": time_series,
    "fits of series": series_fits,
    "tables of series": series_tables,
    "generation": generation,
    "translation": translation,
    "pretraining": pretraining,
    "questions": questions,
    "searches": searches,
    "trials of Ray": ray_trials,
    "t5": t5,
    "text nets": text_nets,
    "images": images,
    "graphs": graphs,
    "text files": text_files,
    "settings": settings,
    "files": files,
    "launches": launches,
}
TABLE = {
    f"{room}: {name}": row
    for room, module in ROOMS.items()
    for name, row in module.ROWS.items()
}
# Details that no message may contain: C++, templates, the binding library, NumPy's
# internals.
NOISE = re.compile(
    r"std::|ea::|::|pybind|incompatible function arguments|incompatible constructor|"
    r"SupportsI|Unable to cast|C\+\+ type|inhomogeneous|<class |object at 0x|"
    r"Invoked with|basic_string|__cxx11"
)


def check_message(text: str, *parts: str) -> None:
    """Asserts that the message has every part and no noise."""
    for part in parts:
        assert re.search(part, text, re.S), f"no {part!r} in: {text}"
    assert not NOISE.search(text), text


def test_there_are_enough() -> None:
    assert len(TABLE) >= 100
    assert len(TABLE) == sum(len(module.ROWS) for module in ROOMS.values())


@pytest.mark.parametrize("name", TABLE)
def test_mistake(name: str, tmp_path: Path) -> None:
    row: Row = TABLE[name]
    with pytest.raises(Exception) as caught:
        row.call(tmp_path)
    text = str(caught.value)
    assert type(caught.value) is row.error, f"{type(caught.value).__name__}: {text}"
    check_message(text, row.what, row.where, row.remedy)


# --- the environment ------------------------------------------------------------------

VARIABLES = {
    "EA_MAX_ISA=sse9": ("ConfigError", r"EA_MAX_ISA=sse9", r"expected avx2 or avx512"),
    "EA_NUM_THREADS=many": ("ConfigError", r"EA_NUM_THREADS=many", r"from 1 to 1024"),
    "EA_NUM_THREADS=0": ("ConfigError", r"EA_NUM_THREADS=0", r"from 1 to 1024"),
    "EA_NUM_THREADS=2x": ("ConfigError", r"EA_NUM_THREADS=2x", r"unset it"),
    "EA_DISABLE=gelu": ("ConfigError", r"'gelu'", r"EA_DISABLE", r"one of all, fused"),
    "EA_KERNEL=softmax": ("ConfigError", r"EA_KERNEL", r"expected kernel:implement"),
    "EA_KERNEL=gem:ref": ("KernelNotFound", r"'gem'", r"implementation 'ref'"),
}
PROBE = """
import evolving_attention as ea
try:
    ea.Tensor([1.0])
    ea.get_num_threads()
except ea.Error as error:
    print(type(error).__name__, error)
"""


def process(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package of this run on its path."""
    paths = [str(Path(ea.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
    return subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("setting", VARIABLES)
def test_bad_variables_are_typed_errors(setting: str) -> None:
    key, value = setting.split("=")
    error, *parts = VARIABLES[setting]
    done = process("-c", PROBE, **{key: value})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(error), done.stdout
    check_message(done.stdout, *parts)


# --- memory ---------------------------------------------------------------------------


def test_a_model_survives_the_memory_limit() -> None:
    bert = model().eval()
    before = np.asarray(bert(IDS).logits).copy()
    try:
        ea.set_memory_limit(1)
        with pytest.raises(ea.OutOfMemory) as caught:
            bert(np.ones((64, 40), np.int64))
    finally:
        ea.set_memory_limit(0)
    check_message(str(caught.value), r"\[allocate\]", r"limit", r"bytes|MiB|GiB")
    np.testing.assert_array_equal(np.asarray(bert(IDS).logits), before)


# --- the command line -----------------------------------------------------------------

COMMANDS = {
    "an unknown command": (["gleu"], 2, r"gleu", r"glue|--help"),
    "an unknown option": (["doctor", "--jsn"], 2, r"--jsn", r"--json"),
    "alpha of 2": (["demo", "--alpha", "2"], 2, r"--alpha 2", r"from 0 to 1"),
    "no training data": (["demo", "--train-size", "3"], 2, r"train", r"58"),
    "an unknown GLUE flag": (
        ["glue", "--task_nam", "cola"],
        2,
        r"task_nam",
        r"task_name",
    ),
    "an unknown task": (
        [
            "glue",
            "--task_name",
            "colla",
            "--model_name_or_path",
            "m",
            "--output_dir",
            "o",
        ],
        2,
        r"colla",
        r"cola",
    ),
    "a model that is not there": (
        ["glue", "--task_name", "cola", "--model_name_or_path", "./nowhere"],
        4,
        r"nowhere",
        r"folder|config",
    ),
    "folders without predictions": (
        ["glue-submit", "."],
        3,
        r"predict_results",
        r"allow_missing",
    ),
    "no folders": (["glue-submit"], 2, r"Missing argument", r"(?i)folders"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_lines(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    words, code, *parts = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as left:
        app(words, prog_name="evolving-attention")
    shown = capsys.readouterr()
    assert left.value.code == code, shown.err
    check_message(re.sub(r"\x1b\[[0-9;]*m", "", shown.err), *parts)
    assert "Traceback" not in shown.err
