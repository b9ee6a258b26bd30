"""Convolutional self-attention (Yang et al., NAACL 2019) in plain loops."""

from __future__ import annotations

import numpy as np

BORDERS = ("clip", "wrap", "clamp", "author")


def neighbour(h: int, shift: int, heads: int, border: str, values: bool) -> int | None:
    """Returns the head at distance ``shift`` from h, or None if there is none."""
    g = h + shift
    if 0 <= g < heads:
        return g
    if border == "clip":
        return None
    if border == "wrap" or (border == "author" and not values):
        return g % heads
    return 0 if g < 0 else heads - 1


def attend(q, k, v, size: int, span: int, border: str, scale: float):
    """Computes one sequence: q, k, v [heads, n, d].

    Returns:
        (context [heads, n, d], probabilities [heads, n, span, n]).
    """
    heads, n, d = q.shape
    out = np.zeros(v.shape)
    probabilities = np.zeros((heads, n, span, n))
    for h in range(heads):
        for i in range(n):
            seen: list[tuple[int, int, int, int]] = []
            scores = []
            for a in range(span):
                keys = neighbour(h, a - span // 2, heads, border, False)
                values = neighbour(h, a - span // 2, heads, border, True)
                for j in range(n):
                    if abs(i - j) > size // 2 or keys is None or values is None:
                        continue
                    product = 0.0
                    for e in range(d):
                        product += q[h, i, e] * k[keys, j, e]
                    scores.append(scale * product)
                    seen.append((a, j, keys, values))
            weights = np.exp(np.array(scores) - max(scores))
            weights /= weights.sum()
            for weight, (a, j, _, values) in zip(weights, seen, strict=True):
                probabilities[h, i, a, j] = weight
                for e in range(v.shape[2]):
                    out[h, i, e] += weight * v[values, j, e]
    return out, probabilities
