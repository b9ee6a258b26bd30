"""The Transformer of translation (Vaswani et al., NeurIPS 2017): config and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from evolving_attention import _core
from evolving_attention.attention import (
    Dense,
    Evolve,
    Evolving,
    EvolvingCausal,
    Predictive,
    Spec,
    Vanilla,
    from_config,
)
from evolving_attention.attention import spec as spec_room
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.interop.config_rules import Rules, check_rules
from evolving_attention.interop.transformer import TRANSFORMER
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.generation import GenerativeModel
from evolving_attention.modeling.names import register_sizes
from evolving_attention.notices import say

__all__ = [
    "TransformerConfig",
    "TransformerForConditionalGeneration",
    "TransformerModel",
]

_RULES = Rules(
    integers={
        "decoder_vocab_size": (1, 10_000_000),
        "d_model": (1, 65_536),
        "encoder_layers": (1, 1_000),
        "decoder_layers": (1, 1_000),
        "encoder_attention_heads": (1, 1_024),
        "decoder_attention_heads": (1, 1_024),
        "encoder_ffn_dim": (1, 1_048_576),
        "decoder_ffn_dim": (1, 1_048_576),
    },
    numbers={"dropout": (0.0, 1.0), "attention_dropout": (0.0, 1.0)},
    strings=("activation_function",),
    flags=(
        "scale_embedding",
        "share_encoder_decoder_embeddings",
        "tie_word_embeddings",
    ),
)
_TOKENS = ("bos_token_id", "eos_token_id", "decoder_start_token_id")
_DECODER = ("decoder_attention", "cross_attention")
_SAID: set[str] = set()


class TransformerConfig(PretrainedConfig):
    """Sizes of an encoder-decoder, by default Transformer-Base.

    Options have the names of Hugging Face's encoder-decoder configs.

    Args:
        vocab_size: tokens of the source; needed.
        decoder_vocab_size: tokens of the target; None: ``vocab_size``.
        d_model: width.
        encoder_layers, decoder_layers: numbers of layers.
        encoder_attention_heads, decoder_attention_heads: heads of each layer.
        encoder_ffn_dim, decoder_ffn_dim: widths of the feed-forward.
        activation_function: of the feed-forward.
        dropout: of the embeddings and of every residual.
        attention_dropout: of the attention probabilities.
        max_position_embeddings: the longest source or target. Positions are sines and
            cosines, so no parameter depends on it.
        layer_norm_eps: of all norms.
        norm_first: norms before attention and feed-forward (pre-norm), and one behind
            the last layer of each stack.
        scale_embedding: whether embeddings are multiplied by √d_model.
        share_encoder_decoder_embeddings: one table for source and target.
        tie_word_embeddings: whether the output matrix is the target's table.
        pad_token_id: stands for -100 in inputs that follow from labels.
        bos_token_id, eos_token_id: first and last token of a text.
        decoder_start_token_id: the first token of every decoder input; None:
            ``bos_token_id``.
        attention: the encoder's self attention: see :class:`PretrainedConfig`.
        decoder_attention: the decoder's self attention: an evolve kind that reads no
            later query, such as :class:`~evolving_attention.attention.EvolvingCausal`,
            a spec with a causal scope, or a list of them. The maps of each of the three
            attentions are a chain of their own.
        cross_attention: the decoder's attention over the encoder's output, likewise,
            such as ``EvolvingCausal(0, 0.1, shift="query")``.

    Raises:
        ConfigError: an option is missing, unknown, of the wrong type or out of range,
            or a decoder would see later target tokens.
    """

    model_type = "transformer"
    defaults: ClassVar[dict[str, Any]] = {
        "vocab_size": None,
        "decoder_vocab_size": None,
        "d_model": 512,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "decoder_ffn_dim": 2048,
        "activation_function": "relu",
        "dropout": 0.1,
        "attention_dropout": 0.0,
        "max_position_embeddings": 1024,
        "layer_norm_eps": 1e-5,
        "norm_first": False,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": None,
        "decoder_attention": None,
        "cross_attention": None,
    }

    def _set(
        self, values: dict[str, Any], attention: Any, extra: dict[str, Any]
    ) -> None:
        source = type(self).__name__
        if values["vocab_size"] is None:
            raise ConfigError(
                f"{source}: vocab_size is missing; expected an integer, the number of "
                f"the tokenizer's tokens: {source}(vocab_size=8000)"
            )
        check_rules(values, source, _RULES)
        if values["decoder_start_token_id"] is None:
            values["decoder_start_token_id"] = values["bos_token_id"]
        chains = {name: values.pop(name) for name in _DECODER}
        super()._set(values, attention, extra)
        self.decoder_attention = _causal(chains["decoder_attention"])
        self.cross_attention = _of_later_targets(
            from_config(chains["cross_attention"]), source
        )
        self._check_tokens(source)

    def _check_tokens(self, source: str) -> None:
        words = self.decoder_vocab_size or self.vocab_size
        for name in _TOKENS:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value < words:
                raise ConfigError(
                    f"{source}: {name} is {value!r}, expected an integer from 0 to "
                    f"{words - 1} (the target's vocabulary has {words} tokens)"
                )

    @property
    def num_hidden_layers(self) -> int:
        """Layers of the encoder."""
        return int(self.encoder_layers)

    @property
    def stacks(self) -> dict[str, int]:
        """Layers of each stack, by the prefix of its outputs' names."""
        return {
            "encoder_": int(self.encoder_layers),
            "decoder_": int(self.decoder_layers),
        }

    def to_dict(self) -> dict[str, Any]:
        """The contents of config.json. Vanilla attention leaves no trace in it."""
        values = super().to_dict()
        for name in _DECODER:
            kind = _short(values.pop(name))
            if not isinstance(kind, Vanilla):
                values[name] = spec_room.to_config(kind)
        return values

    def core_options(self) -> dict[str, Any]:
        """The flat settings the C++ core reads."""
        options = super().core_options()
        for name in _DECODER:
            options[name] = spec_room.to_core(options[name])
        return options


