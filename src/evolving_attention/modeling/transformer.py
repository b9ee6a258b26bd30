"""Transformer for translation (Vaswani et al., NeurIPS 2017): config and tasks."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.attention import Dense, Evolve, Spec
from evolving_attention.errors import ConfigError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.transformer import TRANSFORMER
from evolving_attention.modeling.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderModel,
    register_family,
)
from evolving_attention.modeling.generation import GenerativeModel

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


class TransformerConfig(EncoderDecoderConfig):
    """Sizes of an encoder-decoder, by default Transformer-Base.

    Options have the names of Hugging Face's encoder-decoder configs.

    Args:
        vocab_size: tokens of the source; required.
        decoder_vocab_size: tokens of the target; None: ``vocab_size``.
        d_model: width.
        encoder_layers, decoder_layers: numbers of layers.
        encoder_attention_heads, decoder_attention_heads: heads of each layer.
        encoder_ffn_dim, decoder_ffn_dim: widths of the feed-forward.
        activation_function: activation of the feed-forward.
        dropout: dropout of the embeddings and of every residual.
        attention_dropout: dropout of the attention probabilities.
        max_position_embeddings: length of the longest source or target. Positions are
            sines and cosines, so no parameter depends on it.
        layer_norm_eps: epsilon of all norms.
        norm_first: norms before attention and feed-forward (pre-norm), and one after
            the last layer of each stack.
        scale_embedding: whether embeddings are multiplied by √d_model.
        share_encoder_decoder_embeddings: one table for source and target.
        tie_word_embeddings: whether the output matrix is the target's table.
        pad_token_id: replaces -100 in inputs derived from labels.
        bos_token_id, eos_token_id: first and last token of a text.
        decoder_start_token_id: the first token of every decoder input; None:
            ``bos_token_id``.
        attention: the encoder's self-attention: see :class:`PretrainedConfig`.
        decoder_attention: the decoder's self-attention: an evolve kind that reads no
            later query, such as :class:`~evolving_attention.attention.EvolvingCausal`,
            a spec with a causal scope, or a list of them. Each of the three attentions
            has its own chain of maps.
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

    rules = _RULES
    tokens = ("bos_token_id", "eos_token_id", "decoder_start_token_id")

    def _complete(self, values: dict[str, Any]) -> None:
        source = type(self).__name__
        if values["vocab_size"] is None:
            raise ConfigError(
                f"{source}: vocab_size is missing; expected an integer, the number of "
                f"the tokenizer's tokens: {source}(vocab_size=8000)"
            )
        if values["decoder_start_token_id"] is None:
            values["decoder_start_token_id"] = values["bos_token_id"]

    def _layer(self, chain: str, evolve: Evolve) -> Spec:
        return Spec(scope=Dense(causal=chain == "decoder_attention"), evolve=evolve)

    def _kept(self, chain: str, full: Any) -> Any:
        """Keeps the decoder's specs whole: they show that its scope is causal."""
        return full if chain == "decoder_attention" else super()._kept(chain, full)

    @property
    def target_words(self) -> int:
        """Number of tokens in the target's vocabulary."""
        return int(self.decoder_vocab_size or self.vocab_size)

    @property
    def num_hidden_layers(self) -> int:
        """Number of encoder layers."""
        return int(self.encoder_layers)

    @property
    def stacks(self) -> dict[str, int]:
        """Number of layers of each stack, by the prefix of its outputs' names."""
        return {
            "encoder_": int(self.encoder_layers),
            "decoder_": int(self.decoder_layers),
        }


class _Transformer(EncoderDecoderModel):
    config_class = TransformerConfig
    table = TRANSFORMER


class TransformerModel(_Transformer):
    """Encoder and decoder: ``last_hidden_state`` and ``encoder_last_hidden_state``."""

    head = "base"


class TransformerForConditionalGeneration(GenerativeModel, _Transformer):
    """Predicts each target token from the source and the tokens before it.

    The loss is the mean cross entropy over the labels that are not -100. Training
    recipes for translation pass ``label_smoothing=0.1``.
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
    register_family(f"transformer_{_name}", TransformerConfig, alpha=_alpha, **_sizes)
