"""Learning-rate schedules: a multiplier of the base rate as a function of the step.

Every schedule is a function ``step -> multiplier`` built by :func:`multiplier`, and
:class:`Schedule` applies it to an optimizer. Names, options and values are those of
Hugging Face's schedulers, so a run needs no retuning; a test compares them within
1e-12. ``cosine_with_min_lr`` without an end rate equals ``cosine``. Two schedules are
meant for image networks: ``multistep`` multiplies the rate by ``gamma`` at given shares
of the run, by default those of epochs 30, 60, 80 and 90 of 100; and the cycles of
``cosine_with_restarts`` may grow, each ``cycle_growth`` times as long as the previous
one (Loshchilov and Hutter, ICLR 2017: ``num_cycles=6, cycle_growth=2``).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.errors import ConfigError, suggestion
from evolving_attention.optim.rules import check_number, is_number

Multiplier = Callable[[int], float]

DEFAULT_TIMESCALE = 10_000  # for inverse_sqrt without warm-up
MAX_GROWTH = 64  # of the cycles of a run, in powers of two: far more than its steps
_POSITIVE = ("timescale",)  # all other options may be 0


def _progress(step: int, warmup: int, total: int) -> float:
    """Returns the completed share of the decay at ``step``, from 0 upwards."""
    return (step - warmup) / max(1, total - warmup)


# Factories of the values after the warm-up, which multiplier() adds.


def _constant(warmup: int, total: int, base_lr: float) -> Multiplier:
    return lambda step: 1.0


def _linear(warmup: int, total: int, base_lr: float) -> Multiplier:
    return lambda step: max(0.0, (total - step) / max(1, total - warmup))


def _cosine(
    warmup: int, total: int, base_lr: float, num_cycles: float = 0.5
) -> Multiplier:
    def value(step: int) -> float:
        angle = 2.0 * math.pi * num_cycles * _progress(step, warmup, total)
        return max(0.0, 0.5 * (1.0 + math.cos(angle)))

    return value


def _cosine_with_min_lr(
    warmup: int,
    total: int,
    base_lr: float,
    num_cycles: float = 0.5,
    min_lr: float | None = None,
    min_lr_rate: float | None = None,
) -> Multiplier:
    if min_lr is not None and min_lr_rate is not None:
        raise ConfigError(
            f"lr_scheduler_type 'cosine_with_min_lr': min_lr={min_lr} and min_lr_rate="
            f"{min_lr_rate}, expected the last rate or its share of learning_rate; "
            "leave one of them out of lr_scheduler_kwargs"
        )
    rate = min_lr_rate if min_lr is None else min_lr / base_lr if base_lr else 1.0
    least = float(rate or 0.0)
    if not 0.0 <= least <= 1.0:
        raise ConfigError(
            f"lr_scheduler_type 'cosine_with_min_lr': the last rate is {least:g} times "
            f"learning_rate={base_lr}, expected 0 to 1 times; change it in "
            "lr_scheduler_kwargs"
        )
    cosine = _cosine(warmup, total, base_lr, num_cycles)

    return lambda step: cosine(step) * (1.0 - least) + least


def _cosine_with_restarts(
    warmup: int,
    total: int,
    base_lr: float,
    num_cycles: int = 1,
    cycle_growth: float = 1.0,
    lr_end: float = 0.0,
) -> Multiplier:
    if not cycle_growth >= 1.0:
        raise ConfigError(
            f"lr_scheduler_type 'cosine_with_restarts': cycle_growth={cycle_growth}, "
            "expected 1 (cycles of one length) or more; change it in "
            "lr_scheduler_kwargs"
        )
    if not 0.0 <= lr_end < base_lr:
        raise ConfigError(
            f"lr_scheduler_type 'cosine_with_restarts': lr_end={lr_end} is not from 0 "
            f"to below learning_rate={base_lr}; change it in lr_scheduler_kwargs"
        )
    least = lr_end / base_lr
    # Cycle k, from 0, has length growth^k; the run is the sum of the cycles.
    lengths = []
    if cycle_growth > 1.0:
        if num_cycles * math.log2(cycle_growth) > MAX_GROWTH:
            raise ConfigError(
                f"lr_scheduler_type 'cosine_with_restarts': num_cycles={num_cycles} "
                f"with cycle_growth={cycle_growth}, expected a last cycle of at most "
                f"2^{MAX_GROWTH} times the first; lower one of them in "
                "lr_scheduler_kwargs"
            )
        lengths = [cycle_growth**k for k in range(int(num_cycles))]

    def place(done: float) -> float:
        """Returns the completed share of the current cycle."""
        if cycle_growth == 1.0:
            return (num_cycles * done) % 1.0
        left = done * sum(lengths)
        for length in lengths:
            if left < length - 1e-9:  # a step at the border starts a cycle
                return left / length
            left -= length
        return 0.0

    def value(step: int) -> float:
        done = _progress(step, warmup, total)
        if done >= 1.0:
            return least
        share = max(0.0, 0.5 * (1.0 + math.cos(math.pi * place(done))))
        return least + (1.0 - least) * share

    return value


def _multistep(
    warmup: int,
    total: int,
    base_lr: float,
    milestones: Sequence[float] = (0.3, 0.6, 0.8, 0.9),
    gamma: float = 0.1,
) -> Multiplier:
    shares = list(milestones) if isinstance(milestones, (list, tuple)) else []
    if not shares or not all(_is_number(s) and 0.0 < s < 1.0 for s in shares):
        raise ConfigError(
            f"lr_scheduler_type 'multistep': milestones={milestones!r}, expected "
            "shares of the run between 0 and 1, such as [0.3, 0.6]; change them in "
            "lr_scheduler_kwargs"
        )
    steps = sorted(round(share * total) for share in shares)

    return lambda step: float(gamma ** sum(step >= at for at in steps))


def _polynomial(
    warmup: int, total: int, base_lr: float, lr_end: float = 1e-7, power: float = 1.0
) -> Multiplier:
    if not base_lr > lr_end:
        raise ConfigError(
            f"lr_scheduler_type 'polynomial': lr_end={lr_end} is not below "
            f"learning_rate={base_lr}; give a smaller lr_end in lr_scheduler_kwargs"
        )

    def value(step: int) -> float:
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
    return lambda step: 1.0 / math.sqrt((step + shift) / scale)


_FACTORIES: dict[str, Callable[..., Multiplier]] = {
    "linear": _linear,
    "cosine": _cosine,
    "cosine_with_min_lr": _cosine_with_min_lr,
    "cosine_with_restarts": _cosine_with_restarts,
    "polynomial": _polynomial,
    "constant": _constant,
    "constant_with_warmup": _constant,
    "inverse_sqrt": _inverse_sqrt,
    "multistep": _multistep,
}

NAMES = tuple(_FACTORIES)
_CONSTANT = ("constant", "constant_with_warmup")
# Schedules that need no number of warm-up steps, or of all steps.
_WITHOUT = {"warmup": _CONSTANT, "training": (*_CONSTANT, "inverse_sqrt")}


def multiplier(
    name: str, warmup: int, total: int, base_lr: float = 1.0, **options: Any
) -> Multiplier:
    """Returns the function ``step -> factor of the base learning rate``.

    Args:
        name: one of :data:`NAMES`.
        warmup: optimizer steps of linear warm-up, >= 0.
        total: optimizer steps of the whole run, including the warm-up.
        base_lr: the base rate; ``polynomial``, ``cosine_with_min_lr`` and
            ``cosine_with_restarts`` use it.
        **options: ``num_cycles`` (all cosines), ``min_lr`` or ``min_lr_rate``
            (cosine_with_min_lr), ``cycle_growth`` and ``lr_end``
            (cosine_with_restarts), ``lr_end`` and ``power`` (polynomial),
            ``timescale`` (inverse_sqrt), ``milestones`` and ``gamma`` (multistep).

    Raises:
        ConfigError: unknown name or option, or a value of the wrong type or range.
    """
    if name not in _FACTORIES:
        hint = suggestion(name, NAMES, "choose one of them")
        raise ConfigError(
            f"lr_scheduler_type={name!r} is unknown, expected one of "
            f"{', '.join(NAMES)}; {hint}"
        )
    factory = _FACTORIES[name]
    known = dict([*inspect.signature(factory).parameters.items()][3:])
    for option, value in options.items():
        if option not in known:
            raise ConfigError(
                f"lr_scheduler_kwargs has {option!r}, which schedule {name!r} does "
                f"not take; it takes {', '.join(known) or 'no options'}"
            )
        left_open = value is None and known[option].default is None
        if option != "milestones" and not left_open:
            _check_number(name, option, value)
    later = factory(warmup, total, base_lr, **options)
    if name == "constant" or not warmup:  # the first has none
        return later
    return lambda step: step / max(1, warmup) if step < warmup else later(step)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, and not a boolean."""
    return is_number(value) and math.isfinite(value)


