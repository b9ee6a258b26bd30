"""Slots of the attention layer written in Python: scores, scopes and biases.

Each is a frozen dataclass with ``@register("name")``, like a :class:`CustomEvolve`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from evolving_attention._core import Packing, Tensor
from evolving_attention.attention.base import Bias, Scope, Score, StepContext


class _Custom:
    """Common base of these slots."""

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        """Initial values of one layer's parameters, by name (none by default).

        They train with the model and are stored under ``attention.self`` as
        ``{slot}.{name}``.
        """
        return {}

    def to_core(self) -> Any:
        """Returns the object itself: the core calls its methods."""
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
        """Returns the flat maps S of this layer.

        Args:
            q, k: projected queries and keys [tokens, heads · d].
            dot: ``dot(q, k, scale)`` returns flat maps of scale · q_i · k_j over the
                scope.
            pair_sum: ``pair_sum(u, v)`` returns u_i + v_j for each cell, c values per
                cell; u and v are [tokens, heads · c].
            context: layer, packing, parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores()")


class CustomBias(_Custom, Bias):
    """Base of bias kinds written in Python."""

    kind: ClassVar[str] = "custom"

    def map(self, q: Tensor, context: StepContext) -> Tensor:
        """Returns flat maps to add to the scores, one value per cell.

        Args:
            q: projected queries [tokens, heads · d].
            context: layer, packing, parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map()")


class CustomScope(_Custom, Scope):
    """Base of scope kinds written in Python: which cells exist.

    Attributes:
        grid: whether adjacent cells are adjacent queries and keys, so that kernels
            larger than 1 × 1 are meaningful.
        causal: whether a query sees nothing after its own position.
    """

    kind: ClassVar[str] = "custom"
    grid: ClassVar[bool] = False
    causal: ClassVar[bool] = False

    def maps(self, tokens: Packing) -> Packing | None:
        """Returns the layout of the maps: heads × rows × columns of each sequence.

        Args:
            tokens: layout of the sequences of queries and keys.

        Returns:
            A packing of the cells; None if all pairs of queries and keys are cells.
        """
        return None

    def dot(self, q: Tensor, k: Tensor, scale: float, context: StepContext) -> Tensor:
        """Returns flat maps of scale · q_i · k_j; q, k [tokens, heads · d]."""
        raise NotImplementedError(f"{type(self).__name__} has no dot()")

    def pair_sum(self, u: Tensor, v: Tensor, context: StepContext) -> Tensor:
        """Returns flat maps u_i + v_j, c values per cell; u, v [tokens, heads · c]."""
        raise NotImplementedError(f"{type(self).__name__} has no pair_sum()")

    def normalise(self, logits: Tensor, scale: float, context: StepContext) -> Tensor:
        """Returns the softmax of scale · L over the cells of each query and head."""
        raise NotImplementedError(f"{type(self).__name__} has no normalise()")

    def mix(self, probabilities: Tensor, v: Tensor, context: StepContext) -> Tensor:
        """Returns [query tokens, heads · d] from probabilities and values."""
        raise NotImplementedError(f"{type(self).__name__} has no mix()")
