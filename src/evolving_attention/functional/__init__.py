"""Differentiable functions on tensors: ``ea.functional``.

Contains all of the core's operations (``ea.functional.relu``, ``map_conv``, …),
:func:`einsum`, :func:`stack`, and :func:`evolving_attention`, the whole attention step
on dense arrays. Wherever a tensor is expected, an array, a list or an object with
``__dlpack__`` is accepted.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import numbers
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evolving_attention import _core
from evolving_attention._core import Edges as Edges
from evolving_attention._core import Packing as Packing
from evolving_attention._core import Tensor, ops
from evolving_attention.array_types import TensorLike
from evolving_attention.calls import plain as _plain
from evolving_attention.errors import ConfigError, Error, InputError, ShapeError
from evolving_attention.functional.contraction import einsum as einsum
from evolving_attention.functional.joining import stack as stack
from evolving_attention.functional.naming import named, names_itself

if TYPE_CHECKING:  # for editors: the generated stub has every operation
    from evolving_attention._core.ops import *  # noqa: F403
else:
    __all__ = [
        "Edges",
        "Packing",
        "einsum",
        "stack",
        "evolving_attention",
        *_core.op_names(),
    ]


def _told(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an op: errors for wrong arguments name the op and its signature."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return _apart(function(*args, **kwargs), (*args, *kwargs.values()))
        except InputError as error:
            raise named(name, error) from None
        except TypeError as error:
            if isinstance(error, Error):
                raise
            given = [type(a).__name__ for a in args]
            given += [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
            raise InputError(
                f"[{name}] cannot be called with ({', '.join(given)}); expected "
                f"{_signature(name, function)}"
            ) from None

    line, _, rest = (function.__doc__ or "").partition("\n")
    with contextlib.suppress(SyntaxError, ValueError):  # another form: keep it
        signature: Any = _parsed(_plain(line))
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = rest.strip()
    call.__module__ = __name__
    return call


def _apart(result: Any, given: tuple[Any, ...]) -> Any:
    """Copies a result that lies in an array of the caller, which += would change."""
    arrays = [one for one in given if isinstance(one, np.ndarray)]
    if not arrays or not isinstance(result, Tensor) or result.device != "cpu":
        return result
    values = result.numpy()
    shares = any(np.may_share_memory(one, values) for one in arrays)
    return result.clone() if shares else result


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Returns ``relu(x: Tensor)``, from the first line of the core's docstring."""
    return _plain((function.__doc__ or name).splitlines()[0].split(" -> ")[0])


