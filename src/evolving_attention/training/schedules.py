"""Learning-rate schedules: a multiplier of the base rate as a function of the step.

Every schedule is a function ``step -> multiplier`` built by :func:`multiplier`, and
:class:`Schedule` applies it to an optimizer. Names, options and values are those of
Hugging Face's schedulers, so a run needs no retuning; a test compares them within
1e-12.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["NAMES", "Schedule", "get_scheduler", "multiplier"]

Multiplier = Callable[[int], float]

DEFAULT_TIMESCALE = 10_000  # of inverse_sqrt without warm-up


def _rise(step: int, warmup: int) -> float:
    """The linear warm-up: 0 at step 0, 1 at step ``warmup``."""
    return step / max(1, warmup)


def _progress(step: int, warmup: int, total: int) -> float:
    """The share of the decay done at ``step``, from 0 upwards."""
    return (step - warmup) / max(1, total - warmup)


def _constant(warmup: int, total: int, base_lr: float) -> Multiplier:
    return lambda step: 1.0


def _constant_with_warmup(warmup: int, total: int, base_lr: float) -> Multiplier:
    return lambda step: _rise(step, warmup) if step < warmup else 1.0


def _linear(warmup: int, total: int, base_lr: float) -> Multiplier:
    def value(step: int) -> float:
        if step < warmup:
            return _rise(step, warmup)
        return max(0.0, (total - step) / max(1, total - warmup))

    return value


def _cosine(
    warmup: int, total: int, base_lr: float, num_cycles: float = 0.5
) -> Multiplier:
    def value(step: int) -> float:
        if step < warmup:
            return _rise(step, warmup)
        angle = 2.0 * math.pi * num_cycles * _progress(step, warmup, total)
        return max(0.0, 0.5 * (1.0 + math.cos(angle)))

    return value


def _cosine_with_restarts(
    warmup: int, total: int, base_lr: float, num_cycles: int = 1
) -> Multiplier:
    def value(step: int) -> float:
        if step < warmup:
            return _rise(step, warmup)
        done = _progress(step, warmup, total)
        if done >= 1.0:
            return 0.0
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((num_cycles * done) % 1.0))))

    return value


def _polynomial(
    warmup: int, total: int, base_lr: float, lr_end: float = 1e-7, power: float = 1.0
) -> Multiplier:
    if not base_lr > lr_end:
        raise ConfigError(
            f"lr_scheduler_type 'polynomial': lr_end={lr_end} is not below "
            f"learning_rate={base_lr}; give a smaller lr_end in lr_scheduler_kwargs"
        )

    def value(step: int) -> float:
        if step < warmup:
            return _rise(step, warmup)
        if step > total:
            return lr_end / base_lr
        left = 1.0 - _progress(step, warmup, total)
        return float(((base_lr - lr_end) * left**power + lr_end) / base_lr)

    return value


def _inverse_sqrt(
    warmup: int, total: int, base_lr: float, timescale: int | None = None
) -> Multiplier:
    scale = timescale if timescale is not None else warmup or DEFAULT_TIMESCALE
    shift = scale - warmup

    def value(step: int) -> float:
        if step < warmup:
            return _rise(step, warmup)
        return 1.0 / math.sqrt((step + shift) / scale)

    return value


_FACTORIES: dict[str, Callable[..., Multiplier]] = {
    "linear": _linear,
    "cosine": _cosine,
    "cosine_with_restarts": _cosine_with_restarts,
    "polynomial": _polynomial,
    "constant": _constant,
    "constant_with_warmup": _constant_with_warmup,
    "inverse_sqrt": _inverse_sqrt,
}

NAMES = tuple(_FACTORIES)


def multiplier(
    name: str, warmup: int, total: int, base_lr: float = 1.0, **options: Any
) -> Multiplier:
    """The function ``step -> factor of the base learning rate`` of a schedule.

    Args:
        name: one of :data:`NAMES`.
        warmup: optimizer steps of linear warm-up, >= 0.
        total: optimizer steps of the whole run, warm-up included.
        base_lr: the base rate; only ``polynomial`` uses it.
        **options: ``num_cycles`` (cosine, cosine_with_restarts), ``lr_end`` and
            ``power`` (polynomial), ``timescale`` (inverse_sqrt).

    Raises:
        ConfigError: unknown name or option.
    """
    if name not in _FACTORIES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"lr_scheduler_type={name!r} is unknown, expected one of "
            f"{', '.join(NAMES)}{hint}"
        )
    factory = _FACTORIES[name]
    known = [p for p in inspect.signature(factory).parameters][3:]
    for option in options:
        if option not in known:
            raise ConfigError(
                f"lr_scheduler_kwargs has {option!r}, which schedule {name!r} does "
                f"not take; it takes {', '.join(known) or 'no options'}"
            )
    return factory(warmup, total, base_lr, **options)


class Schedule:
    """Sets the learning rate of every parameter group after each optimizer step.

    A group's rate is its rate at construction times ``factors[group](step)``.

    Args:
        optimizer: anything with ``param_groups``, a list of dicts with ``"lr"``.
        factors: one function for all groups, or one per group.
    """

    def __init__(self, optimizer: Any, factors: Multiplier | list[Multiplier]) -> None:
        self.optimizer = optimizer
        groups = optimizer.param_groups
        self.base_lrs = [float(group["lr"]) for group in groups]
        self.factors = factors if isinstance(factors, list) else [factors] * len(groups)
        self.last_step = 0
        self._apply()

    def _apply(self) -> None:
        for group, base, factor in zip(
            self.optimizer.param_groups, self.base_lrs, self.factors, strict=True
        ):
            group["lr"] = base * factor(self.last_step)

    def step(self) -> None:
        """Advance by one optimizer step."""
        self.last_step += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The current rates, one per group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The state for a resume: the step and the base rates."""
        return {"last_step": self.last_step, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, the result of :meth:`state_dict`."""
        if len(state["base_lrs"]) != len(self.base_lrs):
            raise ConfigError(
                f"the saved schedule has {len(state['base_lrs'])} parameter groups, "
                f"this optimizer has {len(self.base_lrs)}; use the same grouping"
            )
        self.last_step = int(state["last_step"])
        self.base_lrs = [float(rate) for rate in state["base_lrs"]]
        self._apply()


def get_scheduler(
    name: str,
    optimizer: Any,
    num_warmup_steps: int = 0,
    num_training_steps: int = 0,
    scheduler_specific_kwargs: dict[str, Any] | None = None,
) -> Schedule:
    """Build the schedule ``name`` for an optimizer (Hugging Face's signature).

    Example:
        >>> class Plain:
        ...     param_groups = [{"lr": 0.5}]
        >>> schedule = get_scheduler("linear", Plain(), 0, 10)
        >>> schedule.step(); schedule.get_last_lr()
        [0.45]

    Raises:
        ConfigError: unknown schedule or option.
    """
    options = scheduler_specific_kwargs or {}
    factors = [
        multiplier(
            name, num_warmup_steps, num_training_steps, float(group["lr"]), **options
        )
        for group in optimizer.param_groups
    ]
    return Schedule(optimizer, factors)
