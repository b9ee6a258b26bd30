"""Optimizers on the C++ core: Adam, AdamW, RAdam and SGD, by class or by name."""

from evolving_attention.optim.adam import Adam, AdamW, RAdam
from evolving_attention.optim.base import Optimizer
from evolving_attention.optim.clipping import (
    clip_grad_norm_,
    clip_scale,
    global_grad_norm,
)
from evolving_attention.optim.factory import OPTIMIZERS, create, decay_groups
from evolving_attention.optim.sgd import SGD

__all__ = [
    "OPTIMIZERS",
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "RAdam",
    "clip_grad_norm_",
    "clip_scale",
    "create",
    "decay_groups",
    "global_grad_norm",
]
