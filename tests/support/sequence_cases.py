"""The table of operations on the rows of packed sequences, with NumPy oracles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from support.cases import Case, as_float64
from support.op_cases import ops


@dataclass(frozen=True)
class Convolution:
    """A convolution along sequences of the given lengths."""

    lengths: tuple[int, ...]
    channels: int
    out: int
    kernel: int
    dilation: int
    causal: bool
    wide: bool = False

    def __str__(self) -> str:
        sizes = f"{self.channels}x{self.out}k{self.kernel}d{self.dilation}"
        where = "causal" if self.causal else "centred"
        return f"{sizes}_{where}_" + "_".join(map(str, self.lengths))

    @cached_property
    def packing(self):
        from evolving_attention import _core

        return _core.Packing(1, np.cumsum([0, *self.lengths]).tolist())

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        weight = (self.out, self.channels, self.kernel)
        return ((sum(self.lengths), self.channels), weight, (self.out,))

    def call(self, x, weight, bias=None):
        return ops().conv1d(
            x, weight, bias, self.packing, self.dilation, causal=self.causal
        )

    def oracle(self, x, weight, bias=0.0):
        """Computes each sequence separately, with zeros around it."""
        span = (self.kernel - 1) * self.dilation
        before = span if self.causal else span // 2
        rows, begin = [], 0
        for n in self.lengths:
            padded = np.pad(x[begin : begin + n], ((before, span - before), (0, 0)))
            taps = [padded[j * self.dilation :][:n] for j in range(self.kernel)]
            rows.append(np.einsum("jtc,ocj->to", np.array(taps), weight) + bias)
            begin += n
        return np.concatenate(rows) if rows else np.zeros((0, self.out))


CONVOLUTIONS = [
    Convolution((1,), 1, 1, 1, 1, False),
    Convolution((5,), 2, 3, 3, 1, False),
    Convolution((5, 1, 0, 7), 3, 2, 3, 1, True),
    Convolution((7, 3), 2, 5, 3, 2, True),
    Convolution((7, 3), 2, 5, 5, 2, False),
    Convolution((4, 2, 1), 1, 17, 3, 16, True),  # most taps reach outside
    Convolution((4, 29), 17, 3, 3, 4, False),
    Convolution((6, 5), 3, 2, 2, 3, True),  # an even kernel
    Convolution((13,), 33, 34, 1, 1, True),
    Convolution((0, 0), 3, 2, 3, 1, False),
    Convolution((23, 7, 40), 48, 96, 3, 8, True, wide=True),
    Convolution((300, 1, 69, 517), 33, 65, 3, 4, True, wide=True),
    Convolution((300, 1, 69, 2048), 17, 31, 5, 32, False, wide=True),
    Convolution((2100, 2500), 16, 50, 3, 1, True, wide=True),  # blocks of tokens
]


def convolutions() -> Iterator[Case]:
    for one in CONVOLUTIONS:
        for with_bias in (True, False):
            yield Case(
                "conv1d",
                f"{one}" + ("_bias" if with_bias else ""),
                one.shapes[: 3 if with_bias else 2],
                one.call,
                one.oracle,
                wide=one.wide,
                terms=max(1, one.kernel * max(one.channels, one.out), *one.shapes[0]),
            )


def _weight_norm(v, g):
    flat = v.reshape(len(v), math.prod(v.shape[1:]))
    return (g.reshape(-1, 1) * flat / np.linalg.norm(flat, axis=1)[:, None]).reshape(
        v.shape
    )


def weight_norms() -> Iterator[Case]:
    shapes = [(1, 1), (3, 2), (5, 7), (2, 3, 5), (3, 17, 3), (4, 1, 1), (2, 3, 2, 2)]
    shapes += [(1, 69), (0, 3)]
    wide = [(517, 259), (130, 128, 3)]
    for shape in shapes + wide:
        for lengths in (shape[:1], (shape[0], *(1 for _ in shape[1:]))):
            yield Case(
                "weight_norm",
                "x".join(map(str, shape)) + f"_g{len(lengths)}",
                (shape, lengths),
                lambda v, g: ops().weight_norm(v, g),
                _weight_norm,
                wide=shape in wide,
                positive=True,  # away from zero, where no direction is defined
                terms=math.prod(shape[1:]),
                cancels=2.0,  # dw - u (dw u): nothing is left for one column
            )


def _running(width: int, dtype: str, device: str = "cpu"):
    """Returns new statistics for each call, as training changes them."""
    from evolving_attention import _core

    values = np.linspace(-0.5, 1.5, width), np.linspace(0.2, 3.0, width)
    wide = "float64" if dtype == "float64" else "float32"
    return [_core.Tensor(a, dtype=wide, device=device) for a in values]


def _batch_norm(training: bool, rectify: bool = False):
    def call(x, weight, bias, residual=None):
        running = _running(x.shape[1], x.dtype, x.device)
        more = {"residual": residual, "rectify": rectify}
        return ops().batch_norm(x, weight, bias, *running, training, 0.1, 1e-3, **more)

    def oracle(x, weight, bias, residual=0.0):
        mean, variance = (as_float64(a) for a in _running(x.shape[1], "float64"))
        if training:
            mean, variance = x.mean(0), x.var(0)
        y = (x - mean) / np.sqrt(variance + 1e-3) * weight + bias + residual
        return np.maximum(y, 0.0) if rectify else y

    return call, oracle


def batch_norms() -> Iterator[Case]:
    sizes = [(2, 1), (3, 2), (5, 7), (17, 3), (2, 16), (9, 33), (4, 5), (31, 1)]
    wide = [(69, 131), (2517, 129)]
    for shape in [*sizes, (1, 3), (0, 4), *wide]:
        for training in (False, True):
            if training and shape[0] < 2:
                continue  # refused: see mistakes/sequences.py
            call, oracle = _batch_norm(training)
            yield Case(
                "batch_norm",
                f"{shape[0]}x{shape[1]}_{'training' if training else 'evaluation'}",
                (shape, shape[1:], shape[1:]),
                call,
                oracle,
                wide=shape in wide,
                terms=max(shape),
                cancels=1.0,  # two rows: the gradient is almost zero
            )


def joined_norms() -> Iterator[Case]:
    """Yields a norm followed by a residual, a rectifier, or both."""
    for shape in [(5, 7), (2517, 129)]:
        for training in (False, True):
            for residual, rectify in ((0, 1), (1, 0), (1, 1)):
                call, oracle = _batch_norm(training, bool(rectify))
                parts = "residual" * residual + "rectified" * rectify
                yield Case(
                    "batch_norm",
                    f"{shape[0]}x{shape[1]}_{parts}_"
                    + ("training" if training else "evaluation"),
                    (shape, shape[1:], shape[1:]) + (shape,) * residual,
                    call,
                    oracle,
                    wide=shape[0] > 9,
                    terms=max(shape),
                    cancels=1.0,
                )


def sequence_cases() -> list[Case]:
    """Returns every case of an op that works on the rows of packed sequences."""
    makers = (convolutions, weight_norms, batch_norms, joined_norms)
    return [case for maker in makers for case in maker()]
