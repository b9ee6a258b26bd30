"""EA-DC-Transformer: config and task classes for time series."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.attention import Evolving, Vanilla
from evolving_attention.errors import ConfigError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.series import EA_DC_TRANSFORMER
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig

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
        channels: variables of the series; required.
        max_length: steps of the longest series; required. Positions and the flat head
            have this size; longer series are rejected.
        hidden_size: d, width of the representation; 64 or 128 in the paper.
        num_blocks: n, blocks of two layers each; 2 to 5 in the paper. The program's
            ``--num_layers k`` makes k + 1 blocks.
        num_attention_heads: K; must divide p·d.
        attention_ratio: p in [0, 1]: attention computes p·d features, the convolution
            the others. 0: dilated convolution alone; 1: EA-Transformer.
        intermediate_size: width of the feed-forward.
        kernel_size: taps of the dilated convolution; odd unless ``causal``.
        dilation_base: block b, counted from 0, has dilation ``dilation_base ** b``.
        causal: whether the convolution sees only the past. Attention sees all steps.
        hidden_act: activation of the feed-forward; None: ``"relu"``, or
            ``"leaky_relu"`` with ``released_behaviour``.
        norm: ``"batch"`` (over the valid steps of a batch) or ``"layer"``.
        hidden_dropout_prob: after the embedding and in the feed-forward.
        attention_probs_dropout_prob: None: 0.1, or 0 with ``released_behaviour``.
        classifier_dropout: before the head; None: ``hidden_dropout_prob``.
        position: ``"learned"`` positions are added to the embedding, or ``"none"``.
        relative: ``"learned"`` relative positions are added to the scores before these
            evolve (one table a layer, shared by the heads), or ``"none"``.
        pooling: the head reads all steps concatenated (``"flatten"``, zeros after the
            end of a series) or their ``"mean"``.
        classifier_hidden_size: width of a layer, with ``hidden_act`` and dropout,
            between the representation and the head's output (an MLP in place of one
            affine map); None: no such layer.
        num_labels: number of classes; names go to ``id2label``.
        num_targets: number of values the regressor predicts.
        released_behaviour: follow the released program where it departs from the
            paper and is well defined: LeakyReLU in the feed-forward and on maps
            (:class:`~evolving_attention.attention.EvolvingReleased`), dropout on
            carried maps, no evolving in the first block, no output projection of the
            heads, convolution before attention in the concatenation. Its accidents are
            not reproduced: random relative positions, attention to padding, heads
            joined without transposing.

    Raises:
        ConfigError: an option is missing, unknown, of the wrong type or out of range.

    Source: Wang et al., Convolution-enhanced Evolving Attention Networks, TPAMI 2023,
    Section 3.3. The paper does not describe the norms, the residual over each block and
    the embedding; these follow the released program in either case.
    """

    model_type = "ea_dc_transformer"
    rules = _RULES
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
        "classifier_hidden_size": None,
        "num_targets": 1,
        "released_behaviour": False,
    }

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        source = type(self).__name__
        for name in _NEEDED:
            if values[name] is None:
                raise ConfigError(
                    f"{source}: {name} is missing; expected an integer: "
                    f"{source}(channels=12, max_length=29)"
                )
        super()._set(values, attention)

    def _check_attention(self) -> None:
        source = type(self).__name__
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
        """Number of layers: two per block."""
        return 2 * int(self.num_blocks)

    def core_options(self) -> dict[str, Any]:
        """Returns the flat settings that the C++ core reads."""
        options = super().core_options()
        if self.released_behaviour and isinstance(self.attention, Evolving):
            evolve = dict(options["attention"]["evolve"], kind="evolving_released")
            del evolve["conv_init"]
            options["attention"] = {"evolve": evolve}
        return options


class _Series(PreTrainedModel):
    config_class = EADCTransformerConfig
    table = EA_DC_TRANSFORMER

    needed = ("values", "pass an array (series, length, channels)")


class EADCTransformerModel(_Series):
    """The representation of every step: ``last_hidden_state``."""

    head = "base"


class EADCTransformerForClassification(_Series):
    """Classifies whole series; the loss is cross entropy (Eq. 10)."""

    head = "classification"


class EADCTransformerForRegression(_Series):
    """Predicts values of whole series; the loss is the mean squared error (Eq. 9)."""

    head = "regression"


class EADCTransformerForPretraining(_Series):
    """Reconstructs hidden values; the loss covers hidden cells only (Eq. 7, 8)."""

    head = "pretraining"
