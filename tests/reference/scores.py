"""Scores and relative positions in NumPy, for one sequence and all its heads.

    dot:      S_ij = q_i . k_j / sqrt(d)
    Shaw:     S_ij += q_i . r_{clip(j - i)} / sqrt(d)
              y_i += sum_j P_ij r'_{clip(j - i)}
    multiplicative:      S_ij = q_i . W k_j / sqrt(d)
    additive:            S_ij = w . tanh(k_j + q_i)
    concatenative:       S_ij = LeakyReLU(a . [q_i; k_j])
    dense synthesizer:   S_ij = (W_2 relu(q_i) + b_2)_j
    random synthesizer:  S_ij = R_ij
    mixed:    m_1 S_ij + m_2 q_i . k_j / sqrt(d),  (m_1, m_2) = softmax(mixture)

q, k [N, heads, d]; scores [heads, N, N].
"""

from __future__ import annotations

import numpy as np


def dot(q, k):
    return np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[2])


def multiplicative(q, k, weight):
    """Returns scores; weight [heads, d, d]."""
    return np.einsum("ihc,hcd,jhd->hij", q, weight, k) / np.sqrt(q.shape[2])


def additive(q, k, weight):
    """Returns scores; weight [heads, d]."""
    return np.einsum("hd,ijhd->hij", weight, np.tanh(k[None, :] + q[:, None]))


def concatenative(q, k, weight, slope):
    """Returns scores; weight [2, heads, d], for queries and for keys."""
    of_query, of_key = np.einsum("shd,sihd->shi", weight, np.stack([q, k]))
    made = of_query[:, :, None] + of_key[:, None, :]
    return np.where(made > 0, made, slope * made)


def distances(n, farthest):
    """Returns [N, N]: the table row for key j and query i."""
    i = np.arange(n)
    return np.clip(i[None, :] - i[:, None], -farthest, farthest) + farthest


def shaw(q, table):
    """Returns relative position scores; table [2 farthest + 1, d]."""
    rows = table[distances(len(q), len(table) // 2)]
    return np.einsum("ihd,ijd->hij", q, rows) / np.sqrt(q.shape[2])


def shaw_values(probabilities, table):
    """Returns the relative positions' part of the context [N, heads, d]."""
    rows = table[distances(probabilities.shape[1], len(table) // 2)]
    return np.einsum("hij,ijd->ihd", probabilities, rows)


def dense_synthesizer(q, weight, bias):
    """Returns scores; weight [positions, heads, d], bias [positions, heads, 1]."""
    n, heads, _ = q.shape
    found = np.empty((heads, n, n))
    for h in range(heads):
        for i in range(n):
            hidden = np.maximum(q[i, h], 0.0)
            for j in range(n):
                found[h, i, j] = weight[j, h] @ hidden + bias[j, h, 0]
    return found


def random_synthesizer(n, weight):
    """Returns scores; weight [heads, positions, positions]."""
    return weight[:, :n, :n]


def mixed(made, q, k, mixture):
    shares = np.exp(mixture) / np.exp(mixture).sum()
    return shares[0] * made + shares[1] * dot(q, k)
