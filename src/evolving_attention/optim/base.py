"""Base of the optimizers: parameter groups, checks and state."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.optim.rules import (
    GROUP_KEYS,
    check_flag,
    check_number,
    check_parameters,
    checked_group,
    entries_of,
    named,
)


class Optimizer:
    """A core optimizer over groups of parameters; use one of its subclasses.

    :meth:`step` takes a factor for the gradients, and skips the step if the factor is
    not finite. The Trainer needs both to clip without a pass over the gradients.
    """

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float) -> None:
        name = self._name = type(self).__name__
        check_number(name, "lr", lr)
        check_number(name, "weight_decay", weight_decay)
        entries = entries_of(name, params)
        if not entries:
            raise ConfigError(
                f"{name}: params is empty, expected tensors or groups of them; pass "
                "model.parameters()"
            )
        groups = entries if isinstance(entries[0], dict) else [{"params": entries}]
        self._defaults = {"lr": float(lr), "weight_decay": float(weight_decay)}
        self.param_groups: list[dict[str, Any]] = []
        for group in groups:
            held = checked_group(name, group, len(self.param_groups))
            self.param_groups.append({**self._defaults, **held})
        self._build({})

    def _build(self, state: Mapping[str, Any]) -> None:
        """Creates the core's optimizer of the groups, with this state where it has."""
        self._params = [p for group in self.param_groups for p in group["params"]]
        check_parameters(self._name, self._params, self._names())
        self._core = self._make()
        saved = _numbers(set(state))  # of frozen parameters too, which have no moments
        frozen = [p for i, p in enumerate(self._params) if str(i) in saved]
        frozen = [p for p in frozen if not p.requires_grad]
        for parameter in frozen:
            parameter.requires_grad = True
        try:
            if state:
                self._core.load_state_dict({**self._core.state_dict(), **state})
        finally:
            for parameter in frozen:
                parameter.requires_grad = False

    def __getstate__(self) -> dict[str, Any]:
        made = {"_core", "_params"}  # by _build()
        own = {name: value for name, value in vars(self).items() if name not in made}
        return {**own, "_state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_state")
        vars(self).update(state)
        self._build(saved)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, such as layers to train from now on; they start at step 1.

        Args:
            param_group: a dict with ``"params"`` and optionally ``"lr"`` and
                ``"weight_decay"``, by default those the optimizer was made with.

        Raises:
            ConfigError: a value is out of range, or a parameter is there already.
            InputError: an entry is no tensor, or the result of a computation.
        """
        number = len(self.param_groups)
        held = {**self._defaults, **checked_group(self._name, param_group, number)}
        for rate in self._defaults:
            check_number(self._name, rate, held[rate])
        check_parameters(self._name, [*self._params, *held["params"]], [])
        state = self.state_dict()
        missed = np.asarray(state.get("missed", np.zeros(len(self._params), np.int64)))
        later = np.full(len(held["params"]), state["step"], np.int64)
        self.param_groups.append(held)
        try:
            self._build({**state, "missed": np.concatenate([missed, later])})
        except BaseException:
            del self.param_groups[number]
            self._build(state)
            raise

    def _check_groups(self) -> None:
        """Refuses what was put into the groups without the optimizer's knowledge."""
        given = [p for group in self.param_groups for p in group["params"]]
        if list(map(id, given)) != list(map(id, self._params)):
            raise ConfigError(
                f"{self._name}: param_groups has {len(given)} parameters that are not "
                f"the {len(self._params)} it was made with; add others by "
                "add_param_group(), or make another optimizer"
            )
        for number, group in enumerate(self.param_groups):
            if not group.keys() <= GROUP_KEYS:
                checked_group(self._name, group, number)  # raises
            check_number(self._name, f"param_groups[{number}]['lr']", group["lr"])
            check_number(
                self._name,
                f"param_groups[{number}]['weight_decay']",
                group["weight_decay"],
            )

    def _make(self) -> Any:
        """Creates the core's optimizer of ``self._params``."""
        raise NotImplementedError

    def _names(self) -> list[str]:
        """Parameter names over all groups; empty if a group lacks them."""
        lists = [group.get("names", []) for group in self.param_groups]
        sizes = [len(group["params"]) for group in self.param_groups]
        if [len(names) for names in lists] != sizes:
            return []
        return [str(name) for names in lists for name in names]

    def step(self, grad_scale: float = 1.0, scale: Any = None) -> None:
        """Updates every parameter that has a gradient and is not frozen.

        A frozen parameter (``requires_grad = False``) has no moments and no decay; once
        unfrozen, it is trained like the others.

        Args:
            grad_scale: factor for all gradients, which stay unchanged; clipping this
                way needs no pass over them.
            scale: another factor, one float64 number on the parameters' device, so that
                no synchronisation is needed; if it is not finite, no parameter and no
                moment changes.

        Raises:
            ConfigError: a rate or a decay is out of range, ``param_groups`` has other
                parameters or settings than rate and decay, or every parameter is
                frozen, as those are which ``model.to(dtype)`` has replaced.
        """
        if not any(parameter.requires_grad for parameter in self._params):
            check_parameters(self._name, self._params, self._names())  # raises
        self._check_groups()
        end = 0
        for group in self.param_groups:
            begin, end = end, end + len(group["params"])
            rates = float(group["lr"]), float(group["weight_decay"])
            self._core.set_rates(begin, end, *rates)
        self._core.step(grad_scale, scale)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears all gradients; ``set_to_none=False`` fills them with zeros."""
        clear_gradients(self._params, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Returns ``step``, ``missed`` and, per parameter i, moments and ``master.i``.

        ``step`` is the number of all steps. ``missed``, int64 [parameters], counts the
        steps that left each parameter unchanged; it is present if there was any. The
        moments are ``exp_avg.i`` and ``exp_avg_sq.i``, or SGD's ``momentum_buffer.i``.
        Parameters are numbered over all groups; ``master.i`` exists only for bfloat16
        parameters; a parameter that was always frozen has no entry. The tensors are the
        optimizer's own, not copies.
        """
        return dict(self._core.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of :meth:`state_dict`.

        Raises:
            CheckpointError: the state belongs to other parameters, other parameters
                were frozen, or an entry is not a tensor or not a number of steps.
        """
        if not isinstance(state, Mapping):
            raise CheckpointError(
                f"{self._name}: the state is a {type(state).__name__}, expected the "
                "dict that state_dict() returned; pass that"
            )
        own = self.state_dict()
        names, saved = set(own) - {"missed"}, set(state) - {"missed"}
        if saved != names:
            raise CheckpointError(self._misfit(saved, names))
        shapes = {name: tuple(own[name].shape) for name in names - {"step"}}
        if "missed" in state:
            shapes["missed"] = (len(self._params),)
        for name, expected in shapes.items():
            shape = getattr(state[name], "shape", None)
            if shape is None or tuple(shape) != expected:
                kind = type(state[name]).__name__
                found = f"is a {kind}" if shape is None else f"has shape {tuple(shape)}"
                raise CheckpointError(
                    f"{self._name}: {name} {found}, expected a tensor of shape "
                    f"{expected}; build the model as it was"
                )
        self._check_counts(state["step"], state.get("missed", 0))
        self._core.load_state_dict(state)

    def _check_counts(self, step: Any, missed: Any) -> None:
        """Rejects numbers of steps that no optimizer can have made."""
        if not isinstance(step, numbers.Integral) or isinstance(step, bool) or step < 0:
            raise CheckpointError(
                f"{self._name}: step={step!r}, expected a whole number >= 0; pass what "
                "state_dict() returned"
            )
        times = np.asarray(missed)
        if times.dtype.kind not in "iu" or (times < 0).any() or (times > step).any():
            raise CheckpointError(
                f"{self._name}: missed={times.tolist()}, expected whole numbers from 0 "
                f"to {step}, the steps there were; pass what state_dict() returned"
            )

    def _misfit(self, saved: set[str], own: set[str]) -> str:
        """Returns the error text for a state with other names."""
        if _moments(saved) != _moments(own) and "step" in saved:
            had, expected = (
                ", ".join(sorted(_moments(names))) or "no moments"
                for names in (saved, own)
            )
            return (
                f"{self._name}: the saved state is that of another optimizer, with "
                f"{had}, expected {expected}; create the optimizer with the same class "
                "and momentum (optim, optim_args)"
            )
        odd = sorted(saved ^ own)
        text = (
            f"{self._name}: the saved state does not fit the {len(self._params)} "
            f"parameters, first difference {odd[0]!r} of {len(odd)}"
        )
        number = odd[0].rpartition(".")[2]
        one_sided = _numbers(saved) ^ _numbers(own)
        if number in one_sided and int(number) < len(self._params):
            had, now = ("trained", "frozen") if odd[0] in saved else ("not", "trained")
            text += (
                f": {named(int(number), self._names())} was {had} in that run and is "
                f"{now} in this one; freeze the same parameters (requires_grad), and"
            )
        else:
            text += ";"
        return f"{text} build the model, its element type and the groups as they were"


def clear_gradients(parameters: Iterable[Any], set_to_none: bool) -> None:
    """Removes the gradients of parameters, or fills those that exist with zeros.

    Raises:
        ConfigError: ``set_to_none`` is neither True nor False.
    """
    check_flag("zero_grad", "set_to_none", set_to_none)
    for parameter in parameters:
        if set_to_none:
            parameter.grad = None
        elif parameter.grad is not None:
            parameter.grad.copy_(np.zeros(parameter.shape))


def _moments(names: set[str]) -> set[str]:
    """Returns the kinds of moments in a state."""
    return {name.rpartition(".")[0] for name in names} - {"", "master"}


def _numbers(names: set[str]) -> set[str]:
    """Returns the numbers of the parameters that have an entry in a state."""
    return {name.rpartition(".")[2] for name in names if "." in name}
