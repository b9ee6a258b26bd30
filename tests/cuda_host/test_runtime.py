"""Defects that the CUDA runtime must report, on an emulated CUDA.

EA_EMULATED_CUDA selects the defect; memory is 256 MiB. tests/cuda covers intact GPUs.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core

if not any("emulated GPU" in what for what in ea.devices().values()):
    pytest.skip(
        "no emulated GPU in this build (tools/run_cuda_host.sh makes one)",
        allow_module_level=True,
    )


def test_devices_are_described():
    found = ea.devices()
    assert list(found) == ["cpu", "cuda:0", "cuda:1"]
    assert found["cuda:1"].startswith("emulated GPU 1, compute capability 9.0, 0 GiB")
    assert _core.resolve_device("auto") == "cuda:0"


MISSING = {
    "no_driver": "no NVIDIA driver: looked for libcuda.so.1 where the system's loader",
    "old_driver": "knows CUDA up to 12.2, and this build is of 13.0: update the driver",
    "no_gpu": "shows no GPU to this process, CUDA_VISIBLE_DEVICES is '7'",
    "no_cublas": "cuBLASLt was not found. Looked at: libcublasLt.so.13: no such file",
    "no_pools": "its driver has no memory pools",
    "capability=7.5": "compute capability 7.5, and this build has code for 80,90a: "
    "build it with -C cmake.define.EA_CUDA_ARCHITECTURES=75",
}
LOOK = """
import logging, evolving_attention as ea
logging.basicConfig(level=logging.INFO, format="%(message)s")
print(list(ea.devices()))
try:
    ea.Tensor([1.0], device="cuda")
except ea.BackendUnavailable as error:
    print(error)
from evolving_attention import device_names
device_names.GPU_FILES = ("/",)
print(device_names.resolve_device("auto"))
"""


@pytest.mark.parametrize("amiss", MISSING)
def test_what_is_missing_is_named_and_auto_falls_back(amiss: str):
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**os.environ, "EA_EMULATED_CUDA": amiss, "CUDA_VISIBLE_DEVICES": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    devices, *why, auto = done.stdout.splitlines()
    assert (devices, auto) == ("['cpu']", "cpu")
    assert why[0].startswith("[device] cuda:0 is not available: ")
    assert MISSING[amiss] in " ".join(" ".join(why).split())
    lines = [line for line in done.stderr.splitlines() if "device auto" in line]
    assert len(lines) == 1
    assert MISSING[amiss] in lines[0]


@pytest.mark.parametrize("capability", ["8.0", "8.6", "8.9", "9.0", "10.0", "12.1"])
def test_code_for_80_runs_on_what_came_after_it(capability: str):
    done = subprocess.run(
        [sys.executable, "-c", "import evolving_attention as ea; print(ea.devices())"],
        env={**os.environ, "EA_EMULATED_CUDA": f"capability={capability}"},
        capture_output=True,
        text=True,
    )
    assert f"compute capability {capability}," in done.stdout, done.stderr


def test_a_full_device_says_so():
    with pytest.raises(
        ea.OutOfMemory, match=r"cuda:0: the device has no more.*smaller"
    ):
        ea.Tensor(np.zeros((5, 1 << 20), np.float64).repeat(10, axis=0), device="cuda")
    assert ea.Tensor([1.0], device="cuda").item() == 1


def test_freed_memory_serves_again():
    for i in range(12):  # 12 times 40 MiB in 256 MiB
        t = ea.Tensor(np.full(10 << 20, i, np.float32), device="cuda")
        assert t[5].item() == i
