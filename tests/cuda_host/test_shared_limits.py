"""Every shape of a convolution fits in the shared memory of each GPU, or uses none.

The kernels are launched with these budgets; the emulation refuses more.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from evolving_attention import _core

CHECKS = Path(_core.__file__).parent / "ea_cuda_host_checks.so"

pytestmark = pytest.mark.skipif(
    not CHECKS.exists(),
    reason="no host emulation in this build (tools/run_cuda_host.sh makes one)",
)


class Plan(NamedTuple):
    """Limits in bytes, and the needs of the convolution and its weight gradient."""

    block: int
    of_two: int
    columns: int
    bytes: int
    weights_columns: int
    weights_bytes: int


def plan(architecture: int, heads: int, kernel: int, bf16: bool) -> Plan:
    found = (ctypes.c_longlong * 6)()
    ctypes.CDLL(str(CHECKS)).ea_conv_plan(architecture, heads, kernel, bf16, found)
    return Plan(*found)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("architecture", [80, 86, 90])
def test_no_block_has_more_than_there_is(architecture: int, bf16: bool):
    for heads in range(1, 140):
        for kernel in range(1, 20, 2):
            p = plan(architecture, heads, kernel, bf16)
            for columns, bytes_ in (
                (p.columns, p.bytes),
                (p.weights_columns, p.weights_bytes),
            ):
                at = f"{heads} heads, kernel {kernel}: {p}"
                assert columns in (0, 8, 16, 32), at
                assert columns == 0 or bytes_ <= p.block, at
                assert columns in (0, 8) or bytes_ <= p.of_two, at


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("architecture", [80, 86, 90])
@pytest.mark.parametrize("heads", [4, 12, 16])
def test_two_blocks_of_a_bert_run_at_a_time(architecture: int, heads: int, bf16: bool):
    p = plan(architecture, heads, 3, bf16)
    assert p.columns >= 8
    assert p.weights_columns >= 8
    if architecture != 86:
        assert p.bytes <= p.of_two
        assert p.weights_bytes <= p.of_two
    if architecture == 90 and heads == 12:
        assert p.columns == p.weights_columns == 32


def refusal(queries: int, keys: int) -> str:
    text = ctypes.create_string_buffer(300)
    size = ctypes.c_longlong
    ctypes.CDLL(str(CHECKS)).ea_conv_refusal(size(queries), size(keys), text, 300)
    return text.value.decode()


def test_maps_of_more_cells_than_are_counted_are_refused():
    assert refusal(46_340, 46_340) == ""
    assert refusal(1 << 16, (1 << 15) - 1) == ""
    said = refusal(1 << 16, 1 << 15)
    assert "sequence 0 has maps of 65536 x 32768 cells" in said
    assert "at most 2^31 - 1" in said


def test_the_emulation_has_the_budget_it_is_told():
    """Heads that do not fit on sm_86 read global memory, with the same values."""
    assert plan(90, 46, 3, False).columns > 0
    assert plan(86, 46, 3, False).columns == 0
    code = """
import numpy as np
from evolving_attention import _core
from support.cases import as_float64, forced, kernel_calls, run_case
from support.map_cases import Lengths, convolution
case = convolution(Lengths(46, (3, 2)), 3)
with forced(("*", "ref")):
    want = run_case(case, "float32")
with forced(("*", "cuda_host")):
    got = run_case(case, "float32")
assert kernel_calls("map_conv_forward", "cuda_host") == 1
for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(as_float64(a), as_float64(b), rtol=1e-4, atol=1e-4)
"""
    tests = Path(__file__).resolve().parent.parent
    path = os.pathsep.join([str(tests), *filter(None, sys.path)])
    for architecture in ("86", "90"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ
            | {"PYTHONPATH": path, "EA_CUDA_HOST_ARCHITECTURE": architecture},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
