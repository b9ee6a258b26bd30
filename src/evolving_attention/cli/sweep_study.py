"""The study of a sweep: optuna's record of its trials, which outlives the process."""

from __future__ import annotations

import os
import random
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evolving_attention.cli.search_spaces import Range, Space, grid_of, size_of
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.errors import CheckpointError, ConfigError, require

FILE = "study.db"
_SEARCH, _FOLDER, _TOKEN = "search", "folder", "token"
_BUSY = 60  # seconds to wait for another process's write to the SQLite file
_ATTEMPTS = 5  # attempts to open a study that other processes are creating


class Study:
    """Asks for trials and reports their results; each call is stored at once.

    Args:
        args: options of the sweep.
        space: the search space.
        goal: name of the objective.
        direction: minimize or maximize.
        command: the training command.

    Raises:
        ConfigError: the stored study is for another command, space or objective.
        CheckpointError: the study cannot be read or written.
        MissingExtraError: optuna is not installed.
    """

    def __init__(
        self,
        args: SweepArguments,
        space: Space,
        goal: str,
        direction: str,
        command: str,
    ) -> None:
        optuna = self._optuna = require("optuna", extra="sweep", why="for sweeps")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.root, self.space = Path(str(args.output_dir)), space
        self.alone = args.storage is None
        self.where = args.storage or str(self.root / FILE)
        size = size_of(space)
        sampler = args.sampler or ("tpe" if size is None else "grid")
        if sampler == "grid" and size is None:
            ranges = [n for n, one in space.items() if isinstance(one, Range)]
            raise ConfigError(
                f"--sampler grid: {', '.join(ranges)} has a range, expected lists of "
                "values; list them, or choose tpe or random"
            )
        self.wanted = args.n_trials or (size if sampler == "grid" else 20) or 20
        self.distributions = {n: self._distribution(one) for n, one in space.items()}
        self._grid = grid_of(space) if sampler == "grid" else []
        random.Random(self._seed(args)).shuffle(self._grid)
        with self._reported():
            url = f"sqlite:///{self.where}" if self.alone else str(args.storage)
            self._study = self._open(url, args.study_name, direction)
            self._agree(goal, direction, command)
            count = len(self._study.trials)
            self._study.sampler = self._sampler(sampler, args, count)

    def _open(self, url: str, name: str, direction: str) -> Any:
        """Creates or opens the study of this name."""
        optuna, options = self._optuna, {}
        if url.startswith("sqlite:"):
            options = {"connect_args": {"timeout": _BUSY}}
        attempts = 1 if self.alone else _ATTEMPTS
        while True:
            attempts -= 1
            try:
                return optuna.create_study(
                    storage=optuna.storages.RDBStorage(url, options),
                    study_name=name,
                    direction=direction,
                    load_if_exists=True,
                    sampler=optuna.samplers.RandomSampler(),
                )
            except Exception:
                if not attempts:
                    raise
                time.sleep(0.5)  # creating the same tables at once can fail

    def _distribution(self, one: Any) -> Any:
        kinds = self._optuna.distributions
        if not isinstance(one, Range):
            return kinds.CategoricalDistribution(one.values)
        if one.whole:
            return kinds.IntDistribution(int(one.low), int(one.high), log=one.log)
        return kinds.FloatDistribution(one.low, one.high, log=one.log)

    def _sampler(self, name: str, args: SweepArguments, count: int) -> Any:
        """Returns a sampler whose draws differ after a restart and on each machine."""
        seed = (self._seed(args) + count) % (1 << 32)
        samplers = self._optuna.samplers
        if name == "random":
            return samplers.RandomSampler(seed)
        return samplers.TPESampler(seed=seed, constant_liar=args.workers > 1)

    def _seed(self, args: SweepArguments) -> int:
        """Returns a seed that differs per machine, so that choices rarely coincide."""
        if self.alone:
            return args.seed
        return args.seed + zlib.crc32(os.fsencode(self.root.resolve()))

    def _agree(self, goal: str, direction: str, command: str) -> None:
        """Record what a new study searches; compare it with an older one's record."""
        mine = {
            "command": command,
            "search space": {name: one.to_dict() for name, one in self.space.items()},
            "objective": goal,
            "direction": direction,
        }
        if _SEARCH not in self._study.user_attrs and not self._study.trials:
            self._study.set_user_attr(_SEARCH, mine)
        theirs = self._study.user_attrs.get(_SEARCH, {})
        for name, value in mine.items():
            if theirs.get(name) != value:
                raise ConfigError(
                    f"{self.where}: the study {self._study.study_name!r} has another "
                    f"{name} ({_short(theirs.get(name))}), expected {_short(value)}; "
                    "choose another --output_dir or --study_name"
                )

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Convert errors of the storage to CheckpointError."""
        import errno

        try:
            yield
        except (ConfigError, CheckpointError):
            raise
        except Exception as error:
            root: BaseException = error
            while cause := root.__cause__ or (
                None if root.__suppress_context__ else root.__context__
            ):
                root = cause
            full = "disk is full" in str(root) or "disk I/O" in str(root)
            advice = (
                "free disk space, then run the same command again"
                if full
                else "check the storage; a study that optuna cannot read must be moved "
                "away"
            )
            report = CheckpointError(
                f"{self.where}: the study cannot be used ({_short(root)}), expected a "
                f"storage of optuna; finished trials are kept. {advice}"
            )
            report.errno = errno.ENOSPC if full else None
            raise report from error

    # --------------------------------------------------------------------- trials

    def unfinished(self) -> list[Any]:
        """Returns trials that an earlier process of this folder did not finish."""
        with self._reported():
            state = self._optuna.trial.TrialState.RUNNING
            own = str(self.root.resolve())
            return [
                self._optuna.Trial(self._study, one._trial_id)
                for one in self._study.get_trials(states=(state,))
                if self.alone or one.user_attrs.get(_FOLDER) == own
            ]

    def ask(self) -> Any | None:
        """Returns the next trial; None: there are enough.

        If machines ask at the same moment, several may get the last trial, or the same
        setting of a grid. All of them see this afterwards, and the lowest number stays.
        """
        with self._reported():
            while True:
                begun = self._begun()
                left = [s for s in self._grid if all(s != t.params for t in begun)]
                if len(begun) >= self.wanted or (self._grid and not left):
                    return None
                trial = self._with(left[0]) if left else self._sampled()
                before = [one for one in self._begun() if one.number < trial.number]
                same = self._grid and any(t.params == trial.params for t in before)
                if len(before) < self.wanted and not same:
                    return trial
                state = self._optuna.trial.TrialState.PRUNED
                self._study.tell(trial, None, state=state)

    def _begun(self) -> list[Any]:
        """Returns the trials of all machines, except abandoned ones."""
        states = self._optuna.trial.TrialState
        others = (states.WAITING, states.PRUNED)
        found = self._study.get_trials(deepcopy=False)
        return [one for one in found if one.state not in others]

    def _sampled(self) -> Any:
        """Returns a new trial with the sampler's settings."""
        trial = self._study.ask(self.distributions)
        trial.set_user_attr(_FOLDER, str(self.root.resolve()))
        return trial

    def _with(self, setting: dict[str, Any]) -> Any:
        """Returns a new trial with this setting, stored atomically."""
        kinds, token = self._optuna.trial, secrets.token_hex(8)
        own = {_FOLDER: str(self.root.resolve()), _TOKEN: token}
        self._study.add_trial(
            kinds.create_trial(
                state=kinds.TrialState.RUNNING,
                params=setting,
                distributions=self.distributions,
                user_attrs=own,
            )
        )
        (made,) = (
            one._trial_id
            for one in self._study.get_trials(deepcopy=False)
            if one.user_attrs.get(_TOKEN) == token
        )
        return self._optuna.Trial(self._study, made)

    def tell(self, trial: Any, value: float | None, **attributes: Any) -> None:
        """Store the result of a trial; None: it failed."""
        with self._reported():
            self._tell_optuna(trial, value, attributes)

    def _tell_optuna(
        self, trial: Any, value: float | None, attributes: dict[str, Any]
    ) -> None:
        for name, one in attributes.items():
            trial.set_user_attr(name, one)
        states = self._optuna.trial.TrialState
        state = states.FAIL if value is None else states.COMPLETE
        self._study.tell(trial, value, state=state)

    def finished(self) -> list[Any]:
        """Returns trials with a result, the best first."""
        with self._reported():
            state = self._optuna.trial.TrialState.COMPLETE
            found = self._study.get_trials(states=(state,))
            high = self._study.direction.name == "MAXIMIZE"
            return sorted(found, key=lambda one: -one.value if high else one.value)

    def failed(self) -> list[Any]:
        """Returns trials without a result."""
        with self._reported():
            state = self._optuna.trial.TrialState.FAIL
            found: list[Any] = self._study.get_trials(states=(state,))
            return found


def _short(value: Any) -> str:
    text = str(value).splitlines()[0] if str(value) else type(value).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."
