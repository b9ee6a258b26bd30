"""Synthesizer's score kinds: scores from positions, without query-key products."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Score, register


@register("dense_synthesizer")
@dataclass(frozen=True)
class DenseSynthesizer(Score):
    """S_ij = w_j · ReLU(q_i) + b_j: each token computes its scores for all positions.

    With the layer's own projection q = W₁x + b₁, this is the paper's
    F(x_i) = W₂ ReLU(W₁ x_i + b₁) + b₂, for each head. Keys are not projected, unless
    ``dot`` needs them.

    Args:
        max_length: the number of positions j; longer sequences raise ShapeError.
        dot: mix with the dot product: m₁ S_ij + m₂ q_i · k_j / √d, where (m₁, m₂) is
            the softmax of two learned numbers that start at (0, 0).

    Parameters: ``score.weight`` [max_length, heads, d], ``score.bias`` [max_length,
    heads, 1], and with ``dot`` ``score.mixture`` [2].

    Raises:
        ConfigError: an option is out of range.

    Source: Tay et al., Synthesizer: Rethinking Self-Attention in Transformer Models,
    2020 (Dense Synthesizer; mixtures). Table 3 of Wang et al., ICML 2021, compares with
    it.
    """

    max_length: int = 512
    dot: bool = False


@register("random_synthesizer")
@dataclass(frozen=True)
class RandomSynthesizer(Score):
    """S_ij = R_ij: a trained matrix for each head, shared by all sequences.

    Queries and keys are not projected, unless ``dot`` or a bias needs them.

    Args:
        max_length: the size of R; longer sequences raise ShapeError.
        dot: mix with the dot product, as in :class:`DenseSynthesizer`.

    Parameters: ``score.weight`` [heads, max_length, max_length], and with ``dot``
    ``score.mixture`` [2].

    Raises:
        ConfigError: an option is out of range.

    Source: Tay et al., Synthesizer: Rethinking Self-Attention in Transformer Models,
    2020 (Random Synthesizer).
    """

    max_length: int = 512
    dot: bool = False
