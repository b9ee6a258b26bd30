"""Scope kinds: which cells of a map exist, and how values are gathered from them."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Scope, check_in_core, register

__all__ = ["Dense"]


@register("dense")
@dataclass(frozen=True)
class Dense(Scope):
    """Every query sees every key of its own sequence.

    Args:
        causal: only keys up to the query's own place. Cells beyond do not exist: they
            are 0 in the maps that evolve, and get no gradient.

    Raises:
        ConfigError: ``causal`` is not True or False.

    Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """

    causal: bool = False

    def __post_init__(self) -> None:
        check_in_core(self)
