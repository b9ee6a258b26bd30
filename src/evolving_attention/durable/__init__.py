"""Crash-safe files and folders: after a crash the old or the new state remains."""

from evolving_attention.durable.files import make_folder, write_bytes, write_json
from evolving_attention.durable.folders import (
    MANIFEST,
    CorruptCheckpointWarning,
    clean_stale,
    commit_directory,
    list_checkpoints,
    newest_verified,
    rotate,
    verify_directory,
)

__all__ = [
    "MANIFEST",
    "CorruptCheckpointWarning",
    "clean_stale",
    "commit_directory",
    "list_checkpoints",
    "make_folder",
    "newest_verified",
    "rotate",
    "verify_directory",
    "write_bytes",
    "write_json",
]
