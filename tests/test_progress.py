"""Progress of a run: bars, HTML, lines, log.jsonl, TensorBoard, tables."""

from __future__ import annotations

import io
import json
import os
import sys
import types
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers_fake_model import FakeModel, accuracy, make_rows

from evolving_attention import progress_bar
from evolving_attention.cli.common import tell
from evolving_attention.cli.fine_tuning import TrainedRun
from evolving_attention.data.report import RowCollector
from evolving_attention.training import Trainer, TrainingArguments, progress
from evolving_attention.training.logging import JsonLinesCallback
from evolving_attention.training.results import metrics_table, print_metrics
from evolving_attention.training.state import TrainerState


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def run(
    folder: Path, *callbacks: Any, compute_metrics: Any = accuracy, **options: Any
) -> Trainer:
    args = TrainingArguments(
        str(folder / "out"),
        num_train_epochs=2,
        logging_steps=4,
        eval_strategy="epoch",
        save_strategy="no",
        **options,
    )
    trainer = Trainer(
        FakeModel(),
        args,
        train_dataset=make_rows(40),
        eval_dataset=make_rows(20, seed=2),
        compute_metrics=compute_metrics,
        callbacks=list(callbacks),
    )
    trainer.train()
    return trainer


def test_no_bar_where_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert progress.progress_callback(None) is None
    trainer = run(tmp_path)
    assert not any(
        isinstance(c, (progress.TerminalProgress, progress.NotebookProgress))
        for c in trainer.callback_handler.callbacks
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "step 4/10 loss" in shown.err
    assert "\r" not in shown.err
    assert "\x1b" not in shown.err


def test_the_display_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(progress.progress_callback(None), progress.TerminalProgress)
    assert progress.progress_callback(True) is None

    class ZMQInteractiveShell:
        pass

    notebook = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert isinstance(progress.progress_callback(None), progress.NotebookProgress)


def test_a_terminal_gets_a_bar_with_time_left_and_lines_above(tmp_path: Path) -> None:
    from rich.console import Console

    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=100, legacy_windows=False)
    run(tmp_path, progress.TerminalProgress(console), disable_tqdm=True)
    text = page.getvalue()
    assert "training" in text
    assert "10/10" in text
    assert "steps/s" in text
    assert "step 4: loss" in text
    assert "eval_accuracy" in text


def test_a_run_after_one_that_failed_in_an_evaluation_shows_its_bars(
    tmp_path: Path,
) -> None:
    from rich.console import Console

    screen = Console(file=io.StringIO(), force_terminal=True, width=100)
    bars = progress.TerminalProgress(screen)

    def failing(pair: Any) -> dict[str, float]:
        raise RuntimeError("no metric today")

    saved = pytest.warns(UserWarning, match="what was trained is saved")
    with pytest.raises(RuntimeError, match="today"), saved:
        run(tmp_path, bars, compute_metrics=failing, disable_tqdm=True)
    run(tmp_path, bars, overwrite_output_dir=True, disable_tqdm=True)
    assert "10/10" in screen.file.getvalue()


@pytest.mark.parametrize(
    ("left", "kept"), [('{"a": 1}\n{"b', 1), ('{"a": 1}', 1), ('{"b', 0), ("", 0)]
)
def test_a_log_line_torn_by_a_crash_is_removed(
    tmp_path: Path, left: str, kept: int
) -> None:
    log = tmp_path / "out" / "log.jsonl"
    log.parent.mkdir()
    log.write_text(left)
    callback = JsonLinesCallback()
    args = TrainingArguments(str(log.parent))
    callback.on_log(args, TrainerState(), None, logs={"loss": 1.0})
    callback.close()
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert records[:-1] == [{"a": 1}] * kept
    assert records[-1]["loss"] == 1.0


