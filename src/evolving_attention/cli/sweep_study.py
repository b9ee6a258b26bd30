"""The study of a sweep: optuna's record of its trials, which outlives the process."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evolving_attention.cli.search_spaces import Range, Space, grid_of, size_of
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.errors import CheckpointError, ConfigError, require

__all__ = ["FILE", "Study"]

FILE = "study.db"
_SPACE, _FOLDER = "space", "folder"


class Study:
    """Asks for trials and is told their results; each call is stored at once.

    Args:
        args: options of the sweep.
        space: what is searched.
        goal: name of the objective.
        direction: minimize or maximize.

    Raises:
        ConfigError: the stored study is of another space or objective.
        CheckpointError: it cannot be read or written.
        MissingExtraError: optuna is not installed.
    """

    def __init__(
        self, args: SweepArguments, space: Space, goal: str, direction: str
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
        random.Random(args.seed).shuffle(self._grid)
        with self._reported():
            self._study = optuna.create_study(
                storage=f"sqlite:///{self.where}" if self.alone else args.storage,
                study_name=args.study_name,
                direction=direction,
                load_if_exists=True,
                sampler=optuna.samplers.RandomSampler(),
            )
            self._agree(goal, direction)
            count = len(self._study.trials)
            self._study.sampler = self._sampler(sampler, args, count)

    def _distribution(self, one: Any) -> Any:
        kinds = self._optuna.distributions
        if not isinstance(one, Range):
            return kinds.CategoricalDistribution(one.values)
        if one.whole:
            return kinds.IntDistribution(int(one.low), int(one.high), log=one.log)
        return kinds.FloatDistribution(one.low, one.high, log=one.log)

    def _sampler(self, name: str, args: SweepArguments, count: int) -> Any:
        """A sampler that draws anew after a restart, and on every machine."""
        seed = args.seed + count
        if not self.alone:
            seed += zlib.crc32(str(self.root.resolve()).encode())
        seed %= 1 << 32
        samplers = self._optuna.samplers
        if name == "random":
            return samplers.RandomSampler(seed)
        return samplers.TPESampler(seed=seed, constant_liar=args.workers > 1)

    def _agree(self, goal: str, direction: str) -> None:
        """Mark a new study with its space and objective; compare an older one's."""
        mine = {
            _SPACE: {name: one.to_dict() for name, one in self.space.items()},
            "objective": goal,
            "direction": direction,
        }
        theirs = self._study.user_attrs
        if not theirs and not self._study.trials:
            for name, value in mine.items():
                self._study.set_user_attr(name, value)
            return
        for name, value in mine.items():
            if theirs.get(name) != value:
                what = "search space" if name == _SPACE else name
                raise ConfigError(
                    f"{self.where}: the study {self._study.study_name!r} has another "
                    f"{what} ({_short(theirs.get(name))}), expected {_short(value)}; "
                    "choose another --output_dir or --study_name"
                )

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn errors of the storage into CheckpointError."""
        import errno

        try:
            yield
        except (ConfigError, CheckpointError):
            raise
        except Exception as error:
            cause: BaseException | None = error
            text = ""
            while cause is not None:
                text, cause = f"{text} {cause}", cause.__cause__ or cause.__context__
            full = "disk is full" in text or "disk I/O" in text
            advice = (
                "free disk space, then run the same command again"
                if full
                else "check the storage; a study that optuna cannot read must be moved "
                "away"
            )
            report = CheckpointError(
                f"{self.where}: the study cannot be used ({_short(error)}), expected a "
                f"storage of optuna; finished trials are kept. {advice}"
            )
            report.errno = errno.ENOSPC if full else None
            raise report from error

    # --------------------------------------------------------------------- trials

    def unfinished(self) -> list[Any]:
        """Trials that an earlier process of this folder began and did not end."""
        with self._reported():
            state = self._optuna.trial.TrialState.RUNNING
            own = str(self.root.resolve())
            return [
                self._optuna.Trial(self._study, one._trial_id)
                for one in self._study.get_trials(states=(state,))
                if one.user_attrs.get(_FOLDER, own if self.alone else None) == own
            ]

    def ask(self) -> Any | None:
        """The next trial; None: there are enough."""
        with self._reported():
            states = self._optuna.trial.TrialState
            begun = self._study.get_trials(deepcopy=False)
            waiting = sum(one.state == states.WAITING for one in begun)
            if len(begun) - waiting >= self.wanted:
                return None
            if self._grid and not waiting:
                left = [s for s in self._grid if all(s != t.params for t in begun)]
                if not left:
                    return None
                self._study.enqueue_trial(left[0])
            trial = self._study.ask(self.distributions)
            trial.set_user_attr(_FOLDER, str(self.root.resolve()))
            return trial

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
        """Trials with a result, the best first."""
        with self._reported():
            state = self._optuna.trial.TrialState.COMPLETE
            found = self._study.get_trials(states=(state,))
            high = self._study.direction.name == "MAXIMIZE"
            return sorted(found, key=lambda one: -one.value if high else one.value)

    def failed(self) -> list[Any]:
        """Trials without a result."""
        with self._reported():
            state = self._optuna.trial.TrialState.FAIL
            found: list[Any] = self._study.get_trials(states=(state,))
            return found


def _short(value: Any) -> str:
    text = str(value).splitlines()[0] if str(value) else type(value).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."
