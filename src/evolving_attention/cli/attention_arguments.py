"""Command-line options for evolving attention maps."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from evolving_attention import _core
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import check_fields

if TYPE_CHECKING:
    from evolving_attention.attention import Evolve

_DECLARED = _core.attention_kinds()["evolve"]
KINDS = ", ".join(_DECLARED)  # for help texts
DEVICE = (
    "Where the model computes: cpu, auto (the first GPU, else the CPU), or a name that "
    "evolving-attention doctor lists."
)


def option(default: Any, text: str, before: str = "") -> Any:
    """Returns a dataclass field with its help text.

    ``before`` says what takes precedence over the default, such as "the model's".
    """
    return field(default=default, metadata={"help": text, "before": before})


def refuse(name: str, value: Any, expected: str, fix: str) -> ConfigError:
    """Returns the error for an option that cannot be used; "" is a flag's value."""
    given = f"--{name}" if value == "" else f"--{name} {value}"
    return ConfigError(f"{given}: expected {expected}; {fix}")


def refuse_missing(options: Any, **expected: str) -> None:
    """Refuse options without a value; ``expected`` describes each.

    Raises:
        ConfigError: an option is not given, or empty.
    """
    for name, what in expected.items():
        if not getattr(options, name):
            raise ConfigError(f"--{name} is missing: expected {what}; add it")


def refuse_below(least: int, options: Any, *names: str, fix: str) -> None:
    """Refuse numbers below ``least``; None is allowed.

    Raises:
        ConfigError: a number is too low.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and value < least:
            raise refuse(name, value, f"{least} or more", fix)


def refuse_unknown(options: Any, name: str, known: Collection[str]) -> None:
    """Refuse a value that is not one of ``known``; None is allowed.

    Raises:
        ConfigError: the value is unknown.
    """
    value = getattr(options, name)
    if value is not None and value not in known:
        raise refuse(name, value, f"one of {', '.join(known)}", "choose one")


def needs(options: Any, name: str, other: str) -> None:
    """Refuse an option that has no effect without another one.

    Raises:
        ConfigError: ``name`` is given, and ``other`` is not.
    """
    value = getattr(options, name)
    if value and not getattr(options, other):
        fix = "add it, or leave this out"
        raise refuse(name, value, f"--{other} with it", fix)


def refuse_input(name: str, output: str | None, **inputs: str | None) -> None:
    """Refuse an output that would replace an input of the command.

    Args:
        name, output: name and value of the option of the file to write.
        inputs: the files to read, by the name of their option.

    Raises:
        ConfigError: the output is one of the inputs, or a link to one.
    """
    for other, path in inputs.items():
        there = os.path.isfile(path or "") and os.path.isfile(output or "")
        if there and os.path.samefile(str(path), str(output)):
            fix = "choose another name"
            raise refuse(name, output, f"another file than --{other}", fix)


# Names on the command line that are clearer than the kind's own names.
_FIELDS = {"predictive_layers": "num_layers"}
_TYPES = {"bool": bool, "int": int, "float": float, "str": str}


@dataclass
class _KnownOptions:
    """Options that have their own name and help text on the command line."""

    defaults: ClassVar[dict[str, float]] = {"alpha": 0.1, "beta": 0.1}

    attention: str | None = option(None, f"{KINDS}; default: what the checkpoint says.")
    alpha: float | None = option(
        None, "Weight of the previous map, 0 to 1 (evolving, predictive); default: 0.1."
    )
    beta: float | None = option(
        None, "Weight of the convolution, 0 to 1 (evolving); default: 0.1."
    )
    kernel_size: int | None = option(None, "Odd kernel size (evolving); default: 3.")
    conv_init: str | None = option(
        None, "Initial kernel: fan_in (random, as in the paper) or identity (evolving)."
    )
    running_mean: bool | None = option(
        None,
        "Divide summed scores by the layer's number (residual); default: only with "
        "more than 24 layers.",
    )
    predictive_layers: int | None = option(
        None, "Number of stacked convolutions (predictive); default: 1."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.attention is not None:
            self.config()  # report mistakes before a model is loaded

    def config(self) -> Evolve | None:
        """Returns the attention of the model; None: the checkpoint's.

        Raises:
            ConfigError: the kind is unknown, an option does not belong to it or is out
                of range, or options are given without a kind.
        """
        from evolving_attention.attention import from_config, kinds

        every = [f.name for f in dataclasses.fields(AttentionOptions)]
        given = {n: getattr(self, n) for n in every if getattr(self, n) is not None}
        kind = given.pop("attention", None)
        has = {k: getattr(v, "__dataclass_fields__", {}) for k, v in kinds().items()}
        if kind is None:
            for name, value in given.items():
                having = [k for k, own in has.items() if _FIELDS.get(name, name) in own]
                fix = f"add --attention {having[0]}"
                raise refuse(name, value, "--attention with it", fix)
            return None
        known = has.get(kind, {})
        options = {n: v for n, v in self.defaults.items() if n in known}
        for name, value in given.items():
            own = _FIELDS.get(name, name)
            options[own if own in known else name] = value
        try:
            chosen: Evolve = from_config({"kind": kind, **options})
        except ConfigError as error:
            raise ConfigError(f"--attention {kind}: {error}") from error
        return chosen


def _other_options() -> list[tuple[str, Any, Any]]:
    """Returns a field KIND_OPTION for each option of a core kind not defined above."""
    known = [_FIELDS.get(f.name, f.name) for f in dataclasses.fields(_KnownOptions)]
    found = []
    for kind, declared in _DECLARED.items():
        for one in declared["options"]:
            if one["name"] in known:
                continue
            name = f"{kind}_{one['name']}"
            _FIELDS[name] = one["name"]
            hint: Any = _TYPES[one["type"].removesuffix("?")] | None
            found.append((name, hint, option(None, f"{one['doc']} ({kind}).")))
    return found


if TYPE_CHECKING:

    class AttentionOptions(_KnownOptions):
        """How a layer's attention map uses the previous layer's map.

        Each command derives its own class, which may change defaults and add options.
        """

else:
    AttentionOptions = dataclasses.make_dataclass(
        "AttentionOptions",
        _other_options(),
        bases=(_KnownOptions,),
        namespace={"__module__": __name__},
    )