class _Word(str):
    """An annotation that ``help()`` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _parsed(line: str) -> inspect.Signature:
    """Parses ``relu(x: Tensor) -> Tensor`` to a signature."""
    (definition,) = ast.parse(f"def {line}: ...").body
    assert isinstance(definition, ast.FunctionDef)
    given = definition.args

    def made(arg: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
        return inspect.Parameter(
            arg.arg,
            kind,
            default=(
                inspect.Parameter.empty
                if default is None
                else ast.literal_eval(default)
            ),
            annotation=_word(arg.annotation),
        )

    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parameters = [
        made(arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default)
        for arg, default in zip(plain, defaults, strict=True)
    ]
    parameters += [
        made(arg, inspect.Parameter.KEYWORD_ONLY, default)
        for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return inspect.Signature(parameters, return_annotation=_word(definition.returns))


def _word(node: ast.expr | None) -> Any:
    return inspect.Parameter.empty if node is None else _Word(ast.unparse(node))


if not TYPE_CHECKING:
    globals().update(
        {name: _told(name, getattr(ops, name)) for name in _core.op_names()}
    )


@names_itself
def evolving_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    *,
    prev: TensorLike | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    alpha: float = 0.0,
    beta: float = 0.0,
    mask: ArrayLike | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes evolving attention on dense arrays, with gradients.

    With S = scale · q kᵀ and M = ``prev``:

        I = α M + (1 − α) S,   L = β ReLU(Conv(I)) + (1 − β) I,   o = softmax(L) v

    and L = S when ``prev`` is None (the first layer of a chain).

    Args:
        q: queries [B, H, T, d].
        k, v: keys and values [B, H, S, d].
        prev: maps of the previous layer [B, H, T, S], or None.
        weight: convolution weight [H, H, k, k], required if β > 0 and prev is given.
        bias: convolution bias [H]; default zeros.
        alpha, beta: α and β, in [0, 1].
        mask: visible keys, [B, S] of 0 and 1; masked keys get probability exactly 0.
            Their scores are set to 0 before mixing and convolution.
        scale: default 1/√d.

    Returns:
        (o, L): context [B, H, T, d], and the maps [B, H, T, S] for the next layer.

    Raises:
        ShapeError: shapes do not match.
        DTypeError: types differ, or are not floating types.
        ConfigError: alpha or beta is out of range, or scale is no number.
        InputError: the mask holds other values, or the weight is missing.

    Example:
        >>> import numpy as np
        >>> from evolving_attention import functional as F
        >>> q = np.ones((1, 2, 3, 4), dtype="float32")
        >>> context, maps = F.evolving_attention(q, q, q)
        >>> _, maps = F.evolving_attention(q, q, q, prev=maps, alpha=0.5)
        >>> context.shape, maps.shape
        ((1, 2, 3, 4), (1, 2, 3, 3))

    Source: Wang et al., ICML 2021, Eq. 4.
    """
    q, k, v = _core.operand(q), _core.operand(k), _core.operand(v)
    previous = None if prev is None else _core.operand(prev)
    _check_shapes(q, k, v, previous)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, numbers.Real) or not 0 <= value <= 1:
            raise ConfigError(
                f"evolving_attention: {name}={value!r}, expected a number in [0, 1]"
            )
    if not isinstance(scale, (numbers.Real, Tensor, type(None))):
        raise ConfigError(f"evolving_attention: scale={scale!r}, expected a number")
    batch, heads, n_q, width = q.shape
    n_k = k.shape[2]
    packing = Packing(
        heads,
        np.arange(batch + 1) * n_q,
        key_offsets=np.arange(batch + 1) * n_k,
        key_mask=_key_mask(mask, (batch, n_k), q.device),
    )
    factor = 1 / math.sqrt(width or 1) if scale is None else scale
    scores = ops.attention_scores(_tokens(q), _tokens(k), packing, factor)
    logits = scores
    if previous is not None:
        logits = _evolve(previous, scores, weight, bias, alpha, beta, packing)
    probabilities = ops.map_softmax(logits, packing)
    context = ops.attention_context(probabilities, _tokens(v), packing)
    dense = context.reshape(batch, n_q, heads, width).transpose(1, 2)
    return dense, logits.reshape(batch, heads, n_q, n_k)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, previous: Tensor | None) -> None:
    """Rejects shapes of evolving_attention that do not match each other."""
    if q.ndim != 4 or k.shape != v.shape or k.ndim != 4 or q.shape[:2] != k.shape[:2]:
        raise ShapeError(
            f"evolving_attention: q {q.shape}, k {k.shape}, v {v.shape}; expected "
            "[batch, heads, queries, d] and twice [batch, heads, keys, d]"
        )
    expected = (*q.shape[:3], k.shape[2])
    if previous is not None and previous.shape != expected:
        raise ShapeError(
            f"evolving_attention: prev has shape {previous.shape}, expected "
            f"{expected}: [batch, heads, queries, keys]"
        )


def _key_mask(
    mask: ArrayLike | None, shape: tuple[int, int], device: str
) -> Tensor | None:
    """Returns the visible keys as uint8 [B·S]."""
    if mask is None:
        return None
    seen = np.asarray(mask)
    if seen.shape != shape:
        raise ShapeError(
            f"evolving_attention: mask has shape {seen.shape}, expected {shape}: one 0 "
            "or 1 for each key"
        )
    odd = np.argwhere((seen != 0) & (seen != 1))
    if len(odd):
        row, key = map(int, odd[0])
        raise InputError(
            f"evolving_attention: mask[{row}, {key}] = {seen[row, key]}, expected 1 "
            "for a key that may be seen or 0; it is no bias to be added"
        )
    return Tensor(seen.astype(np.uint8).reshape(-1), device=device)


def _evolve(
    previous: Tensor,
    scores: Tensor,
    weight: TensorLike | None,
    bias: TensorLike | None,
    alpha: float,
    beta: float,
    packing: Packing,
) -> Tensor:
    """Computes L = β ReLU(Conv(I)) + (1 − β) I of flat maps, I = α M + (1 − α) S."""
    if beta > 0 and weight is None:
        raise InputError(
            f"evolving_attention: weight is missing, expected a convolution weight "
            f"[heads, heads, k, k] because beta={beta}; pass it, or set beta=0"
        )
    coefficients = (
        alpha,
        1 - alpha,
        alpha * (1 - beta),
        (1 - alpha) * (1 - beta),
        beta,
    )
    kernel = None if weight is None else _core.operand(weight)
    if kernel is not None and bias is None:
        bias = Tensor(
            np.zeros(packing.num_heads), dtype=kernel.dtype, device=kernel.device
        )
    shift = None if bias is None else _core.operand(bias)
    flat = previous.reshape(-1)
    return ops.evolve(flat, scores, kernel, shift, coefficients, packing)


def _tokens(x: Tensor) -> Tensor:
    """Reshapes [B, H, T, d] to token rows [B·T, H·d]."""
    batch, heads, n, width = x.shape
    return x.transpose(1, 2).reshape(batch * n, heads * width)