def _causal(value: Any) -> Any:
    """Self attention of a decoder: what is only an evolve kind gets a causal scope."""
    made = from_config(value)
    if isinstance(made, tuple):
        return tuple(_causal(each) for each in made)
    if isinstance(made, Evolve):
        return Spec(scope=Dense(causal=True), evolve=made)
    if not getattr(made.scope, "causal", False):
        raise ConfigError(
            f"decoder_attention: the scope is {made.scope!r}, which shows later "
            "tokens; expected a causal one, such as ea.attention.Dense(causal=True)"
        )
    return made


def _short(made: Any) -> Any:
    """The evolve kinds of specs that are what :func:`_causal` makes."""
    if isinstance(made, tuple):
        return tuple(_short(each) for each in made)
    plain = isinstance(made, Spec) and made == _causal(made.evolve)
    return made.evolve if plain else made


def _of_later_targets(made: Any, source: str) -> Any:
    """Refuse cross attention whose maps read later target tokens, or warn of it."""
    for each in made if isinstance(made, tuple) else (made,):
        if not _core.reads_later_queries(spec_room.to_core(each)):
            continue
        evolve = each if isinstance(each, Evolve) else each.evolve
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
    return made


class _Transformer(PreTrainedModel):
    config_class = TransformerConfig
    table = TRANSFORMER

    needed = (
        "input_ids",
        "pass the source's token ids, and the target's as labels or decoder_input_ids",
    )


class TransformerModel(_Transformer):
    """Encoder and decoder: ``last_hidden_state`` and ``encoder_last_hidden_state``."""

    head = "base"

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        if inputs.get("labels") is not None:
            raise InputError(
                f"{type(self).__name__}: labels are given, but a model without a task "
                "has no loss; expected decoder_input_ids; use "
                "ea.TransformerForConditionalGeneration"
            )


class TransformerForConditionalGeneration(GenerativeModel, _Transformer):
    """Predicts each target token from the source and the tokens before it.

    The loss is the mean cross entropy of the labels that are not -100; a training
    recipe of translation passes ``label_smoothing=0.1``.
    """

    head = "seq2seq_lm"


_LITE: dict[str, Any] = {
    "vocab_size": 10_000,
    "d_model": 160,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 160,
    "decoder_ffn_dim": 160,
}
_BASE: dict[str, Any] = {"vocab_size": 32_000}
for _name, _sizes, _alpha in (("lite", _LITE, 0.1), ("base", _BASE, 0.5)):
    # Wang et al., 2021, Section 4.3: the skip is the encoder's alone.
    _evolving: dict[str, Any] = {
        "attention": Evolving(_alpha, 0.1),
        "decoder_attention": EvolvingCausal(0.0, 0.1),
        "cross_attention": EvolvingCausal(0.0, 0.1, shift="query"),
    }
    _own: dict[str, Any] = {"prefixes": ("",), "config": TransformerConfig, **_sizes}
    register_sizes(f"transformer_{_name}", **_own)
    register_sizes(f"ea_transformer_{_name}", **_own, **_evolving)
    # Predictive attention is the encoder's alone, as in its paper.
    register_sizes(f"pa_transformer_{_name}", **_own, attention=Predictive(0.1))
