"""Every op on a CUDA device agrees with the CPU's reference, forward and backward.

The cases are those of all kernels' tests. The emulated CUDA skips the large ones and
alternates the types: tests/kernels/test_agreement.py runs each kernel on all there.
"""

from __future__ import annotations

import os
import re
import zlib

import pytest
from helpers_gpu import last_cuda_device
from support.bounds import assert_agrees
from support.cases import Case, followed, forced, run_case
from support.table import CASES, by_op, named

import evolving_attention as ea

DEVICE = last_cuda_device()
SMALL = "emulated" in ea.devices()[DEVICE]
TURNS = SMALL and not os.environ.get("EA_TEST_EXHAUSTIVE")
# EA_TEST_CASES: a pattern that selects cases, because tools that instrument kernels
# make them 10 to 100 times slower.
WANTED = re.compile(os.environ.get("EA_TEST_CASES", ""))
HERE = by_op(
    case for case in CASES if not (SMALL and case.wide) and WANTED.search(str(case))
)
DTYPES = ("float32", "bfloat16")
# The composite stores its intermediate maps. In bfloat16 a convolution's sum may be so
# near 0 that the GPU's order of summation decides its sign, and so whether ReLU passes
# its gradient.
GATES_TURN = ("evolve_composite", "bfloat16")


@pytest.mark.parametrize("op", HERE)
def test_agrees_with_the_cpu(op: str):
    for case in HERE[op]:
        types = [dtype for dtype in DTYPES if dtype in case.dtypes]
        if TURNS:
            types = [types[zlib.crc32(str(case).encode()) % len(types)]]
        for dtype in types:
            with named(case):
                check_case(case, dtype)


def check_case(case: Case, dtype: str) -> None:
    got = run_case(case, dtype, DEVICE)
    with forced(("*", "ref")):
        want = run_case(case, dtype)
    want[0] = followed(case, dtype, got[0], want[0])
    if not SMALL and (case.op, dtype) == GATES_TURN:
        got, want = got[:1], want[:1]  # without the gradients
    # All kernels of the op differ from the reference's, not only one.
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
