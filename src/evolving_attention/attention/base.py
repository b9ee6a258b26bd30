"""Base classes for the slots of the attention layer: config objects, or Python code.

The kinds of the core (``Evolving``, ``Dot``, ``RelativePositions``, …) are small frozen
dataclasses; the core declares and checks their ranges. A user-defined kind derives from
:class:`CustomEvolve` or another class of :mod:`.custom` and computes with
:mod:`evolving_attention.functional`.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from evolving_attention import _core
from evolving_attention.errors import ConfigError, suggestion
from evolving_attention.field_types import check_fields, is_unicode

_KINDS: dict[str, dict[str, type[Slot]]] = {}  # by slot, then by name
_S = TypeVar("_S", bound="Slot")
_DEFAULTS = {"score": "dot", "scope": "dense", "bias": "none", "evolve": "vanilla"}
_EXAMPLES = {
    "score": "ea.attention.Dot()",
    "scope": "ea.attention.Dense(causal=True)",
    "bias": "ea.attention.RelativePositions(max_distance=16)",
    "evolve": "ea.attention.Evolving(alpha=0.1, beta=0.1)",
}


class _CheckedCall(ABCMeta):
    """Checks the options of a class before ``__init__`` takes them."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        _check_options(cls, args, options)
        return super().__call__(*args, **options)


class Checked(metaclass=_CheckedCall):
    """Base of dataclasses that refuse unknown and missing options with a ConfigError.

    Copies and pickles do not pass options, and are not checked.
    """


class Slot(Checked):
    """Base of the config objects; its subclasses are the four slots."""

    slot: ClassVar[str]
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks the options in the core, unless the class has its own ``to_core``.

        The core's input for such a class is checked with its :class:`Spec` or model.
        """
        if type(self).to_core is Slot.to_core:
            check_in_core(self)

    def to_dict(self) -> dict[str, Any]:
        """Returns ``{"kind": …, option: value, …}``, the form in config.json."""
        return {"kind": self.kind, **_fields_of(self)}

    def to_core(self) -> Any:
        """Returns the core's input for the slot: options, or an object with methods."""
        return {k: v for k, v in self.to_dict().items() if v is not None}


class Score(Slot):
    """How a query is compared with a key."""

    slot = "score"


class Scope(Slot):
    """Which cells of a map exist, and how values are gathered from them."""

    slot = "scope"


class Bias(Slot):
    """A term added to the scores before they evolve."""

    slot = "bias"


class Evolve(Slot):
    """How the maps of one layer change those of the next."""

    slot = "evolve"

    @property
    def equals_vanilla(self) -> bool:
        """Whether these options compute vanilla attention, in any model."""
        return False


@dataclass(frozen=True)
class StepContext:
    """Context of a call to a slot's method.

    Attributes:
        layer: index of the layer in its chain of maps, from 0.
        num_layers: number of layers of the chain.
        num_heads: number of attention heads.
        packing: memory layout of the maps; the ``packing`` argument of
            ``ea.functional.map_conv`` and others.
        parameters: this layer's own parameters by name.
        training: whether the model is in training mode.
        tokens: layout of the sequences of queries and keys: ``packing`` itself, unless
            a scope lays out its maps differently.
    """

    layer: int
    num_layers: int
    num_heads: int
    packing: _core.Packing
    parameters: Mapping[str, _core.Tensor]
    training: bool
    tokens: _core.Packing | None = None


