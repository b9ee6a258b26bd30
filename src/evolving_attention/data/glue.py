"""GLUE from files: the official TSV layout, or JSON lines with the Hub's field names.

Nothing is guessed or dropped silently: a row that does not fit its task's table is an
error with file, line, column, reason and what to do, or, with ``bad_rows``, an entry in
the data set's report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.glue_tasks import SPLITS, TASKS, GlueTask, get_task
from evolving_attention.data.records import (
    Record,
    finite,
    read_names,
    read_records,
    texts_are_good,
)
from evolving_attention.data.report import RowCollector, RowReport, check_policy
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError, DataError, InputError

__all__ = ["TASKS", "GlueDataset", "GlueTask", "get_task", "in_domain", "load"]

#: CoLA sources of the out-of-domain sentences in dev (516 of 1,043).
OUT_OF_DOMAIN_SOURCES = frozenset({"c-05", "clc95", "j_71", "s_97", "swb04", "w_80"})

_SUFFIXES = (".tsv", ".jsonl", ".json")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class GlueDataset(TableDataset):
    """One split of one task: :class:`TableDataset` with ``task`` and ``split``.

    Rows are ``{text fields, "label": int or float, "idx": int}`` with the Hub's field
    names; CoLA also keeps ``source``. ``idx`` counts the file's rows from 0, including
    rejected ones. Unlabelled test rows have label -1.
    """

    def __init__(
        self,
        task: GlueTask,
        split: str,
        columns: Mapping[str, Sequence[Any]],
        *,
        has_labels: bool = True,
        report: RowReport | None = None,
    ) -> None:
        super().__init__(
            columns,
            text_columns=task.text,
            label_names=task.label_names,
            has_labels=has_labels,
            report=report,
        )
        self.task, self.split = task.name, split


def load(
    task: str,
    data_dir: str | Path,
    splits: str | Iterable[str] = ("train", "dev"),
    bad_rows: str = "raise",
) -> list[GlueDataset]:
    """Read splits of a GLUE task from a folder.

    Args:
        task: one of ``TASKS`` (``"cola"``, ``"sst2"``, …; ``"ax"`` has only ``test``).
        data_dir: the task's folder, or a folder that contains it under its official
            name (``GLUE/`` with ``GLUE/CoLA/train.tsv``).
        splits: any of train, dev, test; for MNLI also dev_matched, dev_mismatched,
            test_matched, test_mismatched (``dev`` is dev_matched there).
            ``validation…`` is another name of ``dev…``.
        bad_rows: ``"raise"``, ``"skip"`` (one warning) or ``"report"`` (a table on
            stderr); see :class:`evolving_attention.data.report.RowCollector`.

    Returns:
        One data set per split, in the order of ``splits``.

    Raises:
        DataError: a file is missing or unusable, or a row is bad.
        ConfigError: task, split or bad_rows is unknown.

    Example::

        train, dev = ea.glue.load("cola", "GLUE")
    """
    spec = get_task(task)
    check_policy(bad_rows)
    names = [splits] if isinstance(splits, str) else list(splits)
    wanted = [_split_name(name) for name in names]
    return [_load_split(spec, Path(data_dir), split, bad_rows) for split in wanted]


def in_domain(dataset: TableDataset) -> np.ndarray:
    """Returns which rows of CoLA are in-domain: bool [rows].

    CoLA's dev set joins 527 sentences from the sources of the training set (first)
    and 516 from six other sources; published single-set results often use only the
    first. Decided by the ``source`` column, so it also holds for selected rows.

    Raises:
        InputError: the data set has no ``source`` column.
    """
    if "source" not in dataset.column_names:
        raise InputError(
            "in_domain() needs the column 'source', which only CoLA's train and dev "
            f"files have; this data set has {', '.join(dataset.column_names)}"
        )
    sources = dataset.column("source")
    return np.array([s not in OUT_OF_DOMAIN_SOURCES for s in sources], dtype=bool)


def _split_name(name: str) -> str:
    split = str(name).replace("validation", "dev")
    if split not in SPLITS:
        raise ConfigError(
            f"split {name!r} is not known; expected one of {', '.join(SPLITS)}"
        )
    return split


def _load_split(
    task: GlueTask, data_dir: Path, split: str, bad_rows: str
) -> GlueDataset:
    path = _find_file(task, data_dir, split)
    collector = RowCollector(str(path), bad_rows)
    is_tsv = path.suffix == ".tsv"
    is_test = split.startswith("test")
    text = task.tsv_text if is_tsv else task.text
    label = task.tsv_label if is_tsv else "label"
    header = task.header if is_tsv and not is_test else None
    names = header or read_names(path, collector)
    has_labels = not is_test or label in names
    extra = tuple(name for name in task.extra if name in names)
    wanted = (*text, *extra, *((label,) if has_labels else ()))
    columns: dict[str, list[Any]] = {n: [] for n in (*task.text, *extra)}
    labels: list[Any] = []
    indices: list[int] = []
    check = _RowCheck(task, label, collector)
    parse = _label_parser(task, is_test) if has_labels else None
    for record in read_records(path, wanted, collector, header):
        value = check(record, parse, is_test)
        if value is None:
            continue
        collector.use()
        for name, field in zip(columns, record.values, strict=False):
            columns[name].append(field)
        labels.append(value)
        indices.append(record.index)
    report = collector.finish()
    has_labels = any(value != -1 for value in labels)
    return GlueDataset(
        task,
        split,
        {**columns, "label": labels, "idx": indices},
        has_labels=has_labels,
        report=report,
    )


def _find_file(task: GlueTask, data_dir: Path, split: str) -> Path:
    """Finds the file of a split in <data_dir>/<official name>/, or in data_dir."""
    if not data_dir.is_dir():
        raise DataError(
            f"no such folder; expected the folder of task {task.name} or one that "
            f"holds {task.folder}/",
            str(data_dir),
        )
    task_folders = (task.folder, *task.folders, task.name)
    places = [place for name in task_folders if (place := data_dir / name).is_dir()]
    stems = _file_stems(task, split)
    for place in (*places, data_dir):
        for stem in stems:
            if (task.name, stem) == ("ax", "test") and place.name not in task_folders:
                continue  # another task's test set
            for suffix in _SUFFIXES:
                if (path := place / f"{stem}{suffix}").is_file():
                    return path
    place = places[0] if places else data_dir
    found = ", ".join(sorted(p.name for p in place.iterdir())[:20]) or "nothing"
    tried = ", ".join(f"{stem}.tsv" for stem in stems)
    raise DataError(
        f"no file for split {split!r} of task {task.name}; expected {tried} (or "
        f".jsonl) here or under {task.folder}/; the folder holds {found}",
        str(place),
    )


def _file_stems(task: GlueTask, split: str) -> tuple[str, ...]:
    """Returns names, without suffix, that the file of a split may have."""
    if task.name == "mnli":  # MNLI subsets often have a single dev set
        plain = split.removesuffix("_matched")
        if plain in ("dev", "test"):
            return (f"{plain}_matched", plain)
    if task.name == "ax" and split == "test":
        return ("AX", "diagnostic", "test")
    return (split,)


def _label_parser(task: GlueTask, is_test: bool) -> Callable[[Any], int | float | None]:
    """Returns a function from a field to the label's value; None: not a label."""
    if task.label_names is None:

        def score(field: Any) -> float | None:
            if isinstance(field, bool) or not isinstance(field, (str, int, float)):
                return None
            if isinstance(field, str) and not _NUMBER.fullmatch(field):
                return None
            value = finite(field)
            if is_test and value == -1:
                return -1.0
            return value if value is not None and 0 <= value <= 5 else None

        return score
    table: dict[Any, int] = {}
    for index, name in enumerate(task.label_names):
        table[("str", name)] = table[("int", index)] = index
    for index, name in enumerate(task.tsv_labels):
        table["str", name] = index
    if is_test:
        table["int", -1] = table["str", "-1"] = -1
    return lambda field: table.get((type(field).__name__, field))


