"""Mistakes with functions of token pairs, packed attention maps and dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F
from mistakes.row import Row

# Two heads; 2 and 3 queries attend to 3 and 1 keys: 5 and 4 tokens, 18 cells.
OFFSETS = ([0, 2, 5], [0, 3, 4])


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def packing() -> F.Packing:
    return F.Packing(2, *OFFSETS)


def unpacked(maps: Any = None, **settings: Any) -> Any:
    """Calls unpack_maps, with some arguments changed."""
    return F.unpack_maps(ones(18) if maps is None else maps, packing(), **settings)


ROWS = {
    # --- relative_cells, relative_sums
    "relative products of other rows": Row(
        lambda _: F.relative_cells(ones(5, 3), packing()),
        ea.ShapeError,
        r"\(5, 3\)",
        r"\[relative_cells\] x",
        r"expected \(10, 2 D \+ 1\)",
    ),
    "relative products of an even number of distances": Row(
        lambda _: F.relative_cells(ones(10, 4), packing()),
        ea.ShapeError,
        r"\(10, 4\)",
        r"\[relative_cells\] x",
        r"a column for each distance -D \.\. D",
    ),
    "relative products of integers": Row(
        lambda _: F.relative_cells(ones(10, 3, dtype=int), packing()),
        ea.DTypeError,
        r"int64",
        r"relative_cells",
        r"float32, bfloat16 or float64",
    ),
    "relative sums of other maps": Row(
        lambda _: F.relative_sums(ones(17), packing(), 2),
        ea.ShapeError,
        r"17 elements",
        r"\[relative_sums\] maps",
        r"expected the packing's 18",
    ),
    "relative sums to a negative distance": Row(
        lambda _: F.relative_sums(ones(18), packing(), -1),
        ea.ConfigError,
        r"-1",
        r"\[relative_sums\] max_distance",
        r"expected 0",
    ),
    "relative sums to half a distance": Row(
        lambda _: F.relative_sums(ones(18), packing(), 1.5),
        ea.ConfigError,
        r"1\.5",
        r"relative_sums: max_distance",
        r"expected a whole number",
    ),
    # --- unpack_maps, pack_maps
    "unpacking other maps": Row(
        lambda _: unpacked(ones(17)),
        ea.ShapeError,
        r"17 elements",
        r"\[unpack_maps\] maps",
        r"expected the packing's 18",
    ),
    "unpacking into too short an array": Row(
        lambda _: unpacked(lengths=(2, 3)),
        ea.ShapeError,
        r"sequence 1 has 3 query tokens",
        r"\[unpack_maps\]",
        r"room for 2",
    ),
    "unpacking into an array beyond all memory": Row(
        lambda _: unpacked(lengths=(2**31, 2**31)),
        ea.ShapeError,
        r"\(2, 2, 2147483648, 2147483648\)",
        r"\[unpack_maps\]",
        r"more elements than memory has addresses",
    ),
    "columns of other tokens": Row(
        lambda _: unpacked(key_columns=[0, 1, 2]),
        ea.ShapeError,
        r"\(3,\)",
        r"\[unpack_maps\] key_columns",
        r"expected \(4,\): one for each token",
    ),
    "columns that fall": Row(
        lambda _: unpacked(query_columns=[0, 1, 1, 0, 2]),
        ea.InputError,
        r"query_columns\[3\] = 0",
        r"\[unpack_maps\]",
        r"expected above 1, for columns rise within a sequence, and below 3",
    ),
    "columns beyond the array": Row(
        lambda _: unpacked(lengths=(3, 3), key_columns=[0, 1, 3, 0]),
        ea.InputError,
        r"key_columns\[2\] = 3",
        r"\[unpack_maps\]",
        r"and below 3, the size of the dense maps",
    ),
    "columns that are no whole numbers": Row(
        lambda _: unpacked(key_columns=[0.5, 1, 2, 0]),
        ea.DTypeError,
        r"float",
        r"key_columns",
        r"int",
    ),
    "packing of flat maps": Row(
        lambda _: F.pack_maps(ones(18), packing()),
        ea.ShapeError,
        r"\(18,\)",
        r"\[pack_maps\] dense maps",
        r"expected \(2, 2, queries, keys\)",
    ),
    "packing of too few keys": Row(
        lambda _: F.pack_maps(ones(2, 2, 3, 2), packing()),
        ea.ShapeError,
        r"sequence 0 has 3 key tokens",
        r"\[pack_maps\]",
        r"room for 2",
    ),
    # --- pair_sum
    "pair sum of other queries": Row(
        lambda _: F.pair_sum(ones(4, 6), ones(4, 6), packing()),
        ea.ShapeError,
        r"\(4, 6\)",
        r"\[pair_sum\] u",
        r"expected 5 token rows",
    ),
    "pair sum of a width that heads do not divide": Row(
        lambda _: F.pair_sum(ones(5, 3), ones(4, 3), packing()),
        ea.ShapeError,
        r"width 3",
        r"\[pair_sum\] u",
        r"not a multiple of 2 heads",
    ),
    "pair sum of unequal widths": Row(
        lambda _: F.pair_sum(ones(5, 4), ones(4, 6), packing()),
        ea.ShapeError,
        r"u has width 4",
        r"\[pair_sum\]",
        r"v has width 6",
    ),
    "pair sum of two types": Row(
        lambda _: F.pair_sum(ones(5, 4), ones(4, 4, dtype=np.float64), packing()),
        ea.DTypeError,
        r"v is float64",
        r"\[pair_sum\] u is float32",
        r"use \.to\(dtype\)",
    ),
    "pair sum without a packing": Row(
        lambda _: F.pair_sum(ones(5, 4), ones(4, 4), None),
        ea.InputError,
        r"NoneType",
        r"\[pair_sum\]",
        r"packing: Packing",
    ),
}
