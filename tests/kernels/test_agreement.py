"""Every registered implementation of every kernel computes what ``ref`` computes.

The list comes from the registry: a kernel that KERNEL_OPS does not name fails, and so
does an implementation that ran in none of its cases. An op is run forward and backward
with one kernel forced to the implementation and all others to ``ref``; the registry's
call counter shows that it ran.
"""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support.bounds import assert_agrees
from support.cases import (
    Case,
    followed,
    forced,
    kernel_calls,
    round_to,
    run_case,
)
from support.op_cases import ACTIVATIONS
from support.table import CASES, by_op

from evolving_attention import _core, errors, optim

ACTIVATION_OPS = (*ACTIVATIONS, "leaky_relu", "linear_activation", "feed_forward")

# The ops that run each kernel, forward or backward.
KERNEL_OPS = {
    "activation_backward": ACTIVATION_OPS,
    "activation_forward": ACTIVATION_OPS,
    "attention_context": ("attention_context",),
    "attention_context_backward": ("attention_context",),
    "attention_scores": ("attention_scores",),
    "attention_scores_backward": ("attention_scores",),
    "avg_pool2d_backward": ("avg_pool2d", "adaptive_avg_pool2d"),
    "avg_pool2d_forward": ("avg_pool2d", "adaptive_avg_pool2d"),
    "axpby": ("axpby", "scale"),
    "batch_norm_backward": ("batch_norm",),
    "batch_norm_forward": ("batch_norm",),
    "batch_statistics": ("batch_norm",),
    "binary": ("add", "sub", "mul", "div"),
    "conv1d_backward": ("conv1d",),
    "conv1d_forward": ("conv1d",),
    "conv2d_backward": ("conv2d",),
    "conv2d_forward": ("conv2d",),
    "cross_entropy_backward": ("cross_entropy",),
    "cross_entropy_forward": ("cross_entropy",),
    "dropout": ("dropout",),
    "edge_pair_sum": ("pair_sum",),
    "edge_pair_sum_backward": ("pair_sum",),
    "edge_products": ("attention_scores", "attention_context"),
    "edge_softmax": ("map_softmax",),
    "edge_softmax_backward": ("map_softmax",),
    "edge_sums": ("attention_scores", "attention_context"),
    "evolve_backward": ("evolve",),
    "evolve_forward": ("evolve",),
    "fused_attention_backward": ("fused_attention",),
    "fused_attention_forward": ("fused_attention",),
    "gather_rows": ("gather_rows", "embedding"),
    "layer_norm_backward": ("layer_norm", "dropout_layer_norm"),
    "layer_norm_forward": ("layer_norm", "dropout_layer_norm"),
    "map_conv_backward": ("map_conv",),
    "map_conv_forward": ("map_conv",),
    "matmul": ("matmul", "linear", "linear_activation", "feed_forward", "conv2d"),
    "max_pool2d_backward": ("max_pool2d", "adaptive_max_pool2d"),
    "max_pool2d_forward": ("max_pool2d", "adaptive_max_pool2d"),
    "move_average": ("batch_norm",),
    "pack_maps": ("pack_maps", "unpack_maps"),
    "pack_windows": ("pack_maps", "unpack_maps"),
    "pair_sum": ("pair_sum",),
    "pair_sum_backward": ("pair_sum",),
    "relative_2d_cells": ("relative_2d",),
    "relative_2d_sums": ("relative_2d",),
    "relative_cells": ("relative_cells", "relative_sums"),
    "relative_sums": ("relative_cells", "relative_sums"),
    "rms_norm_backward": ("rms_norm",),
    "rms_norm_forward": ("rms_norm",),
    "scatter_add_rows": ("gather_rows", "embedding"),
    "softmax_backward": ("softmax", "map_softmax"),
    "softmax_forward": ("softmax", "map_softmax"),
    "sum": ("sum", "linear", "add", "mul", "conv1d", "conv2d"),
    "unpack_maps": ("pack_maps", "unpack_maps"),
    "unpack_windows": ("pack_maps", "unpack_maps"),
    "weight_norm_backward": ("weight_norm",),
    "weight_norm_forward": ("weight_norm",),
    "window_products": ("attention_scores", "attention_context"),
    "window_softmax": ("map_softmax",),
    "window_softmax_backward": ("map_softmax",),
    "window_sums": ("attention_scores", "attention_context"),
}
# Kernels whose gradients follow from none of their results.
LAST = ("backward", "_products", "_sums")
# Kernels with tests of their own: optimizer steps below, cached attention in its file.
OWN_TEST = {
    "adamw",
    "cached_attention",
    "radam",
    "record_loss",
    "sgd",
    "step_scale",
    "sum_of_squares",
}

