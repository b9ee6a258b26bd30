"""Every op on a CUDA device agrees with the CPU's reference, forward and backward.

The cases are those of all kernels' tests. On the emulated CUDA the large ones are left
out: tests/kernels/test_agreement.py has each kernel on them there.
"""

from __future__ import annotations

import pytest
from helpers_gpu import last_cuda_device
from support.bounds import assert_agrees
from support.cases import Case, followed, forced, run_case
from support.table import CASES

import evolving_attention as ea

DEVICE = last_cuda_device()
SMALL = "emulated" in ea.devices()[DEVICE]
HERE = [case for case in CASES if not (SMALL and case.wide)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", HERE, ids=str)
def test_agrees_with_the_cpu(case: Case, dtype: str):
    if dtype not in case.dtypes:
        pytest.skip(f"not in {dtype}")
    got = run_case(case, dtype, DEVICE)
    with forced(("*", "ref")):
        want = run_case(case, dtype)
    want[0] = followed(case, dtype, got[0], want[0])
    # Every kernel of the op differs, not one of them.
    for which, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        assert_agrees(
            ours,
            theirs,
            dtype=dtype,
            terms=case.sum_length,
            downstream=True,
            cancels=case.cancels,
            roundings=case.roundings + 1,
            at=f"{case} {dtype}, " + (f"gradient {which - 1}" if which else "out"),
        )
