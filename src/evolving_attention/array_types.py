"""Types of the values that become tensors, and of the attributes of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, overload

from numpy.typing import ArrayLike

from evolving_attention.errors import ShapeError

if TYPE_CHECKING:
    from evolving_attention._core import Tensor


class SupportsDLPack(Protocol):
    """An array of another library that shares its memory through DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the DLPack capsule that lends the memory."""


#: A tensor, an array, a number, a list, or an object with ``__dlpack__``.
TensorLike: TypeAlias = ArrayLike | SupportsDLPack


class ElementCount(int):
    """The number of elements of a tensor; a call returns the shape, as in PyTorch.

    Example:
        >>> from evolving_attention import Tensor
        >>> x = Tensor([[1.0, 2.0, 3.0]])
        >>> x.size, x.size(), x.size(-1)
        (3, (1, 3), 3)
    """

    _shape: tuple[int, ...]

    def __new__(cls, count: int, shape: tuple[int, ...]) -> ElementCount:
        self = super().__new__(cls, count)
        self._shape = shape
        return self

    @overload
    def __call__(self) -> tuple[int, ...]: ...
    @overload
    def __call__(self, dim: int) -> int: ...
    def __call__(self, dim: int | None = None) -> int | tuple[int, ...]:
        """Returns the shape, or the size of one axis."""
        if dim is None:
            return self._shape
        rank = len(self._shape)
        if not -rank <= dim < rank:
            raise ShapeError(
                f"[size] axis {dim} of a tensor with {rank} axes; expected one from "
                f"{-rank} to {rank - 1}"
            )
        return self._shape[dim]

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


class Sorted(NamedTuple):
    """Sorted elements of a tensor, and where they were along the axis.

    Example:
        >>> from evolving_attention import Tensor
        >>> found = Tensor([2.0, 1.0]).sort()
        >>> found.values.tolist(), found.indices.tolist()
        ([1.0, 2.0], [1, 0])
    """

    values: Tensor
    indices: Tensor
