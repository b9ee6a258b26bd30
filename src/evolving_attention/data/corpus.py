"""A corpus: text files of documents, with a sentence or paragraph in each line.

Documents are separated by blank lines, and end at the end of a file. Files are UTF-8
text, plain or gzip. Lines are read one at a time, so a corpus may be larger than
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evolving_attention.data.parallel_files import iter_sentences
from evolving_attention.errors import ConfigError, DataError


def corpus_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Returns the files of a corpus, in order.

    Args:
        paths: a file or folder, or several. A folder stands for all files in it and its
            subfolders, sorted by path, except names that begin with a dot.

    Raises:
        ConfigError: no path is given.
        DataError: a path is missing, or a folder has no file.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise ConfigError("corpus: no file is given, expected at least one; name it")
    found: list[Path] = []
    for each in map(Path, given):
        if not each.is_dir():
            if not each.exists():
                raise DataError("no such file or folder; check the path", str(each))
            found.append(each)
            continue
        inside = [
            path
            for path in sorted(each.rglob("*"))
            if path.is_file()
            and not any(p.startswith(".") for p in path.relative_to(each).parts)
        ]
        if not inside:
            raise DataError(
                "the folder has no file, expected text files of the corpus; check the "
                "path",
                str(each),
            )
        found += inside
    return found


def corpus_lines(files: Sequence[Path]) -> Iterator[str | None]:
    """Yields lines without outer spaces, and None after each document.

    Raises:
        DataError: a file cannot be read, or a line is not UTF-8 or too long; says file,
            line and column.
    """
    for file in files:
        inside = False
        for line in iter_sentences(file):
            text = line.strip()
            if text:
                yield text
            elif inside:
                yield None
            inside = bool(text)
        if inside:
            yield None


class _Texts:
    """The lines of files; each iteration starts at the first line."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = list(files)

    def __iter__(self) -> Iterator[str]:
        return (line for line in corpus_lines(self.files) if line is not None)


def corpus_texts(files: Sequence[Path]) -> Iterable[str]:
    """Returns only the lines, for training a tokenizer; can be read several times."""
    return _Texts(files)
