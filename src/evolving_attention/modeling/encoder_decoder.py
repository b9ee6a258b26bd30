"""Common base of encoder-decoders: three attentions, each with its own chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from evolving_attention import _core
from evolving_attention.attention import (
    Evolve,
    Evolving,
    EvolvingCausal,
    Predictive,
    Spec,
    Window,
    from_config,
)
from evolving_attention.attention.spec import each, layers_of, to_core
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.modeling.base import MODELS, PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.names import register_sizes
from evolving_attention.notices import say

_DECODER = ("decoder_attention", "cross_attention")
_SAID: set[str] = set()


class EncoderDecoderConfig(PretrainedConfig):
    """Base of the configs of encoder-decoders.

    ``attention``, ``decoder_attention`` and ``cross_attention`` are each as in
    :class:`PretrainedConfig`, and each has its own chain of maps.
    """

    chains = ("attention", *_DECODER)
    tokens: ClassVar[tuple[str, ...]]  # options that are ids of target tokens

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        source = type(self).__name__
        self._complete(values)
        given = {name: values.pop(name) for name in _DECODER}
        super()._set(values, attention)
        for name in _DECODER:
            setattr(self, name, given[name])
        self._check_tokens(source)

    def _chain(self, name: str, given: Any) -> Any:
        full = each(from_config(given), partial(self._full, name))
        if name == "cross_attention":
            _check_order(full, type(self).__name__)
        return self._kept(name, full)

    def _complete(self, values: dict[str, Any]) -> None:
        """Fills in the options that follow from others."""

    def _full(self, chain: str, made: Any) -> Spec:
        """Returns the complete spec of one layer."""
        full = super()._full(chain, made)
        if chain == "decoder_attention" and not getattr(full.scope, "causal", False):
            raise ConfigError(
                f"decoder_attention: the scope is {full.scope!r}, which shows later "
                "tokens; expected a causal one, such as ea.attention.Dense(causal=True)"
            )
        return full

    def _kept(self, chain: str, full: Any) -> Any:
        """Returns the form of a chain that the config shows."""
        return each(full, partial(self._short, chain))

    def _check_tokens(self, source: str) -> None:
        words = self.target_words
        for name in self.tokens:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value < words:
                raise ConfigError(
                    f"{source}: {name} is {value!r}, expected an integer from 0 to "
                    f"{words - 1} (the target's vocabulary has {words} tokens)"
                )

    @property
    def target_words(self) -> int:
        """Number of tokens in the target's vocabulary."""
        return int(self.vocab_size)


def _check_order(cross: Any, source: str) -> None:
    """Rejects cross-attention whose maps read later target tokens, or warns."""
    for one in layers_of(cross):
        if isinstance(one.scope, Window):
            raise ConfigError(
                f"{source}: cross_attention has the scope {one.scope!r}, which needs "
                "keys of the queries' own tokens; expected ea.attention.Dense()"
            )
        if not _core.reads_later_queries(to_core(one)):
            continue
        evolve = one.evolve
        if not isinstance(evolve, EvolvingCausal):
            raise ConfigError(
                f"{source}: cross_attention={evolve!r} reads the maps of later target "
                "tokens, so that the model would learn to copy them; expected "
                "kernel_size=1, or ea.attention.EvolvingCausal(alpha, beta, "
                "shift='query')"
            )
        say(
            f"{source}: cross_attention with shift='key_literal' reads "
            f"{evolve.kernel_size // 2} later target token(s), as the paper's text has "
            "it: losses come out too low and the model cannot generate token by token; "
            "shift='query' keeps the order",
            _SAID,
        )


class EncoderDecoderModel(PreTrainedModel):
    """Base class of the encoder-decoders."""

    needed = (
        "input_ids",
        "pass the source's token ids, and the target's as labels or decoder_input_ids",
    )

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        if self.head == "base" and inputs.get("labels") is not None:
            other = MODELS["seq2seq_lm"][self.config.model_type].__name__
            raise InputError(
                f"{type(self).__name__}: labels are given, but a model without a task "
                f"has no loss; expected decoder_input_ids; use ea.{other}"
            )


def evolving_chains(attention: Evolve) -> dict[str, Evolve]:
    """Returns the three attentions of an encoder-decoder with this encoder kind.

    Evolving attention has convolutions in the decoder's self- and cross-attention too,
    with the encoder's β and without a skip (Wang et al., 2021, Section 4.3); the other
    kinds apply to the encoder only.

    Returns:
        Options of the config: ``attention``, ``decoder_attention`` and
        ``cross_attention``.
    """
    if not isinstance(attention, Evolving):
        return {"attention": attention}
    beta = attention.beta
    shared: dict[str, Any] = {
        "kernel_size": attention.kernel_size,
        "learnable": attention.learnable,
    }
    return {
        "attention": attention,
        "decoder_attention": EvolvingCausal(0.0, beta, **shared),
        "cross_attention": EvolvingCausal(0.0, beta, shift="query", **shared),
    }


def register_family(
    name: str,
    config: type[PretrainedConfig],
    *,
    alpha: float = 0.1,
    beta: float = 0.1,
    **sizes: Any,
) -> None:
    """Registers a size by name, also with evolving and with predictive attention.

    Args:
        name: name of the size, such as ``"t5_small"``; ``ea_`` and ``pa_`` are
            prepended.
        config: the config class of the architecture.
        alpha: weight of the encoder's skip; see :func:`evolving_chains`.
        beta: weight of the convolutions of all three attentions.
        sizes: options of the config.
    """
    evolving: dict[str, Any] = {**evolving_chains(Evolving(alpha, beta))}
    own: dict[str, Any] = {"prefixes": ("",), "config": config, **sizes}
    register_sizes(name, **own)
    register_sizes(f"ea_{name}", **own, **evolving)
    # Predictive attention applies to the encoder only, as in its paper.
    register_sizes(f"pa_{name}", **own, attention=Predictive(0.1))
