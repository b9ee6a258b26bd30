"""Figures from arrays and logs; matplotlib is imported when a figure is drawn."""

from __future__ import annotations

from .curves import read_log, training_curves
from .figures import save
from .maps import attention_evolution

__all__ = ["attention_evolution", "read_log", "save", "training_curves"]