class CustomEvolve(Evolve):
    """Base of evolve kinds written in Python.

    Override :meth:`step`, and :meth:`parameters` if the kind has any. Options are the
    fields of the (frozen data-)class, which may check them in ``__post_init__``.
    ``@register("name")`` lets config.json load it by that name once its module is
    imported; a model cannot be saved without it.
    """

    kind: ClassVar[str] = "custom"

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        """Initial values of one layer's parameters, by name (none by default).

        ``layer`` counts from the start of the chain of maps. They train with the model
        and are stored as ``encoder.layer.{i}.attention.self.evolve.{name}``.
        """
        return {}

    def step(
        self,
        scores: _core.Tensor,
        previous: _core.Tensor | None,
        context: StepContext,
    ) -> _core.Tensor | tuple[_core.Tensor, _core.Tensor]:
        """Computes the softmax input from this layer's scores and the previous maps.

        Args:
            scores: S = Q Kᵀ / √d of this layer, flat maps of all sequences.
            previous: maps carried by the previous layer; None in the first layer.
            context: layer, packing, parameters.

        Returns:
            Maps of the same shape, also carried to the next layer; or a pair (maps for
            the softmax, maps to carry). Must be built from differentiable functions.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no step(); define step(self, scores, previous, "
            "context), which returns the maps under the softmax"
        )

    def to_core(self) -> Any:
        return self


def register(kind: str) -> Callable[[type[_S]], type[_S]]:
    """Class decorator: registers a kind under a name, for config.json and ``kind=``.

    Raises:
        ConfigError: another class has the name, or ``__init__`` takes options that are
            not dataclass fields, which config.json would lose.
    """

    def put(cls: type[_S]) -> type[_S]:
        of_slot = _KINDS.setdefault(cls.slot, {})
        held = of_slot.get(kind)
        if held is not None and _path_of(held) != _path_of(cls):
            raise ConfigError(
                f"attention kind '{kind}' is already {_path_of(held)}; register "
                f"{_path_of(cls)} under another name"
            )
        if lost := _unsaved_options(cls):
            raise ConfigError(
                f"attention kind '{kind}': {cls.__qualname__}.__init__ takes "
                f"{', '.join(lost)}, which config.json would not hold: a saved model "
                "would load with the defaults; expected fields of a dataclass. Put "
                "@dataclass(frozen=True) below the @register line, and in place of "
                f"__init__ write `{lost[0]}: float = …` in the class"
            )
        cls.kind = kind
        of_slot[kind] = cls
        return cls

    return put


def check_registered(slot: Slot) -> None:
    """Checks that config.json can name the class of ``slot``.

    Raises:
        ConfigError: it is not registered; a subclass needs a name of its own.
    """
    cls = type(slot)
    held = _KINDS[cls.slot].get(cls.kind)
    if held is None or _path_of(held) != _path_of(cls):
        name = cls.__name__.lower()
        raise ConfigError(
            f"{cls.slot} kind {cls.__qualname__} is not registered: config.json would "
            f"call it '{cls.kind}', which does not load this class; expected a name of "
            f"its own: put @ea.attention.register('{name}') above the class, or, to "
            f"save a model that exists, call ea.attention.register('{name}')("
            f"{cls.__name__})"
        )


def kinds(slot: str = "evolve") -> dict[str, type[Slot]]:
    """Returns all registered kinds of a slot (score, scope, bias or evolve) by name.

    Raises:
        ConfigError: there is no such slot.
    """
    if slot not in _KINDS:
        raise ConfigError(
            f"attention has no slot {slot!r}; expected one of {', '.join(_KINDS)}"
        )
    return dict(_KINDS[slot])


def from_config(value: Any, base: type[Slot] = Evolve) -> Any:
    """Builds a slot from an object, a dict ``{"kind": …}``, a name, or None.

    Args:
        value: the object itself, its options, or the name of its kind; None selects the
            slot's default.
        base: the class of the slot: Score, Scope, Bias or Evolve.

    Raises:
        ConfigError: the kind is unknown, or an option is unknown or out of range.
    """
    if isinstance(value, base):
        return value
    known_kinds = _KINDS[base.slot]
    if value is None:
        value = {"kind": _DEFAULTS[base.slot]}
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"attention={value!r}: expected an object such as "
            f"{_EXAMPLES[base.slot]}, a dict with 'kind', or a name, for the slot "
            f"{base.slot}{_of_other_slot(value)}"
        )
    options = dict(value)
    kind = options.pop("kind", None)
    if not isinstance(kind, str) or kind not in known_kinds:
        hint = _of_other_slot(value) or _meant(kind, known_kinds)
        raise ConfigError(
            f"{base.slot} kind {kind!r} is not known{hint}; "
            f"expected one of {', '.join(sorted(known_kinds))}. A kind of your own is "
            "registered by @ea.attention.register(name): import its module first"
        )
    cls: Any = known_kinds[kind]
    names = [f.name for f in dataclasses.fields(cls)] if _is_data(cls) else []
    unknown = [name for name in options if name not in names]
    if unknown:
        raise ConfigError(
            f"attention kind '{kind}' has no option {unknown[0]!r}"
            f"{_meant(unknown[0], names)}; the options are: "
            f"{', '.join(names) or 'none'}"
        )
    missing = [name for name in _needed(cls) if name not in options]
    if missing:
        raise ConfigError(
            f"attention kind '{kind}' needs {' and '.join(missing)}; expected for "
            f"example {{'kind': '{kind}', '{missing[0]}': 0.1, …}}"
        )
    try:
        return cls(**options)
    except TypeError as error:
        raise ConfigError(f"attention kind '{kind}': {error}") from error


def check_in_core(slot: Slot) -> None:
    """Checks an object of a core kind: its types here, its ranges in the core.

    Per-layer numbers become a tuple, so that the object is hashable.

    Raises:
        ConfigError: an option has another type or is out of range.
    """
    for f in dataclasses.fields(cast(Any, slot)):
        value = getattr(slot, f.name)
        if isinstance(value, np.ndarray):
            object.__setattr__(slot, f.name, value.tolist())
    check_fields(slot)
    for f in dataclasses.fields(cast(Any, slot)):
        value = getattr(slot, f.name)
        if type(value) is int and value.bit_length() > 63:  # no number of the core
            raise ConfigError(
                f"{type(slot).__name__}: {f.name} is a number of {value.bit_length()} "
                "bits, expected fewer than 64; give a smaller one"
            )
        if isinstance(value, str) and not is_unicode(value):
            raise ConfigError(
                f"{type(slot).__name__}: {f.name}={value!r} holds half of a surrogate "
                "pair, expected a string of valid Unicode; correct it"
            )
        if value == []:
            raise ConfigError(
                f"{type(slot).__name__}: {f.name}=[], expected one number for all "
                "layers, or a list of one for each; give at least one"
            )
    _core.check_attention({slot.slot: Slot.to_core(slot)})
    for f in dataclasses.fields(cast(Any, slot)):
        value = getattr(slot, f.name)
        if isinstance(value, list):
            object.__setattr__(slot, f.name, tuple(value))


def _fields_of(slot: Slot) -> dict[str, Any]:
    if not _is_data(type(slot)):
        return {}
    values: dict[str, Any] = dataclasses.asdict(cast(Any, slot))
    return {k: _plain(v) for k, v in values.items()}


def _plain(value: Any) -> Any:
    """Returns NumPy's numbers and arrays, and tuples, as Python's numbers and lists."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def all_zero(*weights: float | Sequence[float]) -> bool:
    """Whether all weights are 0; each is one number, or one per layer."""
    return not any(np.any(np.asarray(weight)) for weight in weights)


