"""Convolution, pooling and batch norm of images, compared with torch."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import functional as F

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
pytestmark = pytest.mark.parity
BOUNDS = {"float64": 1e-12, "float32": 2e-5}
IMAGES = [(2, 6, 9, 8), (1, 12, 17, 5), (3, 6, 4, 4)]


def both(arrays, dtype):
    """Returns the same leaves as our tensors and as torch tensors."""
    mine = [ea.Tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    kind = getattr(torch, dtype)
    return mine, [torch.tensor(a, dtype=kind, requires_grad=True) for a in arrays]


def compare(ours, theirs, mine, others, dtype):
    """Compares outputs, and the gradients of all leaves for one random cotangent."""
    dy = np.random.default_rng(1).standard_normal(ours.shape)
    assert ours.shape == tuple(theirs.shape)
    ours.backward(ea.Tensor(dy, dtype=dtype))
    theirs.backward(torch.tensor(dy, dtype=theirs.dtype))
    pairs = [
        (ours, theirs),
        *((a.grad, b.grad) for a, b in zip(mine, others, strict=True)),
    ]
    for number, (found, expected) in enumerate(pairs):
        want = expected.detach().double().numpy()
        bound = BOUNDS[dtype] * max(1.0, np.abs(want).max(initial=0.0))
        error = np.abs(np.asarray(found, np.float64) - want).max(initial=0.0)
        assert error <= bound, f"result {number}"


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(
    "settings",
    [
        {"padding": 1},
        {"stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
        {"groups": 3, "padding": 1},
        {"groups": 6},
    ],
    ids=str,
)
@pytest.mark.parametrize("images", IMAGES, ids=str)
def test_conv2d(images, settings, dtype):
    rng = np.random.default_rng(0)
    groups = settings.get("groups", 1)
    shapes = images, (12, images[1] // groups, 3, 3), (12,)
    mine, others = both([rng.standard_normal(shape) for shape in shapes], dtype)
    ours = F.conv2d(*mine, **settings)
    compare(ours, torch.nn.functional.conv2d(*others, **settings), mine, others, dtype)


POOLS = [
    ("max_pool2d", {"kernel_size": 2}),
    ("max_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ("max_pool2d", {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 1)}),
    ("avg_pool2d", {"kernel_size": 2}),
    ("avg_pool2d", {"kernel_size": 3, "stride": 2, "padding": 1}),
    (
        "avg_pool2d",
        {"kernel_size": 3, "stride": (3, 2), "padding": 1, "ceil_mode": True},
    ),
    (
        "avg_pool2d",
        {
            "kernel_size": (3, 2),
            "stride": 2,
            "padding": 1,
            "ceil_mode": True,
            "count_include_pad": False,
        },
    ),
    *(
        (f"adaptive_{kind}_pool2d", {"output_size": size})
        for kind in ("avg", "max")
        for size in (1, (2, 3), (4, 4), 13)
    ),
]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("pool", "settings"), POOLS, ids=str)
@pytest.mark.parametrize("images", IMAGES, ids=str)
def test_pools(images, pool, settings, dtype):
    values = np.random.default_rng(0).integers(-3, 4, images)  # contains ties
    mine, others = both([values.astype(np.float64)], dtype)
    ours = getattr(F, pool)(*mine, **settings)
    theirs = getattr(torch.nn.functional, pool)(*others, **settings)
    compare(ours, theirs, mine, others, dtype)


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    ("images", "settings"),
    [
        ((1, 2, 2, 2), {"kernel_size": 3, "stride": 2}),
        ((2, 3, 1, 1), {"kernel_size": 2, "stride": 2}),  # the shortcut of ResNet-D
        ((1, 1, 4, 3), {"kernel_size": (7, 5), "stride": 4, "padding": 1}),
    ],
    ids=str,
)
def test_windows_that_reach_past_the_border(pool, images, settings):
    values = np.random.default_rng(0).standard_normal(images)
    mine, others = both([values], "float32")
    options = {**settings, "ceil_mode": True}
    ours = getattr(F, pool)(*mine, **options)
    theirs = getattr(torch.nn.functional, pool)(*others, **options)
    compare(ours, theirs, mine, others, "float32")
    with pytest.raises(ea.ShapeError, match="does not fit"):
        getattr(F, pool)(*mine, **{**options, "stride": 1})


@pytest.mark.parametrize("spoiled", [np.nan, -np.inf])
def test_a_pool_of_special_values(spoiled):
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 5))
    x[0, 0, 1:3, 1:3] = spoiled
    ours = F.max_pool2d(x, 2, stride=1)
    theirs = torch.nn.functional.max_pool2d(torch.tensor(x), 2, stride=1)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_images(training, dtype):
    rng = np.random.default_rng(0)
    shapes = (2, 6, 9, 8), (6,), (6,)
    mine, others = both([rng.standard_normal(shape) for shape in shapes], dtype)
    start = np.linspace(-0.3, 0.4, 6), np.linspace(0.5, 2.0, 6)
    running = [ea.Tensor(a, dtype=dtype) for a in start]
    kept = [torch.tensor(a, dtype=others[0].dtype) for a in start]
    ours = F.batch_norm(*mine, *running, training=training, momentum=0.2)
    theirs = torch.nn.functional.batch_norm(
        others[0], *kept, *others[1:], training=training, momentum=0.2
    )
    compare(ours, theirs, mine, others, dtype)
    for found, expected in zip(running, kept, strict=True):
        np.testing.assert_allclose(found, expected, rtol=BOUNDS[dtype])
