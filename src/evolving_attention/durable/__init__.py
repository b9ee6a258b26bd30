"""Crash-safe files and folders: after a crash the old or the new state remains."""

from evolving_attention.durable.files import (
    json_bytes,
    make_folder,
    plain,
    write_bytes,
    write_files,
    write_json,
)
from evolving_attention.durable.folders import (
    MANIFEST,
    CorruptCheckpointWarning,
    clean_stale,
    commit_directory,
    discard,
    is_leftover,
    list_checkpoints,
    newest_verified,
    rotate,
    verify_directory,
)
from evolving_attention.durable.locks import locked

__all__ = [
    "MANIFEST",
    "CorruptCheckpointWarning",
    "clean_stale",
    "commit_directory",
    "discard",
    "is_leftover",
    "json_bytes",
    "list_checkpoints",
    "locked",
    "make_folder",
    "newest_verified",
    "plain",
    "rotate",
    "verify_directory",
    "write_bytes",
    "write_files",
    "write_json",
]
