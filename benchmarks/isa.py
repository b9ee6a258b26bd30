"""--isa avx2: both sides of a benchmark held to AVX2, which most laptops have.

Ours, PyTorch's own kernels, the oneDNN of both and PyTorch's MKL read environment
variables when they are loaded. A benchmark refuses to measure when one of them says
that it went further.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

# Our limit, and those of PyTorch's own kernels, of both oneDNNs and of MKL.
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
    """Start this process again with every library held to AVX2, if ``isa`` names it.

    It takes a new process, since the libraries are loaded by now. Both sides live in
    it, and what it starts inherits the variables.

    Args:
        script: the module of ``benchmarks`` to start.
        arguments: of its command line; None: those of this process.
    """
    if isa is None or all(os.environ.get(k) == v for k, v in AVX2.items()):
        return
    given = sys.argv[1:] if arguments is None else arguments
    words = [sys.executable, "-m", f"benchmarks.{script}", *given]
    os.execve(sys.executable, words, os.environ | AVX2)


def reported() -> dict[str, str]:
    """The instruction set that each library says it uses, in this environment.

    MKL does not tell: what it was asked to do stands for it. PyTorch's oneDNN tells in
    its log alone, which a process of its own writes.
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
    """Refuse to measure when a library went past AVX2 all the same."""
    past = {k: v for k, v in told.items() if "avx512" in re.sub("-", "", v.lower())}
    if past:
        raise SystemExit(f"--isa avx2: these are not held to it: {past}")


def tell(machine: dict[str, Any], isa: str | None) -> None:
    """Print what the libraries report, keep it in the record, and check it."""
    machine["isa_reported"] = reported()
    print("; ".join(f"{k}: {v}" for k, v in machine["isa_reported"].items()))
    if isa is not None:
        check(machine["isa_reported"])
