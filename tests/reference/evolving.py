"""Evolving Attention (Wang et al., ICML 2021, Eq. 2-4) in NumPy, for one sequence.

    layer 1:   L = S
    layer i:   I = alpha L_prev + (1 - alpha) S
               L = beta relu(Conv(I) + bias) + (1 - beta) I
    always:    P = softmax(L) over the allowed keys; the next layer receives L

alpha weighs the skip, beta the convolution, as in the paper. Cells disallowed by
``allowed`` are 0 in convolved and carried maps, and get probability exactly 0.
"""

from __future__ import annotations

import numpy as np


def conv_map(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Cross-correlates a map [K, N, M] with [K, K, k, k], zero-padded to equal size."""
    heads, rows, columns = x.shape
    size = weight.shape[-1]
    out = np.zeros((weight.shape[0], rows, columns))
    for o, i, j in np.ndindex(out.shape):
        total = float(bias[o])
        for c, a, b in np.ndindex(heads, size, size):
            row, column = i + a - size // 2, j + b - size // 2
            if 0 <= row < rows and 0 <= column < columns:
                total += weight[o, c, a, b] * x[c, row, column]
        out[o, i, j] = total
    return out


def masked_softmax(logits: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Softmax over keys; disallowed cells get 0, rows without keys are all 0."""
    allowed = np.broadcast_to(True if allowed is None else allowed, logits.shape)
    shift = np.where(allowed, logits, -np.inf).max(-1, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    e = np.where(allowed, np.exp(np.where(allowed, logits - shift, 0.0)), 0.0)
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-300)


def chain(scores, weights, biases, alpha, beta, allowed=None):
    """Run S of all layers [D, K, N, N] -> (maps L, probabilities P), same shape.

    ``weights[i]`` [K, K, k, k] and ``biases[i]`` [K] belong to layer i (from 0);
    entry 0 is never read, nor is any if beta is 0. ``allowed`` is bool [N, N].
    """
    keep = 1.0 if allowed is None else allowed.astype(float)
    maps = []
    for i, s in enumerate(np.asarray(scores, np.float64)):
        level = s * keep
        if i > 0:
            mixed = alpha * maps[-1] + (1.0 - alpha) * level
            level = mixed
            if beta != 0.0:
                grown = np.maximum(conv_map(mixed, weights[i], biases[i]), 0.0)
                level = (beta * grown + (1.0 - beta) * mixed) * keep
        maps.append(level)
    return np.stack(maps), np.stack([masked_softmax(m, allowed) for m in maps])
