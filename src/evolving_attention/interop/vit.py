"""The names of ViT checkpoints: Hugging Face's, of files and of later modules."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

__all__ = ["POSITIONS", "VIT"]

POSITIONS = "embeddings.position_embeddings"

VIT = NameTable(
    architecture="vit",
    prefix="vit.",
    renames=(
        # module names of version 5 of transformers, whose files keep the older ones
        (r"(^|\.)layers\.(\d+)\.", r"\1encoder.layer.\2."),
        (r"\.attention\.q_proj\.", ".attention.attention.query."),
        (r"\.attention\.k_proj\.", ".attention.attention.key."),
        (r"\.attention\.v_proj\.", ".attention.attention.value."),
        (r"\.attention\.o_proj\.", ".attention.output.dense."),
        (r"\.mlp\.fc1\.", ".intermediate.dense."),
        (r"\.mlp\.fc2\.", ".output.dense."),
    ),
    ignored=(r"(.+\.)?embeddings\.mask_token",),
    ties=(),
    allowed_new=(r"classifier\..+", r"(vit\.)?pooler\..+"),
    allowed_unexpected=(
        r"classifier\..+",
        r"(vit\.)?pooler\..+",
        r"decoder\..+",  # of masked image modelling
    ),
)
