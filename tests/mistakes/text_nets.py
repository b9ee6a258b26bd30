"""Mistakes with text nets and their word vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from mistakes.row import Row

VECTORS = np.zeros((20, 6), np.float32)


def net(**options: Any) -> Any:
    """A tiny net."""
    sizes = {"vocab_size": 20, "embedding_size": 6, "hidden_size": 16}
    given = {**sizes, "num_attention_heads": 2, **options}
    return ea.TextNetForSequenceClassification(ea.TextNetConfig(**given))


def broken() -> np.ndarray:
    """Returns vectors with one NaN."""
    vectors = VECTORS.copy()
    vectors[3, 2] = np.nan
    return vectors


ROWS = {
    "vectors of another vocabulary": Row(
        lambda _: net().set_word_vectors(VECTORS[:19]),
        ea.InputError,
        r"shape \(19, 6\)",
        r"set_word_vectors: vectors",
        r"expected \(20, 6\).*give a row for each word",
    ),
    "vectors that are not finite": Row(
        lambda _: net().set_word_vectors(broken()),
        ea.InputError,
        r"NaN or infinity",
        r"set_word_vectors: vectors\[3\]",
        r"fill in or leave out that word",
    ),
    "vectors that are no numbers": Row(
        lambda _: net().set_word_vectors(VECTORS.astype(str)),
        ea.InputError,
        r"vectors are <U",
        r"set_word_vectors",
        r"pass an array of float32",
    ),
    "a pair for a net of single texts": Row(
        lambda _: net()([[4, 1, 5]], token_type_ids=[[0, 0, 1]]),
        ea.InputError,
        r"= 1: expected 0 to 0",
        r"token_type_ids\[0, 2\]",
        r"type_vocab_size is 1",
    ),
    "attention for a net without": Row(
        lambda _: net(attention_ratio=0.0, attention="evolving"),
        ea.ConfigError,
        r"a net without attention",
        r"attention_ratio = 0",
        r"leave both out, or take a larger attention_ratio",
    ),
    "positions twice": Row(
        lambda _: net(
            relative="learned",
            attention=ea.attention.Spec(bias=ea.attention.RelativePositions(3)),
        ),
        ea.ConfigError,
        r"with a bias in attention",
        r"relative = 'learned'",
        r"leave one of the two out",
    ),
    "heads that do not share the features": Row(
        lambda _: net(attention_ratio=0.3),
        ea.ConfigError,
        r"a width of 4\.8",
        r"attention_ratio 0\.3",
        r"expected a multiple of num_attention_heads 2",
    ),
    "an even kernel": Row(
        lambda _: net(attention_ratio=0.5, kernel_size=4),
        ea.ConfigError,
        r"a centred kernel has a middle",
        r"kernel_size = 4",
        r"expected an odd number",
    ),
}
