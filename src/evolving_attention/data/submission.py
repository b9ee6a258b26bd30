"""Files for the GLUE leaderboard: converts predictions to submission.zip."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.glue_tasks import TASKS, GlueTask, get_task
from evolving_attention.data.lines import read_lines
from evolving_attention.data.report import RowCollector
from evolving_attention.errors import ConfigError, DataError, InputError, ShapeError

#: Leaderboard file to the file that Hugging Face's run_glue writes for it.
_SOURCES = {
    "MNLI-m": "predict_results_mnli.txt",
    "MNLI-mm": "predict_results_mnli-mm.txt",
    **{
        name: f"predict_results_{task.name}.txt"
        for task in TASKS.values()
        if task.name != "mnli"
        for name in task.test_sizes
    },
}
_TASK_OF = {name: task for task in TASKS.values() for name in task.test_sizes}
_REQUIRED = tuple(name for name in _TASK_OF if name != "AX")
_INDEX = re.compile(r"\d{1,9}")
_SCORE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


@dataclass
class SubmissionReport:
    """The contents of an archive.

    Attributes:
        path: the archive.
        files: leaderboard file name to its source, the prediction file.
        missing: leaderboard files without predictions.
    """

    path: Path
    files: dict[str, Path] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.path}: {len(self.files)} files"]
        lines += [f"  {name}.tsv  from {path}" for name, path in self.files.items()]
        lines += [f"  {name}.tsv  missing" for name in self.missing]
        return "\n".join(lines)


def predict_file_name(task: str, split: str = "test") -> str:
    """Returns run_glue's name of a prediction file: ``predict_results_<task>.txt``."""
    suffix = "-mm" if split.endswith("mismatched") else ""
    return f"predict_results_{get_task(task).name}{suffix}.txt"


def _labels(task: GlueTask, predictions: np.ndarray | Sequence[Any]) -> np.ndarray:
    """Returns class ids, or scores clipped to [0, 5], from logits, ids or scores."""
    values = np.asarray(predictions)
    if task.is_regression:
        values = values.reshape(len(values), -1)
        if values.shape[1] != 1:
            raise ShapeError(
                f"{task.name}: predictions have shape {values.shape}; expected [N]"
            )
        if not np.isfinite(values).all():
            raise InputError(f"{task.name}: predictions are not all finite")
        return np.clip(values[:, 0].astype(np.float64), 0.0, 5.0)
    if values.ndim == 2:
        if values.shape[1] != task.num_labels:
            raise ShapeError(
                f"{task.name}: logits have shape {values.shape}; expected "
                f"[N, {task.num_labels}]"
            )
        return np.asarray(np.argmax(values, axis=1))
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ShapeError(
            f"{task.name}: predictions are {values.dtype} of shape {values.shape}; "
            f"expected logits [N, {task.num_labels}] or class ids [N]"
        )
    if values.size and not 0 <= values.min() <= values.max() < task.num_labels:
        raise InputError(
            f"{task.name}: class ids from {values.min()} to {values.max()}; expected "
            f"0 to {task.num_labels - 1}"
        )
    return values


def write_predictions(
    task: str,
    predictions: np.ndarray | Sequence[Any],
    path: str | Path,
    label_names: Sequence[str] | None = None,
) -> Path:
    """Write run_glue's ``predict_results_<task>.txt``: index, tab, class or score.

    Args:
        task: a GLUE task.
        predictions: logits [N, classes], class ids [N], or scores [N].
        path: the file.
        label_names: names of the classes; by default the task's.
    """
    from evolving_attention.durable import write_bytes

    spec = get_task(task)
    names = label_names or spec.label_names
    values = _labels(spec, predictions)
    shown = (
        (f"{v:.3f}" for v in values) if names is None else (names[v] for v in values)
    )
    write_bytes(Path(path), _tsv(shown).encode("utf-8"))
    return Path(path)


def leaderboard_file(
    task: str, predictions: np.ndarray | Sequence[Any], split: str = "test"
) -> tuple[str, str]:
    """Returns (file name, content) of one leaderboard file.

    Args:
        task: a GLUE task.
        predictions: logits [N, classes], class ids [N], or STS-B scores [N], which
            are clipped to [0, 5].
        split: ``test_mismatched`` gives MNLI-mm.tsv.

    Raises:
        ShapeError: the number of rows differs from the official test set.
    """
    spec = get_task(task)
    names = list(spec.test_sizes)
    name = names[-1] if split.endswith("mismatched") else names[0]
    values = _labels(spec, predictions)
    if len(values) != spec.test_sizes[name]:
        raise ShapeError(
            f"{name}.tsv: {len(values)} predictions; the official test set has "
            f"{spec.test_sizes[name]} rows (was the whole of it predicted?)"
        )
    if spec.is_regression:
        return f"{name}.tsv", _tsv(f"{value:.3f}" for value in values)
    return f"{name}.tsv", _tsv(spec.tsv_labels[value] for value in values)


