"""``evolving-attention translate generate``: lines to lines, as they come."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from evolving_attention.cli import translate_arguments as arguments
from evolving_attention.cli.commands import run_command
from evolving_attention.cli.common import note
from evolving_attention.errors import ConfigError, Interrupted

__all__ = ["generate"]

CHUNK = 1000  # lines that are translated, sorted by length, before they are written
_SECONDS = 5.0  # between two lines of progress


def generate(
    words: Sequence[str], name: str = "evolving-attention translate generate"
) -> None:
    """Parse the words of the command line and translate."""
    help = """Translate lines from a file or stdin to a file or stdout.

    Line i of the output belongs to line i of the input; an empty line stays empty.

    Example: evolving-attention translate generate --model_dir out/en-de --input_file
    test.en --output_file test.out.de
    """
    groups = [
        (arguments.GenerateArguments, "Data"),
        (arguments.SearchArguments, "Model and search"),
    ]
    run_command(words, name, groups, help, _generate)


def _generate(files: Any, search: Any) -> None:
    from evolving_attention.data.parallel_files import read_sentences, sentences

    lines: Iterable[str]
    if files.input_file:
        lines, source = read_sentences(files.input_file), files.input_file
        total: int | None = len(lines)
    else:
        source, total = "<stdin>", None
        lines = sentences(sys.stdin.buffer, source)
    done = _lines_done(files, total)
    translator = search.translator()
    with _opened(files.output_file, append=done > 0) as out:
        progress = _Progress(done, total)
        rest = islice(lines, done, None)
        try:
            while chunk := list(islice(rest, CHUNK)):
                found = translator.translate(
                    chunk,
                    name=source,
                    first_line=progress.done + 1,
                    on_batch=progress.batch,
                    **search.search_options(),
                )
                out.write("".join(f"{line}\n" for line in found).encode())
                out.flush()
                progress.chunk(len(chunk))
        except KeyboardInterrupt as error:
            raise _interrupted(files, progress.done) from error
    progress.end()


def _interrupted(files: Any, done: int) -> Interrupted:
    if files.output_file:
        told = f"{files.output_file} holds them; the same command with --resume goes on"
    else:
        told = f"stdout has them; go on with line {done + 1} of the input"
    return Interrupted(f"SIGINT after {done} translated lines: {told}", signal.SIGINT)


def _lines_done(files: Any, total: int | None) -> int:
    """Whole lines that the output file has; a last line without end is removed.

    Raises:
        ConfigError: the file is there, and neither --resume nor --overwrite is given,
            or it has more lines than the input.
    """
    path = Path(files.output_file or os.devnull)
    if not path.is_file() or files.overwrite:
        return 0
    if not files.resume:
        raise ConfigError(
            f"--output_file {path}: is there already, expected a new file; choose "
            "another name, or add --resume (go on after its lines) or --overwrite"
        )
    data = path.read_bytes()
    done = data.count(b"\n")
    if total is not None and done > total:
        raise ConfigError(
            f"--resume: {path} has {done} lines, expected at most the {total} of "
            f"{files.input_file}; is it the output of another file?"
        )
    if not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
    return done


@contextlib.contextmanager
def _opened(file: str | None, append: bool) -> Iterator[BinaryIO]:
    """The output file, or stdout.

    Raises:
        ConfigError: it cannot be written.
    """
    if file is None:
        yield sys.stdout.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            out = stack.enter_context(Path(file).open("ab" if append else "wb"))
        except OSError as error:
            raise ConfigError(
                f"--output_file {file}: cannot be written ({error.strerror}), expected "
                "a file in a folder that exists; choose another name"
            ) from error
        yield out


class _Progress:
    """Tells on stderr how many lines are done, how fast, and how long it will take.

    Args:
        done: lines done before.
        total: lines of the input; None: unknown.
    """

    def __init__(self, done: int, total: int | None) -> None:
        self.done, self.total, self.first = done, total, done
        self.tokens = self.in_chunk = self.tokens_in_chunk = 0
        self.began = self.told = time.monotonic()

    def batch(self, lines: int, tokens: int) -> None:
        """So many lines and tokens of this chunk are done."""
        self.in_chunk, self.tokens_in_chunk = lines, tokens
        if time.monotonic() - self.told >= _SECONDS:
            self._tell()

    def chunk(self, lines: int) -> None:
        """A chunk is written."""
        self.done += lines
        self.tokens += self.tokens_in_chunk
        self.in_chunk = self.tokens_in_chunk = 0

    def end(self) -> None:
        """All lines are written."""
        self._tell()

    def _tell(self) -> None:
        self.told = time.monotonic()
        seconds = max(self.told - self.began, 1e-9)
        lines = self.done + self.in_chunk
        speed = (self.tokens + self.tokens_in_chunk) / seconds
        text = f"translated {lines}" + (f" of {self.total}" if self.total else "")
        text += f" lines, {speed:.0f} tokens/s"
        fresh = lines - self.first
        if self.total and fresh and lines < self.total:
            text += f", {seconds / fresh * (self.total - lines):.0f} s left"
        note(text)