def _check_number(name: str, option: str, value: Any) -> None:
    """Rejects an option of a schedule that is no number from 0 (some: above 0)."""
    positive = option in _POSITIVE
    if not _is_number(value) or value < 0 or (positive and value == 0):
        raise ConfigError(
            f"lr_scheduler_type {name!r}: {option}={value!r}, expected a finite number "
            f"{'above' if positive else 'from'} 0; change it in lr_scheduler_kwargs"
        )


def _base_rate(group: dict[str, Any]) -> float:
    """Returns a group's rate before any schedule, or the one set by hand since then."""
    base, scheduled = group.get("schedule", (None, None))
    return float(base if group["lr"] == scheduled else group["lr"])


class Schedule:
    """Sets the learning rate of every parameter group after each optimizer step.

    A group's rate is its rate at construction times ``factors[group](step)``. If an
    earlier schedule set that rate, its base rate takes its place; a rate that was set
    by hand since then counts as a new one.

    Args:
        optimizer: anything with ``param_groups``, a list of dicts with ``"lr"``.
        factors: one function for all groups, or one per group.
    """

    def __init__(self, optimizer: Any, factors: Multiplier | list[Multiplier]) -> None:
        self.optimizer = optimizer
        groups = optimizer.param_groups
        self.base_lrs = [_base_rate(group) for group in groups]
        self.factors = factors if isinstance(factors, list) else [factors] * len(groups)
        self.last_step = 0
        self._apply()

    def _apply(self) -> None:
        for group, base, factor in zip(
            self.optimizer.param_groups, self.base_lrs, self.factors, strict=True
        ):
            group["lr"] = base * factor(self.last_step)
            group["schedule"] = base, group["lr"]

    def step(self) -> None:
        """Advances by one optimizer step.

        Raises:
            ConfigError: the optimizer has got more groups, which have no schedule.
        """
        self.last_step += 1
        try:
            self._apply()
        except ValueError:
            count, known = len(self.optimizer.param_groups), len(self.base_lrs)
            if count == known:
                raise
            raise ConfigError(
                f"the schedule was made for {known} parameter groups, and the "
                f"optimizer has {count} now; make another schedule with "
                "get_scheduler() after add_param_group()"
            ) from None

    def get_last_lr(self) -> list[float]:
        """The current rates, one per group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a resume: the step and the base rates."""
        return {"last_step": self.last_step, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from ``state``, the result of :meth:`state_dict`."""
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
    """Builds the schedule ``name`` for an optimizer (Hugging Face's signature).

    Args:
        name, num_warmup_steps, num_training_steps, scheduler_specific_kwargs: name,
            warmup, total and options of :func:`multiplier`.
        optimizer: as for :class:`Schedule`; call the schedule's ``step()`` after each
            of the optimizer's.

    Example:
        >>> class Plain:
        ...     param_groups = [{"lr": 0.5}]
        >>> schedule = get_scheduler("linear", Plain(), 0, 10)
        >>> schedule.step(); schedule.get_last_lr()
        [0.45]

    Raises:
        ConfigError: unknown schedule or option, or a value is out of range.
    """
    if not hasattr(optimizer, "param_groups"):
        raise ConfigError(
            f"get_scheduler: optimizer is a {type(optimizer).__name__}, expected one "
            "with param_groups; pass ea.optim.AdamW(model.parameters()), for example"
        )
    lengths = {"warmup": num_warmup_steps, "training": num_training_steps}
    for kind, steps in lengths.items():
        if steps is not None or name not in _WITHOUT[kind]:
            check_number("get_scheduler", f"num_{kind}_steps", steps)
    options = scheduler_specific_kwargs or {}
    factors = [
        multiplier(
            name, num_warmup_steps, num_training_steps, _base_rate(group), **options
        )
        for group in optimizer.param_groups
    ]
    return Schedule(optimizer, factors)
