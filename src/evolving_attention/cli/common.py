"""Shared parts of all sub-commands: exit codes, messages, output, logging, fits.

Results go to stdout, everything else to stderr. A user's mistake gives one message
(what, where, what to do) without a traceback.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import io
import json
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

from evolving_attention import errors
from evolving_attention.notices import note

HELP_OPTIONS = {"help_option_names": ["--help", "-h"]}  # for every command

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ExitCode(enum.IntEnum):
    """Exit codes of the process; others are 128 + the number of a signal.

    Interrupted runs return that of their signal. 141, of SIGPIPE: the reader of the
    output exited before its end, as in ``git log | head -1``.
    """

    OK = 0
    FAILED_CHECK = 1
    USAGE = 2
    DATA = 3
    CHECKPOINT = 4
    BACKEND = 5
    INTERNAL = 70


# The first matching class is used, so subclasses come before their bases.
_CODES: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (errors.CheckpointError, ExitCode.CHECKPOINT),
    (errors.BackendUnavailable, ExitCode.BACKEND),
    (errors.MissingExtraError, ExitCode.BACKEND),
    (errors.KernelNotFound, ExitCode.BACKEND),
    (errors.ConfigError, ExitCode.USAGE),
    (errors.InputError, ExitCode.DATA),
    (errors.NonFiniteError, ExitCode.FAILED_CHECK),
    (errors.OutOfMemory, ExitCode.FAILED_CHECK),
    (errors.Error, ExitCode.FAILED_CHECK),
    (OSError, ExitCode.DATA),
)

_json_wanted = False


def exit_code(error: BaseException) -> int:
    """Returns the exit code for this error."""
    if isinstance(error, errors.Interrupted):
        return 128 + error.signal_number
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    for kind, code in _CODES:
        if isinstance(error, kind):
            return int(code)
    return int(ExitCode.BACKEND if _lacks_core(error) else ExitCode.INTERNAL)


def _lacks_core(error: BaseException) -> bool:
    """Whether the compiled core could not be loaded."""
    return isinstance(error, ImportError) and "_core" in str(error)


def _is_bug(error: BaseException) -> bool:
    return exit_code(error) == ExitCode.INTERNAL


def message(error: BaseException) -> str:
    """Returns the message for an error, in one paragraph."""
    if isinstance(error, errors.Interrupted):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if _is_bug(error):
        return (
            f"internal error: {type(error).__name__}: {error}. This is a bug of "
            "evolving-attention: please report it with the lines above and the output "
            "of `evolving-attention doctor`"
        )
    if _lacks_core(error):
        return (
            f"the compiled core cannot be loaded ({error}): install the package again "
            "(pip install .), then see evolving-attention doctor"
        )
    if isinstance(error, OSError) and not isinstance(error, errors.Error):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}: check the path and its permissions"
    return str(error)


def tell(error: BaseException) -> int:
    """Print an error's message, or a bug's traceback; return the exit code.

    Nothing is printed if the reader of the output has exited.
    """
    code = exit_code(error)
    if _is_bug(error):
        note("".join(traceback.format_exception(error)), end="")
    label = "" if isinstance(error, KeyboardInterrupt) else "error: "
    reader_left = isinstance(error, BrokenPipeError)
    if not reader_left:
        note(f"{label}{message(error)}")
    with contextlib.suppress(OSError):  # stdout may be the cause of the error
        if _json_wanted and not reader_left:
            kind = type(error).__name__
            told = {"error": kind, "message": message(error), "exit_code": code}
            print_json(told)
        _flush_stdout()
    return code


def guarded(function: _Function) -> _Function:
    """Convert exceptions of a sub-command to a message and an exit code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        import typer

        try:
            result = function(*args, **kwargs)
            _flush_stdout()
            return result
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(tell(error)) from None

    return run  # type: ignore[return-value]


def interrupted(
    name: str, folder: Path, epochs: int, n_epochs: int, best_epoch: int
) -> errors.Interrupted:
    """Returns the error after a signal ended a fit whose estimator was then saved.

    Args:
        name: name of the signal.
        folder: folder of the saved estimator.
        epochs, n_epochs, best_epoch: the finished epochs, the requested ones, and the
            epoch whose weights were kept.
    """
    return errors.Interrupted(
        f"{name} after {epochs} of {n_epochs} epochs: the best so far, epoch "
        f"{best_epoch}, is saved in {folder}; the same command trains it again from "
        "the beginning",
        signal.Signals[name],
    )


