"""Reads pytorch_model.bin, zip or legacy format, into arrays; runs no code of it."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np

from evolving_attention.errors import CheckpointError
from evolving_attention.interop import torch_legacy
from evolving_attention.interop.limits import (
    MAX_PICKLE_BYTES,
    MAX_TENSORS,
    check_tensor_name,
)
from evolving_attention.interop.paths import InputFile, check_basename, open_given
from evolving_attention.interop.safe_pickle import (
    Storage,
    TensorRecord,
    element_type,
    load_pickle,
    storage_from_id,
)

_ZIP_MAGIC = b"PK\x03\x04"
_LOCAL_HEADER = 30  # size of a zip local file header, up to the name
_ENCRYPTED = 0x1 | 0x40 | 0x2000


def load_torch_bin(path: str | Path) -> dict[str, np.ndarray]:
    """Read the state dict that ``torch.save`` wrote to ``path``.

    Both formats of torch are read: zip (since 1.6) and the older one. The file is
    treated as data: no class or function that it names is imported or called.

    Args:
        path: the file; a link to one is followed.

    Returns:
        Name to array, in the order of the file. Tensors that share memory in the file
        share it here; bfloat16 has the element type of ``ml_dtypes``.

    Raises:
        UnsafeCheckpointError: the file names something outside the allow-list.
        CheckpointError: missing, truncated, damaged, or not a state dict.
    """
    with open_given(Path(path)) as file:
        return read_torch_bin(file)


def read_torch_bin(file: InputFile) -> dict[str, np.ndarray]:
    """Like :func:`load_torch_bin`, from an open file."""
    head = file.read_bytes(0, min(file.size, 512))
    if head.startswith(_ZIP_MAGIC):
        return _ZipFile(file).load()
    if head[257:262] == b"ustar":
        raise CheckpointError(
            f"{file.label}: is in the tar format of torch before 0.1.10, which is not "
            "read; load and save it again with a newer torch"
        )
    return materialise(file.label, *torch_legacy.read(file))


class _ZipFile:
    """The members of a torch zip file: uncompressed, plain names, no overlap."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        try:
            with (
                open(file.fd, "rb", closefd=False) as stream,
                zipfile.ZipFile(stream) as archive,
            ):
                infos, end = archive.infolist(), archive.start_dir
        except Exception as error:  # zipfile raises many error types for damaged input
            raise self._error(f"is not a readable zip file ({error})") from error
        self.members = self._checked(infos, end)
        pickles = [name for name in self.members if name.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].count("/") != 1:
            raise self._error("has no data.pkl in its one folder; it is not from torch")
        self.prefix = pickles[0].removesuffix("data.pkl")
        if f"{self.prefix}constants.pkl" in self.members:
            raise self._error("is a TorchScript program; save its state_dict() instead")
        self.storages: dict[str, Storage] = {}

    def load(self) -> dict[str, np.ndarray]:
        """Read the pickle, then the storages it refers to."""
        order = f"{self.prefix}byteorder"
        if order in self.members and self._read(order).tobytes() != b"little":
            raise self._error("is big-endian; save it on a little-endian machine")
        name = f"{self.prefix}data.pkl"
        if self.members[name][1] > MAX_PICKLE_BYTES:
            raise self._error(f"has a data.pkl above {MAX_PICKLE_BYTES} bytes")
        graph = load_pickle(
            io.BytesIO(self._read(name).data), self.file.label, self._persistent
        )
        data = {
            key: self._read(self._member(storage))
            for key, storage in self.storages.items()
        }
        return materialise(self.file.label, graph, data)

    def _persistent(self, pid: object) -> Storage:
        storage, _ = storage_from_id(pid, 5)
        known = self.storages.setdefault(storage.key, storage)
        if known != storage:
            raise CheckpointError(f"storage {storage.key} is described in two ways")
        size = self.members.get(self._member(storage), (0, -1, 0))[1]
        if size != storage.nbytes:
            raise CheckpointError(
                f"storage {storage.key} of {storage.numel} {storage.dtype} is missing "
                "or has another size"
            )
        return storage

    def _member(self, storage: Storage) -> str:
        return f"{self.prefix}data/{check_basename(storage.key, self.file.label)}"

    def _read(self, name: str) -> np.ndarray:
        start, size, checksum = self.members[name]
        data = self.file.read(start, size)
        if zlib.crc32(data.data) != checksum:
            raise self._error(f"has a wrong checksum for {name}")
        return data

    def _checked(
        self, infos: list[zipfile.ZipInfo], end: int
    ) -> dict[str, tuple[int, int, int]]:
        """Returns name to (start of data, bytes, CRC-32) after checking all rules."""
        members: dict[str, tuple[int, int, int]] = {}
        free = 0  # all bytes before this offset belong to members already seen
        for info in sorted(infos, key=lambda info: info.header_offset):
            name = info.orig_filename
            parts = name.split("/")
            if name in members:
                raise self._error(f"has two members named {name!a}")
            if (
                any(part in ("", ".", "..") for part in parts)
                or "\\" in name
                or not name.isprintable()
            ):
                raise self._error(f"has a member with the odd name {name!a}")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _ENCRYPTED:
                raise self._error(f"has {name} compressed or encrypted")
            if info.compress_size != info.file_size:
                raise self._error(f"says two different sizes of {name}")
            start = self._data_start(info)
            if info.header_offset < free or start + info.file_size > end:
                raise self._error(f"has members that overlap at {name}")
            free = start + info.file_size
            members[name] = (start, info.file_size, info.CRC)
        return members

    def _data_start(self, info: zipfile.ZipInfo) -> int:
        header = self.file.read_bytes(info.header_offset, _LOCAL_HEADER)
        name_size = int.from_bytes(header[26:28], "little")
        extra_size = int.from_bytes(header[28:30], "little")
        start = info.header_offset + _LOCAL_HEADER
        name = self.file.read_bytes(start, name_size)
        encoding = "utf-8" if info.flag_bits & 0x800 else "cp437"
        if header[:4] != _ZIP_MAGIC or name != info.orig_filename.encode(encoding):
            raise self._error(f"names {info.orig_filename} in one place only")
        return start + name_size + extra_size

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.file.label}: {what}; expected a file written by torch.save, "
            "get it again"
        )


