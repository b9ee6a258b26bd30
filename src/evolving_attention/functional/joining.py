"""Joins tensors along a new axis."""

from __future__ import annotations

from collections.abc import Sequence

from evolving_attention import _core
from evolving_attention._core import Tensor, ops
from evolving_attention.array_types import TensorLike
from evolving_attention.errors import ConfigError, ShapeError
from evolving_attention.functional.naming import names_itself


@names_itself
def stack(
    xs: Sequence[TensorLike], axis: int | None = None, *, dim: int | None = None
) -> Tensor:
    """Joins tensors of one shape along a new axis.

        y[..., i, ...] = xs[i][..., ...]

    Args:
        xs: one tensor or more, of one shape and type and on one device.
        axis, dim: position of the new axis in the result; negative numbers count from
            the last; None: 0.

    Returns:
        Tensor with one more axis, of size len(xs).

    Raises:
        ShapeError: xs is empty, there is no such position, or the shapes differ.
        DTypeError: types differ.
        ConfigError: axis and dim are both given.

    Example:
        >>> from evolving_attention import functional as F
        >>> F.stack([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    if axis is not None and dim is not None:
        raise ConfigError(
            "[stack] axis and dim name the same argument; expected only one of them"
        )
    tensors = [_core.operand(x) for x in xs]
    shapes = {t.shape for t in tensors}
    if len(shapes) != 1:
        raise ShapeError(
            f"[stack] expected tensors of one shape, got {sorted(shapes) or 'none'}"
        )
    given = axis if axis is not None else dim
    place = 0 if given is None else given
    return ops.concat([t.unsqueeze(place) for t in tensors], place)
