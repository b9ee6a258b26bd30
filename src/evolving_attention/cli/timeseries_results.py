"""Results of a run on time series: scores, record, and tables of runs."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.errors import InputError


def scores(estimator: Any, part: Any) -> dict[str, float]:
    """Returns a classifier's accuracy, or a regressor's RMSE and mean absolute error.

    Raises:
        InputError: a label was not seen in training, or the targets are of another kind
            than the estimator's.
    """
    from evolving_attention.estimators.targets import class_numbers

    is_classifier = hasattr(estimator, "classes_")
    if is_classifier == part.is_regression:
        found, wanted = ("values", "labels") if is_classifier else ("labels", "values")
        raise InputError(
            f"{part.source}: its targets are {found}, expected {wanted} for a "
            f"{type(estimator).__name__}; use a model of the other kind"
        )
    _check_channels(estimator, part)
    if is_classifier:
        truth = class_numbers(part.y, estimator.classes_, f"labels of {part.source}")
        found = estimator.predict_proba(part).argmax(axis=1)
        return {"accuracy": float((found == truth).mean()), "series": len(truth)}
    error = estimator.predict(part) - part.y
    return {
        "rmse": float(np.sqrt((error**2).mean())),
        "mae": float(np.abs(error).mean()),
        "series": len(error),
    }


def prediction_rows(estimator: Any, part: Any) -> tuple[list[str], list[list[Any]]]:
    """Returns (header, rows) of a prediction table; classifiers add probabilities."""
    _check_channels(estimator, part)
    names = range(len(part)) if part.ids is None else part.ids
    key = "index" if part.ids is None else "id"
    if not hasattr(estimator, "classes_"):
        values = estimator.predict(part).tolist()
        return [key, "prediction"], [
            list(row) for row in zip(names, values, strict=True)
        ]
    odds = estimator.predict_proba(part)
    labels = estimator.classes_.tolist()
    header = [key, "prediction", *(f"probability_{label}" for label in labels)]
    best = [labels[i] for i in odds.argmax(axis=1)]
    return header, [
        [name, label, *(f"{p:.9g}" for p in row)]
        for name, label, row in zip(names, best, odds, strict=True)
    ]


def _check_channels(estimator: Any, part: Any) -> None:
    """Refuses a part with another number of channels than in training."""
    expected = estimator.metadata_["n_channels"]
    if part.channels != expected:
        raise InputError(
            f"{part.source}: {part.channels} channels, expected {expected} as in "
            "training; give the same columns"
        )


def check_scorable(
    train: Any, test: Any, max_length: int, missing: str, longer: str
) -> None:
    """Runs the checks of :func:`scores` on the test part before training.

    Args:
        train: the training part.
        test: the test part, of the same kind.
        max_length: longest series that the model will accept.
        missing, longer: the estimator's options of these names.

    Raises:
        InputError: a label that training lacks, a series that is too long, or a missing
            value that is refused.
        ShapeError, DTypeError: a series cannot be used.
    """
    from evolving_attention.data.series import as_series
    from evolving_attention.data.series_scaling import SeriesScaler
    from evolving_attention.estimators.targets import class_numbers

    if not test.is_regression:
        class_numbers(test.y, np.unique(train.y), f"labels of {test.source}")
    series = as_series(test.X, test.source)
    for i, one in enumerate(series):
        if one.shape[1] > max_length and longer == "error":
            raise InputError(
                f"{test.source}[{i}]: {one.shape[1]} time steps, expected at most "
                f"{max_length}, the model's max_length; add --longer cut or "
                "--longer resample, or train with "
                f"--max_length {max(x.shape[1] for x in series)}"
            )
    SeriesScaler("none", missing).refuse_missing(series, test.source)


def content_hash(part: Any, targets: bool = True) -> str:
    """Returns a hash of a part's series, channel names and, if wanted, its targets."""
    found = hashlib.blake2b(digest_size=16)
    for one in part.X:
        values = np.asarray(one, "<f8")
        found.update(f"{values.shape}".encode())
        found.update(values.tobytes())
    labels = None if part.y is None or not targets else np.asarray(part.y).tolist()
    found.update(repr((part.channel_names, labels)).encode())
    return found.hexdigest()


