"""Mistakes with functions on images."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F
from mistakes.row import Row


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def convolve(x: Any = None, weight: Any = None, **settings: Any) -> Any:
    """Calls conv2d on two images of 5 x 6 pixels, 4 to 2 channels, with changes."""
    x = ones(2, 4, 5, 6) if x is None else x
    return F.conv2d(x, ones(2, 4, 3, 3) if weight is None else weight, **settings)


ROWS = {
    # --- conv2d
    "convolution of one image": Row(
        lambda _: convolve(ones(4, 5, 6)),
        ea.ShapeError,
        r"\(4, 5, 6\)",
        r"\[conv2d\] input",
        r"expected images \(n, channels, height, width\)",
    ),
    "convolution of channels last": Row(
        lambda _: convolve(ones(2, 5, 6, 4)),
        ea.ShapeError,
        r"input has 5",
        r"\[conv2d\] weight has shape \(2, 4, 3, 3\)",
        r"expected 4 input channels",
    ),
    "convolution with a kernel larger than the image": Row(
        lambda _: convolve(weight=ones(2, 4, 3, 7)),
        ea.ShapeError,
        r"7 pixels does not fit into the width 6",
        r"\[conv2d\]",
        r"use larger images, more padding or a smaller kernel",
    ),
    "convolution of groups that do not divide": Row(
        lambda _: convolve(groups=3),
        ea.ConfigError,
        r"groups 3",
        r"\[conv2d\]",
        r"expected 1 or more that divide the 2 output channels",
    ),
    "convolution with a stride of 0": Row(
        lambda _: convolve(stride=(1, 0)),
        ea.ConfigError,
        r"stride 0",
        r"\[conv2d\].*along the width",
        r"expected 1 or more",
    ),
    "convolution with three paddings": Row(
        lambda _: convolve(padding=(1, 1, 1)),
        ea.ConfigError,
        r"\(1, 1, 1\)",
        r"\[conv2d: padding\]",
        r"expected a whole number or two of them \(height, width\)",
    ),
    "convolution with half a stride": Row(
        lambda _: convolve(stride=0.5),
        ea.ConfigError,
        r"a float 0\.5",
        r"\[conv2d: stride\]",
        r"expected a whole number",
    ),
    "convolution of another type than its weight's": Row(
        lambda _: convolve(ones(2, 4, 5, 6, dtype=np.float64)),
        ea.DTypeError,
        r"input is float64, weight float32",
        r"\[conv2d\]",
        r"use \.to\(dtype\)",
    ),
    "convolution with a bias for each input channel": Row(
        lambda _: convolve(bias=ones(4)),
        ea.ShapeError,
        r"\(4,\)",
        r"\[conv2d\] bias",
        r"expected \(2,\)",
    ),
    # --- pools
    "pool with much padding": Row(
        lambda _: F.max_pool2d(ones(1, 1, 4, 4), 2, padding=2),
        ea.ConfigError,
        r"padding \(2, 2\)",
        r"\[max_pool2d\]",
        r"at most half of it",
    ),
    "pool larger than the image": Row(
        lambda _: F.avg_pool2d(ones(1, 1, 3, 4), 4),
        ea.ShapeError,
        r"height 3",
        r"\[avg_pool2d\] a window of 4 pixels",
        r"a smaller kernel",
    ),
    "pool to no pixels": Row(
        lambda _: F.adaptive_avg_pool2d(ones(1, 1, 3, 4), (0, 2)),
        ea.ConfigError,
        r"output_size \(0, 2\)",
        r"\[adaptive_avg_pool2d\]",
        r"expected 1 or more",
    ),
    "pool to half a pixel": Row(
        lambda _: F.adaptive_max_pool2d(ones(1, 1, 3, 4), 1.5),
        ea.ConfigError,
        r"a float 1\.5",
        r"\[adaptive_max_pool2d: output_size\]",
        r"expected a whole number",
    ),
    "pool of images without pixels": Row(
        lambda _: F.adaptive_max_pool2d(ones(1, 1, 0, 4), 2),
        ea.ShapeError,
        r"0 x 4 pixels",
        r"\[adaptive_max_pool2d\]",
        r"expected at least one",
    ),
    # --- relative_2d
    "relative products of an even number of columns": Row(
        lambda _: F.relative_2d(ones(4, 3), ones(4, 2), F.Packing(1, [0, 4])),
        ea.ShapeError,
        r"\(4, 2\)",
        r"\[relative_2d\] columns",
        r"expected \(4, an odd number\)",
    ),
    "relative products of two types": Row(
        lambda _: F.relative_2d(
            ones(4, 3), ones(4, 3, dtype=np.float64), F.Packing(1, [0, 4])
        ),
        ea.DTypeError,
        r"rows is float32, columns float64",
        r"\[relative_2d\]",
        r"use \.to\(dtype\)",
    ),
    # --- batch_norm
    "batch norm of one pixel": Row(
        lambda _: F.batch_norm(ones(1, 3, 1, 1), ones(3), ones(3), training=True),
        ea.InputError,
        r"1 pixel,",
        r"\[batch_norm\]",
        r"use a larger batch, or evaluation mode",
    ),
}
