"""Mistakes with functions on packed sequences, and with stateful objects."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F
from evolving_attention.optim import SGD, RAdam
from mistakes.row import Row

ROWS_5 = np.ones((5, 3), np.float32)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def convolve(
    x: Any = ROWS_5, weight: Any = None, bias: Any = None, **settings: Any
) -> Any:
    """Calls conv1d on two sequences, 3 to 2 channels, with changes."""
    weight = ones(2, 3, 3) if weight is None else weight
    return F.conv1d(x, weight, bias, F.Packing(1, [0, 2, 5]), **settings)


def normalise(x: Any = ROWS_5, training: bool = True, **given: Any) -> Any:
    """Calls batch_norm on 3 channels, with changes."""
    values = {
        "weight": ones(3),
        "bias": ones(3),
        "running_mean": ea.Tensor(ones(3)),
        "running_variance": ea.Tensor(ones(3)),
        **given,
    }
    return F.batch_norm(x, training=training, **values)


def parameter() -> ea.Tensor:
    return ea.Tensor([1.0], requires_grad=True)


ROWS = {
    # --- conv1d
    "convolution of padded input": Row(
        lambda _: convolve(ones(2, 3, 4)),
        ea.ShapeError,
        r"\(2, 3, 4\)",
        r"\[conv1d\] input",
        r"expected packed tokens \(tokens, channels\)",
    ),
    "convolution of too few tokens": Row(
        lambda _: convolve(ones(4, 3)),
        ea.ShapeError,
        r"4 tokens",
        r"\[conv1d\] input",
        r"expected the packing's 5",
    ),
    "convolution of other channels": Row(
        lambda _: convolve(weight=ones(2, 4, 3)),
        ea.ShapeError,
        r"\(2, 4, 3\)",
        r"\[conv1d\] weight",
        r"expected \(out, 3, kernel\)",
    ),
    "convolution by a matrix": Row(
        lambda _: convolve(weight=ones(2, 3)),
        ea.ShapeError,
        r"\(2, 3\)",
        r"\[conv1d\] weight",
        r"expected \(out, 3, kernel\)",
    ),
    "kernel of no taps": Row(
        lambda _: convolve(weight=ones(2, 3, 0)),
        ea.ShapeError,
        r"no taps",
        r"\[conv1d\] weight",
        r"at least one",
    ),
    "centred kernel of four": Row(
        lambda _: convolve(weight=ones(2, 3, 4)),
        ea.ShapeError,
        r"4 taps",
        r"\[conv1d\] a centred kernel",
        r"odd number; use causal=True",
    ),
    "dilation of 0": Row(
        lambda _: convolve(dilation=0),
        ea.ConfigError,
        r"dilation 0",
        r"\[conv1d\]",
        r"expected 1",
    ),
    "half a dilation": Row(
        lambda _: convolve(dilation=1.5),
        ea.ConfigError,
        r"a float 1\.5",
        r"conv1d: dilation",
        r"expected a whole number",
    ),
    "kernel larger than allowed": Row(
        lambda _: convolve(dilation=2**40),
        ea.ConfigError,
        r"3 taps 1099511627776 rows apart is too large",
        r"\[conv1d\] a kernel",
        r"expected \(kernel - 1\) dilation below 2147483648",
    ),
    "bias of the channels in": Row(
        lambda _: convolve(bias=ones(3)),
        ea.ShapeError,
        r"\(3,\)",
        r"\[conv1d\] bias",
        r"expected \(2,\)",
    ),
    "convolution of two types": Row(
        lambda _: convolve(weight=np.ones((2, 3, 3))),
        ea.DTypeError,
        r"input is float32, weight float64",
        r"\[conv1d\]",
        r"use \.to\(dtype\)",
    ),
    "convolution of integers": Row(
        lambda _: convolve(ROWS_5.astype(int), np.ones((2, 3, 3), int)),
        ea.DTypeError,
        r"int64",
        r"conv1d",
        r"float32, bfloat16 or float64",
    ),
    "convolution without a packing": Row(
        lambda _: F.conv1d(ROWS_5, ones(2, 3, 3), None, None),
        ea.InputError,
        r"NoneType",
        r"\[conv1d\]",
        r"packing: Packing",
    ),
    # --- weight_norm
    "weight norm of a vector": Row(
        lambda _: F.weight_norm(ones(3), ones(3)),
        ea.ShapeError,
        r"\(3,\)",
        r"\[weight_norm\] v",
        r"two axes or more",
    ),
    "weight norm with other lengths": Row(
        lambda _: F.weight_norm(ones(2, 3, 3), ones(3)),
        ea.ShapeError,
        r"\(3,\)",
        r"\[weight_norm\] g",
        r"expected \(2,\) or \(2, 1, 1\)",
    ),
    "weight norm of two types": Row(
        lambda _: F.weight_norm(ones(2, 3), np.ones(2)),
        ea.DTypeError,
        r"v is float32, g float64",
        r"\[weight_norm\]",
        r"use \.to\(dtype\)",
    ),
    # --- batch_norm
    "training on one token": Row(
        lambda _: normalise(ones(1, 3)),
        ea.InputError,
        r"has 1 token,",
        r"\[batch_norm\] the batch",
        r"at least 2.*use a larger batch, or evaluation mode",
    ),
    "training on no token": Row(
        lambda _: normalise(ones(0, 3)),
        ea.InputError,
        r"has 0 tokens",
        r"\[batch_norm\] the batch",
        r"at least 2",
    ),
    "batch norm of padded input": Row(
        lambda _: normalise(ones(2, 3, 3)),
        ea.ShapeError,
        r"\(2, 3, 3\)",
        r"\[batch_norm\] input",
        r"expected packed tokens",
    ),
    "batch norm of other channels": Row(
        lambda _: normalise(ones(5, 4)),
        ea.ShapeError,
        r"weight has shape \(3,\)",
        r"\[batch_norm\]",
        r"expected \(4,\)",
    ),
    "evaluation without statistics": Row(
        lambda _: normalise(training=False, running_mean=None, running_variance=None),
        ea.InputError,
        r"running_mean and running_variance are None",
        r"\[batch_norm\]",
        r"pass them, or training=True",
    ),
    "half of the statistics": Row(
        lambda _: normalise(running_variance=None),
        ea.InputError,
        r"running_variance is None",
        r"\[batch_norm\]",
        r"both .* or none",
    ),
    "statistics of other channels": Row(
        lambda _: normalise(running_mean=ea.Tensor(ones(4))),
        ea.ShapeError,
        r"running_mean has shape \(4,\)",
        r"\[batch_norm\]",
        r"expected \(3,\)",
    ),
    "statistics of another type": Row(
        lambda _: normalise(running_mean=ea.Tensor(np.ones(3))),
        ea.DTypeError,
        r"running_mean is float64",
        r"\[batch_norm\]",
        r"expected float32",
    ),
    "momentum of 2": Row(
        lambda _: normalise(momentum=2.0),
        ea.ConfigError,
        r"momentum 2 is outside",
        r"\[batch_norm\]",
        r"\[0, 1\]",
    ),
    "negative eps": Row(
        lambda _: normalise(eps=-1.0),
        ea.ConfigError,
        r"eps -1 is negative",
        r"\[batch_norm\]",
        r"expected 0 or more",
    ),
    "batch norm of no channels": Row(
        lambda _: _core.BatchNorm(0),
        ea.ConfigError,
        r"channels 0",
        r"\[BatchNorm\]",
        r"expected 1 or more",
    ),
    # --- RAdam
    "RAdam of nothing": Row(
        lambda _: RAdam([]),
        ea.ConfigError,
        r"empty",
        r"RAdam: params",
        r"pass model\.parameters",
    ),
    "RAdam with a negative rate": Row(
        lambda _: RAdam([parameter()], lr=-1),
        ea.ConfigError,
        r"-1",
        r"RAdam: lr",
        r"expected >= 0",
    ),
    "RAdam of constants": Row(
        lambda _: RAdam([ea.Tensor([1.0])]),
        ea.ConfigError,
        r"all 1 parameters are frozen",
        r"RAdam",
        r"at least one that requires a gradient; set requires_grad = True",
    ),
    "RAdam decoupled in words": Row(
        lambda _: RAdam([parameter()], decoupled_weight_decay="yes"),
        ea.ConfigError,
        r"'yes'",
        r"RAdam: decoupled_weight_decay",
        r"True or False",
    ),
    "SGD of a momentum that grows": Row(
        lambda _: SGD([parameter()], momentum=1.0),
        ea.ConfigError,
        r"1\.0",
        r"SGD: momentum",
        r">= 0 and < 1",
    ),
    "SGD looking ahead by nothing": Row(
        lambda _: SGD([parameter()], nesterov=True),
        ea.ConfigError,
        r"momentum=0",
        r"SGD: nesterov",
        r"0\.9",
    ),
    "RAdam with another state": Row(
        lambda _: RAdam([parameter()]).load_state_dict({}),
        ea.CheckpointError,
        r"does not fit",
        r"RAdam.*'exp_avg\.0'",
        r"build the model",
    ),
}
