"""--isa avx2: limits both sides of a benchmark to AVX2, which most laptops have.

Our library, PyTorch's own kernels, both oneDNNs and PyTorch's MKL read environment
variables when they are loaded. A benchmark refuses to measure when one of them reports
a wider instruction set.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

# Our limit, and the limits of PyTorch's own kernels, of both oneDNNs and of MKL.
AVX2 = {
    "EA_MAX_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
ONEDNN_OF_TORCH = """
import torch
torch.relu(torch.ones(16, 16).to_mkldnn())  # the first primitive tells the set
"""


def hold(script: str, isa: str | None, arguments: list[str] | None) -> None:
    """Restarts this process with every library limited to AVX2, if ``isa`` names it.

    A new process is needed because the libraries are already loaded. Both sides run in
    it, and its children inherit the variables.

    Args:
        script: the module of ``benchmarks`` to start.
        arguments: its command line; None: the arguments of this process.
    """
    if isa is None or all(os.environ.get(k) == v for k, v in AVX2.items()):
        return
    given = sys.argv[1:] if arguments is None else arguments
    words = [sys.executable, "-m", f"benchmarks.{script}", *given]
    os.execve(sys.executable, words, os.environ | AVX2)


def reported() -> dict[str, str]:
    """Returns the instruction set that each library reports in this environment.

    MKL does not report its own: the requested limit is given instead. PyTorch's oneDNN
    reports only in its log, which a separate process writes.
    """
    import torch

    from evolving_attention import _core

    info = _core.build_info()
    found = {
        "ours": info["isa_used"],
        "ours, oneDNN": info["onednn_isa"],
        "torch": torch.backends.cpu.get_cpu_capability(),
    }
    done = subprocess.run(
        [sys.executable, "-c", ONEDNN_OF_TORCH],
        env=os.environ | {"ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    line = re.search(r"cpu,isa:(.*)", done.stdout)
    found["torch, oneDNN"] = line[1] if line else "not told"
    asked = os.environ.get("MKL_ENABLE_INSTRUCTIONS", "nothing")
    found["torch, MKL (asked)"] = asked
    return found


def check(told: dict[str, str]) -> None:
    """Refuses to measure if a library still uses more than AVX2."""
    past = {k: v for k, v in told.items() if "avx512" in re.sub("-", "", v.lower())}
    if past:
        raise SystemExit(f"--isa avx2: these are not held to it: {past}")


def tell(machine: dict[str, Any], isa: str | None) -> None:
    """Prints what the libraries report, stores it in the record and checks it."""
    machine["isa_reported"] = reported()
    print("; ".join(f"{k}: {v}" for k, v in machine["isa_reported"].items()))
    if isa is not None:
        check(machine["isa_reported"])
