"""torch's format before 1.6: five consecutive pickles, then the storages' data."""

from __future__ import annotations

import io

import numpy as np

from evolving_attention.errors import CheckpointError
from evolving_attention.interop.limits import MAX_PICKLE_BYTES
from evolving_attention.interop.paths import InputFile
from evolving_attention.interop.safe_pickle import (
    Storage,
    load_pickle,
    storage_from_id,
)

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_COUNT_BYTES = 8  # every storage is preceded by its number of elements, int64


def read(file: InputFile) -> tuple[object, dict[str, np.ndarray]]:
    """Read a legacy file.

    Layout: pickles of a magic number, the protocol version, facts about the writer's
    machine, the object itself and the list of its storage keys; then, for each key in
    that order, the number of elements as int64 and the elements.

    Returns:
        The object with tensors as records, and a map of storage key to bytes.

    Raises:
        UnsafeCheckpointError: as :func:`~.safe_pickle.load_pickle`.
        CheckpointError: the file is truncated, damaged, or not of this format.
    """
    stream = io.BytesIO(file.read_bytes(0, min(file.size, MAX_PICKLE_BYTES)))
    storages: dict[str, Storage] = {}

    def persistent(pid: object) -> Storage:
        storage, rest = storage_from_id(pid, 6)
        if rest != (None,):
            raise CheckpointError("has a storage that is a view of another one")
        if storage.nbytes > file.size:
            raise CheckpointError(f"storage {storage.key} is larger than the file")
        known = storages.setdefault(storage.key, storage)
        if known != storage:
            raise CheckpointError(f"storage {storage.key} is described in two ways")
        return storage

    objects = []
    for number in range(5):
        objects.append(
            load_pickle(stream, file.label, persistent if number == 3 else None)
        )
        if number == 0 and not _is(objects[0], _MAGIC):
            raise CheckpointError(
                f"{file.label}: is neither a zip file nor a legacy file of torch.save; "
                "expected pytorch_model.bin"
            )
    _, protocol, machine, graph, keys = objects
    if not _is(protocol, _PROTOCOL):
        raise CheckpointError(
            f"{file.label}: is of an unknown version, expected {_PROTOCOL}"
        )
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise CheckpointError(
            f"{file.label}: is not little-endian; save it again on such a machine"
        )
    return graph, _read_storages(file, stream.tell(), storages, keys)


def _read_storages(
    file: InputFile, place: int, storages: dict[str, Storage], keys: object
) -> dict[str, np.ndarray]:
    if (
        not isinstance(keys, list)
        or not all(isinstance(key, str) for key in keys)
        or sorted(keys) != sorted(storages)
    ):
        raise CheckpointError(
            f"{file.label}: lists other storages than its tensors use; it is damaged"
        )
    data: dict[str, np.ndarray] = {}
    for key in keys:
        storage = storages[key]
        count = int.from_bytes(file.read_bytes(place, _COUNT_BYTES), "little")
        if count != storage.numel:
            raise CheckpointError(
                f"{file.label}: says {storage.numel} elements of storage {key}, "
                f"and {count} in another place; it is damaged"
            )
        place += _COUNT_BYTES
        data[key] = file.read(place, storage.nbytes)
        place += storage.nbytes
    if place != file.size:
        raise CheckpointError(
            f"{file.label}: has {file.size - place} bytes after its end; it is damaged"
        )
    return data


def _is(value: object, expected: int) -> bool:
    return type(value) is int and value == expected
