"""conv1d, weight norm and batch norm of packed sequences, compared with torch."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import functional as F

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
pytestmark = pytest.mark.parity
LENGTHS = (17, 1, 40, 7, 29)
BOUNDS = {"float64": 1e-12, "float32": 2e-5}


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def both(arrays, dtype):
    """Returns the same leaves as our tensors and as torch tensors."""
    mine = [ea.Tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    theirs = [
        torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=True) for a in arrays
    ]
    return mine, theirs


def close(found, expected, dtype, what=""):
    found = np.asarray(found, np.float64)
    expected = np.asarray(expected.detach(), np.float64)
    assert found.shape == expected.shape, what
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    assert np.abs(found - expected).max(initial=0.0) <= BOUNDS[dtype] * scale, what


def compare(ours, theirs, mine, others, dtype):
    """Compares outputs, and the gradients of all leaves for one random cotangent."""
    close(ours, theirs, dtype, "output")
    (dy,) = draw(ours.shape, seed=1)
    ours.backward(ea.Tensor(dy, dtype=dtype))
    theirs.backward(torch.tensor(dy, dtype=theirs.dtype))
    for number, (tensor, other) in enumerate(zip(mine, others, strict=True)):
        close(tensor.grad, other.grad, dtype, f"gradient {number}")


def one_by_one(x, weight, bias, dilation, causal):
    """Applies torch's convolution to each sequence separately."""
    span, rows, begin = (weight.shape[2] - 1) * dilation, [], 0
    before = span if causal else span // 2
    for n in LENGTHS:
        channels = x[begin : begin + n].T[None]
        padded = torch.nn.functional.pad(channels, (before, span - before))
        y = torch.nn.functional.conv1d(padded, weight, bias, dilation=dilation)
        rows.append(y[0].T)
        begin += n
    return torch.cat(rows)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dilation", [1, 2, 16])
@pytest.mark.parametrize("sizes", [(48, 96, 3), (128, 64, 3), (5, 7, 5), (3, 33, 1)])
def test_conv1d(sizes, dilation, causal, dtype):
    channels, out, kernel = sizes
    arrays = draw((sum(LENGTHS), channels), (out, channels, kernel), (out,))
    arrays[1] /= np.sqrt(channels * kernel)
    mine, others = both(arrays, dtype)
    packing = F.Packing(1, np.cumsum([0, *LENGTHS]))
    ours = F.conv1d(*mine, packing, dilation=dilation, causal=causal)
    theirs = one_by_one(*others, dilation, causal)
    compare(ours, theirs, mine, others, dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_weight_normed_convolution(dtype):
    layer = torch.nn.Conv1d(6, 9, 3, dilation=2, dtype=getattr(torch, dtype))
    layer = torch.nn.utils.parametrizations.weight_norm(layer, dim=0)
    held = layer.parametrizations.weight
    g, v = held.original0, held.original1
    mine, _ = both([p.detach().double().numpy() for p in (v, g)], dtype)
    x = draw((1, 6, 21))[0]
    theirs = layer(torch.tensor(x, dtype=v.dtype))[0].T
    weight = F.weight_norm(*mine)
    assert weight.shape == (9, 6, 3)
    close(weight, layer.weight, dtype)
    bias = ea.Tensor(layer.bias.detach().numpy())
    rows = ea.Tensor(x[0].T.copy(), dtype=dtype)
    ours = F.conv1d(rows, weight, bias, F.Packing(1, [0, 21]), dilation=2, causal=True)
    compare(ours[4:], theirs, mine, [v, g], dtype)
    assert mine[1].grad.shape == (9, 1, 1)


def norm_pair(channels, dtype):
    """Returns torch's batch norm with random weights, ours, and running statistics."""
    arrays = draw((channels,), (channels,), seed=3)
    layer = torch.nn.BatchNorm1d(channels, eps=1e-4, dtype=getattr(torch, dtype))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(arrays[0]))
        layer.bias.copy_(torch.tensor(arrays[1]))
    running = [
        ea.Tensor(np.zeros(channels), dtype=dtype),
        ea.Tensor(np.ones(channels), dtype=dtype),
    ]
    mine, _ = both(arrays, dtype)
    return layer, mine, running


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(2, 3), (94, 48), (700, 129)])
def test_batch_norm(shape, dtype):
    layer, (weight, bias), running = norm_pair(shape[1], dtype)
    for step in range(4):
        layer.train(step < 3)
        layer.zero_grad()
        weight.grad = bias.grad = None
        (array,) = draw(shape, seed=10 + step)
        (x,), (other,) = both([3.0 + 2.0 * array], dtype)
        ours = F.batch_norm(x, weight, bias, *running, step < 3, 0.1, 1e-4)
        leaves = [other, layer.weight, layer.bias]
        compare(ours, layer(other), [x, weight, bias], leaves, dtype)
        close(running[0], layer.running_mean, dtype, "running mean")
        close(running[1], layer.running_var, dtype, "running variance")


def test_padding_does_not_count_in_packed_rows():
    """Statistics of packed rows equal those of torch on rows with padding removed."""
    layer, (weight, bias), running = norm_pair(5, "float64")
    (x,) = draw((sum(LENGTHS), 5))
    ours = F.batch_norm(ea.Tensor(x), weight, bias, *running, training=True, eps=1e-4)
    padded = np.zeros((len(LENGTHS), max(LENGTHS), 5))
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    padded[mask] = x
    close(ours, layer(torch.tensor(padded[mask])), "float64")
    everything = layer(torch.tensor(padded).transpose(1, 2)).transpose(1, 2)
    assert np.abs(everything.detach().numpy()[mask] - np.asarray(ours)).max() > 0.1
