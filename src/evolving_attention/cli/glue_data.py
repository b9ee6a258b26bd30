"""Loads the data of a glue run from GLUE folders, files or the Hub."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolving_attention.cli.glue_arguments import DataTrainingArguments
from evolving_attention.data.columns import WEIGHT, Columns, dataset_columns
from evolving_attention.data.glue import load
from evolving_attention.data.glue_tasks import TASKS, GlueTask, get_task
from evolving_attention.data.labels import (
    KnownLabels,
    Labelled,
    class_name,
    known_labels,
)
from evolving_attention.data.rows import labels_told, load_file
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError, DataError, require
from evolving_attention.notices import say

_LOGGER = logging.getLogger("evolving_attention")
_NINE = sorted(TASKS.keys() - {"ax"})


@dataclass
class RunData(Labelled):
    """The data sets of a run, for training, evaluation and prediction.

    Attributes:
        task: the GLUE task, or None for the user's own data.
        label_names: classes by id; None for regression.
        train: the training set, or None.
        evaluation: name (``mnli`` and ``mnli-mm``, else one) to data set.
        prediction: name to test set; includes ``ax`` if MNLI's folder has it.
        several: whether a text may have several labels.
    """

    task: GlueTask | None
    label_names: tuple[str, ...] | None
    train: TableDataset | None = None
    evaluation: dict[str, TableDataset] = field(default_factory=dict)
    prediction: dict[str, TableDataset] = field(default_factory=dict)
    several: bool = False

    @property
    def all(self) -> list[TableDataset]:
        """Every data set of the run."""
        sets = [self.train] if self.train is not None else []
        return [*sets, *self.evaluation.values(), *self.prediction.values()]


def check_needs(
    data: DataTrainingArguments, args: Any, config: Mapping[str, Any]
) -> None:
    """Refuse a step without data, before anything is loaded.

    Args:
        data, args: the options.
        config: config.json of the model; for a trained model it names the classes.

    Raises:
        ConfigError: for example --do_eval without --validation_file.
    """
    if not (args.do_train or args.do_eval or args.do_predict):
        raise ConfigError(
            "nothing to do: expected one or more of --do_train, --do_eval, --do_predict"
        )
    if data.task_name or data.dataset_name:
        return
    for flag, name, needed in (
        ("do_train", "train_file", args.do_train),
        ("do_eval", "validation_file", args.do_eval),
        ("do_predict", "test_file", args.do_predict),
    ):
        if needed and not getattr(data, name):
            raise ConfigError(f"--{flag}: expected --{name} with it; add it")
    if args.do_train and args.eval_strategy != "no" and not data.validation_file:
        raise ConfigError(
            f"--eval_strategy {args.eval_strategy}: expected --validation_file with "
            "it; add it"
        )
    if not data.train_file and known_labels(config) is None:
        step = "do_eval" if args.do_eval else "do_predict"
        raise ConfigError(
            f"--{step}: the model's config.json names no classes (id2label), expected "
            "the folder of a trained model, or --train_file to learn them from; give "
            "one of the two"
        )


def load_data(
    data: DataTrainingArguments, args: Any, config: Mapping[str, Any]
) -> RunData:
    """Read the data that the requested steps need.

    Args:
        data, args, config: as in :func:`check_needs`.

    Raises:
        DataError: a file is missing or has a bad row, or all rows have one class.
        ConfigError: the task is not one of the nine, or a trained model reads pairs and
            these are single texts, or the other way round.
        MissingExtraError: the data is on the Hub and ``datasets`` is not installed.
    """
    known = known_labels(config)
    if data.task_name:
        result = _load_task(data, args)
    elif data.dataset_name:
        result = _load_hub_dataset(data, args, known)
    else:
        result = _load_files(data, args, known)
    if known is not None and known.text_columns and not args.do_train:
        for part in result.all:
            name = data.task_name or data.dataset_name or ""
            refuse_other_texts(part, len(known.text_columns) == 2, name)
    source = str(data.train_file or data.dataset_name)
    refuse_one_class(result.label_names, source, "--do_regression")
    result.train = limited(result.train, data.max_train_samples)
    for sets, most in (
        (result.evaluation, data.max_eval_samples),
        (result.prediction, data.max_predict_samples),
    ):
        sets.update({name: limited(part, most) for name, part in sets.items()})
    return result


def refuse_one_class(names: Sequence[str] | None, source: str, scores: str) -> None:
    """Refuse data whose rows all have one class.

    Args:
        names: the classes; None for regression.
        source: the file or data set, for messages.
        scores: how the command is told that labels are scores, for messages.

    Raises:
        DataError: there are fewer than two classes.
    """
    if names is not None and len(names) < 2:
        raise DataError(
            f"{len(names)} class ({', '.join(names)}), expected at least 2; add rows "
            "of other classes, or name the labels' column by --label_column_name "
            f"(scores: {scores})",
            source,
        )


def refuse_other_texts(rows: TableDataset, pairs: bool, source: str = "") -> None:
    """Refuse single texts for a model of pairs, and pairs for one of single texts.

    Args:
        rows: the data set.
        pairs: whether the model was trained on pairs.
        source: name of the data set, if it is not from a file.

    Raises:
        ConfigError: the texts are of the other kind.
    """
    if (len(rows.text_columns) == 2) != pairs:
        kinds = ("single texts", "pairs of texts")
        where = source if rows.report is None else rows.report.file
        raise ConfigError(
            f"{where}: the columns {', '.join(rows.text_columns)} are "
            f"{kinds[not pairs]}, expected {kinds[pairs]}, which the model was trained "
            "on; name the columns by --text_column_names"
        )


def limited(dataset: Any, most: int | None) -> Any:
    """Returns the first ``most`` rows."""
    if dataset is None or most is None or most >= len(dataset):
        return dataset
    return dataset[:most]


def with_label_ids(dataset: TableDataset, ids: list[int]) -> TableDataset:
    """Returns the same rows with label i replaced by ``ids[i]``; -1 stays."""
    labels = [_with_ids(value, ids) for value in dataset.column("label")]
    names = dataset.label_names or ()
    order = sorted(range(len(names)), key=ids.__getitem__)
    return dataset.relabelled(labels, [names[i] for i in order])


def _with_ids(value: Any, ids: list[int]) -> Any:
    """Converts a label, or a multi-hot label list, to another order of the classes."""
    if isinstance(value, list):
        return [value[ids.index(i)] for i in range(len(ids))]
    return ids[value] if value >= 0 else value


# --- the nine tasks -------------------------------------------------------------------


def _load_task(data: DataTrainingArguments, args: Any) -> RunData:
    task = get_task(str(data.task_name))
    if task.name not in _NINE:
        raise ConfigError(
            f"--task_name {data.task_name}: expected one of {', '.join(_NINE)}; ax is "
            "predicted by a run of mnli"
        )

    def read(name: str, split: str) -> TableDataset:
        if data.data_dir:
            return load(name, data.data_dir, [split], bad_rows=data.bad_rows)[0]
        from evolving_attention.data.hub import load_hub

        return load_hub(name, [split])[0]

    result = RunData(task, task.label_names)
    if args.do_train:
        result.train = read(task.name, "train")
    paired = task.name == "mnli"
    evaluates = args.do_eval or args.eval_strategy != "no" or args.eval_on_start
    if evaluates:
        first = "dev_matched" if paired else "dev"
        result.evaluation[task.name] = read(task.name, first)
        if paired and args.do_eval:
            _optional(result.evaluation, "mnli-mm", read, "mnli", "dev_mismatched")
    if args.do_predict:
        first = "test_matched" if paired else "test"
        result.prediction[task.name] = read(task.name, first)
        if paired:
            _optional(result.prediction, "mnli-mm", read, "mnli", "test_mismatched")
            _optional(result.prediction, "ax", read, "ax", "test")
    return result


def _optional(
    sets: dict[str, Any], name: str, read: Any, task: str, split: str
) -> None:
    """Read an optional split; log if it is missing in the folder."""
    try:
        sets[name] = read(task, split)
    except DataError as error:
        if error.line is not None or "no file for split" not in error.reason:
            raise
        level = logging.DEBUG if name == "ax" else logging.WARNING
        _LOGGER.log(level, "%s is left out: %s", name, error)


# --- the user's own files -------------------------------------------------------------


def _load_files(
    data: DataTrainingArguments, args: Any, known: KnownLabels | None
) -> RunData:
    """Load the files of a run; without a training file, the model sets the labels."""
    columns: Any = {
        "text_columns": data.text_columns,
        "label_column": data.label_column_name,
    }
    several = data.several
    if known is not None and not data.train_file and data.problem_type is None:
        several = known.problem_type == "multi_label_classification"
    read: Any = {
        "bad_rows": data.bad_rows,
        "delimiter": data.separator,
        "several": several,
    }
    train = None
    if data.train_file:
        train = load_file(
            data.train_file, regression=data.regression, **columns, **read
        )
    like = known if train is None else train
    result = RunData(
        None,
        None if like is None else like.label_names,
        train if args.do_train else None,
        several=several,
    )
    if data.validation_file and (args.do_eval or args.eval_strategy != "no"):
        result.evaluation["custom"] = load_file(
            data.validation_file, like=like, **columns, **read
        )
    if data.test_file and args.do_predict:
        result.prediction["custom"] = load_file(
            data.test_file, like=like, labelled=False, **columns, **read
        )
    return result


# --- any data set of the Hub ----------------------------------------------------------


def _load_hub_dataset(
    data: DataTrainingArguments, args: Any, known: KnownLabels | None
) -> RunData:
    datasets = require("datasets", extra="data", why="for --dataset_name")
    name, config = data.dataset_name, data.dataset_config_name
    try:
        found = datasets.load_dataset(name, config)
    except Exception as error:
        raise DataError(
            f"cannot be had from the Hub ({error}); check the name and the network, or "
            "give files with --train_file and --validation_file",
            str(name),
        ) from error
    wanted = {
        "train": True,
        "validation": args.do_eval or args.eval_strategy != "no",
        "test": args.do_predict,
    }
    needed = [split for split in wanted if wanted[split]]
    for split in needed:
        if split not in found:
            raise DataError(
                f"has no split {split!r}, only {', '.join(found)}; leave out that step",
                str(name),
            )
    texts = data.text_columns
    if texts is None and not args.do_train and known is not None:
        trained = [*(known.text_columns or ())]
        texts = trained if {*trained} <= {*found["train"].column_names} else None
    source = _HubSource.of(found["train"], data, texts or None)
    tables = {split: source.table(found[split], split) for split in needed}
    result = RunData(
        None, source.label_names, tables["train"] if args.do_train else None
    )
    if "validation" in tables:
        result.evaluation["custom"] = tables["validation"]
    if "test" in tables:
        result.prediction["custom"] = tables["test"]
    return result


@dataclass
class _HubSource:
    """How to read all splits of a Hub data set, chosen from its training split.

    Attributes:
        columns: the text columns and the label column.
        label_names: classes by id; None for scores.
        coded: whether labels are already class ids.
        name: name of the data set.
    """

    columns: Columns
    label_names: tuple[str, ...] | None
    coded: bool
    name: str

    @classmethod
    def of(
        cls, train: Any, data: DataTrainingArguments, texts: list[str] | None
    ) -> _HubSource:
        """Choose columns (``texts`` if they are known) and kind of task; log both."""
        name = str(data.dataset_name)
        columns = dataset_columns(train, texts, data.label_column_name)
        if None in (data.text_columns, data.label_column_name):
            say(f"{name}: {columns}")
        if not columns.has_label:
            raise DataError(
                f"has no column {columns.label!r}, only "
                f"{', '.join(train.column_names)}; name the labels' column by "
                "--label_column_name",
                name,
            )
        feature, values = train.features[columns.label], list(train[columns.label])
        coded = getattr(feature, "names", None)
        scores = data.regression
        if scores is None:
            scores = str(getattr(feature, "dtype", "")).startswith("float")
        names = coded or map(class_name, sorted(set(values)))
        label_names = None if scores else tuple(names)
        if data.regression is None:
            say(f"{name}: {labels_told(label_names, values[0] if values else '')}")
        return cls(columns, label_names, bool(coded), name)

    def table(self, part: Any, split: str) -> TableDataset:
        """Converts a split to a table; missing or hidden test labels become -1.

        Raises:
            DataError: a label needed for training or evaluation is unknown.
        """
        texts, label = self.columns.texts, self.columns.label
        weights = [WEIGHT] * (self.columns.has_weight and split == "train")
        columns: dict[str, list[Any]] = {n: list(part[n]) for n in [*texts, *weights]}
        labels = list(part[label]) if label in part.column_names else [-1] * len(part)
        if self.label_names is None:
            labels = _scores(labels, f"column {label!r}")
        elif not self.coded:
            ids = {name: i for i, name in enumerate(self.label_names)}
            classes = [class_name(value) for value in labels]
            told = split != "test" and label in part.column_names
            for row, value in enumerate(classes):
                if told and value not in ids:
                    raise DataError(
                        f"row {row} of the {split} split has the label {value!r}, "
                        f"expected one of the training split ({', '.join(ids)}); "
                        "correct it or leave the row out",
                        self.name,
                    )
            labels = [ids.get(value, -1) for value in classes]
        return TableDataset(
            {**columns, "label": labels, "idx": list(range(len(part)))},
            text_columns=texts,
            label_names=self.label_names,
            has_labels=any(value != -1 for value in labels),
            label_column=label,
        )


def _scores(values: list[Any], where: str) -> list[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where} is not made of numbers ({error}); expected scores, as "
            "--do_regression says; leave it out",
        ) from error
