"""EA-DC-Transformer: config and task classes for time series."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from evolving_attention import _core
from evolving_attention.attention import Evolving, Vanilla
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.interop.config_rules import Rules, check_rules
from evolving_attention.interop.series import EA_DC_TRANSFORMER
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.outputs import ModelOutput
from evolving_attention.modeling.wanted import wanted_indices

__all__ = [
    "EADCTransformerConfig",
    "EADCTransformerForClassification",
    "EADCTransformerForPretraining",
    "EADCTransformerForRegression",
    "EADCTransformerModel",
]

_RULES = Rules(
    integers={
        "channels": (1, 1_000_000),
        "max_length": (1, 10_000_000),
        "num_blocks": (1, 500),
        "kernel_size": (1, 1_023),
        "dilation_base": (1, 64),
        "num_targets": (1, 1_000_000),
    },
    numbers={"attention_ratio": (0.0, 1.0)},
    strings=("norm", "position", "relative", "pooling"),
    flags=("causal", "released_behaviour"),
)
_NEEDED = ("channels", "max_length")


class EADCTransformerConfig(PretrainedConfig):
    """Sizes of EA-DC-Transformer; see :class:`PretrainedConfig` for ``attention``.

    Args:
        channels: variables of the series; needed.
        max_length: steps of the longest series; needed. Positions and the flat head
            have this size, and longer series are refused.
        hidden_size: d, width of the representation; 64 or 128 in the paper.
        num_blocks: n, blocks of two layers each; 2 to 5 in the paper. The program's
            ``--num_layers k`` makes k + 1 blocks.
        num_attention_heads: K; p·d must be a multiple of it.
        attention_ratio: p in [0, 1]: p·d features are of attention, the others of the
            convolution. 0: dilated convolution alone; 1: EA-Transformer.
        intermediate_size: width of the feed-forward.
        kernel_size: taps of the dilated convolution; odd unless ``causal``.
        dilation_base: block b, from 0, has the dilation ``dilation_base ** b``.
        causal: whether the convolution sees only the past. Attention sees all steps.
        hidden_act: of the feed-forward; None: ``"relu"``, or ``"leaky_relu"`` with
            ``released_behaviour``.
        norm: ``"batch"`` (over the valid steps of a batch) or ``"layer"``.
        hidden_dropout_prob: behind the embedding and in the feed-forward.
        attention_probs_dropout_prob: None: 0.1, or 0 with ``released_behaviour``.
        classifier_dropout: before the head; None: ``hidden_dropout_prob``.
        position: ``"learned"`` positions are added to the embedding, or ``"none"``.
        relative: ``"learned"`` relative positions are added to the scores before these
            evolve (one table a layer, shared by the heads), or ``"none"``.
        pooling: the head reads all steps side by side (``"flatten"``, zeros behind the
            end of a series) or their ``"mean"``.
        num_labels: classes of the classifier; names go to ``id2label``.
        num_targets: values the regressor predicts.
        released_behaviour: what the released program computes where it departs from
            the paper and is well defined: LeakyReLU in the feed-forward and on maps
            (:class:`~evolving_attention.attention.EvolvingReleased`), dropout on
            carried maps, no evolving in the first block, no output projection of the
            heads, convolution before attention in the concatenation. Not what is an
            accident there: random relative positions, attention to padding, heads
            joined without transposing.

    Raises:
        ConfigError: an option is missing, unknown, of the wrong type or out of range.

    Source: Wang et al., Convolution-enhanced Evolving Attention Networks, TPAMI 2023,
    Section 3.3. Norms, the residual over each block and the embedding, which the paper
    leaves out, are the released program's in either case.
    """

    model_type = "ea_dc_transformer"
    defaults: ClassVar[dict[str, Any]] = {
        "channels": None,
        "max_length": None,
        "hidden_size": 128,
        "num_blocks": 3,
        "num_attention_heads": 8,
        "attention_ratio": 0.25,
        "intermediate_size": 256,
        "kernel_size": 3,
        "dilation_base": 2,
        "causal": True,
        "hidden_act": None,
        "norm": "batch",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": None,
        "position": "learned",
        "relative": "none",
        "pooling": "flatten",
        "num_targets": 1,
        "released_behaviour": False,
    }

    def _set(
        self, values: dict[str, Any], attention: Any, extra: dict[str, Any]
    ) -> None:
        source = type(self).__name__
        for name in _NEEDED:
            if values[name] is None:
                raise ConfigError(
                    f"{source}: {name} is missing; expected an integer: "
                    f"{source}(channels=12, max_length=29)"
                )
        check_rules(values, source, _RULES)
        super()._set(values, attention, extra)
        if self.released_behaviour and not isinstance(
            self.attention, (Evolving, Vanilla)
        ):
            raise ConfigError(
                f"{source}: released_behaviour with attention={self.attention!r}; "
                "expected Evolving or Vanilla, which the released program has; leave "
                "released_behaviour out"
            )

    @property
    def num_hidden_layers(self) -> int:
        """Layers: two in each block."""
        return 2 * self.num_blocks

    def core_options(self) -> dict[str, Any]:
        """The flat settings the C++ core reads."""
        options = super().core_options()
        if self.released_behaviour and isinstance(self.attention, Evolving):
            of_program = {
                k: v for k, v in options["attention"].items() if k != "conv_init"
            }
            options["attention"] = {**of_program, "kind": "evolving_released"}
        return options


class _Series(PreTrainedModel):
    config_class = EADCTransformerConfig
    table = EA_DC_TRANSFORMER

    def _make_core(self, options: dict[str, Any]) -> Any:
        return _core.create_series_model(
            options, self.dtype, self.config.attention.core_slot()
        )

    def __call__(
        self,
        values: Any = None,
        lengths: Any = None,
        labels: Any = None,
        *,
        sequence_offsets: Any = None,
        masked: Any = None,
        label_smoothing: float = 0.0,
        output_hidden_states: bool | list[int] = False,
        output_attentions: bool | list[int] = False,
        output_attention_logits: bool | list[int] = False,
    ) -> ModelOutput:
        """Run the model on padded or packed series.

        Args:
            values: numbers [n, length, channels], time before channels; or packed
                [total, channels] with ``sequence_offsets``. What stands behind the end
                of a series is not read, and changes nothing.
            lengths: [n] integers from 1 to length; all of full length by default.
            labels: [n] classes; of regressors [n] or [n, num_targets] values.
            sequence_offsets: [n + 1], where each packed series begins; ends with total.
            masked: of models for pre-training: booleans of the shape of ``values``,
                True for cells that are hidden and to be predicted.
            label_smoothing: in [0, 1), of classifiers.
            output_hidden_states, output_attentions, output_attention_logits: True, or
                a list of indices, to return them, padded to [n, …, length], zeros
                outside; of packed input the hidden states stay packed.

        Raises:
            InputError, ShapeError, DTypeError: an input cannot be used; says which one,
                where, and what was expected.
        """
        name = type(self).__name__
        if values is None:
            raise InputError(
                f"{name}: values is missing; pass an array (series, length, channels)"
            )
        if isinstance(label_smoothing, bool) or not isinstance(
            label_smoothing, (int, float, np.number)
        ):
            raise ConfigError(
                f"{name}: label_smoothing={label_smoothing!r}, expected a number in "
                "[0, 1)"
            )
        layers = self.config.num_hidden_layers
        return ModelOutput(
            **self._core.forward(
                values,
                lengths,
                labels,
                sequence_offsets,
                masked,
                label_smoothing,
                wanted_indices(
                    "output_hidden_states", output_hidden_states, layers + 1
                ),
                wanted_indices("output_attentions", output_attentions, layers),
                wanted_indices(
                    "output_attention_logits", output_attention_logits, layers
                ),
            )
        )


class EADCTransformerModel(_Series):
    """The representation of every step: ``last_hidden_state``."""

    head = "base"


class EADCTransformerForClassification(_Series):
    """Classes of whole series; the loss is cross entropy (Eq. 10)."""

    head = "classification"


class EADCTransformerForRegression(_Series):
    """Values of whole series; the loss is the mean squared error (Eq. 9)."""

    head = "regression"


class EADCTransformerForPretraining(_Series):
    """Reconstructs hidden values; the loss is of the hidden cells alone (Eq. 7, 8)."""

    head = "pretraining"
