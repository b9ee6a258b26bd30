"""Loss and metric curves of one or several runs, from their JSON-lines logs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolving_attention.errors import ConfigError, DataError, InputError
from evolving_attention.plots.figures import GREY, INK, colours, draw_frame, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Log = str | os.PathLike[str] | Sequence[Mapping[str, Any]]

# Values that an evaluation reports in addition to its metrics.
_NOT_METRICS = ("runtime", "samples", "samples_per_second", "steps_per_second", "loss")


def read_log(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Reads a JSON-lines log, or the ``log_history`` of a trainer_state.json.

    A folder stands for its ``log.jsonl``. An incomplete last line, left by a crash, is
    ignored; anything else that is not JSON is an error.

    Raises:
        DataError: a line is not a JSON object, or a .json file has no ``log_history``.
        InputError: the file does not exist.
    """
    path = Path(path)
    path = path / "log.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise InputError(
            f"[read_log] no file {str(path)!r}: pass a run's output_dir or log.jsonl"
        )
    if path.suffix == ".json":
        return _history_of(path)
    records = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no line end: the write was incomplete
                break
            raise DataError(
                f"not JSON ({error}): remove the line", str(path), number
            ) from error
        if not isinstance(record, dict):
            raise DataError("expected a JSON object", str(path), number)
        records.append(record)
    return records


def _history_of(path: Path) -> list[dict[str, Any]]:
    """Returns the ``log_history`` of a trainer_state.json."""
    try:
        state = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"not JSON ({error}), expected a run's trainer_state.json; pass the run's "
            "output_dir or log.jsonl",
            str(path),
        ) from error
    records = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(records, list) or not all(isinstance(r, dict) for r in records):
        raise DataError(
            "has no log_history of JSON objects, expected a run's trainer_state.json; "
            "pass the run's output_dir or log.jsonl, or the history_ of an estimator",
            str(path),
        )
    return records


def _is_number(value: Any) -> bool:
    """Whether a value can be drawn: not text, NaN, or beyond float64."""
    real: Any = value if isinstance(value, Real) else math.nan
    return bool(abs(real) <= sys.float_info.max)


def _drawn(value: Any) -> float:
    return float(value) if _is_number(value) else math.nan


