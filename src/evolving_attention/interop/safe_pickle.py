"""Reads the object graph of a torch checkpoint by an allow-list; runs no code of it.

The unpickler supports only the instructions that build plain data. Every allowed global
maps to one of this module's objects, which accept no state and no attribute; dictionary
keys are strings. Tensors become descriptions (:class:`TensorRecord`); their data is
read later, after all bounds are checked.
"""

from __future__ import annotations

import functools
import io
import math
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from evolving_attention.errors import CheckpointError, UnsafeCheckpointError
from evolving_attention.interop.limits import check_shape

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
    """Returns the NumPy dtype of that name; bfloat16 comes from ``ml_dtypes``."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class _TamperError(Exception):
    """A pickle tried to change one of this module's objects."""


class _Sealed:
    """An object whose state and attributes a pickle cannot set."""

    __slots__ = ()

    def __setstate__(self, state: object) -> NoReturn:
        raise _TamperError("tries to change an object of the reader")


class _StorageType(_Sealed):
    """Replaces ``torch.FloatStorage`` and similar: the name of an element type."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


@dataclass(frozen=True)
class Storage(_Sealed):
    """A contiguous run of elements in the file: element type, key, number."""

    dtype: str
    key: str
    numel: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.numel * element_type(self.dtype).itemsize


class TensorRecord(_Sealed):
    """A view of a storage with checked bounds; offset and strides in elements."""

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


class _Dict(_Sealed, dict[str, Any]):
    """Replaces a dictionary; keys must be distinct strings."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(key, str) or key in self:
            what = ascii(key)[:80] if isinstance(key, str) else type(key).__name__
            raise CheckpointError(f"the name {what} is not a string or comes twice")
        super().__setitem__(key, value)


class StateDict(_Dict):
    """Replaces ``collections.OrderedDict``."""

    __slots__ = ()

    def __setstate__(  # type: ignore[override]  # the only state allowed
        self, state: object
    ) -> None:
        """Ignores the bookkeeping (``_metadata``) that torch attaches."""
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
    """A function of this module that a pickle may call, without attributes."""

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


def _unsafe(source: str, what: str) -> UnsafeCheckpointError:
    """Returns the error for a file that asks for more than weights need."""
    return UnsafeCheckpointError(
        f"{source}: {what}, which no file of weights needs; nothing of it was run. "
        "Do not trust this file; get the model as model.safetensors"
    )


# fmt: off
_INSTRUCTIONS = frozenset((
    "PROTO", "FRAME", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE",
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "STRING",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    "GLOBAL", "STACK_GLOBAL", "INST", "REDUCE", "BUILD", "BINPERSID",
))
# fmt: on


class _Unpickler(pickle._Unpickler):
    """Loads a pickle; globals come from the allow-list, storages from a callback.

    The base is Python's pure-Python unpickler: its table of instructions can be
    restricted to ``_INSTRUCTIONS``, and its memo is a dictionary. The C unpickler's
    memo allocates 16 bytes for each number up to the largest that a file names.
    """

    def __init__(
        self,
        stream: io.BytesIO,
        source: str,
        persistent: Callable[[object], object] | None,
    ) -> None:
        super().__init__(stream)
        self._source, self._persistent = source, persistent

    def find_class(self, module: str, name: str) -> _Sealed:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            asked = ascii(f"{module}.{name}")[1:201]
            raise _unsafe(self._source, f"asks for {asked}") from None

    def persistent_load(self, pid: object) -> object:
        if self._persistent is None:
            raise CheckpointError("refers to a storage where none can be")
        return self._persistent(pid)

    def _push_dict(self) -> None:
        self.append(_Dict())  # type: ignore[attr-defined]  # typeshed has no append

    def _refuse(self, name: str) -> NoReturn:
        raise _unsafe(self._source, f"uses the pickle instruction {name}")


_dispatch: dict[int, Any] = {
    ord(opcode.code): _Unpickler.dispatch[ord(opcode.code)]
    if opcode.name in _INSTRUCTIONS
    else functools.partial(_Unpickler._refuse, name=opcode.name)
    for opcode in pickletools.opcodes
}
_dispatch[ord("}")] = _Unpickler._push_dict
_Unpickler.dispatch = _dispatch


def load_pickle(
    stream: io.BytesIO,
    source: str,
    persistent: Callable[[object], object] | None = None,
) -> object:
    """Load the pickle at the stream's position without running its code.

    Args:
        stream: the file, or the part of it that contains pickles.
        source: the file, for messages.
        persistent: maps a persistent id to a :class:`Storage`, or raises.

    Returns:
        Numbers, strings, tuples, lists, dicts and :class:`TensorRecord`.

    Raises:
        UnsafeCheckpointError: the pickle names a global outside the allow-list, uses an
            instruction that weights do not need, or tries to change this module's
            objects.
        CheckpointError: the pickle is truncated or damaged, or a tensor exceeds its
            storage.
    """
    try:
        return _Unpickler(stream, source, persistent).load()
    except UnsafeCheckpointError:
        raise
    except _TamperError as error:
        raise _unsafe(source, str(error)) from None
    except Exception as error:
        raise CheckpointError(
            f"{source}: cannot be read as a file of weights: "
            f"{str(error)[:300] or type(error).__name__}; it is truncated or damaged, "
            "get it again"
        ) from error


def storage_from_id(pid: object, length: int) -> tuple[Storage, tuple[Any, ...]]:
    """Read a persistent id ``('storage', type, key, location, numel, …)``.

    Args:
        pid: the persistent id of the pickle.
        length: number of items it must have.

    Returns:
        The storage that the id describes, and the items after ``numel``.

    Raises:
        CheckpointError: the id has another form.
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
