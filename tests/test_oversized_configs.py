"""Configs with shapes larger than the weight files are rejected before allocation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_files
from helpers_models import tiny
from series_data import TINY

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.errors import CheckpointError
from evolving_attention.interop.load_report import LoadReport, check_growth
from evolving_attention.interop.safetensors_io import save_safetensors

SERIES = {
    "channels": 2,
    "max_length": 6,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "attention_ratio": 0.5,
    "intermediate_size": 8,
    "num_blocks": 1,
}
# Runs in its own process: loads the models listed on stdin and prints the results.
CHILD = """
import json, sys, time
import evolving_attention as ea
ea.BertModel
results = {}
for name, (cls, folder, options) in json.load(sys.stdin).items():
    seconds = time.perf_counter()
    try:
        getattr(ea, cls).from_pretrained(folder, **options)
        found = ["nothing", ""]
    except Exception as error:
        found = [type(error).__name__, str(error)]
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    seconds = time.perf_counter() - seconds
    results[name] = [*found, seconds, int(status["VmHWM"].split()[0]) / 1024]
print(json.dumps(results))
"""
HUGE = {"vocab_size": 3_000_000, "hidden_size": 1536}
BIN = "pytorch_model.bin"


def with_config(folder: Path, **values: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return folder


def bert(folder: Path, **config: Any) -> Path:
    tiny().save_pretrained(folder)
    return with_config(folder, **config)


def shards(folder: Path) -> Path:
    arrays = tiny().state_dict()
    bert(folder, **HUGE)
    assert len(save_safetensors(folder, arrays, max_shard_bytes=20_000)) > 2
    return folder


def binary(folder: Path, *, legacy: bool) -> Path:
    (bert(folder, **HUGE) / "model.safetensors").unlink()
    data = torch_files.write_model(tiny().state_dict(), legacy=legacy)
    (folder / BIN).write_bytes(data)
    return folder


def one_storage_for_all(folder: Path) -> Path:
    """Writes thousands of parameters that share one parameter's bytes."""
    config = ea.BertConfig(
        vocab_size=512,
        hidden_size=512,
        num_hidden_layers=120,
        num_attention_heads=1,
        intermediate_size=512,
        max_position_embeddings=512,
    )
    core = _core.create_model("bert", {**config.core_options(), "head": "base"})
    shapes = {name: tensor.shape for name, tensor in core.named_parameters()}
    ids = torch_files.storage(b"X\1\0\0\0" + b"0", torch_files.whole(512 * 512))
    graph = torch_files.state_dict(
        {name: torch_files.tensor(ids, shape) for name, shape in shapes.items()}
    )
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    data = torch_files.zip_file(graph, {"0": bytes(4 * 512 * 512)})
    (folder / BIN).write_bytes(data)
    return folder


def series(folder: Path, **config: Any) -> Path:
    model = ea.EADCTransformerModel(ea.EADCTransformerConfig(**SERIES))
    model.save_pretrained(folder)
    return with_config(folder, **config)


