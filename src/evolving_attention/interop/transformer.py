"""Tensor names of Transformer checkpoints: this library's own."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

_HEADS = (r"lm_head\..+",)

TRANSFORMER = NameTable(
    architecture="transformer",
    prefix="transformer.",
    allowed_unexpected=_HEADS,
)
