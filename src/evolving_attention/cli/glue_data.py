"""The data of a glue run, wherever it comes from, under one set of names."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evolving_attention.cli.glue_arguments import DataTrainingArguments
from evolving_attention.data.glue import load
from evolving_attention.data.glue_tasks import GlueTask, get_task
from evolving_attention.data.labels import Labelled
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError, DataError, require

__all__ = ["RunData", "check_needs", "limited", "load_data", "with_label_ids"]

_LOGGER = logging.getLogger("evolving_attention")
_NINE = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")


@dataclass
class RunData(Labelled):
    """What a run trains on, evaluates on and predicts.

    Attributes:
        task: the GLUE task, or None for data of one's own.
        label_names: classes by id; None for regression.
        train: the training set, or None.
        evaluation: name (``mnli`` and ``mnli-mm``, else one) to data set.
        prediction: the same of the test sets; ``ax`` where MNLI's folder has it.
    """

    task: GlueTask | None
    label_names: tuple[str, ...] | None
    train: TableDataset | None = None
    evaluation: dict[str, TableDataset] = field(default_factory=dict)
    prediction: dict[str, TableDataset] = field(default_factory=dict)

    @property
    def all(self) -> list[TableDataset]:
        """Every data set of the run."""
        sets = [self.train] if self.train is not None else []
        return [*sets, *self.evaluation.values(), *self.prediction.values()]


def check_needs(data: DataTrainingArguments, args: Any) -> None:
    """Refuse a step whose data was not named, before anything is loaded.

    Raises:
        ConfigError: for example --do_eval without --validation_file.
    """
    if not (args.do_train or args.do_eval or args.do_predict):
        raise ConfigError(
            "nothing to do: expected one or more of --do_train, --do_eval, --do_predict"
        )
    if data.task_name or data.dataset_name:
        return
    needs_labels = not data.train_file and (args.do_eval or args.do_predict)
    for flag, name, needed in (
        ("do_train", "train_file", args.do_train),
        ("do_eval", "validation_file", args.do_eval),
        ("do_predict", "test_file", args.do_predict),
        ("do_eval and --do_predict", "train_file", needs_labels),
    ):
        if needed and not getattr(data, name):
            what = "it says which labels there are" if "and" in flag else "add it"
            raise ConfigError(f"--{flag}: expected --{name} beside it; {what}")


def load_data(data: DataTrainingArguments, args: Any) -> RunData:
    """Read everything that the steps of this run need.

    Raises:
        DataError: a file is missing or has a bad row.
        ConfigError: the task is not one of the nine.
        MissingExtraError: the data is on the Hub and ``datasets`` is not installed.
    """
    if data.task_name:
        result = _load_task(data, args)
    elif data.dataset_name:
        result = _load_hub_dataset(data, args)
    else:
        result = _load_files(data, args)
    result.train = limited(result.train, data.max_train_samples)
    for sets, most in (
        (result.evaluation, data.max_eval_samples),
        (result.prediction, data.max_predict_samples),
    ):
        sets.update({name: limited(part, most) for name, part in sets.items()})
    return result


def limited(dataset: Any, most: int | None) -> Any:
    """The first ``most`` rows."""
    if dataset is None or most is None or most >= len(dataset):
        return dataset
    return dataset[:most]


def with_label_ids(dataset: TableDataset, ids: list[int]) -> TableDataset:
    """The same rows with label i replaced by ``ids[i]``; -1 stays."""
    columns = {name: dataset.column(name) for name in dataset.column_names}
    columns["label"] = [ids[v] if v >= 0 else v for v in columns["label"]]
    names = dataset.label_names or ()
    order = sorted(range(len(names)), key=ids.__getitem__)
    return TableDataset(
        columns,
        text_columns=dataset.text_columns,
        label_names=[names[i] for i in order],
        has_labels=dataset.has_labels,
        report=dataset.report,
    )


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
    """Read a split that a folder may lack; say so when it does."""
    try:
        sets[name] = read(task, split)
    except DataError as error:
        if error.line is not None or "no file for split" not in error.reason:
            raise
        level = logging.DEBUG if name == "ax" else logging.WARNING
        _LOGGER.log(level, "%s is left out: %s", name, error)


# --- files of one's own ---------------------------------------------------------------


def _load_files(data: DataTrainingArguments, args: Any) -> RunData:
    from evolving_attention.data.rows import load_file

    train = load_file(str(data.train_file), bad_rows=data.bad_rows)
    result = RunData(None, train.label_names, train if args.do_train else None)
    if data.validation_file and (args.do_eval or args.eval_strategy != "no"):
        result.evaluation["custom"] = load_file(
            data.validation_file, like=train, bad_rows=data.bad_rows
        )
    if data.test_file and args.do_predict:
        result.prediction["None"] = load_file(
            data.test_file, like=train, labelled=False, bad_rows=data.bad_rows
        )
    return result


# --- any data set of the Hub ----------------------------------------------------------


def _load_hub_dataset(data: DataTrainingArguments, args: Any) -> RunData:
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
    tables = {}
    label_names: Any = None
    for split, needed in wanted.items():
        if not needed:
            continue
        if split not in found:
            raise DataError(
                f"has no split {split!r}, only {', '.join(found)}; leave out that step",
                str(name),
            )
        if split == "train":
            label_names = _hub_labels(found[split], str(name))
        tables[split] = _hub_table(found[split], label_names)
    result = RunData(None, label_names, tables["train"] if args.do_train else None)
    if "validation" in tables:
        result.evaluation["custom"] = tables["validation"]
    if "test" in tables:
        result.prediction["None"] = tables["test"]
    return result


def _hub_labels(part: Any, name: str) -> tuple[str, ...] | None:
    """Classes of a Hub data set's column ``label``, None when it holds numbers."""
    if "label" not in part.column_names:
        raise DataError(
            f"has no column 'label', only {', '.join(part.column_names)}; write it to "
            "a file with that column and give --train_file",
            name,
        )
    feature = part.features["label"]
    if getattr(feature, "names", None):
        return tuple(feature.names)
    if str(getattr(feature, "dtype", "")).startswith("float"):
        return None
    return tuple(map(str, sorted(set(part["label"]))))


def _hub_table(part: Any, label_names: tuple[str, ...] | None) -> TableDataset:
    from evolving_attention.data.features import text_names

    texts = text_names(part, None)
    columns: dict[str, list[Any]] = {n: list(part[n]) for n in texts}
    values: Iterable[Any] = part["label"] if "label" in part.column_names else ()
    labels = list(values) or [-1] * len(part)
    if label_names is not None and labels and not isinstance(labels[0], int):
        ids = {name: i for i, name in enumerate(label_names)}
        labels = [ids.get(str(value), -1) for value in labels]
    return TableDataset(
        {**columns, "label": labels, "idx": list(range(len(part)))},
        text_columns=texts,
        label_names=label_names,
        has_labels=any(value != -1 for value in labels),
    )
