"""Predictive Attention Transformer, in NumPy for one sequence.

    layer 1:   L = S
    layer i:   L = alpha F(L_prev) + (1 - alpha) S,   F = m x [Conv, + bias, relu]
               (m = 0: F is the identity);   P = softmax(L);   the next layer receives L

Unlike Evolving Attention the convolutions never see S of their own layer.
"""

from __future__ import annotations

import numpy as np

from reference.evolving import conv_map, masked_softmax


def chain(scores, weights, biases, alpha, allowed=None):
    """Run S of all layers [D, K, N, N] -> (maps L, probabilities P), same shape.

    ``weights[i]`` and ``biases[i]`` list one entry per convolution of layer i (from 0;
    entry 0 is never read). Disallowed cells (``allowed`` bool [N, N]) are 0 before all
    convolutions and in the carried map, and get probability 0.
    """
    keep = 1.0 if allowed is None else allowed.astype(float)
    maps = []
    for i, s in enumerate(np.asarray(scores, np.float64)):
        level = s * keep
        if i > 0:
            grown = maps[-1]
            for weight, bias in zip(weights[i], biases[i], strict=True):
                grown = np.maximum(conv_map(grown, weight, bias), 0.0) * keep
            level = alpha * grown + (1.0 - alpha) * level
        maps.append(level)
    return np.stack(maps), np.stack([masked_softmax(m, allowed) for m in maps])
