"""Loads GLUE from the Hub, by the ``datasets`` library if it is installed."""

from __future__ import annotations

from collections.abc import Iterable

from evolving_attention.data.glue import GlueDataset
from evolving_attention.data.glue_tasks import GlueTask, get_task
from evolving_attention.data.report import RowReport
from evolving_attention.errors import DataError, require

REPOSITORY = "nyu-mll/glue"


def load_hub(
    task: str, splits: str | Iterable[str] = ("train", "dev")
) -> list[GlueDataset]:
    """Loads splits of a GLUE task from the Hub (or from the library's cache).

    Split names are those of :func:`evolving_attention.data.glue.load`.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        DataError: the data set cannot be loaded (no network, no such split).
    """
    spec = get_task(task)
    datasets = require(
        "datasets", extra="data", why="to read GLUE from the Hub (or give --data_dir)"
    )
    names = [splits] if isinstance(splits, str) else list(splits)
    return [_load_split(datasets, spec, name) for name in names]


def _load_split(datasets: object, task: GlueTask, split: str) -> GlueDataset:
    remote = split.replace("dev", "validation")
    if task.name == "mnli" and remote in ("validation", "test"):
        remote += "_matched"
    try:
        table = datasets.load_dataset(REPOSITORY, task.name, split=remote)  # type: ignore[attr-defined]
    except Exception as error:
        raise DataError(
            f"split {remote!r} of {task.name} cannot be loaded from the Hub ({error}); "
            "check the network, or give a folder with data_dir"
        ) from error
    columns = {name: list(table[name]) for name in (*task.text, "label", "idx")}
    count = len(columns["idx"])
    where = f"{REPOSITORY}/{task.name}/{remote}"
    return GlueDataset(
        task,
        split,
        columns,
        has_labels=any(label != -1 for label in columns["label"]),
        report=RowReport(where, rows_in=count, used=count),
    )
