"""Vanilla attention: the maps of a layer are its own scores."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Evolve, register


@register("vanilla")
@dataclass(frozen=True)
class Vanilla(Evolve):
    """Plain scaled dot-product attention: L = S.

    Source: Vaswani et al., Attention Is All You Need, NeurIPS 2017.
    """

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention: always."""
        return True
