"""A corpus: text files of documents, a sentence or paragraph in each line.

Documents are separated by blank lines, and end with their file. Files are plain UTF-8
or gzip of it. Lines are read one at a time, so a corpus may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evolving_attention.data.parallel_files import iter_sentences
from evolving_attention.errors import ConfigError, DataError

__all__ = ["corpus_files", "corpus_lines", "corpus_texts"]


def corpus_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files of a corpus, in order.

    Args:
        paths: a file or folder, or several. Of a folder all files count, those of its
            folders too, sorted by path; names that begin with a dot do not.

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
    """Lines without outer spaces, and None behind each document.

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
    """The lines of files, from the first one in each iteration."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = list(files)

    def __iter__(self) -> Iterator[str]:
        return (line for line in corpus_lines(self.files) if line is not None)


def corpus_texts(files: Sequence[Path]) -> Iterable[str]:
    """The lines alone, for training a tokenizer; they can be read several times."""
    return _Texts(files)
