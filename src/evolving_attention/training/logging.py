"""Writers of logged values: always JSON lines; text or TensorBoard on demand."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import time
import warnings
from typing import Any, TextIO

from evolving_attention.durable import plain
from evolving_attention.errors import CheckpointError, require
from evolving_attention.notices import note
from evolving_attention.training.callbacks import TrainerCallback

LOGGER = logging.getLogger("evolving_attention")


def set_log_level(name: str) -> None:
    """Sets the level of the package's logger; ``passive`` keeps the current level."""
    if name != "passive":
        LOGGER.setLevel(name.upper())


def one_line(values: dict[str, Any]) -> str:
    """Formats logged values as text without speeds: ``loss 0.6931 · epoch 1.00``."""
    parts = []
    for name, value in values.items():
        if name.endswith("_per_second"):
            continue
        if isinstance(value, float):
            value = f"{value:.2f}" if name == "epoch" else f"{value:.4g}"
        parts.append(f"{name} {value}")
    return " · ".join(parts)


def _end_last_line(path: pathlib.Path) -> None:
    """Removes a last line that a crash left incomplete; ends one that is complete."""
    if not path.is_file():
        return
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read() in (b"", b"\n"):
            return
        file.seek(0)
        whole = file.read()
        begin = whole.rfind(b"\n") + 1
        try:
            json.loads(whole[begin:])
        except ValueError:
            file.truncate(begin)
        else:
            file.write(b"\n")


class JsonLinesCallback(TrainerCallback):
    """Appends every event to ``<output_dir>/log.jsonl``, one JSON object per line.

    Keys: ``time`` (seconds since 1970), ``event`` (train_begin, log, save, train_end),
    ``step``, ``epoch``, and for ``log`` the values. A resumed run appends; its
    train_begin names the first step.
    """

    def __init__(self) -> None:
        self.file: TextIO | None = None
        self.told = False  # whether the user was warned of lost lines

    def _write(self, args: Any, state: Any, event: str, **values: Any) -> None:
        record = {
            "time": round(time.time(), 3),
            "event": event,
            "step": state.global_step,
            "epoch": state.epoch,
            **values,
        }
        line = json.dumps(plain(record)) + "\n"
        path = pathlib.Path(args.output_dir) / "log.jsonl"
        try:
            if self.file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                _end_last_line(path)
                self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115
            self.file.write(line)
            self.file.flush()
        except OSError as error:
            told, self.told = self.told, True
            if event == "train_begin":  # nothing is lost yet
                raise CheckpointError(
                    f"cannot write {path} ({error.strerror}), expected a folder to "
                    "write checkpoints and logs to; choose another output_dir"
                ) from error
            if not told:
                warnings.warn(
                    f"cannot write {path} ({error.strerror}); training continues "
                    "without some of its lines: free disk space",
                    stacklevel=2,
                )
            self.close()

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Opens the file and describes the run."""
        self.told = False
        self._write(
            args,
            state,
            "train_begin",
            run_name=args.run_name or args.output_dir,
            max_steps=state.max_steps,
            num_train_epochs=state.num_train_epochs,
            arguments=args.to_dict(),
        )

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the logged values."""
        self._write(args, state, "log", **kwargs["logs"])

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes that a checkpoint was committed."""
        self._write(args, state, "save")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the end and closes."""
        self._write(args, state, "train_end")
        self.close()

    def close(self) -> None:
        """Closes the file; a later event opens it again."""
        if self.file is not None:
            with contextlib.suppress(OSError):  # lines that do not fit
                self.file.close()
            self.file = None

    def __del__(self) -> None:
        self.close()


class ConsoleCallback(TrainerCallback):
    """Prints logged values as lines on stderr if there is no progress bar."""

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Prints one line."""
        place = f"step {state.global_step}/{state.max_steps}" if state.max_steps else ""
        note(f"{place} {one_line(kwargs['logs'])}")


class TensorBoardCallback(TrainerCallback):
    """Writes logged numbers as TensorBoard scalars, using tensorboardX.

    Names follow Hugging Face: ``train/loss``, ``eval/accuracy``. Events after the step
    from which a run resumes are hidden.

    Args:
        logging_dir: folder; default: ``args.logging_dir``, or ``<output_dir>/runs``.

    Raises:
        MissingExtraError: tensorboardX is not installed (extra ``tb``).
    """

    def __init__(self, logging_dir: str | None = None) -> None:
        self.module = require(
            "tensorboardX", extra="tb", why="for report_to=tensorboard"
        )
        self.logging_dir, self.writer = logging_dir, None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Opens the event file."""
        folder = self.logging_dir or args.logging_dir
        folder = folder or str(pathlib.Path(args.output_dir) / "runs")
        purge = state.global_step + 1 if state.global_step else None
        writer = self.module.SummaryWriter(folder, purge_step=purge)
        text = json.dumps(plain(args.to_dict()), indent=2)
        writer.add_text("args", f"```\n{text}\n```")
        self.writer = writer

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes every number."""
        if self.writer is None:
            return
        for name, value in kwargs["logs"].items():
            if isinstance(value, (int, float)):
                kind, _, rest = name.partition("_")
                tag = f"{kind}/{rest}" if kind in ("eval", "test") else f"train/{name}"
                self.writer.add_scalar(tag, value, state.global_step)
        self.writer.flush()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Closes the event file."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
