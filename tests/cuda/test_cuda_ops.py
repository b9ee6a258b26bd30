"""Every op on the GPU, forward and backward, against the reference kernels on the CPU.

All kernels of an op run on the GPU here; tests/kernels/test_agreement.py compares each
by itself, executed by the host emulation.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers_gpu import array, why_no_gpu
from support.bounds import assert_agrees
from support.cases import Case, followed, forced, round_to, run_case
from support.table import CASES

import evolving_attention as ea
from evolving_attention import _core

if why_no_gpu():
    pytest.skip(why_no_gpu(), allow_module_level=True)

DTYPES = ("float32", "bfloat16")


def on_gpu(case: Case, dtype: str) -> list[np.ndarray]:
    """The output and all gradients of a case whose inputs lie on the GPU."""
    _core.manual_seed(7)
    inputs = [
        ea.Tensor(round_to(a, dtype), dtype=dtype, requires_grad=True, device="cuda")
        for a in case.draw()
    ]
    out = case.call(*inputs)
    assert out.device == "cuda:0"
    dy = round_to(case.cotangent(out.shape), out.dtype)
    out.backward(ea.Tensor(dy, dtype=out.dtype, device="cuda"))
    return [array(out), *(array(t.grad) for t in inputs)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_op_agrees_with_ref(case: Case, dtype: str):
    if dtype not in case.dtypes:
        pytest.skip(f"the case has no {dtype}")
    with forced(("*", "ref")):
        want = run_case(case, dtype)
    got = on_gpu(case, dtype)
    want[0] = followed(case, dtype, got[0], want[0])
    for which, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        assert_agrees(
            ours,
            theirs,
            dtype=dtype,
            terms=case.sum_length,
            downstream=which > 0,
            cancels=case.cancels,
            roundings=case.roundings,
            at=f"{case} {dtype}, " + (f"gradient {which - 1}" if which else "out"),
        )