def _tsv(values: Iterable[str]) -> str:
    rows = "".join(f"{index}\t{value}\n" for index, value in enumerate(values))
    return f"index\tprediction\n{rows}"


def build_submission(
    dirs: str | Path | Iterable[str | Path],
    output_zip: str | Path,
    *,
    allow_missing: bool = False,
) -> SubmissionReport:
    """Builds the leaderboard's archive from folders with run_glue's prediction files.

    Args:
        dirs: folders (or one) that contain ``predict_results_<task>.txt``, directly or
            in their sub-folders.
        output_zip: the archive to write.
        allow_missing: write the archive even if tasks are missing (the diagnostic AX
            may always be missing; the leaderboard itself requires all files).

    Returns:
        The source of each file, and the missing ones.

    Raises:
        DataError: a prediction file is damaged, has the wrong number of rows, or an
            unknown label.
        InputError: a task is missing, or has two files.
    """
    from evolving_attention.durable import write_bytes

    report = SubmissionReport(Path(output_zip))
    if report.path.suffix != ".zip":
        raise ConfigError(f"{report.path}: the archive's name must end in .zip")
    folders = [dirs] if isinstance(dirs, (str, Path)) else list(dirs)
    contents: dict[str, str] = {}
    for name, source in _SOURCES.items():
        found = sorted({p for d in folders for p in _search(Path(d), source)})
        if len(found) > 1:
            raise InputError(
                f"{len(found)} files hold predictions for {name}: "
                f"{', '.join(map(str, found))}; give only the folder that counts"
            )
        if found:
            contents[name] = _tsv(_read_predictions(found[0], name))
            report.files[name] = found[0]
    report.missing = [name for name in _TASK_OF if name not in contents]
    required = [name for name in _REQUIRED if name in report.missing]
    if required and (not allow_missing or not contents):
        raise InputError(
            f"no predictions for {', '.join(required)} in "
            f"{', '.join(map(str, folders))}; expected "
            f"{', '.join(_SOURCES[name] for name in required)}; run those tasks with "
            "--do_predict, or allow an incomplete archive (allow_missing)"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            # a fixed date: the same predictions give the same bytes
            entry = zipfile.ZipInfo(f"{name}.tsv", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, contents[name])
    report.path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(report.path, buffer.getvalue())
    return report


def _search(folder: Path, name: str) -> list[Path]:
    if not folder.is_dir():
        raise DataError("no such folder", str(folder))
    here = folder / name
    if here.is_file():
        return [here.resolve()]
    return [p.resolve() for p in folder.glob(f"*/{name}") if p.is_file()]


def _read_predictions(path: Path, name: str) -> list[str]:
    """Returns one file's predictions in the leaderboard's format, after checks."""
    task = _TASK_OF[name]
    collector = RowCollector(str(path), "raise")
    words = dict(zip(task.tsv_labels, task.tsv_labels, strict=True))
    words |= dict(zip(task.label_names or (), task.tsv_labels, strict=True))
    values: list[str] = []
    for number, text in read_lines(path, collector, header=True):
        fields = text.split("\t")
        if number == 1:
            if fields != ["index", "prediction"]:
                collector.fail("expected the header index<TAB>prediction", 1, 1)
            continue
        if len(fields) != 2 or not _INDEX.fullmatch(fields[0]):
            collector.fail("expected index<TAB>prediction", number, 1)
        if int(fields[0]) != len(values):
            collector.fail(
                f"index {fields[0]}, expected {len(values)}: rows are in order from 0",
                number,
                1,
            )
        column = len(fields[0]) + 2
        if task.is_regression:
            if not _SCORE.fullmatch(fields[1]):
                collector.fail(f"{fields[1][:40]!r} is not a score", number, column)
            values.append(f"{min(max(float(fields[1]), 0.0), 5.0):.3f}")
        elif fields[1] in words:
            values.append(words[fields[1]])
        else:
            collector.fail(
                f"label {fields[1][:40]!r} is not known; expected {', '.join(words)}",
                number,
                column,
            )
    expected = task.test_sizes[name]
    if len(values) != expected:
        collector.fail(
            f"{len(values)} predictions; the official test set of {name} has {expected}"
        )
    return values
