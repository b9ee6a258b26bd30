"""Attention as configuration: evolve kinds as small objects, found in this folder."""

from __future__ import annotations

import importlib
import pkgutil

from evolving_attention.attention.base import (
    CustomEvolve,
    Evolve,
    StepContext,
    from_config,
    kinds,
    register,
)
from evolving_attention.attention.evolving import Evolving
from evolving_attention.attention.evolving_released import EvolvingReleased
from evolving_attention.attention.predictive import Predictive
from evolving_attention.attention.residual import Residual
from evolving_attention.attention.vanilla import Vanilla

# A new file in this folder is a new kind: nothing else needs to be edited.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "CustomEvolve",
    "Evolve",
    "Evolving",
    "EvolvingReleased",
    "Predictive",
    "Residual",
    "StepContext",
    "Vanilla",
    "from_config",
    "kinds",
    "register",
]
