"""Slots of the attention layer written in Python: scores, scopes and biases.

Each is a frozen dataclass with ``@register("name")``, as a :class:`CustomEvolve` is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from evolving_attention._core import Packing, Tensor
from evolving_attention.attention.base import Bias, Scope, Score, StepContext

__all__ = ["CustomBias", "CustomScope", "CustomScore"]


class _Custom:
    """What these slots share."""

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        """Initial values of one layer's parameters, by name (none by default).

        They train with the model and are stored below ``attention.self`` as
        ``{slot}.{name}``.
        """
        return {}

    def to_core(self) -> Any:
        """The object itself: the core calls its methods."""
        return self


class CustomScore(_Custom, Score):
    """Base of score kinds written in Python."""

    kind: ClassVar[str] = "custom"

    def scores(
        self,
        q: Tensor,
        k: Tensor,
        dot: Callable[[Tensor, Tensor, float], Tensor],
        pair_sum: Callable[[Tensor, Tensor], Tensor],
        context: StepContext,
    ) -> Tensor:
        """Flat maps S of this layer.

        Args:
            q, k: projected queries and keys [tokens, heads · d].
            dot: ``dot(q, k, scale)``, flat maps of scale · q_i · k_j over the scope.
            pair_sum: ``pair_sum(u, v)``, u_i + v_j for each cell, c values a cell; u
                and v [tokens, heads · c].
            context: layer, packing, parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores()")


class CustomBias(_Custom, Bias):
    """Base of bias kinds written in Python."""

    kind: ClassVar[str] = "custom"

    def map(self, q: Tensor, context: StepContext) -> Tensor:
        """Flat maps that are added to the scores, one value for each cell.

        Args:
            q: projected queries [tokens, heads · d].
            context: layer, packing, parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map()")


class CustomScope(_Custom, Scope):
    """Base of scope kinds written in Python: which cells exist.

    Attributes:
        grid: whether neighbouring cells are neighbours in queries and keys, so that
            kernels larger than 1 × 1 have a meaning.
        causal: whether a query sees nothing behind its own place.
    """

    kind: ClassVar[str] = "custom"
    grid: ClassVar[bool] = False
    causal: ClassVar[bool] = False

    def maps(self, tokens: Packing) -> Packing | None:
        """How the maps lie: heads × rows × columns of each sequence.

        Args:
            tokens: where the sequences of queries and keys lie.

        Returns:
            A packing of the cells; None where all pairs of queries and keys are cells.
        """
        return None

    def dot(self, q: Tensor, k: Tensor, scale: float, context: StepContext) -> Tensor:
        """Flat maps of scale · q_i · k_j; q, k [tokens, heads · d]."""
        raise NotImplementedError(f"{type(self).__name__} has no dot()")

    def pair_sum(self, u: Tensor, v: Tensor, context: StepContext) -> Tensor:
        """Flat maps of u_i + v_j, c values a cell; u, v [tokens, heads · c]."""
        raise NotImplementedError(f"{type(self).__name__} has no pair_sum()")

    def normalise(self, logits: Tensor, scale: float, context: StepContext) -> Tensor:
        """Softmax of scale · L over the cells of each query and head."""
        raise NotImplementedError(f"{type(self).__name__} has no normalise()")

    def mix(self, probabilities: Tensor, v: Tensor, context: StepContext) -> Tensor:
        """[query tokens, heads · d] from probabilities and values."""
        raise NotImplementedError(f"{type(self).__name__} has no mix()")
