"""The output of ``translate generate``: a file that ``--resume`` can continue."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from evolving_attention import durable
from evolving_attention.cli.contents import content_hashes, other_contents
from evolving_attention.cli.repeat_results import read_record
from evolving_attention.durable.files import reported
from evolving_attention.errors import ConfigError

# Options that change neither a line nor the sentence it belongs to.
_FREE = {"output_file", "resume", "overwrite", "device", "num_threads", "batch_size"}
_CONTENT = "content"  # key of the files' hashes in the record


class Output:
    """The output file, or stdout. A file is created or replaced at the first write.

    While a file is incomplete, ``OUTPUT_FILE.resume.json`` next to it holds the options
    that produced it, and hashes of the input and the model: others would write lines
    that belong to other sentences.

    Args:
        files, search: the options of the command.
    """

    def __init__(self, files: Any, search: Any) -> None:
        self._files = files
        self._path = Path(files.output_file) if files.output_file else None
        options = {**dataclasses.asdict(files), **dataclasses.asdict(search)}
        self._options = {k: v for k, v in options.items() if k not in _FREE}
        self._content: dict[str, list[str]] = {}
        self._kept = 0  # bytes of the existing file that are kept
        self._out: BinaryIO | None = None if self._path else sys.stdout.buffer

    def lines_done(self, total: int | None) -> int:
        """Returns the number of input lines whose translations the file has.

        Args:
            total: lines of the input; None: unknown.

        Raises:
            ConfigError: the file exists, and neither --resume nor --overwrite is given;
                or it cannot be written; or it is not the beginning of this command's
                output.
            CheckpointError: there is no such model.
        """
        path, files = self._path, self._files
        if path is None:
            return 0
        place = path if path.exists() else path.parent
        if path.is_dir() or not path.parent.is_dir() or not os.access(place, os.W_OK):
            raise ConfigError(
                f"--output_file {path}: cannot be written, expected a file in a folder "
                "that exists; choose another name"
            )
        if path.is_file() and not files.overwrite and not files.resume:
            raise ConfigError(
                f"--output_file {path}: is there already, expected a new file; choose "
                "another name, or add --resume (go on after its lines) or --overwrite"
            )
        self._content = _contents(self._options)
        if not path.is_file() or files.overwrite:
            return 0
        copies: int = files.num_return_sequences
        data = path.read_bytes()
        lines = data.split(b"\n")[:-1]  # complete lines
        done = len(lines) // copies
        if total is not None and len(lines) > copies * total:
            most = f"{copies} for each of the " if copies > 1 else "the "
            raise ConfigError(
                f"--resume: {path} has {len(lines)} lines, expected at most {most}"
                f"{total} of {files.input_file}; is it the output of another file?"
            )
        self._kept = sum(len(line) + 1 for line in lines[: copies * done])
        if data:
            self._check_options(self._kept == len(data) and done == total)
        return done

    def _check_options(self, complete: bool) -> None:
        """Refuse to continue a file with other or unknown options."""
        before = read_record(self._record)
        if before is None and not complete:
            raise ConfigError(
                f"--resume: {self._path} has no {self._record.name} next to it, "
                "expected the options of an interrupted run; --overwrite replaces it"
            )
        if before is None:
            return
        hashes = before.pop(_CONTENT, {})
        names = sorted({*self._options, *before})
        changed = [n for n in names if before.get(n) != self._options.get(n)]
        told = [f"--{name} {before.get(name)}" for name in changed]
        told += [
            f"other content of --{name}"
            for name in other_contents(hashes, self._content)
            if name not in changed
        ]
        if told:
            raise ConfigError(
                f"--resume: {self._path} was begun with {', '.join(told)}, expected "
                "the same options and files; give these, or --overwrite"
            )

    @property
    def _record(self) -> Path:
        return Path(f"{self._path}.resume.json")

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, and flush them."""
        if self._out is None and self._path is not None:
            self._out = self._path.open("r+b" if self._kept else "wb")
            if self._kept:
                self._out.truncate(self._kept)
                self._out.seek(0, os.SEEK_END)
            if self._path.is_file():  # not a pipe or a device
                record = {**self._options, _CONTENT: self._content}
                durable.write_json(self._record, record)
        if self._out is not None:
            with self._reported():
                self._out.write("".join(f"{line}\n" for line in lines).encode())
                self._out.flush()

    def _reported(self) -> AbstractContextManager[None]:
        """Names the file in errors, and the way on; not a pipe or a device."""
        if self._path is None or not self._path.is_file():
            return nullcontext()
        state = "its complete lines are kept, and --resume continues after them"
        return reported(f"cannot write {self._path}", state)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Close the file; it is complete if there was no error."""
        if kind is None:
            self.write([])
        if self._path is not None and self._out is not None:
            with self._reported():
                self._out.close()
        if kind is None and self._path is not None:
            self._record.unlink(missing_ok=True)


def _contents(options: dict[str, Any]) -> dict[str, list[str]]:
    """Returns hashes of the input, the prefixes and the model, by option."""
    from evolving_attention.interop.resolve import resolve

    given = {name: options[name] for name in ("input_file", "prefix_file")}
    if options["model_dir"] is not None:
        given["model_dir"] = resolve(options["model_dir"])
    return content_hashes(given)
