"""Figures from arrays and logs; matplotlib is imported when a figure is drawn."""

from __future__ import annotations

from evolving_attention.plots.curves import read_log, training_curves
from evolving_attention.plots.figures import save
from evolving_attention.plots.graphs import node_attention
from evolving_attention.plots.heads import divergence_by_head, entropy_by_head
from evolving_attention.plots.maps import attention_evolution
from evolving_attention.plots.pictures import picture_attention

__all__ = [
    "attention_evolution",
    "divergence_by_head",
    "entropy_by_head",
    "node_attention",
    "picture_attention",
    "read_log",
    "save",
    "training_curves",
]
