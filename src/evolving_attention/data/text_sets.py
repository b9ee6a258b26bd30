"""SST-5 and SNLI from their published files, as training, tuning and test part.

SST-5 is ``stsa.fine.train`` and ``stsa.fine.dev`` (Kim, EMNLP 2014): a class 0 to 4, a
space, and a sentence that is already split into words. SNLI (Bowman et al., EMNLP 2015)
is JSON lines with the field names of its authors (``sentence1``, ``sentence2``,
``gold_label``) or of the Hub (``premise``, ``hypothesis``, ``label``).

If a folder has no test file, its dev file is halved, always in the same way: one half
is for choosing settings, the other for reporting results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evolving_attention.data.labels import KnownLabels
from evolving_attention.data.lines import read_lines
from evolving_attention.data.report import RowCollector
from evolving_attention.data.rows import load_file
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError, DataError

SST5_LABELS = ("very negative", "negative", "neutral", "positive", "very positive")
_SPLIT_SEED = 0
_NO_LABEL = "-"  # SNLI's annotators did not agree
_SNLI_FORMS: tuple[tuple[str, tuple[str, str], str], ...] = (
    ("snli_1.0_{}.jsonl", ("sentence1", "sentence2"), "gold_label"),
    ("{}.jsonl", ("premise", "hypothesis"), "label"),
)


class TextParts(NamedTuple):
    """Three parts of a data set with the same columns and classes.

    Attributes:
        train: part for training.
        tuning: part for choosing settings and epochs.
        test: part for reporting results.
    """

    train: TableDataset
    tuning: TableDataset
    test: TableDataset


def load_text_set(
    name: str, folder: str | Path, *, bad_rows: str = "raise"
) -> TextParts:
    """Loads the parts of a data set by name.

    Args:
        name: ``"sst5"`` or ``"snli"``.
        folder: folder of its files.
        bad_rows: ``"raise"``, ``"skip"`` or ``"report"``.

    Raises:
        ConfigError: the name is unknown.
        DataError: a file is missing, or a row is bad (file, line, column, reason).

    Example::

        parts = load_text_set("sst5", "SST-5")
        parts.train[0]   # {"sentence": "a stirring , funny …", "label": 4, "idx": 0}
    """
    if name not in TEXT_SETS:
        raise ConfigError(
            f"data set {name!r}, expected one of {', '.join(TEXT_SETS)}; correct it"
        )
    return TEXT_SETS[name](Path(folder), bad_rows)


def halves(dataset: TableDataset) -> tuple[TableDataset, TableDataset]:
    """Splits a data set in two by a fixed seed; rows keep their order in each half."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(dataset))
    middle = len(dataset) // 2
    if not middle:
        raise DataError(
            "has one row, expected two or more to halve it into a tuning and a test "
            "part; add a test file",
            None if dataset.report is None else dataset.report.file,
        )
    first, second = (np.sort(part) for part in (order[:middle], order[middle:]))
    return dataset.select(first), dataset.select(second)


def _parts(folder: Path, name: str, read: Callable[..., TableDataset]) -> TextParts:
    """Reads the parts from the files ``name.format("train")`` and so on.

    Args:
        folder: folder of the files.
        name: name of the files, with ``{}`` in place of the part.
        read: called with a path, and for dev and test also with the training part.
    """
    train = read(folder / name.format("train"))
    dev = read(folder / name.format("dev"), train)
    test = folder / name.format("test")
    if test.is_file():
        return TextParts(train, dev, read(test, train))
    return TextParts(train, *halves(dev))


def _sst5(folder: Path, bad_rows: str) -> TextParts:
    def read(path: Path, like: TableDataset | None = None) -> TableDataset:
        collector = RowCollector(str(path), bad_rows)
        labels, sentences, numbers = [], [], []
        for number, text in read_lines(path, collector, header=False):
            label, _, sentence = text.partition(" ")
            if len(label) != 1 or label not in "01234":
                reason = f"label {label[:20]!r}, expected 0 to 4 and a space after it"
                collector.reject(number, 1, reason)
            elif not sentence.strip():
                collector.reject(number, 2, "text is empty")
            else:
                collector.use()
                labels.append(int(label))
                sentences.append(sentence)
                numbers.append(number - 1)
        return TableDataset(
            {"sentence": sentences, "label": labels, "idx": numbers},
            text_columns=("sentence",),
            label_names=SST5_LABELS,
            report=collector.finish(),
        )

    return _parts(folder, "stsa.fine.{}", read)


def _snli(folder: Path, bad_rows: str) -> TextParts:
    forms = (f for f in _SNLI_FORMS if (folder / f[0].format("train")).is_file())
    form = next(forms, None)
    if form is None:
        raise DataError(
            "no SNLI here, expected "
            + " or ".join(name.format("train") for name, _, _ in _SNLI_FORMS)
            + "; check the path",
            str(folder),
        )
    name, texts, label = form

    def read(path: Path, like: TableDataset | None = None) -> TableDataset:
        known = None
        if like is not None:
            known = KnownLabels((_NO_LABEL, *(like.label_names or ())))
        found = load_file(
            path,
            like=known,
            text_columns=texts,
            label_column=label,
            regression=False,
            bad_rows=bad_rows,
        )
        return _without_label(found)

    return _parts(folder, name, read)


def _without_label(found: TableDataset) -> TableDataset:
    """Drops rows without a label, as SNLI's authors do."""
    names = found.label_names or ()
    if _NO_LABEL not in names:
        return found
    kept = [name for name in names if name != _NO_LABEL]
    new = {i: kept.index(name) for i, name in enumerate(names) if name in kept}
    labels = found.column("label")
    rows = found.select([i for i, label in enumerate(labels) if label in new])
    return rows.relabelled([new[label] for label in rows.column("label")], kept)


#: Readers by name; each takes a folder and the policy for bad rows.
TEXT_SETS: Mapping[str, Callable[[Path, str], TextParts]] = {
    "sst5": _sst5,
    "snli": _snli,
}
