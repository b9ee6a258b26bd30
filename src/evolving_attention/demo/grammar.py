"""The constructions of the acceptability data set: each generates a minimal pair.

A construction is a function from :class:`Words` (a seeded chooser of words from one
half of the lexicon) to ``(acceptable, unacceptable)``. The two sentences differ in one
point of grammar. Wherever the language allows it, they contain the same words, or the
deciding word is right as often as wrong, so that counting words does not help.
"""

from __future__ import annotations

from evolving_attention.demo import agreement, structure
from evolving_attention.demo.words import Construction, Words

__all__ = ["CONSTRUCTIONS", "Construction", "Words"]

CONSTRUCTIONS: list[Construction] = [
    *agreement.CONSTRUCTIONS,
    *structure.CONSTRUCTIONS,
]
"""All constructions, in the order in which the data set cycles through them."""
