"""Progress with time left: a bar in terminals, plain HTML in notebooks, else nothing.

In notebooks it is one HTML string shown with IPython.display, without widgets, so that
a saved notebook still shows it.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from evolving_attention.notices import LossyStream
from evolving_attention.progress_bar import ProgressBar, duration, in_notebook
from evolving_attention.training.callbacks import TrainerCallback
from evolving_attention.training.logging import one_line

REFRESH_SECONDS = 0.5
TIMINGS = ("_runtime", "_per_second")  # in the log files, not in the table
ESTIMATE_FROM_STEP = 5  # the first steps are slower than the rest


def progress_callback(disabled: bool | None) -> TrainerCallback | None:
    """Returns the display for this environment; None if disabled or not interactive."""
    if disabled:
        return None
    if in_notebook():
        return NotebookProgress()
    if sys.stderr is not None and sys.stderr.isatty():
        return TerminalProgress()
    return None


class EvaluationProgress(TrainerCallback):
    """A bar for evaluations outside training; the display of a run shows the others."""

    def __init__(self) -> None:
        self.trains = False
        self.bar: ProgressBar | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Leaves evaluations to the display of the run."""
        self.trains = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Shows evaluations again."""
        self.trains = False

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Moves the bar, a new one from the first batch on."""
        if self.trains:
            return
        done, total = kwargs["done"], kwargs["total"]
        if self.bar is None or done == 1:
            self.bar = ProgressBar("evaluation", total)
        self.bar.advance(done - self.bar.done)
        if done == total:
            self.bar.close()


class _Clock:
    """Measures elapsed and remaining time from the steps done in this process."""

    def __init__(self, first_step: int) -> None:
        self.first_step, self.begin = first_step, time.monotonic()

    def used(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begin

    def text(self, step: int, total: int) -> str:
        """``0:12 < 1:05, 7.6 steps/s``; no estimate during the first steps."""
        done = step - self.first_step
        if done < ESTIMATE_FROM_STEP:
            return f"{duration(self.used())} < ?"
        rate = done / max(self.used(), 1e-9)
        left = (total - step) / rate
        return f"{duration(self.used())} < {duration(left)}, {rate:.1f} steps/s"


class TerminalProgress(TrainerCallback):
    """A bar on stderr, drawn by rich, with logged values as lines above it.

    Training goes on where the terminal is closed.
    """

    def __init__(self, console: Any = None) -> None:
        self.console = self.given = console
        self.bar: Any = None
        self.task: Any = None
        self.evaluation: Any = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Shows the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.console = self.given or Console(file=LossyStream(sys.stderr))
        self.clock = _Clock(state.global_step)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[clock]}"),
            console=self.console,
            refresh_per_second=1 / REFRESH_SECONDS,
            transient=False,
        )
        self.bar.start()
        self.task = self.bar.add_task(
            "training", total=state.max_steps, completed=state.global_step, clock=""
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Moves the bar."""
        if self.bar is not None:
            self.bar.update(
                self.task,
                completed=state.global_step,
                clock=self.clock.text(state.global_step, state.max_steps),
            )

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Shows a second bar while an evaluation runs."""
        if self.bar is None:
            return
        if self.evaluation is None:
            self.evaluation = self.bar.add_task(
                "evaluation", total=kwargs["total"], clock=""
            )
        self.bar.update(self.evaluation, completed=kwargs["done"])

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Removes the second bar."""
        if self.bar is not None and self.evaluation is not None:
            self.bar.remove_task(self.evaluation)
        self.evaluation = None

    on_predict = on_evaluate

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints the values above the bar."""
        if self.console is not None:
            self.console.print(
                f"step {state.global_step}: {one_line(kwargs['logs'])}", highlight=False
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stops updating the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = self.evaluation = None


class NotebookProgress(TrainerCallback):
    """A bar and a table of logged values as one piece of HTML, updated in place."""

    def __init__(self) -> None:
        self.trains, self.clock = False, _Clock(0)
        self.rows: list[dict[str, Any]] = []
        self.handle: Any = None
        self.shown_at = 0.0
        self.note = ""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Starts with an empty table."""
        self.trains, self.rows, self.handle, self.note = True, [], None, ""
        self.clock = _Clock(state.global_step)
        self._show(state, force=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Moves the bar, at most twice a second."""
        self._show(state)

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Shows the progress of an evaluation during training."""
        if not self.trains:
            return
        self.note = f"evaluation {kwargs['done']}/{kwargs['total']}"
        self._show(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Removes the progress of the evaluation."""
        self.note = ""

    on_predict = on_evaluate

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Adds values to the table; those of one step share a row."""
        if not self.rows or self.rows[-1]["step"] != state.global_step:
            self.rows.append({"step": state.global_step})
        values = kwargs["logs"].items()
        self.rows[-1].update({n: v for n, v in values if not n.endswith(TIMINGS)})
        self._show(state, force=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Shows the last state."""
        self.trains = False
        self._show(state, force=True)

    def html(self, state: Any) -> str:
        """Returns the bar, if the model is trained, and the table."""
        clock = html.escape(self.clock.text(state.global_step, state.max_steps))
        bar = (
            f'<div><progress value="{state.global_step}" max="{state.max_steps}" '
            f'style="width:300px"></progress> {state.global_step}/{state.max_steps} '
            f"[{clock}] epoch {state.epoch:.2f} {html.escape(self.note)}</div>"
        )
        bar = bar if state.max_steps else ""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        if not names:
            return bar
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(row.get(n))}</td>" for n in names) + "</tr>"
            for row in self.rows
        )
        return (
            f"{bar}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _show(self, state: Any, force: bool = False) -> None:
        """Draw, unless the last drawing was a moment ago."""
        now = time.monotonic()
        if self.shown_at and not force and now - self.shown_at < REFRESH_SECONDS:
            return
        from IPython.display import HTML, display

        self.shown_at = now
        page = HTML(self.html(state))
        if self.handle is None:
            self.handle = display(page, display_id=True)
        else:
            self.handle.update(page)


def _cell(value: Any) -> str:
    """Formats one value of the table."""
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))
