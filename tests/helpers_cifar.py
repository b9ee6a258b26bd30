"""A tiny net for small images: two chains of two maps, of 8 x 8 and 4 x 4 pixels."""

from __future__ import annotations

from typing import Any

import helpers_resnet

import evolving_attention as ea

TINY: dict[str, Any] = {
    "image_size": 16,
    "hidden_sizes": [6, 8, 12],
    "depths": [1, 2, 2],
    "num_attention_heads": 2,
    "conv_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
}
CIFAR_NETS = {
    cls.__name__: cls for cls in (ea.CifarNetModel, ea.CifarNetForImageClassification)
}
"""Every task class of nets of small images by name."""
EVOLVING = ea.attention.Evolving(0.4, 0.7)


def tiny(cls: Any = None, dtype: str = "float64", **more: Any) -> Any:
    """Returns a random model in training mode whose norms are not the identity."""
    cls = cls or ea.CifarNetForImageClassification
    return helpers_resnet.tiny(cls, TINY, dtype, **more)