def run_record(
    result: Any, model: Any, seed: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Returns the contents of run.json for one training."""
    from evolving_attention.durable import plain

    best = result.history[result.best_epoch - 1]
    record: dict[str, Any] = plain(
        {
            "seed": seed,
            "options": {**options, "random_state": seed},
            "best_epoch": result.best_epoch,
            "epochs": len(result.history),
            "parameters": model.num_parameters(),
            "interrupted": result.interrupted,
            "fit_seconds": result.seconds,
            "validation": {
                name.removeprefix("validation_"): value
                for name, value in sorted(best.items())
                if name.startswith("validation_")
            },
            "history": result.history,
        }
    )
    return record


def one_line(record: dict[str, Any]) -> str:
    """Returns a one-line summary of a run."""
    parts = [f"epoch {record['best_epoch']} of {record['epochs']} kept"]
    for where in ("validation", "test"):
        for name, value in record.get(where, {}).items():
            if name != "series":
                parts.append(f"{where} {name} {float(value):.4f}")
    return ", ".join([*parts, f"{float(record['fit_seconds']):.1f} s"])


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Formats every seed's scores as aligned text, with mean and standard deviation."""
    rows: list[dict[str, Any]] = []
    for record in runs:
        row: dict[str, Any] = {
            "seed": str(record["seed"]),
            "epoch": float(record["best_epoch"]),
        }
        for where in ("validation", "test"):
            for name, value in record.get(where, {}).items():
                if name != "series":
                    row[f"{where} {name}"] = float(value)
        row["seconds"] = float(record["fit_seconds"])
        rows.append(row)
    names = list(rows[0])
    digits = {"epoch": 0, "seconds": 1}
    lines: list[list[str]] = [names]
    for r in rows:
        numbers = (f"{r[n]:.{digits.get(n, 4)}f}" for n in names[1:])
        lines.append([r["seed"], *numbers])
    if len(rows) > 1:
        spread = {n: np.array([r[n] for r in rows]) for n in names[1:]}
        for title, of in (("mean", np.mean), ("sd", lambda v: np.std(v, ddof=1))):
            cells = [f"{of(spread[n]):.{digits.get(n, 4)}f}" for n in names[1:]]
            lines.append([title, *cells])
    return align(lines)


def listed(results: Mapping[str, Any]) -> str:
    """Aligns a line for each result that is not None."""
    shown = {k: v for k, v in results.items() if v is not None}
    return align(
        [[k, f"{v:.6g}" if isinstance(v, float) else str(v)] for k, v in shown.items()]
    )


def predicted(
    model: Any, data: str, unit: str, found: list[Any], classes: list[Any]
) -> dict[str, Any]:
    """Returns the results of a command that has written predictions.

    Args:
        model: options of the command.
        data: name of the data.
        unit: what is predicted, such as ``series``.
        found: the predictions.
        classes: the classes to count; none for regression.
    """
    counts = {str(one): found.count(one) for one in classes}
    lines = [[unit, str(len(found))]]
    lines += [[f"predicted {one}", str(n)] for one, n in counts.items()]
    return {
        "model": model.model_dir,
        "data": data,
        "output_file": model.output_file,
        unit: len(found),
        "predicted": counts,
        "table": align([*lines, ["written to", model.output_file]]),
    }


def write_csv(file: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write a .csv file; file names that are not UTF-8 keep their bytes."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    durable.write_bytes(file, text.getvalue().encode("utf-8", "surrogateescape"))


def worst_confusions(matrix: Any, names: list[str]) -> dict[str, int]:
    """Returns the five most frequent errors of a confusion matrix, and their counts."""
    found = [
        (int(count), names[true], names[other])
        for (true, other), count in np.ndenumerate(matrix)
        if true != other and count
    ]
    worst = sorted(found, key=lambda one: (-one[0], *one[1:]))[:5]
    return {f"{true} taken for {other}": count for count, true, other in worst}


def align(lines: Sequence[Sequence[str]]) -> str:
    """Aligns columns of text: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        [row[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        for row in lines
    ]
    return "\n".join("  ".join(row).rstrip() for row in shown)
