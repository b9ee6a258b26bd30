"""Tensor names of GAT checkpoints: this library's own, close to PyTorch Geometric's."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

GAT = NameTable(
    architecture="gat",
    prefix="",
)
