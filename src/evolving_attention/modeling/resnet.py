"""Residual networks (He et al., CVPR 2016), also with attention: configs and tasks."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.attention import Evolving, Predictive, Vanilla
from evolving_attention.errors import ConfigError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.resnet import AA_RESNET, RESNET
from evolving_attention.modeling.images import (
    ImageClassifierOutput,
    ImageModel,
    StagedConfig,
)
from evolving_attention.modeling.names import register_sizes

_MOST = 65_536
_RULES = Rules(
    integers={
        "num_channels": (1, _MOST),
        "embedding_size": (1, _MOST),
        "min_head_key_width": (0, _MOST),
    },
    numbers={
        "key_ratio": (0.0, 1.0),
        "value_ratio": (0.0, 1.0),
        "batch_norm_momentum": (0.0, 1.0),
    },
    strings=("layer_type",),
    flags=("downsample_in_first_stage", "downsample_in_bottleneck"),
)


class ResNetConfig(StagedConfig):
    """Sizes of a residual network, by default ResNet-50; names are Hugging Face's.

    Args:
        num_channels: channels of an image.
        embedding_size: channels of the stem, a 7 × 7 convolution and a pool, both with
            stride 2.
        hidden_sizes: channels of each stage.
        depths: blocks of each stage.
        layer_type: ``"bottleneck"`` (1 × 1, 3 × 3, 1 × 1, the middle a quarter as wide)
            or ``"basic"`` (3 × 3 twice).
        hidden_act: activation after the norms.
        downsample_in_first_stage: whether the first stage halves the size as well.
        downsample_in_bottleneck: whether the stride is in a bottleneck's first
            convolution, as in the paper, instead of its 3 × 3 one, as in torchvision.
        classifier_dropout: dropout before the classifier; None: no dropout.
        num_labels: number of classes; names go to ``id2label``.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, or an
            attention is given (use :class:`AAResNetConfig`).

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.ResNetConfig(hidden_sizes=[64, 128], depths=[2, 2])
        >>> config.layer_type
        'bottleneck'
    """

    model_type = "resnet"
    rules = _RULES
    sides: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, Any]] = {
        "num_channels": 3,
        "embedding_size": 64,
        "hidden_sizes": (256, 512, 1024, 2048),
        "depths": (3, 4, 6, 3),
        "layer_type": "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
    }

    def _check_attention(self) -> None:
        source = type(self).__name__
        if self.attention != Vanilla():
            raise ConfigError(
                f"{source}: attention={self.attention!r}, expected none: a plain "
                "residual network has no attention layer; use AAResNetConfig"
            )

    @property
    def num_hidden_layers(self) -> int:
        """Number of attention layers: none."""
        return 0


class AAResNetConfig(ResNetConfig):
    """Sizes of AA-ResNet, by default AA-ResNet-50 at 224².

    In all stages but the first, attention runs in parallel to the 3 × 3 convolutions
    and its heads compute ``value_ratio`` of their channels. Attention is over the
    pixels of the output, in the second stage at half the height and width, so that the
    maps of the second and third stage have one shape and form one chain. The fourth
    stage begins another chain.

    Args:
        image_size: pixels of an image's side, or [height, width], such that the second
            stage has even sides: multiples of 16. The stage before the last, and the
            second, need 3 x 3 pixels or more: with 4 stages 48 x 48. Images of other
            sizes are rejected.
        num_attention_heads: heads of each layer.
        key_ratio: κ, total key width of a layer relative to its channels.
        value_ratio: υ, total value width, likewise.
        min_head_key_width: minimum width of a head's keys. Widths are rounded down to
            multiples of the heads.
        attention_probs_dropout_prob: dropout of attention probabilities.
        batch_norm_momentum: weight of a batch in the running statistics.
        attention: see :class:`PretrainedConfig`; a list has an entry for each augmented
            convolution. Relative positions of the pixels are always added.

    The other options are those of :class:`ResNetConfig`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, or a ratio
            leaves a head without a feature.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.AAResNetConfig(attention=ea.attention.Evolving(0.5, 1.0))
        >>> config.num_hidden_layers
        13

    Source: Bello et al., Attention Augmented Convolutional Networks, ICCV 2019; Wang et
    al., Evolving Attention with Residual Convolutions, ICML 2021, Section 4.1, whose
    tables the defaults reproduce.
    """

    model_type = "aa_resnet"
    sides: ClassVar[tuple[str, ...]] = ("image_size",)
    defaults: ClassVar[dict[str, Any]] = {
        **ResNetConfig.defaults,
        "image_size": 224,
        "num_attention_heads": 8,
        "key_ratio": 0.2,
        "value_ratio": 0.1,
        "min_head_key_width": 20,
        "attention_probs_dropout_prob": 0.0,
        "batch_norm_momentum": 0.1,
    }

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        super()._set(values, attention)
        self._check_sides()

    def _check_attention(self) -> None:
        """Accepts any attention."""

    def _check_sides(self) -> None:
        """Rejects images whose last halving would have a window larger than they."""
        stage = max(len(self.depths) - 1, 2)  # the second stage is halved once more
        first = bool(self.downsample_in_first_stage)
        apart = 2 ** (stage + 1 + first)  # pixels of the image per pixel of the stage
        height, width = self.side("image_size")
        rows, columns = -(-height // apart), -(-width // apart)
        if len(self.depths) < 2 or min(rows, columns) >= 3:
            return
        unit = 32 if first else 16
        raise ConfigError(
            f"{type(self).__name__}: image_size = {height} x {width}: stage {stage} "
            f"has {rows} x {columns} pixels, expected 3 x 3 or more; take sides of "
            f"{unit * (2 * apart // unit + 1)} or larger, or fewer stages (depths, "
            "hidden_sizes)"
        )

    @property
    def num_hidden_layers(self) -> int:
        """Number of attention layers: all 3 × 3 convolutions after the first stage."""
        return int(sum(self.depths[1:])) * (2 if self.layer_type == "basic" else 1)

    @property
    def tokens(self) -> int:
        """Rows of the largest maps, those of the second and third stage."""
        height, width = self.side("image_size")
        apart = 32 if self.downsample_in_first_stage else 16
        return max(1, (height // apart) * (width // apart))


class _ResNet(ImageModel):
    config_class = ResNetConfig
    table = RESNET


class ResNetModel(_ResNet):
    """Features: ``last_hidden_state`` [B, C, h, w], ``pooler_output`` [B, C, 1, 1]."""

    head = "base"


class ResNetForImageClassification(_ResNet):
    """Classifies images from the mean of the last stage's pixels."""

    head = "image_classification"
    output_class = ImageClassifierOutput


