"""Relative positions of pixels: distances along rows and columns of an image."""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.attention.base import Bias, register


@register("relative_2d")
@dataclass(frozen=True)
class RelativePositions2d(Bias):
    """S_ij += q_i · (a_{row(j)−row(i)} + b_{column(j)−column(i)}) / √d.

    The tokens of a sequence are the pixels of an image, row by row: token t is pixel
    (t // width, t % width), so a ViT needs ``use_class_token=False`` and the width of
    its grid of patches. Both tables are shared by the heads of a layer.

    Args:
        height: rows of pixels; larger row distances count as the largest.
        width: columns of pixels.

    Parameters: ``relative_height`` [2 height − 1, d] and ``relative_width``
    [2 width − 1, d].

    Raises:
        ConfigError: a side is out of range.

    Source: Bello et al., Attention Augmented Convolutional Networks, ICCV 2019, Section
    3.1.2; inside the chain of evolving maps as in Wang et al., ICML 2021, Eq. 2.
    """

    height: int
    width: int
