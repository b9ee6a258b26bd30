"""Builds torch checkpoint files byte by byte, so that tests can make any wrong one."""

from __future__ import annotations

import io
import os
import struct
import zipfile

import numpy as np

from evolving_attention.interop.paths import InputFile

MAGIC = 0x1950A86A20F9469CFC6C
KINDS = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
PROTO, STOP, MARK, TUPLE, REDUCE = b"\x80\x02", b".", b"(", b"t", b"R"
PERSID, BUILD, SETITEMS, EMPTY_DICT = b"Q", b"b", b"u", b"}"
ORDERED = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def text(value: str) -> bytes:
    """A string."""
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def whole(value: int) -> bytes:
    """An integer of any size."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def tuple_of(*items: bytes) -> bytes:
    """A tuple."""
    return MARK + b"".join(items) + TUPLE


def list_of(*items: bytes) -> bytes:
    """A list."""
    return b"](" + b"".join(items) + b"e"


def dict_of(**items: bytes) -> bytes:
    """A dict."""
    pairs = b"".join(text(key) + value for key, value in items.items())
    return EMPTY_DICT + MARK + pairs + SETITEMS


def storage(
    key: bytes, numel: bytes, *, kind: str = "Float", more: bytes = b""
) -> bytes:
    """A reference to a storage; ``more`` is ``N`` in the legacy format."""
    name = f"ctorch\n{kind}Storage\n".encode()
    return tuple_of(text("storage"), name, key, text("cpu"), numel, more) + PERSID


def tensor(
    reference: bytes,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
) -> bytes:
    """A tensor over a storage."""
    if strides is None:
        strides = tuple(
            int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape))
        )
    arguments = (
        reference,
        whole(offset),
        tuple_of(*map(whole, shape)),
        tuple_of(*map(whole, strides)),
        b"\x89",
        ORDERED + b")R",
    )
    return REBUILD + tuple_of(*arguments) + REDUCE


def state_dict(items: dict[str, bytes]) -> bytes:
    """A whole pickle of an OrderedDict with torch's bookkeeping attached."""
    pairs = b"".join(text(key) + value for key, value in items.items())
    extra = dict_of(_metadata=ORDERED + b")R")
    return PROTO + ORDERED + b")R" + MARK + pairs + SETITEMS + extra + BUILD + STOP


def zip_file(pickle: bytes, storages: dict[str, bytes] | None = None) -> bytes:
    """A file of the zip format."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/byteorder", b"little")
        for key, data in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", b"3\n")
    return stream.getvalue()


def legacy_parts(pickle: bytes, keys: list[str]) -> list[bytes]:
    """The five pickles of the legacy format."""
    machine = dict_of(
        protocol_version=whole(1001),
        little_endian=b"\x88",
        type_sizes=dict_of(int=whole(4)),
    )
    return [
        PROTO + whole(MAGIC) + STOP,
        PROTO + whole(1001) + STOP,
        PROTO + machine + STOP,
        pickle,
        PROTO + list_of(*map(text, keys)) + STOP,
    ]


def legacy_file(
    pickle: bytes, storages: dict[str, tuple[int, bytes]] | None = None
) -> bytes:
    """A file of the legacy format; each storage is (number of elements, bytes)."""
    known = storages or {}
    data = b"".join(struct.pack("<q", count) + raw for count, raw in known.values())
    return b"".join(legacy_parts(pickle, list(known))) + data


def write_model(arrays: dict[str, np.ndarray], *, legacy: bool) -> bytes:
    """A valid file with one storage for each array."""
    items, data = {}, {}
    for number, (name, array) in enumerate(arrays.items()):
        reference = storage(
            text(str(number)),
            whole(array.size),
            kind=KINDS[array.dtype.name],
            more=b"N" if legacy else b"",
        )
        items[name] = tensor(reference, array.shape)
        data[str(number)] = (array.size, array.tobytes())
    if legacy:
        return legacy_file(state_dict(items), data)
    return zip_file(state_dict(items), {key: raw for key, (_, raw) in data.items()})


def in_memory(data: bytes, label: str = "model.bin") -> InputFile:
    """An open file with these bytes, on no disk."""
    fd = os.memfd_create("test")
    os.write(fd, data)
    return InputFile(fd, label)


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    """Whether two state dicts have the same names, types, shapes and bits."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and first[name].tobytes() == second[name].tobytes()
        for name in first
    )
