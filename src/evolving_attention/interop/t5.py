"""Tensor names of T5 checkpoints: Hugging Face's."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable, Tie

WORDS, OUTPUT = "shared.weight", "lm_head.weight"

T5 = NameTable(
    architecture="t5",
    prefix="",
    renames=((r"^transformer\.", ""),),  # prefix in checkpoints with a classifier
    # Early conversions have a cross-attention position table that no model reads.
    ignored=(
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
    ),
    ties=(
        Tie("encoder.embed_tokens.weight", WORDS, repeats=True),
        Tie("decoder.embed_tokens.weight", WORDS, repeats=True),
        Tie(OUTPUT, WORDS, repeats=True),
    ),
    allowed_unexpected=(r"lm_head\..+",),
)