# Implementations that take only fixed weights: test_winograd.py compares them.
OF_FIXED = {("conv2d_forward", "winograd")}

ENTRIES = sorted({(kernel, one) for kernel, one, _ in _core.kernel_entries()})
FAST = [e for e in ENTRIES if e[1] != "ref" and e not in OF_FIXED]
DTYPES = ("float32", "bfloat16", "float64")
OFTEN = Counter(case.op for case in CASES)


def turns(cases: Iterable[Case]) -> dict[Case, tuple[str, ...]]:
    """Returns the one type in which a slow build runs each case.

    Successive cases of an op take the types 0 1 1 0: with and without a bias, which are
    neighbours, both types occur.
    """
    return {
        case: (DTYPES[(place + place // 2) % 2],)
        for mine in by_op(cases).values()
        for place, case in enumerate(mine)
        if set(DTYPES[:2]) <= set(case.dtypes)
    }


# Emulated CUDA: wide cases run in one type each, cases that take minutes are skipped.
EMULATED = {
    **turns(c for c in CASES if c.wide and not c.vast),
    **{c: () for c in CASES if c.vast},
}
# Sanitizers: one type per case, for ops with many cases.
SANITIZED = turns(c for c in CASES if OFTEN[c.op] >= 8)
if os.environ.get("EA_TEST_EXHAUSTIVE"):
    EMULATED = SANITIZED = {}
OPTIMIZERS = {
    "adamw": [optim.AdamW],
    "radam": [optim.RAdam],
    "sgd": [
        optim.SGD,
        functools.partial(optim.SGD, momentum=0.9),
        functools.partial(
            optim.SGD, momentum=0.9, nesterov=True, decoupled_weight_decay=True
        ),
    ],
}


def turns_of(implementation: str) -> dict[Case, tuple[str, ...]]:
    """Returns the cases that this build runs in fewer types."""
    if implementation == "cuda_host":
        return EMULATED
    return SANITIZED if "EA_TEST_SAMPLED" in os.environ else {}


@functools.cache
def reference(case: Case, dtype: str) -> tuple[list[np.ndarray], frozenset[str]]:
    """Returns the results of ref and the kernels that it ran."""
    before = _core.kernel_entries()
    with forced(("*", "ref")):
        results = run_case(case, dtype)
    calls = zip(before, _core.kernel_entries(), strict=True)
    return results, frozenset(old[0] for old, new in calls if old != new)


def test_every_kernel_has_cases():
    kernels = {kernel for kernel, _ in ENTRIES}
    missing = sorted(kernels - set(KERNEL_OPS) - OWN_TEST)
    assert not missing, f"kernels that no case compares with ref: {missing}"
    without_ref = sorted(kernels - {k for k, one in ENTRIES if one == "ref"})
    assert not without_ref, f"kernels without a reference: {without_ref}"
    stale = sorted((set(KERNEL_OPS) | OWN_TEST) - kernels)
    assert not stale, f"kernels that the registry does not know: {stale}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("kernel", "implementation"), [e for e in FAST if e[0] not in OWN_TEST]
)
def test_agrees_with_ref(kernel: str, implementation: str, dtype: str):
    if kernel.startswith("fused_attention"):
        # With pairs, the CPU rounds maps to bfloat16 before products, within the bounds
        # of tests/test_fused_attention.py.
        _core.set_fast_path("bfloat16_pairs", False)
    taken, declined = [], []
    for case in CASES:
        if case.op not in KERNEL_OPS[kernel] or dtype not in case.dtypes:
            continue
        if dtype not in turns_of(implementation).get(case, DTYPES):
            continue
        # An op need not run each kernel in each case, whatever the type.
        if kernel not in reference(case, case.dtypes[0])[1]:
            continue
        before = kernel_calls(kernel, implementation)
        try:
            with forced(("*", "ref"), (kernel, implementation)):
                got = run_case(case, dtype)
        except errors.KernelNotFound:
            declined.append(str(case))
            continue
        assert kernel_calls(kernel, implementation) > before, str(case)
        taken.append(str(case))
        want, kernels = reference(case, dtype)
        assert kernel in kernels, f"{case} {dtype}"
        # Products follow the backward of the activation inside linear_activation.
        last = kernel.endswith(LAST) and case.op != "linear_activation"
        want = [followed(case, dtype, got[0], want[0]), *want[1:]]
        for which, (ours, theirs) in enumerate(zip(got, want, strict=True)):
            assert_agrees(
                ours,
                theirs,
                dtype=dtype,
                terms=case.sum_length,
                downstream=which > 0 and not last,
                cancels=case.cancels,
                roundings=case.roundings,
                at=f"{case} {dtype}, " + (f"gradient {which - 1}" if which else "out"),
            )
    if dtype == "float64" and not taken:
        return  # ref alone computes in float64
    assert taken, f"{implementation} of {kernel} took no {dtype} case: {declined[:5]}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize(
    ("kernel", "implementation", "make"),
    [(*e, make) for e in FAST for make in OPTIMIZERS.get(e[0], ())],
)
@pytest.mark.parametrize("steps", [5, 9])  # RAdam rectifies from the sixth on
def test_optimizers_agree_with_ref(
    kernel: str, implementation: str, make: Any, steps: int, tables: bool, dtype: str
):
    # More tensors than the parameters of one CUDA kernel launch can hold.
    shapes = [(1,), (3,), (17, 5), (0, 4), (69, 131), (300, 517), *[(7,)] * 40]

    def train() -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        params = [
            _core.Tensor(
                round_to(rng.standard_normal(s), dtype), dtype=dtype, requires_grad=True
            )
            for s in shapes
        ]
        optimizer = make(params, lr=1e-2, weight_decay=0.1)
        for _ in range(steps):
            for p in params:
                if tables and len(p.shape) == 2 and p.shape[0] > 9:
                    # Only some rows have a gradient: runs of rows, and single rows.
                    ids = rng.integers(0, p.shape[0], 8)
                    ids[:4] = p.shape[0] - np.arange(1, 5)
                    rows = _core.ops.embedding(p, ids)
                    g = round_to(rng.standard_normal(rows.shape), dtype)
                    rows.backward(_core.Tensor(g, dtype=dtype))
                    continue
                g = round_to(rng.standard_normal(p.shape), dtype)
                p.grad = _core.Tensor(g, dtype=dtype)
            optimizer.step()
            optimizer.zero_grad()
        state = [v for k, v in optimizer.state_dict().items() if k != "step"]
        return [np.array(np.asarray(tensor)) for tensor in params + state]

    with forced(("*", "ref")):
        want = train()
    before = kernel_calls(kernel, implementation)
    try:
        with forced(("*", "ref"), (kernel, implementation)):
            got = train()
    except errors.KernelNotFound:
        assert dtype == "float64", f"{implementation} does not take {dtype}"
        return  # ref alone computes in float64
    assert kernel_calls(kernel, implementation) - before == steps
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        of = {np.dtype(np.float32): "float32", np.dtype(np.float64): "float64"}
        kind = of.get(theirs.dtype, "bfloat16")
        # A few roundings each step.
        assert_agrees(ours, theirs, dtype=kind, terms=5 * steps, at=f"{i}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "implementation", [i for k, i in FAST if k == "sum_of_squares"]
)
@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
def test_gradient_norm_agrees_with_ref(implementation: str, dtype: str, bad):
    rng = np.random.default_rng(2)
    params = []
    for shape in [(1,), (0,), (3, 17), (69, 131), (700, 517), *[(5,)] * 150]:
        values = round_to(rng.standard_normal(shape), dtype)
        p = _core.Tensor(np.zeros_like(values), dtype=dtype, requires_grad=True)
        p.grad = _core.Tensor(values, dtype=dtype)
        params.append(p)
    if bad is not None:
        values = np.array(np.asarray(params[3].grad))
        values[68, 130] = bad
        params[3].grad = _core.Tensor(values, dtype=dtype)

    with forced(("*", "ref")):
        want = _core.clip_grad_norm(params, 1e9)
    before = kernel_calls("sum_of_squares", implementation)
    try:
        with forced(("*", "ref"), ("sum_of_squares", implementation)):
            got = _core.clip_grad_norm(params, 1e9)
    except errors.KernelNotFound:
        assert dtype == "float64", f"{implementation} does not take {dtype}"
        return  # ref alone computes in float64
    assert kernel_calls("sum_of_squares", implementation) == before + 1
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", ["record_loss", "step_scale"])
def test_a_step_log_is_what_it_says(kernel: str, dtype: str):
    for implementation in (one for k, one in ENTRIES if k == kernel):
        before = kernel_calls(kernel, implementation)
        try:
            with forced(("*", "ref"), (kernel, implementation)):
                check_step_log(dtype)
        except errors.KernelNotFound:
            assert dtype == "float64", f"{implementation} does not take {dtype}"
            continue
        assert kernel_calls(kernel, implementation) > before


def check_step_log(dtype: str) -> None:
    """Compares losses, norms and factors of six steps, the fourth bad, with Python."""
    rng = np.random.default_rng(3)
    log, params = _core.StepLog(), []
    for shape in ((3, 17), (5,)):
        zeros = np.zeros(shape, np.float32)
        params.append(_core.Tensor(zeros, dtype=dtype, requires_grad=True))
    for spoil in ("loss", "gradient"):
        want, fine = [], True
        for step in range(6):
            loss = 0.0
            for share in (0.75, 0.25):
                part = _core.Tensor(rng.standard_normal(()), dtype=dtype)
                if step == 3 and spoil == "loss":
                    part = _core.Tensor(np.float32(np.inf), dtype=dtype)
                log.add_loss(part, share)
                loss += share * part.item()
            squares = 0.0
            for p in params:
                g = round_to(rng.standard_normal(p.shape), dtype)
                if step == 3 and spoil == "gradient":
                    g.flat[2] = np.nan
                p.grad = _core.Tensor(g, dtype=dtype)
                squares += float((g.astype(np.float64) ** 2).sum())
            fine = fine and math.isfinite(loss) and math.isfinite(squares)
            max_norm = (0.0, 2.0, 1e9)[step % 3]
            scale = log.finish(params, max_norm).item()
            norm = math.sqrt(squares)
            if fine:
                expected = min(1.0, max_norm / (norm + 1e-6)) if max_norm else 1.0
                assert scale == pytest.approx(expected, rel=1e-14)
            else:
                assert math.isnan(scale)
            want.append((loss, norm, fine))
        assert log.steps == 6
        for found, expected in zip(log.look(), want, strict=True):
            assert found[0] == expected[0]  # infinities too
            assert found[1] == pytest.approx(expected[1], rel=1e-14, nan_ok=True)
            assert found[2] == expected[2]
        assert log.steps == 0
        assert log.look() == []
