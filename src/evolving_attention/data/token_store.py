"""The tokens of a corpus on disk: written once, read row by row.

A folder ``tokens-KEY``, committed atomically (:mod:`evolving_attention.durable`), holds
the token ids of all documents in sequence, uint16 or uint32, and for corpora of
sentence pairs the starts of sentences, rows and documents. KEY is a hash of the files'
names, sizes and times, of the tokenizer and of the row length. ``pread`` copies each
read into its own memory: resident memory does not grow with the corpus, and a file that
is truncated during use gives an error, not a signal.
"""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from evolving_attention import durable
from evolving_attention.data.corpus import corpus_lines
from evolving_attention.errors import CheckpointError, DataError, InputError
from evolving_attention.notices import say

Array = np.ndarray[Any, Any]
FORMAT = 1
_NO_LIMIT = 2**62
_LINES = 1024  # per tokenizer call
_BLOCK = 1 << 16  # numbers per write
_ABOUT = "corpus.json"


class FlatFile:
    """One array on disk, read in slices.

    Args:
        path: the file.
        kind: dtype of the numbers.
        width: numbers in a row; 1: the array is flat.
    """

    def __init__(self, path: Path, kind: str, width: int = 1) -> None:
        self.path, self.kind, self.width = path, np.dtype(kind), width
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._row = self.kind.itemsize * width
        self._count = os.fstat(self._fd).st_size // self._row

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[Any, ...]:
        return FlatFile, (self.path, self.kind.str, self.width)

    def read(self, start: int, stop: int) -> Array:
        """Returns a copy of the rows start … stop − 1.

        Raises:
            InputError: the file has become shorter.
        """
        found = np.empty(((stop - start) * self.width,), self.kind)
        left, place = found.data.cast("B"), start * self._row
        while left:
            done = os.preadv(self._fd, [left], place)
            if done == 0:
                raise InputError(
                    f"{self.path}: ends at byte {place}, expected "
                    f"{stop * self._row} or more; the file has changed while it was "
                    "in use: remove the folder, and it is made again"
                )
            left, place = left[done:], place + done
        return found if self.width == 1 else found.reshape(-1, self.width)


class TokenStore:
    """An opened folder of tokens.

    Attributes:
        tokens: the ids of all documents; without pairs, a separator between documents.
        pieces: int64 [P + 1], the start of each sentence in ``tokens``; only for pairs.
        chunks: int64 [N + 1], the start of each row in ``pieces``; only for pairs.
        spans: int64 [N, 2], for each row the first row of its document and the first
            row after it; only for pairs.
        about: counts: ``tokens``, ``documents``, ``sentences``, ``divisible`` (rows
            with two sentences or more), ``vocab_size``.
        digest: a hash of the contents.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / _ABOUT).read_text("utf-8"))
        self.tokens = FlatFile(folder / "tokens.bin", self.about["kind"])
        files = manifest["files"]
        if "pieces.bin" in files:
            self.pieces = FlatFile(folder / "pieces.bin", "<i8")
            self.chunks = FlatFile(folder / "chunks.bin", "<i8")
            self.spans = FlatFile(folder / "spans.bin", "<i8", 2)
        hashes = {name: one["blake2b"] for name, one in sorted(files.items())}
        self.digest = _hash({n: h for n, h in hashes.items() if n != _ABOUT})


def prepare(
    files: Sequence[Path],
    tokenizer: Any,
    cache_dir: Path,
    *,
    separator: int,
    pair_length: int | None = None,
) -> TokenStore:
    """Returns the tokens of these files; tokenizes them unless the cache has them.

    Args:
        files: files of the corpus.
        tokenizer: a tokenizer of this package.
        cache_dir: parent of the token folders; created if missing.
        separator: the id between two documents of one row.
        pair_length: tokens per row of sentence pairs; None: rows of running text.

    Raises:
        DataError: a line cannot be used, or the files hold no token.
        CheckpointError: the folder cannot be written.
    """
    key = _hash(
        {
            "format": FORMAT,
            "files": [file_key(file) for file in files],
            "tokenizer": tokenizer.fingerprint(),
            "separator": separator,
            "pair_length": pair_length,
        }
    )
    folder = cache_dir / f"tokens-{key}"

    def write(into: Path) -> None:
        kind = "<u2" if len(tokenizer) <= 1 << 16 else "<u4"
        rows = _encoded(files, tokenizer)
        about: dict[str, Any]
        if pair_length is None:
            about = _write_text(into, rows, kind, separator)
        else:
            about = _write_pairs(into, rows, kind, pair_length)
        if not about["tokens"]:
            named = ", ".join(map(str, files[:3])) + (" …" if len(files) > 3 else "")
            raise DataError(
                "the corpus has no token, expected lines of text; check the files",
                named,
            )
        about |= {"kind": kind, "vocab_size": len(tokenizer)}
        durable.write_json(into / _ABOUT, about)

    return TokenStore(folder, cached_folder(folder, write))


def cached_folder(folder: Path, write: Callable[[Path], None]) -> dict[str, Any]:
    """Returns the manifest of a folder, which is written if it is missing or damaged.

    If several processes write it at once, the folder of the first stays for all.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        seen = os.stat(folder)
        try:
            return durable.verify_directory(folder)
        except CheckpointError as error:
            say(f"{folder} cannot be used and is made again: {error}")
        durable.discard(folder, seen)
    try:
        durable.commit_directory(folder, write, step=0, replace=False)
    except CheckpointError:
        if not folder.is_dir():
            raise
    return durable.verify_directory(folder)


