"""T5's relative positions: one number per distance bucket and head."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Bias, register


@register("buckets")
@dataclass(frozen=True)
class BucketedPositions(Bias):
    """S_ij += b[bucket(j − i), head], one table b for all layers of a stack.

    In each direction, half of the buckets hold one distance each; the others grow with
    the logarithm of the distance. All layers of a stack add the map of the first layer,
    so that layer must have this bias if any has it.

    Args:
        num_buckets: rows of the table.
        max_distance: distances from here on share the last bucket.
        bidirectional: whether later keys have their own buckets; with False all buckets
            are for earlier keys, as in a decoder, which sees no later ones.
        initial_std: standard deviation of the table's initial values; None:
            1/√(heads · d).

    Parameters: ``relative_attention_bias.weight`` [num_buckets, heads] of layer 0.

    Raises:
        ConfigError: a number is out of range, num_buckets is odd with both directions,
            or max_distance leaves no distance for the growing buckets.

    Source: Raffel et al., Exploring the Limits of Transfer Learning, JMLR 2020, Section
    2.1; inside the chain of evolving maps as in Wang et al., ICML 2021, Eq. 2.
    """

    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True
    initial_std: float | None = None
