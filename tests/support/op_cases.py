"""The table of differentiable operations on plain tensors, with NumPy oracles."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from support.cases import Case

# Odd sizes, single elements, no elements, more than two axes.
SHAPES = [(1,), (3,), (1, 1), (5, 7), (17, 3), (2, 3, 5), (0, 4), (3, 0), (1, 69)]
WIDE = [(69, 131), (517, 259)]


def ops():
    """Returns the op module; imported late, as collecting needs no extension."""
    from evolving_attention import _core

    return _core.ops


def label(*shapes: tuple[int, ...]) -> str:
    return "_".join("x".join(map(str, s)) or "scalar" for s in shapes)


def arithmetic() -> Iterator[Case]:
    broadcasts = [
        ((5, 7), (5, 7)),
        ((5, 7), (7,)),
        ((5, 1), (1, 7)),
        ((), (3, 2)),
        ((1,), (1,)),
        ((2, 3, 5), (3, 1)),
        ((2, 1, 5), (2, 3, 1)),
        ((0, 4), (4,)),
        ((1, 69), (17, 1)),
    ]
    wide = [((517, 259), (517, 259)), ((517, 259), (259,)), ((517, 1), (517, 259))]
    numpy_of = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    numpy_of["div"] = np.divide
    for op, oracle in numpy_of.items():
        for pair in broadcasts + wide:
            yield Case(
                op,
                label(*pair),
                pair,
                lambda a, b, op=op: getattr(ops(), op)(a, b),
                oracle,
                wide=pair in wide,
                positive=op == "div",
            )
    for shape in SHAPES + WIDE:
        big = shape in WIDE
        yield Case(
            "scale",
            label(shape),
            (shape,),
            lambda x: ops().scale(x, -1.5),
            lambda x: -1.5 * x,
            wide=big,
        )
        yield Case(
            "axpby",
            label(shape),
            (shape, shape),
            lambda x, z: ops().axpby(0.3, x, -0.7, z),
            lambda x, z: 0.3 * x - 0.7 * z,
            wide=big,
        )
        for dtype in ("float32", "bfloat16"):
            yield Case(
                "cast",
                f"{dtype}_{label(shape)}",
                (shape,),
                lambda x, dtype=dtype: ops().cast(x, dtype),
                lambda x: x,
                wide=big,
                step=0.25,
            )


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * special.ndtr(x)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}


def activations() -> Iterator[Case]:
    for shape in SHAPES + WIDE:
        for op, oracle in ACTIVATIONS.items():
            yield Case(
                op,
                label(shape),
                (shape,),
                lambda x, op=op: getattr(ops(), op)(x),
                oracle,
                wide=shape in WIDE,
                positive=op in ("log", "sqrt"),
                cancels=1.0,  # Phi + x phi has a zero near -0.75
            )
        yield Case(
            "leaky_relu",
            label(shape),
            (shape,),
            lambda x: ops().leaky_relu(x, 0.2),
            lambda x: np.where(x > 0, x, 0.2 * x),
            wide=shape in WIDE,
        )


def products() -> Iterator[Case]:
    sizes = [(1, 1, 1), (3, 5, 2), (17, 1, 3), (1, 69, 1), (5, 3, 17), (0, 4, 3)]
    sizes += [(3, 0, 2), (2, 5, 1)]
    wide = [(69, 131, 67), (257, 64, 192), (131, 517, 33)]
    for m, k, n in sizes + wide:
        for with_bias in (True, False):
            shapes = ((m, k), (n, k), (n,))[: 3 if with_bias else 2]
            yield Case(
                "linear",
                f"{m}x{k}x{n}" + ("_bias" if with_bias else ""),
                shapes,
                lambda *args: ops().linear(*args),
                lambda x, w, b=0.0: x @ w.T + b,
                wide=(m, k, n) in wide,
                terms=max(m, k, n),
            )
            name = "gelu" if with_bias else "relu"
            yield Case(
                "linear_activation",
                f"{m}x{k}x{n}_{name}" + ("_bias" if with_bias else ""),
                shapes,
                lambda x, w, b=None, f=name: ops().linear_activation(x, w, b, f),
                lambda x, w, b=0.0, f=name: ACTIVATIONS[f](x @ w.T + b),
                wide=(m, k, n) in wide,
                terms=max(m, k, n),
                cancels=float(max(1, k)),
            )
    fed = ((1, 1, 1, 1), (3, 5, 2, 7), (0, 4, 3, 2), (17, 1, 9, 5), (69, 131, 67, 33))
    fed += ((4, 7, 5, 1), (1, 9, 3, 3), (2, 3, 1, 5))
    for m, k, n, out in fed:
        for f in ("gelu", "relu"):
            yield Case(
                "feed_forward",
                f"{m}x{k}x{n}x{out}_{f}",
                ((m, k), (n, k), (n,), (out, n), (out,)),
                lambda x, w, b, v, c, f=f: ops().feed_forward(x, w, b, f, v, c),
                lambda x, w, b, v, c, f=f: ACTIVATIONS[f](x @ w.T + b) @ v.T + c,
                wide=m > 60,
                terms=max(m, k, n, out),
                cancels=float(max(1, k) * max(1, n)),
            )
    yield Case(
        "feed_forward",
        "three_axes_no_bias",
        ((2, 3, 5), (4, 5), (3, 4)),
        lambda x, w, v: ops().feed_forward(x, w, None, "tanh", v, None),
        lambda x, w, v: np.tanh(x @ w.T) @ v.T,
        terms=6,
        cancels=4.0,  # terms of dW1 over 2 x 3 rows have either sign
    )
    yield Case(
        "linear",
        "three_axes",
        ((2, 3, 5), (4, 5), (4,)),
        lambda *args: ops().linear(*args),
        lambda x, w, b: x @ w.T + b,
        terms=6,
    )
    for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
        for batch in ((), (3,)):
            for m, k, n in sizes + wide:
                a = (*batch, k, m) if ta else (*batch, m, k)
                b = (*batch, n, k) if tb else (*batch, k, n)
                yield Case(
                    "matmul",
                    f"{label(a, b)}{'_ta' * ta}{'_tb' * tb}",
                    (a, b),
                    lambda x, y, ta=ta, tb=tb: ops().matmul(x, y, ta, tb),
                    lambda x, y, ta=ta, tb=tb: (
                        (x.swapaxes(-1, -2) if ta else x)
                        @ (y.swapaxes(-1, -2) if tb else y)
                    ),
                    wide=(m, k, n) in wide,
                    terms=max(m, k, n),
                )


def shapes_and_dropout() -> Iterator[Case]:
    for shape in SHAPES + WIDE:
        wide = shape in WIDE
        yield Case(
            "reshape",
            label(shape),
            (shape,),
            lambda x, shape=shape: ops().reshape(x, (math.prod(shape), 1)),
            lambda x: x.reshape(x.size, 1),
            wide=wide,
        )
        yield Case(
            "transpose",
            label(shape),
            (shape,),
            lambda x: ops().transpose(x, 0, -1),
            lambda x: x.swapaxes(0, -1),
            wide=wide,
        )
        n = shape[-1]
        begin, end = n // 3, n - n // 4
        yield Case(
            "slice",
            label(shape),
            (shape,),
            lambda x, begin=begin, end=end: ops().slice(x, -1, begin, end),
            lambda x, begin=begin, end=end: x[..., begin:end],
            wide=wide,
        )
        yield Case(
            "concat",
            label(shape),
            (shape, (*shape[:-1], 2), shape),
            lambda *xs: ops().concat(list(xs), -1),
            lambda *xs: np.concatenate(xs, -1),
            wide=wide,
        )
        yield Case(  # test_values.py tests its values
            "dropout",
            label(shape),
            (shape,),
            lambda x: ops().dropout(x, 0.3, True),
            wide=wide,
        )


def dense_cases() -> list[Case]:
    """Returns every case of arithmetic, activations, products and shape changes."""
    makers = (arithmetic, activations, products, shapes_and_dropout)
    return [case for maker in makers for case in maker()]
