"""Tensor names of text net checkpoints: this library's own."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

_HEADS = (r"classifier\..+",)

TEXT_NET = NameTable(
    architecture="text_net",
    prefix="text_net.",
    allowed_new=_HEADS,
    allowed_unexpected=_HEADS,
)
