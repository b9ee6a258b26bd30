"""What an evolve kind is, from Python: a config object, or a new kind in one file.

The four kinds of the core (``Vanilla``, ``Evolving``, ``Residual``, ``Predictive``) are
small frozen dataclasses; their ranges are declared and checked in the core. A
researcher's own kind derives from :class:`CustomEvolve` and computes with
:mod:`evolving_attention.functional`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from evolving_attention import _core
from evolving_attention.errors import ConfigError

__all__ = ["CustomEvolve", "Evolve", "StepContext", "from_config", "kinds", "register"]

_KINDS: dict[str, type[Evolve]] = {}
_E = TypeVar("_E", bound="Evolve")


class Evolve:
    """Base of the config objects: how maps of one layer change those of the next."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """``{"kind": …, option: value, …}``, as it stands in config.json."""
        return {"kind": self.kind, **_fields_of(self)}

    def core_slot(self) -> Any | None:
        """None for the kinds of the core; the object itself when it has the step."""
        return None


@dataclass(frozen=True)
class StepContext:
    """What :meth:`CustomEvolve.step` may know of where it stands.

    Attributes:
        layer: index of the layer, from 0.
        num_layers: how many layers the model has.
        num_heads: attention heads.
        packing: where sequences and maps lie; the ``packing`` argument of
            ``ea.functional.map_conv`` and others.
        parameters: this layer's own parameters by name.
        training: whether the model is in training mode.
    """

    layer: int
    num_layers: int
    num_heads: int
    packing: _core.Packing
    parameters: Mapping[str, _core.Tensor]
    training: bool


class CustomEvolve(Evolve):
    """Base of evolve kinds written in Python.

    Override :meth:`step`, and :meth:`parameters` when the kind has any. Options are
    the fields of the (frozen data-)class; ``@register("name")`` makes it loadable from
    config.json by that name once its module is imported.
    """

    kind: ClassVar[str] = "custom"

    def parameters(self, layer: int, num_heads: int) -> dict[str, np.ndarray]:
        """Initial values of one layer's parameters, by name (none by default).

        They train with the model and are stored as
        ``encoder.layer.{layer}.attention.self.evolve.{name}``.
        """
        return {}

    def step(
        self,
        scores: _core.Tensor,
        previous: _core.Tensor | None,
        context: StepContext,
    ) -> _core.Tensor | tuple[_core.Tensor, _core.Tensor]:
        """The maps under the softmax from this layer's scores and the previous maps.

        Args:
            scores: S = Q Kᵀ / √d of this layer, flat maps of all sequences.
            previous: what the previous layer carried; None in the first layer.
            context: layer, packing, parameters.

        Returns:
            Maps of the same shape, which are also carried on; or a pair (maps for the
            softmax, maps to carry). Built from differentiable functions.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no step(); define step(self, scores, previous, "
            "context), which returns the maps under the softmax"
        )

    def core_slot(self) -> Any:
        return self


def register(kind: str) -> Callable[[type[_E]], type[_E]]:
    """Class decorator: make a kind known by a name, for config.json and ``kind=``.

    Raises:
        ConfigError: another class has the name.
    """

    def put(cls: type[_E]) -> type[_E]:
        held = _KINDS.get(kind)
        if held is not None and held.__qualname__ != cls.__qualname__:
            raise ConfigError(
                f"attention kind '{kind}' is already {held.__qualname__}; register "
                f"{cls.__qualname__} under another name"
            )
        cls.kind = kind
        _KINDS[kind] = cls
        return cls

    return put


def kinds() -> dict[str, type[Evolve]]:
    """All registered kinds by name."""
    return dict(_KINDS)


def from_config(value: Evolve | Mapping[str, Any] | str | None) -> Evolve:
    """An evolve kind from an object, a dict ``{"kind": …}``, a name, or None (vanilla).

    Raises:
        ConfigError: the kind is not known, or an option is unknown or out of range.
    """
    if isinstance(value, Evolve):
        return value
    if value is None:
        value = {"kind": "vanilla"}
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"attention={value!r}: expected an object such as "
            "ea.attention.Evolving(alpha=0.1, beta=0.1), a dict with 'kind', or a name"
        )
    options = dict(value)
    kind = options.pop("kind", None)
    if kind not in _KINDS:
        raise ConfigError(
            f"attention kind {kind!r} is not known{_meant(kind, _KINDS)}; expected one "
            f"of {', '.join(sorted(_KINDS))}. A kind of your own is registered by "
            "@ea.attention.register(name): import its module first"
        )
    cls = _KINDS[kind]
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


def check_in_core(evolve: Evolve) -> None:
    """Check an object of a core kind against the ranges the core declares."""
    options = {k: v for k, v in evolve.to_dict().items() if v is not None}
    for name, value in options.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ConfigError(
                f"attention.{evolve.kind}: {name}={value!r} is a "
                f"{type(value).__name__}; expected a number, a flag or a string"
            )
    _core.check_attention(options)


def _fields_of(evolve: Evolve) -> dict[str, Any]:
    if not _is_data(type(evolve)):
        return {}
    return dataclasses.asdict(evolve)  # type: ignore[call-overload]


def _needed(cls: type) -> list[str]:
    """The options without a default."""
    none = dataclasses.MISSING
    return [
        f.name
        for f in (dataclasses.fields(cls) if _is_data(cls) else ())
        if f.init and f.default is none and f.default_factory is none
    ]


def _meant(word: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _is_data(cls: type) -> bool:
    return dataclasses.is_dataclass(cls)
