"""Options of the commands that choose how attention maps evolve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from evolving_attention.errors import ConfigError

__all__ = ["AttentionOptions", "option", "refuse"]


def option(default: Any, text: str) -> Any:
    """A field with its help text."""
    return field(default=default, metadata={"help": text})


def refuse(name: str, value: Any, expected: str, fix: str) -> ConfigError:
    """The error for an option that cannot be used."""
    return ConfigError(f"--{name} {value}: expected {expected}; {fix}")


# Options of each kind of attention: name on the command line to the config's field.
_OF_KIND: dict[str, dict[str, str]] = {
    "vanilla": {},
    "evolving": {
        "alpha": "alpha",
        "beta": "beta",
        "kernel_size": "kernel_size",
        "conv_init": "conv_init",
    },
    "residual": {"running_mean": "running_mean"},
    "predictive": {"alpha": "alpha", "predictive_layers": "num_layers"},
}


@dataclass
class AttentionOptions:
    """How the attention map of a layer uses that of the layer before.

    A command derives its own class, which may have other defaults and more options.
    """

    defaults: ClassVar[dict[str, float]] = {"alpha": 0.1, "beta": 0.1}

    attention: str | None = option(
        None,
        "vanilla, evolving, residual or predictive; default: what the checkpoint says.",
    )
    alpha: float | None = option(
        None, "Weight of the previous map, 0 to 1: evolving, predictive; 0.1."
    )
    beta: float | None = option(
        None, "Weight of the convolution, 0 to 1: evolving; 0.1."
    )
    kernel_size: int | None = option(None, "Odd size of the convolution: evolving; 3.")
    conv_init: str | None = option(
        None, "fan_in (random, as in the paper) or identity: evolving."
    )
    running_mean: bool | None = option(
        None, "Divide by the layer's number: residual; beyond 24 layers."
    )
    predictive_layers: int | None = option(
        None, "Convolutions in a row: predictive; 1."
    )

    def __post_init__(self) -> None:
        if self.attention is not None and self.attention not in _OF_KIND:
            raise refuse(
                "attention", self.attention, " or ".join(_OF_KIND), "choose one"
            )

    def config(self) -> dict[str, Any] | None:
        """The attention of the model as a dict with ``kind``; None: the checkpoint's.

        Raises:
            ConfigError: an option is given that this kind of attention does not have.
        """
        every = dict.fromkeys(n for names in _OF_KIND.values() for n in names)
        given = {n: getattr(self, n) for n in every if getattr(self, n) is not None}
        if self.attention is None:
            if given:
                name, value = next(iter(given.items()))
                having = [kind for kind, names in _OF_KIND.items() if name in names]
                raise refuse(
                    name,
                    value,
                    "--attention beside it",
                    f"add --attention {having[0]}",
                )
            return None
        known = _OF_KIND[self.attention]
        for name, value in given.items():
            if name not in known:
                options = ", ".join(f"--{n}" for n in known) or "no options"
                raise refuse(
                    name,
                    value,
                    f"no such option with --attention {self.attention}",
                    f"it has {options}",
                )
        values = {n: v for n, v in self.defaults.items() if n in known} | given
        return {"kind": self.attention} | {known[n]: v for n, v in values.items()}