class _RowCheck:
    """Checks one record after another; bad ones go to the collector."""

    def __init__(self, task: GlueTask, label: str, collector: RowCollector) -> None:
        self.texts, self.label, self.collector = len(task.text), label, collector
        words = dict.fromkeys((*task.tsv_labels, *(task.label_names or ())))
        self.expected = ", ".join(words) or "a number from 0 to 5"

    def __call__(
        self,
        record: Record,
        parse: Callable[[Any], int | float | None] | None,
        is_test: bool,
    ) -> int | float | None:
        """Returns the row's label (-1 without labels), or None after rejecting it."""
        if not texts_are_good(record, self.texts, self.collector, empty=is_test):
            return None
        if parse is None:
            return -1
        last = len(record.values) - 1
        field = record.values[last]
        scalar = isinstance(field, (str, int, float))
        value = parse(field) if scalar else None
        if value is None:
            reason = self._label_reason(field)
            self.collector.reject(record.line, record.place(last), reason)
        return value

    def _label_reason(self, field: Any) -> str:
        if field == self.label:
            return "the header line again (were files concatenated?)"
        if field == "-":
            return "label '-' (the annotators did not agree)"
        if field == "":
            return f"the label is empty; expected {self.expected}"
        return f"label {str(field)[:60]!r} is not known; expected {self.expected}"