def file_key(file: Path) -> list[Any]:
    """Returns the values that identify a file's state: path, size and time."""
    try:
        status = file.stat()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", str(file)) from error
    return [str(file.resolve()), status.st_size, status.st_mtime_ns]


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


# ----------------------------------------------------------------------- writing


def _encoded(files: Sequence[Path], tokenizer: Any) -> Iterator[list[int] | None]:
    """Yields the token ids of each line, and None after each document."""
    waiting: list[str | None] = []

    def encode() -> Iterator[list[int] | None]:
        texts = [text for text in waiting if text is not None]
        plain: dict[str, Any] = {"add_special_tokens": False, "max_length": _NO_LIMIT}
        rows = iter(tokenizer(texts, **plain)["input_ids"] if texts else ())
        for text in waiting:
            yield None if text is None else next(rows)

    begins = True
    for line in corpus_lines(files):
        # byte-level tokenizers recognise a word inside a text by the space before it
        waiting.append(line if line is None or begins else f" {line}")
        begins = line is None
        if len(waiting) == _LINES:
            yield from encode()
            waiting.clear()
    yield from encode()


class _Numbers:
    """Buffers numbers and writes them to a file."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self.file, self.kind, self.count = file, kind, 0
        self.last = 0
        self._waiting: list[int] = []

    def add(self, values: Iterable[int]) -> None:
        before = len(self._waiting)
        self._waiting.extend(values)
        self.count += len(self._waiting) - before
        self.last = self._waiting[-1] if self._waiting else self.last
        if len(self._waiting) >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        self.file.write(np.asarray(self._waiting, self.kind).tobytes())
        self._waiting.clear()


def _write_text(
    folder: Path, rows: Iterable[list[int] | None], kind: str, separator: int
) -> dict[str, Any]:
    """Writes running text: the ids of each document, separated by the separator id."""
    sentences = documents = 0
    begins = True
    with (folder / "tokens.bin").open("wb") as file:
        tokens = _Numbers(file, kind)
        for ids in rows:
            if ids is None:
                begins = True
            elif ids:
                if begins and documents:
                    tokens.add([separator])
                documents += begins
                sentences += 1
                begins = False
                tokens.add(ids)
        tokens.flush()
    return {
        "tokens": tokens.count,
        "documents": documents,
        "sentences": sentences,
        "divisible": 0,
    }


def _write_pairs(
    folder: Path, rows: Iterable[list[int] | None], kind: str, length: int
) -> dict[str, Any]:
    """Writes rows of whole sentences of one document, less three special tokens.

    A sentence of more than half a row is split into pieces, which count as sentences.
    """
    room, most = length - 3, (length - 3) // 2
    documents = divisible = 0
    with (
        (folder / "tokens.bin").open("wb") as one,
        (folder / "pieces.bin").open("wb") as two,
        (folder / "chunks.bin").open("wb") as three,
        (folder / "spans.bin").open("wb") as four,
    ):
        tokens = _Numbers(one, kind)
        pieces, chunks, spans = (_Numbers(f, "<i8") for f in (two, three, four))
        first = filled = 0  # row of this document, tokens of its last row
        for ids in rows:
            for start in range(0, len(ids or ()), most):
                piece = (ids or [])[start : start + most]
                if not filled or filled + len(piece) > room:
                    divisible += _has_two(chunks, pieces)
                    chunks.add([pieces.count])
                    filled = 0
                pieces.add([tokens.count])
                tokens.add(piece)
                filled += len(piece)
            if ids is None and chunks.count > first:
                documents += 1
                for _ in range(first, chunks.count):
                    spans.add([first, chunks.count])
                first, filled = chunks.count, 0
        divisible += _has_two(chunks, pieces)
        sentences = pieces.count
        chunks.add([sentences])
        pieces.add([tokens.count])
        for numbers in (tokens, pieces, chunks, spans):
            numbers.flush()
    return {
        "tokens": tokens.count,
        "documents": documents,
        "sentences": sentences,
        "divisible": divisible,
    }


def _has_two(chunks: _Numbers, pieces: _Numbers) -> bool:
    """Whether the last row has two sentences or more."""
    return chunks.count > 0 and pieces.count - chunks.last >= 2