def without_false(options: dict[str, Any], name: str) -> dict[str, Any]:
    """Drops a flag that is False, to match files written before the flag existed."""
    return {k: v for k, v in options.items() if k != name or v}


def _needed(cls: type) -> list[str]:
    """Returns the options that have no default."""
    none = dataclasses.MISSING
    return [
        f.name
        for f in (dataclasses.fields(cls) if _is_data(cls) else ())
        if f.init and f.default is none and f.default_factory is none
    ]


def _check_options(cls: type, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuses arguments that ``cls`` does not take, and missing ones."""
    init: Any = cls.__init__  # type: ignore[misc]  # of the class itself
    if not _is_data(cls):
        return
    try:
        inspect.signature(init).bind(None, *args, **options)
    except TypeError as error:
        names = [*inspect.signature(init).parameters][1:]
        meant = next((_meant(one, names) for one in options if one not in names), "")
        raise ConfigError(
            f"{cls.__name__}: {error}{meant}; the options are: "
            f"{', '.join(names) or 'none'}"
        ) from None


def _unsaved_options(cls: type) -> list[str]:
    """Returns the options of ``__init__`` that are not saved fields."""
    init: Any = cls.__init__  # type: ignore[misc]  # of the class itself
    if init is object.__init__:
        return []
    saved = [f.name for f in dataclasses.fields(cls)] if _is_data(cls) else []
    _, *options = inspect.signature(init).parameters.values()
    return [option.name for option in options if option.name not in saved]


def _of_other_slot(value: Any) -> str:
    """Returns a remedy for an object, or options, of another slot; else nothing."""
    kind = value
    if isinstance(value, Mapping):
        kind = value.get("kind")
        value = kind if len(value) == 1 else value
    slots = [slot for slot, known in _KINDS.items() if str(kind) in known]
    if isinstance(value, Slot):
        slots = [value.slot]
    remedy = "; it is a kind of the slot {0}: write ea.attention.Spec({0}={1!r})"
    return remedy.format(slots[0], value) if slots else ""


def _meant(word: Any, known: Iterable[str]) -> str:
    hint = suggestion(word, known)
    return f" ({hint})" if hint else ""


def _path_of(cls: type) -> str:
    """Returns module and name: a cell of a notebook that runs again keeps them."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_data(cls: type) -> bool:
    return dataclasses.is_dataclass(cls)
