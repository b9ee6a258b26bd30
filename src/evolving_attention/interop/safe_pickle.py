"""Reads the object graph of a torch checkpoint by an allow-list; runs nothing of it.

Two fences, either of which is enough. First :mod:`.pickle_scan` walks the instructions
without executing them. Then a subclass of ``pickle.Unpickler`` loads the same bytes;
every global it may ask for is one of our own objects, which accept no state and no
attribute. Tensors come out as descriptions (:class:`TensorRecord`); their data is read
later, after all bounds were checked.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from evolving_attention.errors import CheckpointError, UnsafeCheckpointError
from evolving_attention.interop.limits import check_shape
from evolving_attention.interop.pickle_scan import (
    damaged,
    pickle_end,
    unsafe,
    unsafe_global,
)

__all__ = [
    "Storage",
    "TensorRecord",
    "element_type",
    "load_pickle",
    "storage_from_id",
]

_STORAGE_TYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}


def element_type(name: str) -> np.dtype[Any]:
    """The NumPy element type of that name; bfloat16 comes from ``ml_dtypes``."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class _TamperError(Exception):
    """A pickle reached for an object of ours."""


class _Sealed:
    """An object a pickle can neither give state to nor set attributes of."""

    __slots__ = ()

    def __setstate__(self, state: object) -> NoReturn:
        raise _TamperError("tries to change an object of the reader")


class _StorageType(_Sealed):
    """What ``torch.FloatStorage`` and its like become: the name of an element type."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


@dataclass(frozen=True)
class Storage(_Sealed):
    """A run of elements somewhere in the file: element type, key, number."""

    dtype: str
    key: str
    numel: int

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.numel * element_type(self.dtype).itemsize


class TensorRecord(_Sealed):
    """A view of a storage whose bounds were checked; offset and strides in elements."""

    __slots__ = ("offset", "shape", "storage", "strides")

    def __init__(
        self,
        storage: Storage,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        self.storage, self.offset = storage, offset
        self.shape, self.strides = shape, strides


class StateDict(dict[str, Any]):
    """What ``collections.OrderedDict`` becomes; names must be strings and differ."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(key, str) or key in self:
            raise CheckpointError(
                f"the name {key!r:.80} is not a string or comes twice"
            )
        super().__setitem__(key, value)

    def __setstate__(self, state: object) -> None:
        """Ignore the bookkeeping (``_metadata``) that torch attaches."""
        if not isinstance(state, dict):
            raise CheckpointError("the state of a state dict is not a dict")


def _ordered_dict(pairs: object = ()) -> StateDict:
    result = StateDict()
    if not isinstance(pairs, (list, tuple)):
        raise CheckpointError("an OrderedDict is made of something other than pairs")
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise CheckpointError(
                "an OrderedDict is made of something other than pairs"
            )
        result[pair[0]] = pair[1]
    return result


def _rebuild_tensor(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object = False,
    backward_hooks: object = None,
    metadata: object = None,
) -> TensorRecord:
    if not isinstance(storage, Storage):
        raise CheckpointError("a tensor is made of something other than a storage")
    shape = check_shape(size, "a tensor", "its pickle")
    strides = check_shape(stride, "a tensor (its strides)", "its pickle")
    if len(strides) != len(shape) or type(offset) is not int or offset < 0:
        raise CheckpointError("a tensor has strides or an offset that make no sense")
    numel = math.prod(shape)
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if (
        (numel and last >= storage.numel)
        or numel > storage.numel
        or offset > storage.numel
    ):
        raise CheckpointError(
            f"a tensor of shape {shape} reaches element {last} of a storage "
            f"of {storage.numel} elements"
        )
    return TensorRecord(storage, offset, shape, strides)


def _rebuild_parameter(
    data: object, requires_grad: object = True, backward_hooks: object = None
) -> TensorRecord:
    if not isinstance(data, TensorRecord):
        raise CheckpointError("a parameter is made of something other than a tensor")
    return data


class _Builder(_Sealed):
    """A function of ours that a pickle may call, without the attributes of one."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *args: object) -> object:
        return self._function(*args)


_ALLOWED: dict[tuple[str, str], _Sealed] = {
    ("collections", "OrderedDict"): _Builder(_ordered_dict),
    ("torch._utils", "_rebuild_tensor_v2"): _Builder(_rebuild_tensor),
    ("torch._utils", "_rebuild_parameter"): _Builder(_rebuild_parameter),
    **{("torch", name): _StorageType(dtype) for name, dtype in _STORAGE_TYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    """Loads a pickle; globals come from the allow-list, storages from a callback."""

    def __init__(
        self, data: bytes, source: str, persistent: Callable[[object], object] | None
    ) -> None:
        super().__init__(io.BytesIO(data))
        self._source, self._persistent = source, persistent

    def find_class(self, module: str, name: str) -> _Sealed:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise unsafe_global(self._source, module, name) from None

    def persistent_load(self, pid: object) -> object:
        if self._persistent is None:
            raise CheckpointError("refers to a storage where none can be")
        return self._persistent(pid)


def load_pickle(
    stream: io.BytesIO,
    source: str,
    persistent: Callable[[object], object] | None = None,
) -> object:
    """Load the pickle at the stream's position, run nothing of it, stop behind it.

    Args:
        stream: the file, or the part of it that has pickles.
        source: the file, for messages.
        persistent: maps a persistent id to a :class:`Storage`, or raises.

    Returns:
        Numbers, strings, tuples, lists, dicts, :class:`StateDict` and
        :class:`TensorRecord`.

    Raises:
        UnsafeCheckpointError: it names a global outside of the allow-list, uses an
            instruction that weights do not need, or reaches for our objects.
        CheckpointError: truncated, damaged, or a tensor reaches out of its storage.
    """
    start = stream.tell()
    end = pickle_end(stream, source, _ALLOWED)
    stream.seek(start)
    data = stream.read(end - start)
    try:
        return _Unpickler(data, source, persistent).load()
    except UnsafeCheckpointError:
        raise
    except _TamperError as error:
        raise unsafe(source, str(error)) from None
    except Exception as error:
        raise damaged(source, error) from error


def storage_from_id(pid: object, length: int) -> tuple[Storage, tuple[Any, ...]]:
    """Read a persistent id ``('storage', type, key, location, numel, …)``.

    Args:
        pid: what the pickle says.
        length: number of items it must have.

    Returns:
        The storage it describes and the items after ``numel``.

    Raises:
        CheckpointError: it is anything else.
    """
    if not isinstance(pid, tuple) or len(pid) != length or pid[0] != "storage":
        raise CheckpointError("refers to something other than a storage")
    kind, key, location, numel = pid[1:5]
    if not (
        isinstance(kind, _StorageType)
        and isinstance(key, str)
        and isinstance(location, str)
        and type(numel) is int
        and numel >= 0
    ):
        raise CheckpointError("describes a storage in a way that makes no sense")
    return Storage(kind.dtype, key, numel), pid[5:]
