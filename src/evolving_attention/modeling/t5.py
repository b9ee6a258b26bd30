"""T5 and T5 v1.1 (Raffel et al., JMLR 2020): config and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evolving_attention.attention import (
    BucketedPositions,
    Dense,
    Dot,
    Evolve,
    Spec,
)
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.t5 import OUTPUT, T5, WORDS
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.encoder_decoder import (
    EncoderDecoderConfig,
    EncoderDecoderModel,
    register_family,
)
from evolving_attention.modeling.generation import GenerativeModel

_GATED = "gated-"


class T5Config(EncoderDecoderConfig):
    """Sizes of T5, by default T5-Small; options have Hugging Face's names.

    Version 1.1 is ``feed_forward_proj="gated-gelu"`` with
    ``tie_word_embeddings=False``.

    Args:
        vocab_size: tokens of source and target.
        d_model: width.
        d_kv: width of a head; ``num_heads · d_kv`` need not be ``d_model``.
        d_ff: width of the feed-forward.
        num_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder; None: ``num_layers``.
        num_heads: heads of each layer.
        relative_attention_num_buckets, relative_attention_max_distance: number of
            buckets and greatest distance of the positions: see
            :class:`~evolving_attention.attention.BucketedPositions`.
        dropout_rate: for embeddings, attention probabilities, activations, residuals
            and the last norm of each stack.
        layer_norm_epsilon: epsilon of all RMS norms.
        initializer_factor: scales the standard deviations of all initial values.
        feed_forward_proj: ``"relu"`` or another activation; ``"gated-gelu"`` (gelu_new
            with a gate) or another one after ``gated-``.
        tie_word_embeddings: whether the output matrix is the table of words.
        scale_decoder_outputs: whether the decoder's output is divided by √d_model
            before the output matrix; None: only if that is the table of words.
        pad_token_id: replaces -100 in inputs derived from labels.
        eos_token_id: last token of a text.
        decoder_start_token_id: the first token of every decoder input; None:
            ``pad_token_id``.
        attention: the encoder's self-attention: see :class:`PretrainedConfig`. An
            evolve kind alone means T5's layer with that kind: unscaled scores and the
            buckets' bias, which evolve together. The same holds for the next two.
        decoder_attention: the decoder's self-attention: an evolve kind that reads no
            later query, such as :class:`~evolving_attention.attention.EvolvingCausal`,
            a spec with a causal scope, or a list of them.
        cross_attention: the decoder's attention over the encoder's output, without a
            bias; likewise, such as ``EvolvingCausal(0, 0.1, shift="query")``.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, or a
            decoder would see later target tokens.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.T5Config(
        ...     feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_ff=1024
        ... )
        >>> config.num_decoder_layers
        6
    """

    model_type = "t5"
    marks_evolving = True
    defaults: ClassVar[dict[str, Any]] = {
        "vocab_size": 32_128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_decoder_layers": None,
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6,
        "initializer_factor": 1.0,
        "feed_forward_proj": "relu",
        "tie_word_embeddings": True,
        "scale_decoder_outputs": None,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": None,
        "decoder_attention": None,
        "cross_attention": None,
    }
    rules = Rules(
        integers={
            "d_model": (1, 65_536),
            "d_kv": (1, 65_536),
            "d_ff": (1, 1_048_576),
            "num_layers": (1, 1_000),
            "num_decoder_layers": (1, 1_000),
            "num_heads": (1, 1_024),
            "relative_attention_num_buckets": (2, 1_048_576),
            "relative_attention_max_distance": (2, 16_777_216),
        },
        numbers={
            "dropout_rate": (0.0, 1.0),
            "layer_norm_epsilon": (0.0, 1.0),
            "initializer_factor": (0.0, 1_000.0),
        },
        strings=("feed_forward_proj",),
        flags=("tie_word_embeddings", "scale_decoder_outputs"),
    )
    tokens = ("eos_token_id", "decoder_start_token_id")

    def _complete(self, values: dict[str, Any]) -> None:
        for name, other in (
            ("num_decoder_layers", "num_layers"),
            ("decoder_start_token_id", "pad_token_id"),
        ):
            if values[name] is None:
                values[name] = values[other]

    def _layer(self, chain: str, evolve: Evolve) -> Spec:
        if chain == "cross_attention":
            return Spec(score=Dot(scale=1.0), evolve=evolve)
        causal = chain == "decoder_attention"
        bias = BucketedPositions(
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
            bidirectional=not causal,
            initial_std=self.initializer_factor / self.d_model**0.5,
        )
        return Spec(Dot(scale=1.0), Dense(causal), bias, evolve)

    @property
    def num_hidden_layers(self) -> int:
        """Number of encoder layers."""
        return int(self.num_layers)

    @property
    def stacks(self) -> dict[str, int]:
        """Number of layers of each stack, by the prefix of its outputs' names."""
        return {
            "encoder_": int(self.num_layers),
            "decoder_": int(self.num_decoder_layers),
        }

    @property
    def scales_output(self) -> bool:
        """Whether the decoder's output is divided by √d_model."""
        if self.scale_decoder_outputs is None:
            return bool(self.tie_word_embeddings)
        return bool(self.scale_decoder_outputs)

    def to_dict(self) -> dict[str, Any]:
        """Returns the contents of config.json; vanilla attention is left out."""
        return {"is_encoder_decoder": True, **super().to_dict()}

    def core_options(self) -> dict[str, Any]:
        """Returns the flat settings that the C++ core reads."""
        options = super().core_options()
        kind = str(self.feed_forward_proj)
        gated = kind.startswith(_GATED)
        function = kind.removeprefix(_GATED)
        options["is_gated_act"] = gated
        options["dense_act_fn"] = "gelu_new" if kind == "gated-gelu" else function
        options["scale_decoder_outputs"] = self.scales_output
        return options


class _T5(EncoderDecoderModel):
    config_class = T5Config
    table = T5

    def _additions(self) -> list[str]:
        """Excludes the bucket tables: a T5 checkpoint must have them."""
        own = "relative_attention_bias"
        return [name for name in super()._additions() if own not in name]


class T5Model(_T5):
    """Encoder and decoder: ``last_hidden_state`` and ``encoder_last_hidden_state``."""

    head = "base"


class T5ForConditionalGeneration(GenerativeModel, _T5):
    """Predicts each target token from the source and the tokens before it.

    The loss is the mean cross entropy of the labels that are not -100.
    """

    head = "seq2seq_lm"

    @classmethod
    def _adapt(
        cls, config: PretrainedConfig, tensors: Mapping[str, np.ndarray]
    ) -> PretrainedConfig:
        """Unties the output matrix where the checkpoint has a separate one.

        Version 5 of transformers writes in any case that the two are tied.
        """
        words, output = tensors.get(WORDS), tensors.get(OUTPUT)
        tied = words is None or output is None or np.array_equal(words, output)
        if config.tie_word_embeddings and not tied:
            config.scale_decoder_outputs = config.scales_output
            config.tie_word_embeddings = False
        return config


_BASE: dict[str, Any] = {
    "d_model": 768,
    "d_ff": 3072,
    "num_layers": 12,
    "num_heads": 12,
}
_V1_1: dict[str, Any] = {
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
_SIZES: dict[str, dict[str, Any]] = {
    "t5_small": {},
    "t5_base": _BASE,
    "t5_v1_1_small": {**_V1_1, "d_ff": 1024, "num_layers": 8, "num_heads": 6},
    "t5_v1_1_base": {**_BASE, **_V1_1, "d_ff": 2048},
}
for _name, _sizes in _SIZES.items():
    register_family(_name, T5Config, **_sizes)
