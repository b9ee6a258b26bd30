"""Tensor names of EA-DC-Transformer checkpoints: this library's own."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

_HEADS = (r"classifier\..+", r"regressor\..+", r"reconstruction\..+")

EA_DC_TRANSFORMER = NameTable(
    architecture="ea_dc_transformer",
    prefix="transformer.",
    allowed_new=_HEADS,
    allowed_unexpected=_HEADS,
)