def fit(estimator: Any, *args: Any, **kwargs: Any) -> None:
    """Fit the estimator; on a signal keep the best epoch, for the caller to save.

    Raises:
        Interrupted: a signal came before there was an epoch to keep.
    """
    try:
        with warnings.catch_warnings():  # save_fitted reports the signal
            warnings.filterwarnings("ignore", "SIGINT after")
            estimator.fit(*args, **kwargs)
    except errors.Interrupted:
        if getattr(estimator, "interrupted_", None) is None:
            raise


def save_fitted(estimator: Any, folder: Path) -> None:
    """Save what :func:`fit` left, after removing the results of an earlier model.

    Of several processes, only the first one writes.

    Raises:
        Interrupted: a signal ended the fit.
    """
    from evolving_attention import distributed
    from evolving_attention.cli.repeat_results import RESULTS  # needs numpy

    if distributed.is_first():
        (folder / RESULTS).unlink(missing_ok=True)
        estimator.save(folder)
    if estimator.interrupted_ is not None:
        done = len(estimator.history_), estimator.n_epochs, estimator.best_epoch_
        raise interrupted(estimator.interrupted_, folder, *done)


def run_trainer(trainer: Any, checkpoint: bool | str | None) -> dict[str, Any]:
    """Train from the beginning or from a checkpoint, and return the metrics.

    Raises:
        Interrupted: a signal came; the message says how to continue.
    """
    try:
        return dict(trainer.train(resume_from_checkpoint=checkpoint).metrics)
    except errors.Interrupted as error:
        hint = f"{error}, or run the same command again"
        raise errors.Interrupted(hint, error.signal_number) from error


def _flush_stdout() -> None:
    """Write what stdout has buffered; what cannot be written is dropped.

    Python would report it once more at exit, and return exit code 120.

    Raises:
        OSError: it could not be written.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


@contextlib.contextmanager
def json_output(wanted: bool) -> Iterator[None]:
    """Inside the block, also write errors as JSON to stdout."""
    global _json_wanted
    before, _json_wanted = _json_wanted, wanted
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        import typer

        if isinstance(error, (typer.Exit, typer.Abort, typer.BadParameter)):
            raise
        raise typer.Exit(tell(error)) from None
    finally:
        _json_wanted = before


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; NaN and infinity become strings."""
    from evolving_attention.durable import plain

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # a character that the encoding lacks would become "?": another value
    escape = not encoding.lower().startswith("utf")
    print(json.dumps(plain(value), indent=2, ensure_ascii=escape))


def console(stderr: bool = False) -> Any:
    """Returns a rich console; honours NO_COLOR, without colours outside terminals."""
    from rich.console import Console

    def on_broken_pipe() -> None:  # rich would exit with code 1
        raise BrokenPipeError

    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    made.on_broken_pipe = on_broken_pipe
    return made


def set_up_process() -> None:
    """Prepare the streams and the warnings of a process that runs one command.

    A closed stream is replaced by an empty one, so that no other file takes its number.
    An output encoding that lacks a character shows "?" instead of it. Warnings are log
    messages: their line of source code is of no use to the reader.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            empty = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, empty)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _log_warning


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Replaces :func:`warnings.showwarning`."""
    logging.getLogger("evolving_attention").warning("warning: %s", message)


def set_up_logging(level: str = "passive") -> None:
    """Show the package's log messages on stderr, once.

    ``passive``: all messages, and of processes after the first only warnings.
    """
    from evolving_attention import distributed

    logger = logging.getLogger("evolving_attention")
    if not logger.handlers:
        to_stderr = logging.StreamHandler()
        to_stderr.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(to_stderr)
        logger.propagate = False
    for handler in logger.handlers:
        if type(handler) is logging.StreamHandler:
            handler.stream = sys.stderr  # stderr may have been replaced since
    if level == "passive":
        level = "info" if distributed.is_first() else "warning"
    logger.setLevel(level.upper())
