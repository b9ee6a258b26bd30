"""Nets for small images, convolution plus attention: config, tasks and names."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.attention import Evolving, Predictive, Vanilla
from evolving_attention.errors import ConfigError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.resnet import CIFAR_NET
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
        "attention_side": (0, _MOST),
        "num_feed_forwards": (0, 64),
        "min_head_key_width": (0, _MOST),
    },
    numbers={
        "key_ratio": (0.0, 1.0),
        "value_ratio": (0.0, 1.0),
        "feed_forward_ratio": (0.0, 64.0),
        "conv_dropout_prob": (0.0, 1.0),
        "batch_norm_momentum": (0.0, 1.0),
    },
    flags=("dense_connections",),
)


class CifarNetConfig(StagedConfig):
    """Sizes of a net for small images, by default the one for CIFAR-10.

    A convolution is followed by stages of blocks. Each stage after the first halves
    height and width by 2 × 2 means and has its own number of channels. A block has a
    3 × 3 convolution, with parallel attention where the image is small enough, and
    feed-forwards of each pixel, all with residual sums and batch norms. A block reads
    the input and all earlier blocks of its stage, and so does the next stage.

    Args:
        num_channels: channels of an image.
        image_size: pixels of an image's side, or [height, width]; a multiple of 2 for
            each stage after the first. Images of other sizes are rejected.
        hidden_sizes: channels of each stage.
        depths: blocks of each stage.
        attention_side: the greatest height and width at which blocks attend; 0: no
            block attends, which is the paper's plain CNN.
        num_attention_heads: heads of each layer.
        key_ratio: total key width of a layer relative to its channels.
        value_ratio: share of the channels that come from attention.
        min_head_key_width: minimum width of a head's keys.
        num_feed_forwards: feed-forwards in each block.
        feed_forward_ratio: inner width of a feed-forward relative to its channels.
        dense_connections: False: a block reads only the previous block.
        hidden_act: activation after the norms.
        conv_dropout_prob: dropout of the output of convolution and attention.
        attention_probs_dropout_prob: dropout of attention probabilities.
        hidden_dropout_prob: dropout of the output of a feed-forward.
        classifier_dropout: dropout before the classifier; None: no dropout.
        batch_norm_momentum: weight of a batch in the running statistics.
        num_labels: number of classes; names go to ``id2label``.
        attention: see :class:`PretrainedConfig`; a list has an entry for each block
            that attends. Relative positions of the pixels are always added.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, or an
            attention is given where no block attends.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.CifarNetConfig(attention=ea.attention.Predictive(0.01))
        >>> config.num_hidden_layers
        6

    Source: Predictive Attention Transformer, under review at ICLR 2021, Section 4.2.1
    and Appendix B. The paper leaves open the inner width of the feed-forwards, what
    dense connections read, norms and sums. The choices here do not reproduce its
    numbers of parameters; no reading that we tried does.
    """

    model_type = "cifar_net"
    rules = _RULES
    defaults: ClassVar[dict[str, Any]] = {
        "num_channels": 3,
        "image_size": 32,
        "hidden_sizes": (64, 128, 256, 512),
        "depths": (3, 3, 3, 3),
        "attention_side": 8,
        "num_attention_heads": 4,
        "key_ratio": 0.5,
        "value_ratio": 0.5,
        "min_head_key_width": 0,
        "num_feed_forwards": 2,
        "feed_forward_ratio": 0.25,
        "dense_connections": True,
        "hidden_act": "relu",
        "conv_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.2,
        "hidden_dropout_prob": 0.2,
        "batch_norm_momentum": 0.1,
    }

    def _check_attention(self) -> None:
        source = type(self).__name__
        if not self.num_hidden_layers and self.attention != Vanilla():
            raise ConfigError(
                f"{source}: attention={self.attention!r}, expected none: with "
                f"attention_side={self.attention_side} and image_size="
                f"{self.image_size} no block attends; raise attention_side"
            )

    @property
    def num_hidden_layers(self) -> int:
        """Number of attention layers: blocks with sides up to ``attention_side``."""
        side = max(self.side("image_size"))
        stages = enumerate(self.depths)
        return sum(n for i, n in stages if side >> i <= self.attention_side)

    @property
    def tokens(self) -> int:
        """Rows of the largest maps, those of the first blocks that attend."""
        height, width = self.side("image_size")
        for stage in range(len(self.depths)):
            if max(height, width) >> stage <= self.attention_side:
                return (height >> stage) * (width >> stage)
        return 1


class _CifarNet(ImageModel):
    config_class = CifarNetConfig
    table = CIFAR_NET


class CifarNetModel(_CifarNet):
    """Features: ``last_hidden_state`` [B, C, h, w], ``pooler_output`` [B, C, 1, 1]."""

    head = "base"


class CifarNetForImageClassification(_CifarNet):
    """Classifies images from the mean of the last stage's pixels."""

    head = "image_classification"
    output_class = ImageClassifierOutput


for _prefix, _kind in (
    ("", None),
    ("ea_", Evolving(alpha=0.1, beta=0.3)),
    ("pa_", Predictive(alpha=0.01)),
):
    register_sizes(
        "cifar_net",
        CifarNetConfig,
        prefixes=(_prefix,),
        task="image_classification",
        num_labels=10,
        attention=_kind,
    )
