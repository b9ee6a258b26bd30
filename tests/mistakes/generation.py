"""Mistakes with the search for targets."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from mistakes.row import Row

IDS = [[4, 5, 6]]


def translator(**options: Any) -> Any:
    """A tiny encoder-decoder."""
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 20,
    }
    config = ea.TransformerConfig(vocab_size=12, **{**sizes, **options})
    return ea.TransformerForConditionalGeneration(config)


def diverged() -> Any:
    """A model whose weights are NaN."""
    model = translator()
    for _, tensor in model.named_parameters():
        tensor.copy_(np.full(tensor.shape, np.nan))
    return model


ROWS = {
    "no sources": Row(
        lambda _: translator().generate(),
        ea.InputError,
        r"input_ids is missing",
        r"generate",
        r"pass the source's token ids",
    ),
    "more beams than tokens": Row(
        lambda _: translator().generate(IDS, num_beams=13),
        ea.ConfigError,
        r"num_beams = 13",
        r"generate",
        r"expected 1 to 12 \(the target's vocabulary\)",
    ),
    "more targets than beams": Row(
        lambda _: translator().generate(IDS, num_beams=2, num_return_sequences=3),
        ea.ConfigError,
        r"num_return_sequences = 3",
        r"generate",
        r"expected 1 to 2 \(num_beams\)",
    ),
    "targets longer than positions": Row(
        lambda _: translator().generate(IDS, max_new_tokens=21),
        ea.ConfigError,
        r"max_new_tokens = 21",
        r"generate",
        r"expected 1 to 20 \(max_position_embeddings\)",
    ),
    "an option of other searches": Row(
        lambda _: translator().generate(IDS, top_k=5),
        ea.ConfigError,
        r"'top_k' is no option",
        r"generate",
        r"the options are: max_new_tokens, num_beams",
    ),
    "weights that are NaN": Row(
        lambda _: diverged().generate(IDS),
        ea.InputError,
        r"the score of token 0 for sentence 0 is -?nan",
        r"generate",
        r"the weights are damaged, or come from a run that diverged",
    ),
    "a cross attention that reads ahead": Row(
        lambda _: translator(
            cross_attention=ea.attention.EvolvingCausal(0.0, 0.1, shift="key_literal")
        ).generate(IDS),
        ea.ConfigError,
        r"reads later target tokens",
        r"generate",
        r"train it with shift='query'",
    ),
}
