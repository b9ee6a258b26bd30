"""Specification of an attention layer, slot by slot, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from evolving_attention import _core
from evolving_attention.attention import base
from evolving_attention.attention.base import Bias, Checked, Evolve, Scope, Score
from evolving_attention.attention.bias import NoBias
from evolving_attention.attention.scope import Dense
from evolving_attention.attention.score import Dot
from evolving_attention.attention.vanilla import Vanilla
from evolving_attention.errors import ConfigError


@dataclass(frozen=True)
class Spec(Checked):
    """One attention layer: S = score(Q, K) + bias; L = evolve(S, L'); P = softmax(L).

    Args:
        score: how a query is compared with a key; default :class:`Dot`.
        scope: which cells exist, and how values are gathered; default :class:`Dense`.
        bias: term added to the scores before they evolve; default none.
        evolve: how the previous layer's map enters; default :class:`Vanilla`.

    Each is an object of this package, a dict ``{"kind": …, option: value}``, or a name.
    A slot that is left out has its default in every model, also where the model's own
    layer has another one, such as the buckets of T5.

    Raises:
        ConfigError: a slot is invalid, or the slots are incompatible: kernels larger
            than 1 × 1 need a scope whose cells form a grid.

    Example:
        >>> import evolving_attention as ea
        >>> spec = ea.attention.Spec(
        ...     bias=ea.attention.RelativePositions(max_distance=16),
        ...     evolve=ea.attention.Evolving(alpha=0.1, beta=0.1),
        ... )
        >>> config = ea.BertConfig(attention=spec)
    """

    score: Score = field(default_factory=Dot)
    scope: Scope = field(default_factory=Dense)
    bias: Bias = field(default_factory=NoBias)
    evolve: Evolve = field(default_factory=Vanilla)

    def __post_init__(self) -> None:
        for slot, cls in _SLOTS.items():
            made = base.from_config(getattr(self, slot), cls)
            object.__setattr__(self, slot, made)
        _core.check_attention(self.to_core())

    def to_dict(self) -> dict[str, Any]:
        """Returns ``{"score": {"kind": …}, …}``, the form in config.json."""
        return {slot: getattr(self, slot).to_dict() for slot in _SLOTS}

    def to_core(self) -> dict[str, Any]:
        """Returns the core's input for layers: options, and slots written in Python."""
        return {slot: getattr(self, slot).to_core() for slot in _SLOTS}


_SLOTS: dict[str, type] = {
    "score": Score,
    "scope": Scope,
    "bias": Bias,
    "evolve": Evolve,
}


def from_config(value: Any) -> Any:
    """Parses the ``attention`` of a config: an evolve kind, a spec, or a tuple of them.

    Args:
        value: an evolve kind or a spec; a dict with ``kind`` (an evolve kind) or with
            slots; a name; None (vanilla); or a list of these, one for each layer.

    Raises:
        ConfigError: a kind is unknown, an option is unknown or out of range, or slots
            are incompatible.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise ConfigError(
                "attention=[] names no layer; expected one entry for each layer"
            )
        return tuple(_single(each) for each in value)
    return _single(value)


def _single(value: Any) -> Any:
    if isinstance(value, Mapping) and "kind" not in value:
        known = [f.name for f in fields(Spec)]
        unknown = [name for name in value if name not in known]
        if unknown or not value:
            raise ConfigError(
                f"attention={dict(value)!r}: expected a dict with 'kind', or with some "
                f"of the slots {', '.join(known)}"
            )
        return Spec(**value)
    return value if isinstance(value, Spec) else base.from_config(value, Evolve)


def layers_of(attention: Any) -> tuple[Any, ...]:
    """Returns the attention of each layer, or the one that all layers have."""
    return attention if isinstance(attention, tuple) else (attention,)


def each(attention: Any, function: Callable[[Any], Any]) -> Any:
    """Applies ``function`` to one attention, or to each of a tuple."""
    if isinstance(attention, tuple):
        return tuple(map(function, attention))
    return function(attention)


def to_config(attention: Any) -> Any:
    """Returns the form in config.json: a dict, or a list of dicts."""
    if isinstance(attention, tuple):
        return [each.to_dict() for each in attention]
    return attention.to_dict()


def to_core(attention: Any) -> Any:
    """Returns the core's input for layers: a spec, or a list of specs."""
    if isinstance(attention, tuple):
        return [to_core(each) for each in attention]
    made = attention.to_core()
    return {"evolve": made} if isinstance(attention, Evolve) else made


def equals_vanilla(attention: Any) -> bool:
    """Whether an ``attention`` is bit-identical to the architecture's own.

    A config shows the architecture's own layer as an evolve kind, so a spec always
    differs from it.
    """
    layers = layers_of(attention)
    return all(isinstance(one, Evolve) and one.equals_vanilla for one in layers)


def check_saved(attention: Any) -> None:
    """Checks that the classes of an ``attention`` can be loaded from config.json.

    Raises:
        ConfigError: a class is not registered.
    """
    for one in layers_of(attention):
        whole = isinstance(one, Spec)
        for slot in [getattr(one, name) for name in _SLOTS] if whole else [one]:
            base.check_registered(slot)