TEXT = "AutoModelForSequenceClassification"
WORDS = r"\(vocab_size=3000000, hidden_size=1536 in the config\)"
EMBEDDINGS = (
    r"word_embeddings\.weight \(float32 \(40, 24\), "
    rf"expected float \(3000000, 1536\) {WORDS}"
)
Case = tuple[str, Callable[[Path], Path], dict[str, Any], str]
CASES: dict[str, Case] = {
    "safetensors": (TEXT, lambda f: bert(f, **HUGE), {}, EMBEDDINGS),
    "its own class": (
        "BertForMaskedLM",
        lambda f: bert(f, **HUGE),
        {"strict": False},
        EMBEDDINGS,
    ),
    "shards": ("AutoModel", shards, {}, EMBEDDINGS),
    "zip": (TEXT, lambda f: binary(f, legacy=False), {}, EMBEDDINGS),
    "legacy": (TEXT, lambda f: binary(f, legacy=True), {}, EMBEDDINGS),
    "bfloat16": (TEXT, lambda f: bert(f, **HUGE), {"dtype": "bfloat16"}, EMBEDDINGS),
    "sizes may differ": (
        TEXT,
        lambda f: bert(f, vocab_size=10_000_000),
        {"strict": False},
        r"asks for 240,\d{3},\d{3} parameters.*word_embeddings\.weight is float32 "
        r"\(40, 24\) there, expected float \(10000000, 24\) \(vocab_size=10000000, ",
    ),
    "layers": (
        TEXT,
        lambda f: bert(f, num_hidden_layers=1000, intermediate_size=1_048_576),
        {"strict": False},
        r"intermediate_size=1048576 in the config",
    ),
    "one storage for all": (
        "AutoModel",
        one_storage_for_all,
        {},
        r"the config asks for \d{3},\d{3},\d{3} parameters",
    ),
    "many labels": (TEXT, lambda f: bert(f, num_labels=10**6), {}, "1 to 100000"),
    "series": (
        "AutoModel",
        lambda f: series(f, max_length=10_000_000, channels=1_000_000),
        {},
        r"max_length=10000000 in the config.*channels=1000000 in the config",
    ),
    "a head of series": (
        "EADCTransformerForClassification",
        lambda f: series(f, max_length=10_000_000, position="none"),
        {"strict": False},
        r"classifier\.weight is none there, expected float \(2, 160000000\)",
    ),
}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Returns for each case [error, its text, seconds, peak resident MiB so far]."""
    root = tmp_path_factory.mktemp("oversized")
    jobs = {
        name: (cls, str(make(root / name.replace(" ", "_"))), options)
        for name, (cls, make, options, _) in CASES.items()
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_before_it_costs_memory(
    costs: dict[str, list[Any]], name: str
) -> None:
    error, text, seconds, resident = costs[name]
    expected = "ConfigError" if name == "many labels" else "CheckpointError"
    assert error == expected, text
    assert re.search(CASES[name][3], text, re.DOTALL), text
    assert seconds < 1
    assert resident < 200


def test_an_estimator_is_refused_before_it_costs_memory(tmp_path: Path) -> None:
    series = np.random.default_rng(0).normal(size=(8, 2, 6))
    fitted = ea.TimeSeriesClassifier(**{**TINY, "n_epochs": 1})
    fitted.fit(series, np.arange(8) % 2).save(tmp_path)
    with_config(tmp_path, max_length=10_000_000, hidden_size=1024)
    _core.reset_peak_memory()
    before = _core.peak_memory()
    with pytest.raises(CheckpointError, match="max_length=10000000"):
        ea.TimeSeriesClassifier.load(tmp_path)
    assert _core.peak_memory() < before + 2**20


def test_new_heads_still_load(tmp_path: Path) -> None:
    tiny("BertModel").save_pretrained(tmp_path / "text")
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "text", num_labels=100_000
    )
    assert dict(model.named_parameters())["classifier.weight"].shape == (100_000, 24)
    assert sorted(model.load_report.new) == ["classifier.bias", "classifier.weight"]
    long = ea.EADCTransformerForClassification.from_pretrained(
        series(tmp_path / "series", position="none", max_length=100_000), strict=False
    )
    assert "classifier.weight" in long.load_report.new


def test_growth_is_measured_by_the_file() -> None:
    shapes = {"classifier.weight": (1 << 27,)}
    report = LoadReport(new=["classifier.weight"])
    check_growth(shapes, report, 1 << 25, {})
    with pytest.raises(CheckpointError, match="at most 134,217,724 for weight files"):
        check_growth(shapes, report, (1 << 25) - 1, {})


def test_a_model_has_shapes_before_it_has_memory() -> None:
    held = _core.current_memory()
    options = {**ea.BertConfig(vocab_size=10_000_000).core_options(), "head": "base"}
    del options["attention"]
    model = _core.create_model("bert", options)
    shapes = {name: tensor.shape for name, tensor in model.named_parameters()}
    assert shapes["embeddings.word_embeddings.weight"] == (10_000_000, 768)
    assert _core.current_memory() == held
