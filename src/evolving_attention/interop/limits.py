"""Limits of checkpoint files; checked before their contents are used."""

from __future__ import annotations

from evolving_attention.errors import CheckpointError

MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_NAME_CHARS = 512
MAX_CONFIG_BYTES = 1 << 20
MAX_INDEX_BYTES = 32 << 20
MAX_HEADER_BYTES = 64 << 20  # the JSON header of a safetensors file
MAX_PICKLE_BYTES = 2 << 20  # the object graph of a pytorch_model.bin: 13,000 tensors
MAX_SHARD_BYTES = 5_000_000_000  # weights above this size are written in shards


def check_tensor_name(name: object, source: str) -> str:
    """Return ``name`` if it can name a tensor, or raise.

    Args:
        name: the name in the file.
        source: the file, for the message.

    Raises:
        CheckpointError: not a string, empty, too long, or with control characters.
    """
    if not isinstance(name, str):
        raise CheckpointError(
            f"{source}: a tensor is named by {type(name).__name__} instead of a "
            "string; the file is damaged or is not a state dict"
        )
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise CheckpointError(
            f"{source}: tensor name {name[:40]!r} is empty, longer than "
            f"{MAX_NAME_CHARS} characters or has control characters; "
            "the file is damaged"
        )
    return name


def check_shape(shape: object, name: str, source: str) -> tuple[int, ...]:
    """Return ``shape`` as a tuple if it can be the shape of a tensor, or raise.

    Args:
        shape: a list or tuple of sizes from the file.
        name: the tensor, for the message.
        source: the file, for the message.

    Raises:
        CheckpointError: not a list of integers ≥ 0, or more than 8 axes.
    """
    if not isinstance(shape, (list, tuple)) or not all(
        type(size) is int and size >= 0 for size in shape
    ):
        raise CheckpointError(
            f"{source}: the shape of {name} is not a list of integers >= 0; "
            "the file is damaged"
        )
    if len(shape) > MAX_RANK:
        raise CheckpointError(
            f"{source}: {name} has {len(shape)} axes, at most {MAX_RANK} are read"
        )
    return tuple(shape)
