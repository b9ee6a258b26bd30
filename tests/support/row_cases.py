"""The table of operations on rows: norms, sums, indices and losses, with oracles."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from support.cases import Case
from support.op_cases import SHAPES, WIDE, label, ops


def _layer_norm(x, w, b, residual=0.0):
    s = x + residual
    centred = s - s.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * w + b


def _rms_norm(x, w):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * w


def norms() -> Iterator[Case]:
    rows = [(1, 3), (3, 2), (5, 7), (17, 3), (2, 3, 5), (0, 4), (1, 69), (2, 16)]
    wide = [(69, 131), (517, 259)]
    for shape in rows + wide:
        w = shape[-1:]
        for with_residual in (False, True):
            yield Case(
                "layer_norm",
                label(shape) + ("_residual" if with_residual else ""),
                (shape, w, w) + ((shape,) if with_residual else ()),
                lambda x, w, b, r=None: ops().layer_norm(x, w, b, 1e-3, r),
                _layer_norm,
                wide=shape in wide,
                terms=max(shape),
                cancels=1.0,  # two columns: the gradient is almost zero
            )
        yield Case(
            "rms_norm",
            label(shape),
            (shape, w),
            lambda x, w: ops().rms_norm(x, w, 1e-3),
            _rms_norm,
            wide=shape in wide,
            terms=max(shape),
            cancels=1.0,  # one column: the gradient is almost zero
        )
        # test_values.py tests the dropout itself: NumPy cannot draw these bits.
        for p in (0.0, 0.3):
            yield Case(
                "dropout_layer_norm",
                f"{label(shape)}_p{p}",
                (shape, shape, w, w),
                lambda x, r, w, b, p=p: ops().dropout_layer_norm(x, r, w, b, 1e-3, p),
                None if p else lambda x, r, w, b: _layer_norm(x, w, b, r),
                wide=shape in wide,
                terms=max(shape),
                cancels=1.0,
                # The gradient of the dropped input is the stored one, scaled and stored
                # again: a step in the first can become two in the second.
                roundings=2 if p else 1,
            )
    for shape in [(4,), *rows, *wide]:
        yield Case(
            "softmax",
            label(shape),
            (shape,),
            lambda x: ops().softmax(x),
            lambda x: special.softmax(x, -1) if x.size else x,
            wide=shape in wide,
            terms=shape[-1],
        )
        for op in ("log_softmax", "logsumexp"):
            yield Case(
                op,
                label(shape),
                (shape,),
                lambda x, op=op: getattr(ops(), op)(x, -1),
                lambda x, op=op: getattr(special, op)(x, -1),
                wide=shape in wide,
                terms=shape[-1],
            )


def reductions() -> Iterator[Case]:
    for shape in [*SHAPES, (4, 1, 3), *WIDE, (3, 2000, 7)]:
        wide = shape in WIDE or (len(shape) == 3 and shape[1] > 5)
        for axis in (None, 0, -1):
            for keepdims in (False, True):
                for op in ("sum", "mean"):
                    if op == "mean" and math.prod(shape) == 0:
                        continue  # refused: see test_values.py
                    yield Case(
                        op,
                        f"{label(shape)}_axis_{axis}{'_keep' * keepdims}",
                        (shape,),
                        lambda x, op=op, axis=axis, keepdims=keepdims: getattr(
                            ops(), op
                        )(x, axis, keepdims),
                        lambda x, op=op, axis=axis, keepdims=keepdims: getattr(np, op)(
                            x, axis=axis, keepdims=keepdims
                        ),
                        wide=wide,
                    )


def rows_by_index() -> Iterator[Case]:
    sizes = [(1, 1, 1), (5, 3, 7), (3, 2, 17), (7, 1, 0), (4, 5, 1), (2, 17, 5)]
    sizes += [(9, 4, 3), (1, 3, 6), (2, 0, 3)]
    # Last: few rows, each used many times, and more indices than are sorted at once.
    wide = [(69, 131, 517), (1000, 257, 300), (3, 37, 2500)]
    for n, width, m in sizes + wide:
        rng = np.random.default_rng(n * 1000 + m)
        for op, low in (("gather_rows", -1), ("embedding", 0)):
            index = rng.integers(low, n, m)
            yield Case(
                op,
                f"{n}x{width}_{m}",
                ((n, width),),
                lambda x, op=op, index=index: getattr(ops(), op)(x, index),
                lambda x, index=index: np.where(index[:, None] < 0, 0.0, x[index]),
                wide=(n, width, m) in wide,
                terms=m,
            )
    for n, width, m in wide:  # finite differences would differ at the padding row
        index = np.random.default_rng(m).integers(0, n, m)
        padding = int(index[m // 2])
        yield Case(
            "embedding",
            f"{n}x{width}_{m}_padding",
            ((n, width),),
            lambda x, index=index, padding=padding: ops().embedding(x, index, padding),
            lambda x, index=index: x[index],
            wide=True,
            terms=m,
        )
    grid = np.array([[0, 2, 1], [1, 1, 0]])
    for op in ("gather_rows", "embedding"):
        yield Case(
            op,
            "index_of_two_axes",
            ((3, 5),),
            lambda x, op=op: getattr(ops(), op)(x, grid),
            lambda x: x[grid],
        )


def _cross_entropy(labels: np.ndarray, smoothing: float):
    def oracle(x: np.ndarray) -> np.ndarray:
        keep = labels != -100
        if not keep.any():
            return np.array(np.nan)
        logs = special.log_softmax(x[keep], -1)
        picked = logs[np.arange(keep.sum()), labels[keep]]
        return -((1 - smoothing) * picked + smoothing * logs.mean(-1)).mean()

    return oracle


def _reduced(rows: np.ndarray, reduction: str) -> np.ndarray:
    return rows.mean() if reduction == "mean" else rows


def _weighted(
    n: int, classes: int, labels: np.ndarray, smoothing: float, wide: bool
) -> Iterator[Case]:
    """Yields cross entropy with class weights, as one number and per row."""
    weight = np.random.default_rng(classes).random(classes).round(2)
    keep = labels != -100

    def oracle(x: np.ndarray, reduction: str) -> np.ndarray:
        hot = np.eye(classes)[np.where(keep, labels, 0)]
        target = weight * ((1 - smoothing) * hot + smoothing / classes)
        rows = np.where(keep, -(target * special.log_softmax(x, -1)).sum(-1), 0.0)
        if reduction == "none":
            return rows
        with np.errstate(invalid="ignore"):
            return np.array(rows.sum() / weight[labels[keep]].sum())

    for reduction in ("mean", "none"):
        yield Case(
            "cross_entropy",
            f"{n}x{classes}_{smoothing}_{int(keep.all())}_weighted_{reduction}",
            ((n, classes),),
            lambda x, reduction=reduction: ops().cross_entropy(
                x, labels, smoothing, weight=weight, reduction=reduction
            ),
            lambda x, reduction=reduction: oracle(x, reduction),
            wide=wide,
            terms=max(n, classes),
        )


def losses() -> Iterator[Case]:
    sizes = [(1, 2), (3, 1), (5, 3), (17, 2), (2, 69), (1, 17), (7, 5), (4, 4)]
    wide = [(517, 259), (69, 3001)]
    for n, classes in sizes + wide:
        rng = np.random.default_rng(n * 100 + classes)
        labels = rng.integers(0, classes, n)
        some = np.where(np.arange(n) % 3 == 1, -100, labels)
        for name, chosen, smoothing in (
            ("plain", labels, 0.0),
            ("ignored", some, 0.0),
            ("smooth", some, 0.1),
        ):
            yield Case(
                "cross_entropy",
                f"{n}x{classes}_{name}",
                ((n, classes),),
                lambda x, chosen=chosen, smoothing=smoothing: ops().cross_entropy(
                    x, chosen, smoothing
                ),
                _cross_entropy(chosen, smoothing),
                wide=(n, classes) in wide,
                terms=max(n, classes),
            )
            yield from _weighted(n, classes, chosen, smoothing, (n, classes) in wide)
    for shape in [s for s in SHAPES if math.prod(s)] + WIDE + [(2, 2), (7, 1)]:
        targets = np.random.default_rng(math.prod(shape)).random(shape).round(1)
        for reduction in ("mean", "none"):
            yield Case(
                "binary_cross_entropy_with_logits",
                f"{label(shape)}_{reduction}",
                (shape,),
                lambda x, y=targets, reduction=reduction: (
                    ops().binary_cross_entropy_with_logits(x, y, reduction=reduction)
                ),
                lambda x, y=targets, reduction=reduction: _reduced(
                    np.logaddexp(0.0, x) - x * y, reduction
                ),
                wide=shape in WIDE,
            )
        yield Case(
            "mse_loss",
            label(shape),
            (shape, shape),
            lambda x, y: ops().mse_loss(x, y),
            lambda x, y: ((x - y) ** 2).mean(),
            wide=shape in WIDE,
        )


def row_cases() -> list[Case]:
    """Returns every case of an op that works on rows."""
    makers = (norms, reductions, rows_by_index, losses)
    return [case for maker in makers for case in maker()]
