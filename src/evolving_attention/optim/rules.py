"""Checks of optimizer arguments; every error names the optimizer."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolving_attention.errors import ConfigError, InputError

#: Settings of a parameter group; ``names`` are for error texts.
GROUP_SETTINGS = {"params", "names", "lr", "weight_decay"}
#: Groups may also have ``schedule``, the mark of a learning-rate schedule.
GROUP_KEYS = GROUP_SETTINGS | {"schedule"}


def is_number(value: Any) -> bool:
    """Whether a value is a number, perhaps infinite, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_number(
    who: str, name: str, value: Any, *, above: bool = False, below: float = math.inf
) -> None:
    """Rejects all but finite numbers >= 0 (> 0 with ``above``) and < ``below``."""
    fits = is_number(value) and math.isfinite(value) and value < below
    if not fits or value < 0 or (above and value == 0):
        expected = "> 0 and finite" if above else ">= 0 and finite"
        if below < math.inf:
            expected = f">= 0 and < {below:g}"
        raise ConfigError(f"{who}: {name}={value!r}, expected {expected}; correct it")


def check_flag(who: str, name: str, value: Any) -> None:
    """Rejects anything but True and False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{who}: {name}={value!r}, expected True or False")


def check_betas(who: str, betas: Any) -> None:
    """Rejects anything but two numbers in [0, 1)."""
    pair = isinstance(betas, Sequence) and len(betas) == 2
    if not pair or not all(is_number(beta) and 0 <= beta < 1 for beta in betas):
        raise ConfigError(
            f"{who}: betas={betas!r}, expected two values in [0, 1), such as "
            "(0.9, 0.999); correct it"
        )


def entries_of(who: str, params: Any) -> list[Any]:
    """Returns the parameters or groups as a list; all of one kind."""
    from evolving_attention._core import Tensor

    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        raise ConfigError(
            f"{who}: params is a {type(params).__name__}, expected tensors or groups "
            "of them; pass model.parameters(), or a list"
        )
    entries = list(params)
    groups = [isinstance(entry, Mapping) for entry in entries]
    if any(groups) and not all(groups):
        raise ConfigError(
            f"{who}: params[{groups.index(False)}] is no group, expected either groups "
            "or tensors; put the tensor into a group: {'params': [tensor]}"
        )
    return entries


def checked_group(who: str, group: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Returns the checked group, with its parameters as a list."""
    if not isinstance(group, Mapping) or "params" not in group:
        is_dict = isinstance(group, Mapping)
        has = f"has {sorted(group)}" if is_dict else f"is a {type(group).__name__}"
        raise ConfigError(
            f"{who}: group {number} {has}, expected 'params' among its keys; list the "
            "group's tensors there"
        )
    if unknown := sorted(set(group) - GROUP_KEYS, key=str):
        raise ConfigError(
            f"{who}: group {number} has {unknown[0]!r}, expected only "
            f"{', '.join(sorted(GROUP_SETTINGS))}; the other settings are the same for "
            "all groups: pass them with params, or make another optimizer"
        )
    return {**group, "params": entries_of(who, group["params"])}


def check_parameters(who: str, params: Sequence[Any], names: Sequence[str]) -> None:
    """Rejects untrainable and repeated parameters, and a list of only frozen ones.

    Frozen parameters may be included; ``names`` belong to all of them, if known.
    """
    from evolving_attention._core import Tensor

    seen: dict[int, int] = {}
    for number, parameter in enumerate(params):
        if not isinstance(parameter, Tensor):
            what = type(parameter).__name__
            hint = (
                "pass model.parameters(), without the names"
                if isinstance(parameter, tuple)
                else "make it one: ea.Tensor(array, requires_grad=True)"
            )
            raise InputError(
                f"{who}: parameter {number} is a {what}, expected a Tensor; {hint}"
            )
        if id(parameter) in seen:
            raise ConfigError(
                f"{who}: parameter {number} is parameter {seen[id(parameter)]} once "
                "more, expected each once; leave it out of one group"
            )
        if not parameter.is_leaf:
            raise InputError(
                f"{who}: {named(number, names)} is not a leaf but the result of a "
                "computation, expected a Tensor that requires a gradient; pass the "
                "tensor it was made of, or .detach() it"
            )
        seen[id(parameter)] = number
    if not any(parameter.requires_grad for parameter in params):
        raise ConfigError(
            f"{who}: all {len(params)} parameters are frozen ({named(0, names)}, …), "
            "expected at least one that requires a gradient; set requires_grad = True "
            "for those to train, and create the optimizer after model.to(dtype) and "
            "interpolate_positions, which replace parameters"
        )


def named(number: int, names: Sequence[str]) -> str:
    """Returns a parameter's name for errors: its number, and its name if known."""
    known = f" ({names[number]})" if number < len(names) else ""
    return f"parameter {number}{known}"
