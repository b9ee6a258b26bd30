"""Tensor names of ViT checkpoints: Hugging Face's, in files and in newer modules."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

POSITIONS = "embeddings.position_embeddings"

VIT = NameTable(
    architecture="vit",
    prefix="vit.",
    renames=(
        # module names of transformers 5, whose files keep the older names
        (r"(^|\.)layers\.(\d+)\.", r"\1encoder.layer.\2."),
        (r"\.attention\.q_proj\.", ".attention.attention.query."),
        (r"\.attention\.k_proj\.", ".attention.attention.key."),
        (r"\.attention\.v_proj\.", ".attention.attention.value."),
        (r"\.attention\.o_proj\.", ".attention.output.dense."),
        (r"\.mlp\.fc1\.", ".intermediate.dense."),
        (r"\.mlp\.fc2\.", ".output.dense."),
    ),
    ignored=(r"(.+\.)?embeddings\.mask_token",),
    allowed_new=(r"classifier\..+", r"(vit\.)?pooler\..+"),
    allowed_unexpected=(
        r"classifier\..+",
        r"(vit\.)?pooler\..+",
        r"decoder\..+",  # decoder of masked image modelling
    ),
)