def materialise(
    label: str, graph: object, data: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Converts a state dict of tensor records to arrays over the storages' memory.

    Args:
        label: the file, for messages.
        graph: the contents of the pickle; must map names to tensors.
        data: storage key to its bytes, an array of uint8.

    Raises:
        CheckpointError: the graph is not a flat state dict.
    """
    if not isinstance(graph, dict):
        raise CheckpointError(
            f"{label}: holds a {type(graph).__name__} instead of a state dict; "
            "save model.state_dict()"
        )
    if len(graph) > MAX_TENSORS:
        raise CheckpointError(f"{label}: has {len(graph)} tensors, above {MAX_TENSORS}")
    result: dict[str, np.ndarray] = {}
    for key, record in graph.items():
        name = check_tensor_name(key, label)
        if not isinstance(record, TensorRecord):
            raise CheckpointError(
                f"{label}: {name} is a {type(record).__name__} instead of a tensor; "
                "expected a flat state dict, save model.state_dict()"
            )
        dtype = element_type(record.storage.dtype)
        base = data[record.storage.key]
        if dtype == np.bool_ and base.size and base.max() > 1:
            raise CheckpointError(
                f"{label}: {name} has truth values other than 0 and 1"
            )
        result[name] = np.ndarray(
            record.shape,
            dtype,
            buffer=base,
            offset=record.offset * dtype.itemsize,
            strides=tuple(step * dtype.itemsize for step in record.strides),
        )
    return result
