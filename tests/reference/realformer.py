"""RealFormer (He et al., 2021): residual attention scores, in NumPy for one sequence.

C_l = C_{l-1} + S_l,  C_0 = S_0;   P_l = softmax(C_l),  or softmax(C_l / (l + 1))
with the running mean (l counts from 0). The next layer receives the sum C_l,
undivided even then.
"""

from __future__ import annotations

import numpy as np

from reference.evolving import masked_softmax


def chain(scores, running_mean=False, allowed=None):
    """Run S of all layers [D, K, N, N] -> (carried sums C, probabilities P).

    Disallowed cells (``allowed`` bool [N, N]) are 0 in C and get probability 0.
    """
    keep = 1.0 if allowed is None else allowed.astype(float)
    sums = np.cumsum(np.asarray(scores, np.float64) * keep, axis=0)
    shown = [c / (i + 1) if running_mean else c for i, c in enumerate(sums)]
    return sums, np.stack([masked_softmax(x, allowed) for x in shown])
