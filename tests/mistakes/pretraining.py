"""Mistakes with corpora, their tokenizers, masks and text pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers_pretraining import documents, tokenizer

import evolving_attention as ea
from evolving_attention.text import train_bpe, train_wordpiece
from mistakes.row import IDS, Row, model

TEXTS = documents(6)


def rows(text: bytes, **options: Any) -> Callable[[Path], Any]:
    """Reads the rows of a file with this content."""

    def load(folder: Path) -> Any:
        (folder / "corpus.txt").write_bytes(text)
        return ea.pretraining.PretrainingDataset.from_files(
            folder / "corpus.txt",
            tokenizer(TEXTS),
            cache_dir=folder / "cache",
            **{"max_seq_length": 16, **options},
        )

    return load


def masks(words: Any = None, **options: Any) -> Callable[[Path], Any]:
    """Makes a collator with these settings."""
    make = ea.pretraining.DataCollatorForLanguageModeling
    return lambda folder: make(words or tokenizer(TEXTS), **options)


def two(words: Any) -> Any:
    """Returns the text of one document: two lines, repeated ``words`` times."""
    return b"The cat sees.\nA dog sees.\n" * words


ROWS = {
    "an empty corpus": Row(
        rows(b"\n \n\n"),
        ea.DataError,
        "the corpus has no token",
        r"corpus\.txt",
        "expected lines of text; check the files",
    ),
    "a corpus that is not there": Row(
        lambda folder: ea.pretraining.corpus_files([folder / "none"]),
        ea.DataError,
        "no such file or folder",
        "none",
        "check the path",
    ),
    "a folder without files": Row(
        lambda folder: ea.pretraining.corpus_files(folder),
        ea.DataError,
        "the folder has no file",
        "/",
        "expected text files of the corpus",
    ),
    "a corpus in Latin-1": Row(
        rows("One line.\nEin Häuschen.\n".encode("latin-1")),
        ea.DataError,
        "byte 0xe4 is not UTF-8",
        r"corpus\.txt:2:6",
        "convert the file to UTF-8",
    ),
    "a line of megabytes": Row(
        rows(b"One line.\n" + b"word " * 500_000 + b"\n"),
        ea.DataError,
        "line of more than half a million characters",
        r"corpus\.txt:2",
        "is a line end missing",
    ),
    "a gzip that is cut": Row(
        rows(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcbH"),
        ea.DataError,
        "damaged gzip archive",
        r"corpus\.txt",
        "fetch the file again",
    ),
    "documents of one sentence": Row(
        rows(b"The cat sees.\n\nA dog sees.\n\nMy house.\n", next_sentence=True),
        ea.InputError,
        "documents of one sentence each",
        "next_sentence=True",
        "put a sentence in each line and blank lines between documents",
    ),
    "pairs of one document": Row(
        rows(two(20), next_sentence=True),
        ea.InputError,
        "a corpus of 1 documents, expected at least two",
        "next_sentence=True",
        "put blank lines between documents",
    ),
    "one row to split": Row(
        lambda folder: rows(b"The cat.\n")(folder).split(0.1),
        ea.InputError,
        "the corpus has 1 row of 16 tokens",
        "corpus",
        "add text, or lower max_seq_length",
    ),
    "a share of a split that is none": Row(
        lambda folder: rows(two(9))(folder).split(1.0),
        ea.ConfigError,
        r"share=1\.0",
        "share",
        r"expected a number in \(0, 1\)",
    ),
    "rows of two tokens": Row(
        rows(two(2), max_seq_length=2),
        ea.ConfigError,
        "max_seq_length=2",
        "max_seq_length",
        "expected a whole number, 8 or more",
    ),
    "a vocabulary without special tokens": Row(
        masks(train_bpe([line for lines in TEXTS for line in lines], 300)),
        ea.ConfigError,
        "has no cls_token, sep_token, mask_token",
        "tokenizer",
        r"name them in tokenizer_config\.json, or train one",
    ),
    "a share of masks above 1": Row(
        masks(mlm_probability=15),
        ea.ConfigError,
        "mlm_probability=15",
        "mlm_probability",
        r"expected a number in \(0, 1\)",
    ),
    "masked and random tokens above 1": Row(
        masks(mask_replace_prob=0.9, random_replace_prob=0.2),
        ea.ConfigError,
        "are more than 1 together",
        r"mask_replace_prob=0\.9 and random_replace_prob=0\.2",
        r"0\.8 and 0\.1 are usual",
    ),
    "a collator without masks": Row(
        masks(mlm=False),
        ea.ConfigError,
        "mlm=False, expected True",
        "DataCollatorForLanguageModeling",
        "leave it out",
    ),
    "ids of another tokenizer": Row(
        lambda folder: masks()(folder)([{"input_ids": [2, 500, 3]}]),
        ea.InputError,
        "token ids from 2 to 500",
        "those of the tokenizer",
        "use the one that made them",
    ),
    "a vocabulary that is too small to train": Row(
        lambda folder: train_wordpiece(["a text"], 20),
        ea.ConfigError,
        "vocab_size=20",
        "train_wordpiece",
        "expected a whole number, 100 or more",
    ),
    "logits of padded tokens alone": Row(
        lambda folder: model("BertForMaskedLM")(IDS, logits_to_keep=[1]),
        ea.InputError,
        "logits_to_keep is given with padded input_ids",
        "logits_to_keep",
        "pass sequence_offsets, or leave it out",
    ),
}