class Tables(HTMLParser):
    """Collects tags and the text of table cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        if self.rows and self.tags[-1] in ("td", "th"):
            self.rows[-1].append(data)


def test_a_notebook_gets_one_plain_html_page_updated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []

    class HTML:
        def __init__(self, data: str) -> None:
            pages.append(data)

    handle = types.SimpleNamespace(update=lambda page: None)
    shown: list[Any] = []

    def display(page: Any, display_id: bool) -> Any:
        shown.append(page)
        return handle

    module = types.ModuleType("IPython.display")
    module.HTML, module.display = HTML, display
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0)
    run(tmp_path, progress.NotebookProgress(), disable_tqdm=True)
    assert len(shown) == 1
    assert len(pages) > 10
    page = Tables()
    page.feed(pages[-1])
    assert not {"script", "iframe", "img"} & set(page.tags)
    header, *rows = page.rows
    assert {"step", "loss", "eval_loss", "eval_accuracy", "train_loss"} <= set(header)
    assert [row[0] for row in rows] == ["4", "5", "8", "10"]
    assert 'value="10" max="10"' in pages[-1]


def full() -> Any:
    return open("/dev/full", "w")


def closed() -> Any:
    stream = io.StringIO()
    stream.close()
    return stream


def without_reader() -> Any:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


@pytest.mark.parametrize("stream", [full, closed, without_reader, lambda: None])
def test_a_stderr_that_cannot_be_written_costs_no_work(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stream: Any,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream())
        trainer = run(tmp_path, disable_tqdm=True)
        run(tmp_path / "bar", progress.TerminalProgress(), disable_tqdm=True)
        print_metrics("eval", {"loss": 1.0})
        progress_bar._to_terminal("predict 1/2")
        rows = RowCollector("rows.csv", "report")
        for use in (rows.use, lambda: rows.reject(2, 1, "no label")):
            rows.seen()
            use()
        assert rows.finish().used == 1
        code = tell(RuntimeError("a bug"))
    assert (trainer.state.global_step, code) == (10, 70)
    assert capsys.readouterr().out == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_evaluation_outside_training_shows_a_bar_in_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands remove the displays of logs, but not this bar."""
    monkeypatch.setattr(progress_bar, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(progress_bar, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    made: list[Any] = []

    class Bar(progress_bar.ProgressBar):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(progress, "ProgressBar", Bar)
    trainer = run(tmp_path)  # two evaluations in training, shown by the run's display
    assert not made
    TrainedRun.remove_displays(None, trainer)  # type: ignore[arg-type]
    for work in (trainer.evaluate, lambda: trainer.predict(make_rows(20))):
        terminal.truncate(0)
        work()
        lines = terminal.getvalue().split("\r\x1b[K")[1:]
        parts = [line.split(",")[0] for line in lines]
        assert parts == [*(f"evaluation {i}/3" for i in (1, 2, 3)), "evaluation 3/3"]
        assert terminal.getvalue().endswith("\n")


def test_an_evaluation_without_training_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, lambda page, display_id: pages.append(page)
    pages: list[str] = []
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    args = TrainingArguments(str(tmp_path), disable_tqdm=True)
    trainer = Trainer(FakeModel(), args, callbacks=[progress.NotebookProgress()])
    trainer.evaluate(make_rows(20))
    assert "eval_loss" in pages[-1]
    assert "<progress" not in pages[-1]


def test_names_in_a_notebook_page_are_text() -> None:
    display = progress.NotebookProgress()
    display.clock = progress._Clock(0)
    display.rows = [{"step": 1, "<script>alert(1)</script>": "<img>"}]
    page = display.html(TrainerState(max_steps=3))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<img>" not in page


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65.4, "1:05"), (3600, "1:00:00"), (-3, "0:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_time_left_is_shown_from_the_fifth_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = progress._Clock(10)
    now[0] += 4
    assert clock.text(14, 50) == "0:04 < ?"
    now[0] += 6
    assert clock.text(20, 50) == "0:10 < 0:30, 1.0 steps/s"


def test_every_run_writes_json_lines(tmp_path: Path) -> None:
    trainer = run(tmp_path, disable_tqdm=True, run_name="first try", seed=7)
    lines = (tmp_path / "out" / "log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert records[0]["event"] == "train_begin"
    assert records[0]["run_name"] == "first try"
    assert records[0]["arguments"]["seed"] == 7
    assert records[-1]["event"] == "train_end"
    logged = [r for r in records if r["event"] == "log"]
    assert [(r["step"], r.get("loss")) for r in logged] == [
        (h["step"], h.get("loss")) for h in trainer.state.log_history
    ]
    assert all({"time", "step", "epoch"} <= set(r) for r in records)


def test_tensorboard_names_are_hugging_faces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, int]] = []
    opened: list[tuple[str, Any]] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int | None = None) -> None:
            opened.append((folder, purge_step))

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            written.append((tag, step))

        def add_text(self, tag: str, text: str) -> None:
            assert '"learning_rate"' in text

        def flush(self) -> None: ...

        def close(self) -> None:
            opened.append(("closed", None))

    module = types.ModuleType("tensorboardX")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    run(tmp_path, disable_tqdm=True, report_to="tensorboard")
    assert opened == [(str(tmp_path / "out" / "runs"), None), ("closed", None)]
    assert ("train/loss", 4) in written
    assert ("eval/accuracy", 5) in written
    assert ("train/learning_rate", 8) in written


def test_tensorboard_files_are_real(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    run(tmp_path, disable_tqdm=True, report_to="tensorboard", logging_dir=str(tmp_path))
    files = list(tmp_path.glob("events.out.tfevents*"))
    assert len(files) == 1
    assert b"train/loss" in files[0].read_bytes()


def test_tables_of_metrics() -> None:
    table = metrics_table("eval", {"eval_loss": 0.25, "eval_runtime": 65, "eval_n": 7})
    assert table.splitlines() == [
        "***** eval metrics *****",
        "  eval_loss    = 0.2500",
        "  eval_n       =      7",
        "  eval_runtime =   1:05",
    ]
