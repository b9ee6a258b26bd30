"""Attention as configuration: small objects for the kinds of each slot."""

from __future__ import annotations

import importlib
import pkgutil

from evolving_attention.attention.base import (
    Bias,
    CustomEvolve,
    Evolve,
    Scope,
    Score,
    StepContext,
    kinds,
    register,
)
from evolving_attention.attention.bias import NoBias, RelativePositions
from evolving_attention.attention.buckets import BucketedPositions
from evolving_attention.attention.custom import CustomBias, CustomScope, CustomScore
from evolving_attention.attention.evolving import Evolving
from evolving_attention.attention.evolving_causal import EvolvingCausal
from evolving_attention.attention.evolving_released import EvolvingReleased
from evolving_attention.attention.predictive import Predictive
from evolving_attention.attention.relative_2d import RelativePositions2d
from evolving_attention.attention.residual import Residual
from evolving_attention.attention.scope import Dense, Edges, Window
from evolving_attention.attention.score import (
    Additive,
    Concatenative,
    Dot,
    Multiplicative,
)
from evolving_attention.attention.spec import Spec, from_config
from evolving_attention.attention.synthesizer import (
    DenseSynthesizer,
    RandomSynthesizer,
)
from evolving_attention.attention.vanilla import Vanilla

# A new file in this folder defines a new kind; nothing else needs to be edited.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
for _slot in ("score", "scope", "bias", "evolve"):
    globals().update({_kind.__name__: _kind for _kind in kinds(_slot).values()})

__all__ = [
    "Additive",
    "Bias",
    "BucketedPositions",
    "Concatenative",
    "CustomBias",
    "CustomEvolve",
    "CustomScope",
    "CustomScore",
    "Dense",
    "DenseSynthesizer",
    "Dot",
    "Edges",
    "Evolve",
    "Evolving",
    "EvolvingCausal",
    "EvolvingReleased",
    "Multiplicative",
    "NoBias",
    "Predictive",
    "RandomSynthesizer",
    "RelativePositions",
    "RelativePositions2d",
    "Residual",
    "Scope",
    "Score",
    "Spec",
    "StepContext",
    "Vanilla",
    "Window",
    "from_config",
    "kinds",
    "register",
]
