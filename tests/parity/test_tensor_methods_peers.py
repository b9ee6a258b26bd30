"""Statistics, order, parts and floor division of tensors, compared with torch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evolving_attention as ea

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
pytestmark = pytest.mark.parity
RNG = np.random.default_rng(23)
A = RNG.normal(size=(3, 4, 7))
INF, NAN = math.inf, math.nan
# Bounds of values of order 1: one rounding, but for float32's sums.
BOUNDS = {"float64": 1e-13, "float32": 2e-6, "bfloat16": 2**-7}

# Lines that are written the same for both libraries.
SAME = {
    "var": lambda x: x.var(),
    "var rows": lambda x: x.var(dim=-1, keepdim=True, unbiased=False),
    "std axes": lambda x: x.std(dim=(0, 2)),
    "std correction": lambda x: x.std(1, correction=0),
    "norm": lambda x: x.norm(),
    "norm rows": lambda x: x.norm(dim=-1, keepdim=True),
    "norm 1": lambda x: x.norm(1, dim=0),
    "norm inf": lambda x: x.norm(p=INF, dim=(0, 1)),
    "norm 0": lambda x: (x * 0.0).norm(dim=1),
    "std 0": lambda x: (x * 0.0).std(dim=1),
    "prod": lambda x: x.prod(),
    "prod axis": lambda x: x.prod(dim=1, keepdim=True),
    "prod zero": lambda x: (x - x[0].detach()).prod(dim=0),
    "cumsum": lambda x: x.cumsum(dim=1),
    "sort": lambda x: x.sort(dim=1, descending=True).values,
    "sort last": lambda x: x.sort()[0],
    "topk": lambda x: x.topk(3).values,
    "topk smallest": lambda x: x.topk(2, 0, False)[0],
    "split": lambda x: x.split(3, dim=-1)[1],
    "split sizes": lambda x: x.split([1, 4, 2], dim=2)[1],
    "chunk": lambda x: x.chunk(3, -1)[2],
    "unbind": lambda x: x.unbind(1)[-1],
    "log_softmax": lambda x: x.log_softmax(dim=1),
    "logsumexp": lambda x: x.logsumexp(dim=-1, keepdim=True),
    "logsumexp axes": lambda x: (x * 100.0).logsumexp((0, 1)),
    "remainder": lambda x: x % 0.75,
    "remainder both": lambda x: x % (x[:1] - 0.25),
    "one number": lambda x: x.sum()[...][None],
}
PLAIN = {
    "floor divide": lambda x: x // 0.75,
    "floor divide of": lambda x: 3 // x,
    "remainder of": lambda x: 1.5 % x,
    "argsort": lambda x: x.argsort(dim=1),
    "topk indices": lambda x: x.topk(4, dim=1).indices,
    "isnan": lambda x: (x / x - 1).log().isnan(),
    "isinf": lambda x: (x / x - 1).log().isinf(),
    "isfinite": lambda x: x.log().isfinite(),
}


def float64(found) -> np.ndarray:
    if isinstance(found, torch.Tensor):
        return found.detach().to(torch.float64).numpy()
    return found.detach().to("float64").numpy()


def both(array: np.ndarray, dtype: str):
    theirs = torch.tensor(array, dtype=getattr(torch, dtype))
    return ea.Tensor(theirs), theirs


def assert_same(ours, theirs, bound=0.0):
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(float64(ours), float64(theirs), rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", SAME)
def test_values_and_gradients(name, dtype):
    mine, other = both(A, dtype)
    mine.requires_grad = True
    other.requires_grad_()
    ours, theirs = SAME[name](mine), SAME[name](other)
    assert ours.dtype == str(theirs.dtype).removeprefix("torch.")
    dy = np.round(RNG.normal(size=ours.shape) * 8) / 8
    ours.backward(ea.Tensor(dy, dtype=dtype))
    theirs.backward(torch.tensor(dy, dtype=theirs.dtype))
    scale = max(1.0, np.abs(float64(other.grad)).max())
    assert_same(ours, theirs, BOUNDS[dtype] * max(1.0, np.abs(float64(theirs)).max()))
    # In bfloat16 each step of the gradient is rounded.
    assert_same(mine.grad, other.grad, BOUNDS[dtype] * scale * 4)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", PLAIN)
def test_values_without_gradients(name, dtype):
    mine, other = both(A, dtype)
    assert_same(PLAIN[name](mine), PLAIN[name](other))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_and_booleans(dtype):
    mine, other = both(np.array([[3, 0, 200, 3], [1, 1, 0, 7]]), dtype)
    for use in (
        lambda x: x.prod(dim=1),
        lambda x: x.cumsum(dim=0),
        lambda x: x.sort(dim=1, descending=True, **stable(x)).values,
        lambda x: x.argsort(dim=1, **stable(x)),
        lambda x: x.isfinite(),
        lambda x: x.isnan(),
        lambda x: x.chunk(3, dim=1)[1],
        lambda x: x.logsumexp(dim=1),
        lambda x: x // 3,
        lambda x: x % 2,
        lambda x: x[0, 0][None],
    ):
        ours, theirs = use(mine), use(other)
        assert_same(ours, theirs, 1e-6)
        kind = str(theirs.dtype).removeprefix("torch.")
        if dtype != "bool" or kind == "bool":  # torch's // of booleans is int64
            assert ours.dtype == kind


def stable(x) -> dict[str, bool]:
    """The word that makes torch keep the order of equal elements, as ours does."""
    return {"stable": True} if isinstance(x, torch.Tensor) else {}


@pytest.mark.parametrize(
    "row",
    [[NAN, 1.0, INF], [-INF, -INF], [INF, INF, 1.0], [0.0, -INF], [-0.0, 0.0], [3.0]],
    ids=str,
)
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.norm(),
        lambda x: x.norm(INF),
        lambda x: x.std(correction=0),
        lambda x: x.prod(),
        lambda x: x.cumsum(0),
        lambda x: x.logsumexp(0),
        lambda x: x.log_softmax(0),
        lambda x: x.sort(descending=True).values,
        lambda x: x.topk(1).values,
        lambda x: x.isfinite(),
        lambda x: x % 2.0,
        lambda x: x // -2.0,
        lambda x: x // 0.0,
    ],
)
def test_special_values(row, use):
    mine, other = both(np.array(row), "float32")
    np.testing.assert_allclose(float64(use(mine)), float64(use(other)), rtol=1e-6)
