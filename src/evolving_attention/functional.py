"""Differentiable functions on tensors: ``ea.functional``.

All of the core's operations (``ea.functional.relu``, ``map_conv``, …) and
:func:`evolving_attention`, the whole attention step on dense arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evolving_attention import _core
from evolving_attention._core import Packing, ops
from evolving_attention.errors import ShapeError

__all__ = ["Packing", "evolving_attention", *_core.op_names()]

globals().update({name: getattr(ops, name) for name in _core.op_names()})


def evolving_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    prev: Any | None = None,
    weight: Any | None = None,
    bias: Any | None = None,
    alpha: float = 0.0,
    beta: float = 0.0,
    mask: Any | None = None,
    scale: float | None = None,
) -> tuple[_core.Tensor, _core.Tensor]:
    """Evolving attention of dense arrays, with gradients.

    With S = scale · q kᵀ and M = ``prev``:

        I = α M + (1 − α) S,   L = β ReLU(Conv(I)) + (1 − β) I,   o = softmax(L) v

    and L = S when ``prev`` is None (the first layer of a chain).

    Args:
        q: queries [B, H, T, d].
        k, v: keys and values [B, H, S, d].
        prev: maps of the previous layer [B, H, T, S], or None.
        weight: convolution weight [H, H, k, k], needed where β > 0 and prev is given.
        bias: convolution bias [H]; zeros when left out.
        alpha, beta: α and β, in [0, 1].
        mask: which keys may be seen, [B, S] of 0 and 1; masked keys get probability
            exactly 0. Their scores are set to 0 before they are mixed or convolved.
        scale: default 1/√d.

    Returns:
        (o, L): context [B, H, T, d], and the maps [B, H, T, S] to carry on.

    Raises:
        ShapeError: shapes do not fit.

    Source: Wang et al., ICML 2021, Eq. 4.
    """
    q, k, v = _tensor(q), _tensor(k), _tensor(v)
    if q.ndim != 4 or k.shape != v.shape or k.ndim != 4 or q.shape[:2] != k.shape[:2]:
        raise ShapeError(
            f"evolving_attention: q {q.shape}, k {k.shape}, v {v.shape}; expected "
            "[batch, heads, queries, d] and twice [batch, heads, keys, d]"
        )
    batch, heads, n_q, width = q.shape
    n_k = k.shape[2]
    packing = Packing(
        heads, np.arange(batch + 1) * n_q, key_offsets=np.arange(batch + 1) * n_k
    )
    maps = (batch, heads, n_q, n_k)
    factor = 1 / math.sqrt(width) if scale is None else scale
    scores = ops.attention_scores(_tokens(q), _tokens(k), packing, factor)
    keys, cells = None, None
    if mask is not None:
        seen = np.asarray(mask).astype(bool)
        if seen.shape != (batch, n_k):
            raise ShapeError(
                f"evolving_attention: mask has shape {seen.shape}, expected "
                f"{(batch, n_k)}: one 0 or 1 for each key"
            )
        keys = _core.Tensor(seen.astype(np.uint8).reshape(-1))
        dense = np.broadcast_to(seen[:, None, None, :], maps).reshape(-1)
        cells = _core.Tensor(dense.astype(np.float32), dtype=q.dtype)
        scores = scores * cells
    logits = scores
    if prev is not None:
        coefficients = (
            alpha,
            1 - alpha,
            alpha * (1 - beta),
            (1 - alpha) * (1 - beta),
            beta,
        )
        flat = _tensor(prev).reshape(-1)
        kernel = None if weight is None else _tensor(weight)
        if kernel is not None and bias is None:
            bias = _core.Tensor(np.zeros(heads), dtype=kernel.dtype)
        shift = None if bias is None else _tensor(bias)
        logits = ops.evolve(flat, scores, kernel, shift, coefficients, packing)
        if cells is not None:
            logits = logits * cells
    probabilities = ops.map_softmax(logits, packing, 1.0, keys)
    context = ops.attention_context(probabilities, _tokens(v), packing)
    dense = context.reshape(batch, n_q, heads, width).transpose(1, 2)
    return dense, logits.reshape(*maps)


def _tensor(value: Any) -> _core.Tensor:
    return value if isinstance(value, _core.Tensor) else _core.Tensor(value)


def _tokens(x: _core.Tensor) -> _core.Tensor:
    """[B, H, T, d] as token rows [B·T, H·d]."""
    batch, heads, n, width = x.shape
    return x.transpose(1, 2).reshape(batch * n, heads * width)
