"""``evolving-attention translate generate``: translates lines as they arrive."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from evolving_attention.cli import translate_arguments as arguments
from evolving_attention.cli.commands import of_groups
from evolving_attention.cli.translate_output import Output
from evolving_attention.errors import DataError, Interrupted
from evolving_attention.notices import note

CHUNK = 1000  # lines that are sorted by length and translated before they are written
_SECONDS = 5.0  # between two lines of progress


def _generate(files: Any, search: Any) -> None:
    from evolving_attention.data.parallel_files import read_sentences, sentences

    lines: Iterable[str]
    if files.input_file:
        lines, source = read_sentences(files.input_file), files.input_file
        total: int | None = len(lines)
    else:
        source, total = "<stdin>", None
        lines = sentences(sys.stdin.buffer, source)
    prefixes = read_sentences(files.prefix_file) if files.prefix_file else None
    if prefixes is not None and total is not None and len(prefixes) != total:
        raise _too_few(files.prefix_file, len(prefixes), source, total)
    out = Output(files, search)
    done = out.lines_done(total)
    translator = search.translator()
    copies, usual = files.num_return_sequences, search.search_options(translator)
    translator.candidates([], num_return_sequences=copies, **usual)  # checks them
    with out:
        progress = _Progress(done, total)
        rest = islice(lines, done, None)
        try:
            while chunk := list(islice(rest, CHUNK)):
                options = {
                    **usual,
                    "name": source,
                    "first_line": progress.done + 1,
                    "on_batch": progress.batch,
                }
                if prefixes is not None:
                    end = progress.done + len(chunk)
                    if end > len(prefixes):
                        raise _too_few(files.prefix_file, len(prefixes), source, end)
                    options["prefixes"] = prefixes[progress.done : end]
                out.write(_translated(translator, chunk, files, options))
                progress.chunk(len(chunk))
        except KeyboardInterrupt as error:
            raise _interrupted(files, progress.done) from error
    progress.end()


GENERATE = of_groups(
    [
        (arguments.GenerateArguments, "Data"),
        (arguments.SearchArguments, "Model and search"),
    ],
    _generate,
    """Translate lines from a file or stdin to a file or stdout.

    Line i of the output belongs to line i of the input; an empty line stays empty. With
    --num_return_sequences n, n lines belong to each line of the input.

    Example: evolving-attention translate generate --model_dir out/en-de --input_file
    test.en --output_file test.out.de
    """,
)


def _too_few(file: str, found: int, source: str, lines: int) -> DataError:
    return DataError(
        f"has {found} lines, expected one for each line of {source}, which has {lines} "
        "or more; an empty line is no prefix",
        file,
    )


def _translated(
    translator: Any, chunk: list[str], files: Any, options: dict[str, Any]
) -> list[str]:
    """Returns the output lines, ``num_return_sequences`` for each line of the chunk."""
    if files.num_return_sequences == 1 and not files.scores:
        found: list[str] = translator.translate(chunk, **options)
        return found
    several = translator.candidates(
        chunk, num_return_sequences=files.num_return_sequences, **options
    )
    return [
        f"{one.score:.6f}\t{one.text}" if files.scores else one.text
        for each in several
        for one in each
    ]


def _interrupted(files: Any, done: int) -> Interrupted:
    if not done:
        told = "nothing is written; the same command begins again"
    elif files.output_file:
        told = f"{files.output_file} holds them; the same command with --resume goes on"
    else:
        told = f"stdout has them; go on with line {done + 1} of the input"
    return Interrupted(f"SIGINT after {done} translated lines: {told}", signal.SIGINT)


class _Progress:
    """Reports on stderr the lines done, the speed, and the remaining time.

    Args:
        done: lines done by an earlier run.
        total: lines of the input; None: unknown.
    """

    def __init__(self, done: int, total: int | None) -> None:
        self.done, self.total, self.first = done, total, done
        self.tokens = self.in_chunk = self.tokens_in_chunk = 0
        self.began = self.told = time.monotonic()

    def batch(self, lines: int, tokens: int) -> None:
        """Count lines and tokens of this chunk as done."""
        self.in_chunk, self.tokens_in_chunk = lines, tokens
        if time.monotonic() - self.told >= _SECONDS:
            self._tell()

    def chunk(self, lines: int) -> None:
        """Report that a chunk is written."""
        self.done += lines
        self.tokens += self.tokens_in_chunk
        self.in_chunk = self.tokens_in_chunk = 0

    def end(self) -> None:
        """Report that all lines are written."""
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
