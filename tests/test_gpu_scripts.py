"""The scripts for a machine with a GPU say plainly where there is none."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_gpu import why_no_gpu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import cola, gpu, harness  # noqa: E402
from benchmarks.rows import rows_of  # noqa: E402

no_gpu = pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU here")
RUN_ALL = ROOT / "tests" / "cuda" / "run_all.sh"


@no_gpu
@pytest.mark.parametrize("run", [gpu.main, cola.main])
def test_nothing_is_measured_without_a_gpu(run: Callable[[list], int], capsys):
    options = ["--device", "cuda"] if run is cola.main else ["--size", "tiny"]
    assert run(options) == gpu.NOT_MEASURED
    assert capsys.readouterr().out.startswith("not measured: no GPU: ")


@no_gpu
@pytest.mark.skipif(bool(shutil.which("nvidia-smi")), reason="nvidia-smi is here")
def test_run_all_runs_nothing_without_a_gpu():
    done = subprocess.run([RUN_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 77
    assert "not run: no GPU" in done.stdout


def test_run_all_names_its_parts():
    done = subprocess.run(
        [RUN_ALL, "kernel"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "expected one of: build kernels gradients" in done.stdout


@pytest.mark.parametrize("text", ["32", "x", "0x128", "32x-1", "a x b"])
def test_shapes_are_batch_and_length(text: str):
    assert gpu.shape_named("32x128") == (32, 128)
    with pytest.raises(argparse.ArgumentTypeError, match="BATCHxLENGTH"):
        gpu.shape_named(text)


def test_a_record_becomes_rows_of_time_and_memory():
    side = {"spread": 0.0, "peak_bytes": 2**30}
    result = {
        "ours": side | {"median_s": 0.010},
        "torch eager": side | {"median_s": 0.025, "peak_bytes": 2**31},
        "torch.compile": side | {"median_s": 0.013},
        "start_loss": {"ours": 0.7},
        "work": {"flops": {"total": 1e12}, "gemm_limit_s": 0.005},
    }
    settings = {"size": "base", "dtype": "bfloat16", "batch": 32, "length": 128}
    record = {"settings": settings, "results": {"evolving": result}}
    rows = [row.markdown() for row in rows_of("gpu-base-32x128-bfloat16", record)]
    assert "10 ms | 13 ms (torch.compile) | 1.30× | 50% |" in rows[0]
    assert "25 ms (torch eager) | 2.50× |" in rows[1]
    assert any("1.00 GiB | 2.00 GiB | 2.00× |" in row for row in rows)


def test_the_machine_line_begins_with_the_gpu():
    record = {
        "gpu": "A GPU",
        "cpu": "A CPU",
        "cores": 2,
        "threads": 2,
        "isa": [],
        "gemm_gflops": {},
        "gpu_gemm_tflops": {"bfloat16": {"8192x8192x8192": 791.4}},
    }
    line = harness.machine_line(record)
    assert line.startswith("A GPU; A CPU, 2 cores")
    assert line.endswith("GPU GEMM TFLOP/s, bfloat16: 8192x8192x8192 791")
