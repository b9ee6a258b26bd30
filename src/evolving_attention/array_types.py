"""Types of arguments: what will do wherever a tensor is expected."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

__all__ = ["SupportsDLPack", "TensorLike"]


class SupportsDLPack(Protocol):
    """An array of another library that shares its memory by DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """The capsule that lends the memory."""


#: A tensor, an array, a number, a list, or an object with ``__dlpack__``.
TensorLike: TypeAlias = ArrayLike | SupportsDLPack
