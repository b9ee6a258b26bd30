"""Data of ``evolving-attention textnet``: parts of a data set, tokens, word vectors."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolving_attention.cli.glue_data import refuse_one_class, refuse_other_texts
from evolving_attention.cli.textnet_arguments import TextDataArguments, WordArguments
from evolving_attention.data.features import tokenize_dataset
from evolving_attention.data.labels import KnownLabels, Labelled
from evolving_attention.data.packed import digest
from evolving_attention.data.rows import load_file
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError
from evolving_attention.text.word_vectors import (
    WordTable,
    WordVectors,
    checkpoint_word_vectors,
    read_word_vectors,
)

_LOGGER = logging.getLogger("evolving_attention")
_FILES = (".txt", ".vec", ".gz")  # file types of word vectors


@dataclass
class Parts(Labelled):
    """The parts of a data set; missing parts are None."""

    train: TableDataset
    tuning: TableDataset | None
    test: TableDataset | None

    @property
    def label_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Names of the classes by id; None for regression."""
        return self.train.label_names

    @property
    def are_pairs(self) -> bool:
        """Whether a row has two texts."""
        return len(self.train.text_columns) == 2


def load_parts(data: TextDataArguments) -> Parts:
    """Loads all parts of a data set, or of the user's own files.

    Raises:
        DataError: a file is missing or has a bad row, or all rows have one class.
        ConfigError: there is no training file.
    """
    if data.dataset:
        train, tuning, test = _named(data)
        parts = Parts(train, tuning, test)
    else:
        if data.train_file is None:
            raise ConfigError(
                "--train_file is missing: expected the texts to train on, or --dataset "
                "sst5; add one of them"
            )
        options = data.read_options()
        train = load_file(data.train_file, **options)
        scores = "numbers with a decimal point"
        refuse_one_class(train.label_names, str(data.train_file), scores)
        own, rest = (data.validation_file, data.test_file), []
        for file in own:
            found = None if file is None else load_file(file, like=train, **options)
            rest.append(found)
        parts = Parts(train, *rest)
    most = data.max_eval_samples
    return Parts(
        parts.train[: data.max_train_samples],
        None if parts.tuning is None else parts.tuning[:most],
        None if parts.test is None else parts.test[:most],
    )


def _named(data: TextDataArguments) -> tuple[TableDataset, TableDataset, TableDataset]:
    """Returns the parts of --dataset."""
    if data.dataset == "acceptability":
        from evolving_attention.demo.acceptability import parts

        return parts(data.pairs)
    from evolving_attention.data.text_sets import load_text_set

    folder = str(data.data_dir)  # required by the arguments' check
    found = load_text_set(str(data.dataset), folder, bad_rows=data.bad_rows)
    return found.train, found.tuning, found.test


def load_test(
    data: TextDataArguments,
    part: str,
    config: Any,
    *,
    labelled: bool = True,
) -> TableDataset:
    """Loads the texts to evaluate or predict with a trained net.

    Args:
        data: options.
        part: part of a named data set: train, tuning or test.
        config: the net's config.
        labelled: False: labels are not needed.

    Raises:
        DataError: a file is missing or has a bad row.
        ConfigError: the net has other classes, or it reads pairs and these are single
            texts.
    """
    names = tuple(config.id2label[i] for i in range(config.num_labels))
    scores = config.problem_type == "regression"
    known = KnownLabels(None if scores else names, config.text_columns)
    found: TableDataset
    if data.dataset:
        found = getattr(load_parts(data), part)
        if found.label_names != known.label_names:
            raise ConfigError(
                f"--dataset {data.dataset}: expected the classes of the net, "
                f"{', '.join(names)}; it has {', '.join(found.label_names or ())}: "
                "choose the data set that it was trained on"
            )
    elif data.test_file is None:
        raise ConfigError(
            "--test_file is missing: expected the texts to evaluate, or --dataset; add "
            "one of them"
        )
    else:
        found = load_file(
            data.test_file, like=known, labelled=labelled, **data.read_options()
        )
        found = found[: data.max_eval_samples]
    refuse_other_texts(found, config.type_vocab_size > 1, f"--dataset {data.dataset}")
    return found


def make_tokenizer(
    parts: Parts, data: TextDataArguments, words: WordArguments, longest: int
) -> Any:
    """Builds the vocabulary from the training part."""
    from evolving_attention.text import train_word_level

    split: Any = words.split_at
    if split is None:
        split = "space" if data.dataset == "sst5" else "punctuation"
    columns = [parts.train.column(name) for name in parts.train.text_columns]
    return train_word_level(
        [text for column in columns for text in column],
        words.vocab_size,
        min_count=words.min_count,
        lowercase=words.lowercase,
        split=split,
        model_max_length=longest,
    )


def word_table(words: WordArguments, tokenizer: Any) -> WordTable | None:
    """Returns the vectors of the vocabulary; None: the net's own random ones.

    Raises:
        DataError, CheckpointError: the vectors cannot be read.
        InputError: none of the words has a vector.
    """
    name = words.word_vectors
    if name is None:
        return None
    vocabulary = tokenizer.get_vocab()
    special = set(tokenizer.special_tokens_map.values())
    wanted = [word for word in vocabulary if word not in special]
    if Path(name).is_file() or Path(name).suffix.lower() in _FILES:
        vectors: WordVectors = read_word_vectors(name, wanted)
    else:
        vectors = checkpoint_word_vectors(name, wanted)
    table = vectors.table(tokenizer)
    known = int(table.known.sum())
    _LOGGER.info(
        "%d of %d words have a vector of %d numbers in %s%s",
        known,
        len(wanted),
        vectors.width,
        name,
        "; the others are drawn" if known < len(wanted) else "",
    )
    return table


def word_hash(table: WordTable | None) -> str:
    """Returns a hash of the vectors that were read, to tell runs apart."""
    if table is None:
        return "none"
    rows = {"known": table.known, "values": table.values[table.known]}
    return digest(len(table.values), [rows])


def tokenized(
    rows: TableDataset | None, tokenizer: Any, longest: int, types: bool
) -> Any:
    """Returns rows of ids; pairs get token types if ``types``."""
    if rows is None:
        return None
    found = tokenize_dataset(rows, tokenizer, max_length=longest)
    if not types:
        found.token_type_ids = None
    return found