class _AAResNet(ImageModel):
    config_class = AAResNetConfig
    table = AA_RESNET


class AAResNetModel(_AAResNet):
    """Features: ``last_hidden_state`` [B, C, h, w], ``pooler_output`` [B, C, 1, 1]."""

    head = "base"


class AAResNetForImageClassification(_AAResNet):
    """Classifies images from the mean of the last stage's pixels."""

    head = "image_classification"
    output_class = ImageClassifierOutput


_BASIC = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]}
_SIZES: dict[int, dict[str, Any]] = {
    34: {**_BASIC, "depths": [3, 4, 6, 3]},
    50: {"depths": [3, 4, 6, 3]},
    101: {"depths": [3, 4, 23, 3]},
    152: {"depths": [3, 8, 36, 3]},
}
# Values implied by the published numbers of parameters.
_BESIDE_BASIC = {"key_ratio": 0.25, "value_ratio": 0.125, "min_head_key_width": 0}

for _layers, _sizes in _SIZES.items():
    _settings = {"task": "image_classification", "num_labels": 1000, **_sizes}
    register_sizes(f"resnet{_layers}", ResNetConfig, prefixes=("",), **_settings)
    if _layers == 34:
        _settings |= _BESIDE_BASIC
    _alpha = 0.5 if _layers <= 50 else 0.7
    for _prefix, _kind in (
        ("", None),
        ("ea_", Evolving(alpha=_alpha, beta=1.0)),
        ("pa_", Predictive(alpha=0.5)),
    ):
        register_sizes(
            f"aa_resnet{_layers}",
            AAResNetConfig,
            prefixes=(_prefix,),
            attention=_kind,
            **_settings,
        )