def _checked(
    name: str, log: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Returns the records of a log, whose steps and epochs must be numbers.

    Raises:
        InputError: names the first record of another kind.
    """
    for number, record in enumerate(log, start=1):
        usable = isinstance(record, Mapping)
        if not usable or not all(
            _is_number(record[key]) for key in ("step", "epoch") if key in record
        ):
            raise InputError(
                f"[training_curves] record {number} of log {name!r} is "
                f"{record!r:.80}, expected an object whose 'step' and 'epoch' are "
                "numbers; remove it"
            )
    return log


def _series(
    records: Sequence[Mapping[str, Any]], key: str, x: str
) -> tuple[list[float], list[float]]:
    """Returns ``x`` and ``key`` of the last record of each step that has ``key``.

    Values that cannot be drawn are NaN: the line has a gap there.
    """
    points = {
        float(record["step"]): (float(record[x]), _drawn(record[key]))
        for record in records
        if "step" in record and isinstance(record.get(key), Real)
    }
    ordered = [points[step] for step in sorted(points)]
    return [at for at, _ in ordered], [value for _, value in ordered]


def _metrics(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Returns the names of evaluation metrics that occur in any run, in order."""
    names: dict[str, None] = {}
    for records in runs.values():
        for record in records:
            for key, value in record.items():
                short = key.removeprefix("eval_")
                is_metric = short != key and not short.endswith(_NOT_METRICS)
                if is_metric and isinstance(value, Real):
                    names[key] = None
    return list(names)


def _are_histories(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    """Whether the runs are estimators' ``history_``, with a record for each epoch.

    Raises:
        InputError: some are, and others have steps.
    """
    kinds = {
        all("epoch" in r and "step" not in r for r in records): name
        for name, records in runs.items()
        if records
    }
    if len(kinds) == 2:
        raise InputError(
            f"[training_curves] {kinds[True]!r} counts epochs (the history_ of an "
            f"estimator) and {kinds[False]!r} steps; draw them in two figures"
        )
    return True in kinds


def _by_epoch(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Converts the records of an estimator's ``history_`` to those of a log."""
    return [
        {
            "step" if key == "epoch" else key.replace("validation_", "eval_"): value
            for key, value in record.items()
        }
        for record in records
    ]


def _with_seconds(name: str, log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Adds ``seconds`` of training to the records of a log.

    The clock runs from each train_begin to its train_end. A run that resumes at step s
    repeats the later steps: their earlier records are dropped, and the clock continues
    from its value at step s.
    """
    found: list[dict[str, Any]] = []
    seconds, before, runs = 0.0, None, True
    for number, record in enumerate(log, start=1):
        time, event = record.get("time"), record.get("event")
        if not _is_number(time):
            raise InputError(
                f"[training_curves] over='seconds': record {number} of log {name!r} "
                "has no 'time', expected the log.jsonl of a run (trainer_state.json "
                "and history_ keep no times); draw it over='steps'"
            )
        if event == "train_begin":
            step = record.get("step", 0)
            found = [one for one in found if one.get("step", 0) <= step]
            seconds, runs = found[-1]["seconds"] if found and step else 0.0, True
        elif before is not None and runs:
            seconds += max(0.0, time - before)  # a clock may be set back
        runs, before = runs and event != "train_end", time
        found.append({**record, "seconds": seconds})
    return found


def _panel(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=11, color=INK, loc="left", fontweight="bold")
    axes.set_xlabel(unit, fontsize=9, color=GREY)
    axes.grid(True, color="#e4e4ea", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.get_major_locator().set_params(integer=unit != "seconds")
    axes.tick_params(labelsize=8.5, colors=INK, length=2)
    draw_frame(axes, "left", "bottom")


def _runs_of(
    logs: Log | Mapping[str, Log], over: str
) -> tuple[dict[str, Sequence[Mapping[str, Any]]], str, str]:
    """Returns the records of each run, the key of their x values, and its unit."""
    named = logs if isinstance(logs, Mapping) else {"": logs}
    runs: dict[str, Sequence[Mapping[str, Any]]] = {
        name: _checked(
            name, read_log(log) if isinstance(log, (str, os.PathLike)) else log
        )
        for name, log in named.items()
    }
    if over == "seconds":
        return {k: _with_seconds(k, log) for k, log in runs.items()}, over, over
    if _are_histories(runs):
        return {k: _by_epoch(log) for k, log in runs.items()}, "step", "epoch"
    return runs, "step", "step"


def training_curves(
    logs: Log | Mapping[str, Log],
    metrics: str | Sequence[str] | None = None,
    *,
    over: str = "steps",
) -> Figure:
    """Draw training and evaluation loss and the metrics over the steps or seconds.

    Args:
        logs: a log (path of a run's folder, of a .jsonl or trainer_state.json file, or
            its records; or the ``history_`` of a time-series estimator, drawn over the
            epochs), or ``{"name of run": log}`` for several in one figure.
        metrics: keys to draw in addition to the loss, for example ``["eval_f1"]``; None
            draws every metric that the evaluations reported.
        over: ``"steps"``, or ``"seconds"`` to compare runs after the same wall-clock
            time (Wang et al., 2021, Figure 5). The seconds include evaluations and
            checkpoints, but not the pause before a run resumes, nor steps it repeats.

    Returns:
        A matplotlib figure with one panel for the loss and one per metric. Training is
        a thin line, evaluation a line with dots; a loss or metric that is NaN or
        infinite leaves a gap.

    Raises:
        ConfigError: ``over`` is unknown.
        InputError: nothing to draw: no record has a step with a loss or metric, or
            none has one of ``metrics``; logs of steps beside a ``history_`` of epochs;
            or seconds of a log without times: only a run's log.jsonl has them; or a
            record whose step or epoch is no number.
        DataError: a log is not JSON lines, or a .json file has no ``log_history``.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> log = [{"step": 1, "loss": 0.7}, {"step": 2, "loss": 0.5}]
        >>> figure = training_curves(log)
    """
    if over not in ("steps", "seconds"):
        raise ConfigError(
            f"[training_curves] over={over!r}, expected 'steps' or 'seconds'; pick one"
        )
    runs, x, unit = _runs_of(logs, over)
    given = [metrics] if isinstance(metrics, str) else metrics
    panels = list(_metrics(runs) if given is None else given)
    if unit == "epoch":
        panels = [key.replace("validation_", "eval_") for key in panels]
    drawn = 0
    width = 4.4 * (1 + len(panels)) + 0.4
    figure = new_figure(width, 3.4)
    all_axes = figure.subplots(1, 1 + len(panels), squeeze=False)[0]
    _panel(all_axes[0], "loss", unit)
    for axes, key in zip(all_axes[1:], panels, strict=True):
        _panel(axes, key.removeprefix("eval_").replace("_", " "), unit)
    own = colours(len(runs))
    for colour, (name, records) in zip(own, runs.items(), strict=True):
        drawn += _line(
            all_axes[0], records, (x, "loss"), colour, f"{name} train".strip()
        )
        keys = ["eval_loss", *panels]
        for axes, key in zip(all_axes, keys, strict=True):
            label = f"{name} eval".strip()
            drawn += _line(axes, records, (x, key), colour, label, dots=True)
    if not drawn:
        raise InputError(
            "[training_curves] no record has a step with a loss or a metric: pass the "
            "log.jsonl of a run that trained or evaluated at least once, or the "
            "history_ of a fitted estimator"
        )
    for axes, key in zip(all_axes[1:], panels, strict=True):
        if not axes.get_lines():
            raise InputError(
                f"[training_curves] metrics: no record has a number {key!r}, expected "
                f"keys of the records, such as {', '.join(_metrics(runs)) or 'none'}"
            )
    for axes in all_axes:
        _legend(axes)
    figure.tight_layout()
    return figure


def _legend(axes: Axes) -> None:
    """Names every line; matplotlib leaves out labels that begin with "_"."""
    if lines := axes.get_lines():
        placeholders = ["run"] * len(lines)
        legend = axes.legend(
            lines, placeholders, fontsize=8, frameon=False, labelcolor=INK
        )
        for text, line in zip(legend.get_texts(), lines, strict=True):
            text.set_text(line.get_label())


def _line(
    axes: Axes,
    records: Sequence[Mapping[str, Any]],
    keys: tuple[str, str],
    colour: str,
    label: str,
    *,
    dots: bool = False,
) -> int:
    """Draws one series, (x, y) = ``keys``; returns 1 if it has any values, else 0."""
    at, values = _series(records, keys[1], keys[0])
    if not at:
        return 0
    if dots or len(at) == 1:  # one point has no line to see
        axes.plot(at, values, "o-", color=colour, ms=4, lw=1.6, label=label)
    else:
        axes.plot(at, values, color=colour, lw=1.1, alpha=0.75, label=label)
    return 1
