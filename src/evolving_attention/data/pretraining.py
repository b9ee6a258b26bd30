"""The pre-training data set: rows of full length, masked again in every epoch."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.corpus import corpus_files
from evolving_attention.data.masking import DRAWS, TokenMasker, random_words
from evolving_attention.data.packed import Batch, digest
from evolving_attention.data.token_store import TokenStore, prepare
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole

Array = np.ndarray[Any, Any]
_PAIR_DRAWS = 4  # random words that choose a pair: split, is next, row, sentence
_SHORTEST = 8  # minimum tokens per row


def default_cache() -> Path:
    """Returns the folder of tokenised corpora in the user's cache folder.

    Raises:
        ConfigError: the user has no home folder.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if root.startswith("~"):
        raise ConfigError(
            "cache of corpora: this user has no home folder; set HOME or "
            "XDG_CACHE_HOME, or give a cache_dir"
        )
    return Path(root) / "evolving-attention" / "corpora"


class PretrainingDataset:
    """N rows of a corpus, as a data set for the Trainer.

    Without sentence pairs, a row is ``[CLS] … [SEP]`` around the next tokens of the
    corpus, which may split sentences, with ``[SEP]`` between documents; only the last
    row may be short. With pairs, a row is ``[CLS] A [SEP] B [SEP]`` from sentences of
    one document that fill the row: they are split at a random position, and with
    probability 0.5 B is replaced by sentences of another document
    (``next_sentence_label`` 1).

    All random choices, masks and pairs, depend only on the seed, the epoch and the row.
    Batches hold ``input_ids``, ``sequence_offsets``, ``labels``, and for pairs also
    ``token_type_ids`` and ``next_sentence_label``. Create it by :meth:`from_files`.

    Source: Devlin et al., NAACL 2019, Section 3.1 and Appendix A.2; rows of running
    text follow FULL-SENTENCES in Liu et al., 2019, Section 4.2.
    """

    def __init__(
        self,
        store: TokenStore,
        masker: TokenMasker,
        frame: tuple[int, int],
        max_seq_length: int,
        *,
        seed: int = 0,
    ) -> None:
        self.store, self.masker, self.frame = store, masker, frame
        self.max_seq_length, self.seed, self.epoch = max_seq_length, seed, 0
        self.has_pairs = hasattr(store, "chunks")
        if self.has_pairs:
            count = len(store.chunks) - 1
        else:
            count = -(-len(store.tokens) // (max_seq_length - 2))
        self._rows = range(count)
        if self.has_pairs:
            self._check_pairs()

    @classmethod
    def from_files(
        cls,
        files: str | Path | Sequence[str | Path],
        tokenizer: Any,
        *,
        max_seq_length: int = 128,
        next_sentence: bool = False,
        mlm_probability: float = 0.15,
        mask_replace_prob: float = 0.8,
        random_replace_prob: float = 0.1,
        whole_word_mask: bool = False,
        seed: int = 0,
        cache_dir: str | Path | None = None,
    ) -> PretrainingDataset:
        """Tokenizes a corpus into a folder on disk, or opens it if it exists.

        Args:
            files: text files, plain or gzip, or folders of them: a sentence or
                paragraph in each line, documents separated by blank lines.
            tokenizer: a tokenizer of this package, with cls, sep, mask and pad tokens.
            max_seq_length: tokens per row.
            next_sentence: build rows of sentence pairs.
            mlm_probability, mask_replace_prob, random_replace_prob, whole_word_mask:
                see :class:`TokenMasker`.
            seed: seed of masks and pairs.
            cache_dir: folder for the tokens; default: evolving-attention/corpora in the
                user's cache folder.

        Raises:
            DataError: a file cannot be read, a line is not UTF-8 or too long (says
                file, line and column), or the files hold no text.
            ConfigError: a setting is out of range, or the tokenizer lacks a token.
            InputError: the documents cannot form sentence pairs.
            CheckpointError: the cache cannot be written.
        """
        longest = getattr(tokenizer, "model_max_length", None)
        usual = "128 or 512 is usual"
        check_whole(cls.__name__, _SHORTEST, usual, max_seq_length=max_seq_length)
        if longest is not None and max_seq_length > longest:
            raise ConfigError(
                f"max_seq_length={max_seq_length}, expected at most {longest}, the "
                "most that the tokenizer's model takes; use that"
            )
        masker = TokenMasker(
            tokenizer,
            mlm_probability=mlm_probability,
            mask_replace_prob=mask_replace_prob,
            random_replace_prob=random_replace_prob,
            whole_word_mask=whole_word_mask,
        )
        frame = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        store = prepare(
            corpus_files(files),
            tokenizer,
            Path(cache_dir) if cache_dir else default_cache(),
            separator=frame[1],
            pair_length=max_seq_length if next_sentence else None,
        )
        return cls(store, masker, frame, int(max_seq_length), seed=seed)

    # ------------------------------------------------------------------- rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def lengths(self) -> Array:
        """Tokens of each row, int64 [N]; for pairs, before B is replaced."""
        if not self.has_pairs:
            found = np.full(len(self), self.max_seq_length, np.int64)
            if self._rows.stop == self._whole():
                rest = len(self.store.tokens) % (self.max_seq_length - 2)
                found[-1:] = rest + 2 if rest else self.max_seq_length
            return found
        start, stop = self._rows.start, self._rows.stop
        chunks = self.store.chunks.read(start, stop + 1)
        pieces = self.store.pieces.read(int(chunks[0]), int(chunks[-1]) + 1)
        return np.asarray(np.diff(pieces[chunks - chunks[0]]) + 3)

    def of_epoch(self, epoch: int) -> PretrainingDataset:
        """Returns the same rows with this epoch's masks and pairs, for the Trainer."""
        other = copy.copy(self)
        other.epoch = int(epoch)
        return other

    def split(self, share: float) -> tuple[PretrainingDataset, PretrainingDataset]:
        """Splits off the last rows as a share of all; both parts have at least one row.

        Raises:
            ConfigError: ``share`` is not in (0, 1).
            InputError: there is only one row.
        """
        if not isinstance(share, float) or not 0 < share < 1:
            raise ConfigError(f"share={share!r}, expected a number in (0, 1)")
        if len(self) < 2:
            raise InputError(
                f"the corpus has {len(self)} row of {self.max_seq_length} tokens, "
                "expected at least two, to train on one and evaluate on another; add "
                "text, or lower max_seq_length"
            )
        count = min(max(round(len(self) * share), 1), len(self) - 1)
        cut = self._rows.stop - count
        parts = range(self._rows.start, cut), range(cut, self._rows.stop)
        found = []
        for rows in parts:
            other = copy.copy(self)
            other._rows = rows
            if other.has_pairs:
                other._check_pairs()
            found.append(other)
        return found[0], found[1]

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these rows, masked, with ``row_ids``."""
        indices = np.asarray(indices, np.int64)
        made: Any = self._pair if self.has_pairs else self._text
        rows = [made(self._rows[int(index)]) for index in indices]
        offsets = np.cumsum([0, *(len(row[0]) for row in rows)])
        ids = np.concatenate([row[0] for row in rows]).astype(np.int64)
        words = np.concatenate([row[1] for row in rows]).reshape(-1, DRAWS)
        inputs, labels = self.masker(ids, offsets, words)
        arrays = {"input_ids": inputs, "sequence_offsets": offsets, "labels": labels}
        if self.has_pairs:
            types = [np.arange(len(row[0])) >= row[2] for row in rows]
            arrays["token_type_ids"] = np.concatenate(types).astype(np.int64)
            arrays["next_sentence_label"] = np.array([row[3] for row in rows], np.int64)
        arrays["row_ids"] = indices
        return Batch(arrays, ("input_ids", "labels", "token_type_ids"))

    def fingerprint(self) -> str:
        """Returns a hash of the tokens and of the settings of rows, masks and pairs."""
        settings = {
            **self.masker.settings(),
            "frame": list(self.frame),
            "length": self.max_seq_length,
            "seed": self.seed,
            "rows": [self._rows.start, self._rows.stop],
            "store": self.store.digest,
        }
        text = repr(sorted(settings.items())).encode()
        return digest(len(self), [{"settings": np.frombuffer(text, np.uint8)}])

    def __getitem__(self, index: Any) -> dict[str, Any]:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"row {position} of {len(self)} rows")
        batch = self.gather([position % len(self)])
        names = ("input_ids", "labels", "token_type_ids")
        row: dict[str, Any] = {n: batch[n] for n in names if n in batch}
        if self.has_pairs:
            row["next_sentence_label"] = int(batch["next_sentence_label"][0])
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    # ------------------------------------------------------------ running text

    def _whole(self) -> int:
        """Returns the number of rows of the whole corpus, without pairs."""
        return -(-len(self.store.tokens) // (self.max_seq_length - 2))

    def _text(self, row: int) -> tuple[Array, Array]:
        """Returns the ids of a row, and its random words."""
        width = self.max_seq_length - 2
        start = row * width
        tokens = self.store.tokens.read(
            start, min(start + width, len(self.store.tokens))
        )
        ids = _framed(self.frame, tokens)
        return ids, random_words(self.seed, self.epoch, row, DRAWS * len(ids))

    # ------------------------------------------------------------------- pairs

    def _check_pairs(self) -> None:
        """Refuse documents that cannot give both kinds of pairs.

        Raises:
            InputError: all rows are from one document, or each has only one sentence.
        """
        about = self.store.about
        first = self.store.spans.read(self._rows.start, self._rows.start + 1)[0]
        if first[1] >= self._rows.stop and about["documents"] > 1:
            raise InputError(
                f"next_sentence=True: training or evaluation has {len(self)} rows, of "
                f"one of the {about['documents']} documents, expected at least two "
                "documents in each: the second sentence of a pair may come from "
                "another; raise the share of evaluation (--validation_split_percentage)"
                ", or give it files of its own (--validation_file)"
            )
        if first[1] >= self._rows.stop:
            raise InputError(
                f"next_sentence=True with a corpus of {about['documents']} documents, "
                "expected at least two: the second sentence of a pair may come from "
                "another document; put blank lines between documents"
            )
        if not about["divisible"]:
            raise InputError(
                "next_sentence=True with documents of one sentence each, expected "
                "several lines in a document: the second sentence of a pair follows "
                "the first; put a sentence in each line and blank lines between "
                "documents, or leave next_sentence out"
            )

    def _pair(self, row: int) -> tuple[Array, Array, int, int]:
        """Returns ids, random words, start of text B, and whether B is random."""
        words = random_words(
            self.seed, self.epoch, row, _PAIR_DRAWS + DRAWS * self.max_seq_length
        )
        split, follows, where, place = (int(word) for word in words[:_PAIR_DRAWS])
        begins = self._begins(row)
        count = len(begins) - 1
        cut = 1 + split % (count - 1) if count > 1 else 1
        random = count == 1 or follows >> 63 == 1
        first = self.store.tokens.read(int(begins[0]), int(begins[cut]))
        if random:
            begins = self._begins(self._other(row, where))
            cut = place % (len(begins) - 1)
        start, stop = int(begins[cut]), int(begins[-1])
        stop = min(stop, start + self.max_seq_length - 3 - len(first))
        ids = _framed(self.frame, first, self.store.tokens.read(start, stop))
        own = words[_PAIR_DRAWS : _PAIR_DRAWS + DRAWS * len(ids)]
        return ids, own, len(first) + 2, int(random)

    def _begins(self, row: int) -> Array:
        """Returns the start of each sentence of a row, and the end of the last one."""
        first, last = self.store.chunks.read(row, row + 2)
        return self.store.pieces.read(int(first), int(last) + 1)

    def _other(self, row: int, word: int) -> int:
        """Returns a row of another document, all equally likely."""
        span = self.store.spans.read(row, row + 1)[0]
        first, last = np.clip(span, self._rows.start, self._rows.stop).tolist()
        place = self._rows.start + word % (len(self) - (last - first))
        return int(place if place < first else place + last - first)


def _framed(frame: tuple[int, int], *texts: Array) -> Array:
    """Returns ``[CLS] text [SEP] text [SEP]``."""
    cls, sep = ([one] for one in frame)
    return np.concatenate([cls, *(part for text in texts for part in (text, sep))])
