"""Optimizers by name, and the parameter groups of the Trainer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.optim.adam import Adam, AdamW, RAdam
from evolving_attention.optim.base import Optimizer
from evolving_attention.optim.sgd import SGD

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adamw_torch_fused": AdamW,
    "adamw_torch": AdamW,
    "adamw": AdamW,
    "adam": Adam,
    "radam": RAdam,
    "sgd": SGD,
}
# Biases, tables of biases, norms of any name (LayerNorm, layernorm_before), and logits:
# decay would pull the weight that a logit stands for towards one half.
NO_DECAY = re.compile(r"(bias|_bias\.weight|norm[^.]*\.weight|_logit)$", re.IGNORECASE)
_COMMON = ("self", "params", "lr", "weight_decay")  # not options of one optimizer


def create(
    name: str,
    named_parameters: Iterable[tuple[str, Any]],
    *,
    lr: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Creates an optimizer by name; biases and LayerNorm weights have no decay.

    Args:
        name: one of ``OPTIMIZERS``.
        named_parameters: pairs (name, tensor), as ``model.named_parameters()``.
        lr, weight_decay: lr of all groups; decay of the group with decay.
        betas, eps: for Adam's family; SGD ignores them.
        options: further arguments, such as ``{"momentum": 0.9, "nesterov": True}``.

    Raises:
        ConfigError: there is no such optimizer or option, or a value is out of range.

    Example::

        optimizer = ea.optim.create(
            "sgd", model.named_parameters(), lr=0.1, options={"momentum": 0.9}
        )
    """
    options = dict(options or {})
    check_options(name, options)
    own = _options_of(name)
    adam = {"betas": betas, "eps": eps}
    given = {key: value for key, value in adam.items() if key in own}
    groups = decay_groups(named_parameters, weight_decay)
    kind: Any = OPTIMIZERS[name]
    return kind(groups, lr=lr, weight_decay=weight_decay, **{**given, **options})


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Rejects an optimizer or options that :func:`create` does not know.

    Raises:
        ConfigError: the message lists the known ones.
    """
    if name not in OPTIMIZERS:
        raise ConfigError(
            f"optimizer {name!r}, expected one of {', '.join(OPTIMIZERS)}; correct it"
        )
    unknown = [key for key in options if key not in _options_of(name)]
    if unknown:
        raise ConfigError(
            f"optimizer {name!r} has no option {unknown[0]!r}, expected some of "
            f"{', '.join(_options_of(name))}; correct it, or name another optimizer"
        )


def _options_of(name: str) -> list[str]:
    """Returns the arguments that are specific to an optimizer's class."""
    return [
        key
        for key in inspect.signature(OPTIMIZERS[name].__init__).parameters
        if key not in _COMMON
    ]


def decay_groups(
    named_parameters: Iterable[tuple[str, Any]], weight_decay: float
) -> list[dict[str, Any]]:
    """Returns two groups: weights with decay; biases, norms and logits without.

    Args:
        named_parameters: pairs (name, tensor), as ``model.named_parameters()``.
        weight_decay: the decay of the first group.

    Returns:
        Groups with ``"params"``, ``"names"`` and ``"weight_decay"``; empty groups are
        omitted.

    Raises:
        ConfigError: an element is not such a pair.
    """
    groups: list[dict[str, Any]] = [
        {"params": [], "names": [], "weight_decay": weight_decay},
        {"params": [], "names": [], "weight_decay": 0.0},
    ]
    for pair in named_parameters:
        if not isinstance(pair, (tuple, list)) or not isinstance(pair[0], str):
            raise ConfigError(
                f"decay_groups: found a {type(pair).__name__}, expected pairs (name, "
                "tensor), since names decide; pass model.named_parameters()"
            )
        name, parameter = pair
        group = groups[1 if NO_DECAY.search(name) else 0]
        group["params"].append(parameter)
        group["names"].append(name)
    return [group for group in groups if group["params"]]
