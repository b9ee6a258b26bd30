"""The team of a run of several processes.

A step of W processes that accumulate ``a`` batches each equals the step of one process
that accumulates W·a: the same batches in the same order (rank i mod W takes batch i),
the same dropout, gradients and losses summed in the same order. Weights, logs and
checkpoints are bit-identical.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.device_names import host_array
from evolving_attention.errors import (
    ConfigError,
    InputError,
    Interrupted,
    NonFiniteError,
    PeerLost,
)
from evolving_attention.training import runtime
from evolving_attention.training.alone import Alone
from evolving_attention.training.interrupts import SignalReceived
from evolving_attention.training.state import TrainerControl

# Arguments that may differ between ranks: they do not change the result.
_OWN_ARGUMENTS = ("num_threads", "log_level", "disable_tqdm", "logging_dir", "run_name")
_MEGABYTE = 1 << 20


def join(args: Any) -> Alone:
    """Returns this process's team: a :class:`Team` if a launcher started several.

    Raises:
        ConfigError: the launcher's variables or the arguments do not allow it.
        MissingExtraError, BackendUnavailable, PeerLost: the others are unreachable.
    """
    from evolving_attention import distributed

    world = distributed.world()
    return Alone() if world is None else Team(world, args)


class Team(Alone):
    """A run of several processes; all of them must call every method.

    Raises:
        ConfigError: an argument has no meaning for several processes, or differs.
    """

    _is_watching = False
    _failure: BaseException | None = None  # of the run that ends

    def __init__(self, world: Any, args: Any) -> None:
        self.world, self.rank, self.size = world, world.rank, world.size
        self.is_first, self.local_rank = self.rank == 0, world.local_rank
        self._signalled = False
        self._links: Any = None
        world.timeout = float(args.ddp_timeout)
        if args.auto_find_batch_size:
            raise ConfigError(
                f"TrainingArguments: auto_find_batch_size=True with {self.size} "
                "processes, expected False: all ranks must split batches alike; lower "
                "per_device_train_batch_size, or set gradient_checkpointing=True"
            )
        shared = {
            name: repr(value)
            for name, value in args.to_dict().items()
            if name not in _OWN_ARGUMENTS
        }
        with self.watching(args.output_dir):
            self.check_same(
                "TrainingArguments", shared, "give every process the same arguments"
            )

    def threads(self, wanted: int | None) -> int | None:
        """Returns this rank's share of the usable CPUs, unless a number is given."""
        if wanted is not None or os.environ.get("EA_NUM_THREADS"):
            return wanted
        cores = self.world.cores
        mine = cores[self.world.local_rank]
        sharing = sum(not set(mine).isdisjoint(others) for others in cores)
        return max(1, min(len(mine), runtime.usable_cpus()) // sharing)

    def device(self, args: Any) -> str:
        """Returns the CPU (also for "auto"), or this rank's GPU.

        Raises:
            ConfigError: the name is not "cuda", or there are more ranks than GPUs.
            BackendUnavailable: a rank has no usable GPU, or no NCCL.
        """
        if args.use_cpu or args.device in ("auto", "cpu"):
            return "cpu"
        from evolving_attention.distributed.links import device_of_rank

        with self.watching(args.output_dir):
            return device_of_rank(self.world, str(args.device))

    @contextlib.contextmanager
    def watching(self, output_dir: str) -> Iterator[None]:
        """Notifies the others if this rank fails, and the user if another did."""
        if self._failure is not None:
            raise self._failure
        is_outermost, self._is_watching = not self._is_watching, True
        try:
            yield
        except Interrupted:  # all ranks leave
            raise
        except BaseException as error:
            lost = self._notify(error)
            if not lost:
                raise
            if is_outermost:  # a checkpoint may be saved until then
                lost = f"{lost}; {_way_on(output_dir)}"
            raise PeerLost(lost) from error
        finally:
            self._is_watching = not is_outermost
            if is_outermost:
                self._failure = None

    @contextlib.contextmanager
    def alarming(self) -> Iterator[None]:
        """Notifies the others before ``on_train_end`` if this rank fails in training.

        Until ``train`` ends, evaluations raise the same error again: their messages
        would meet those of the step that the others are in.
        """
        try:
            yield
        except (Interrupted, SignalReceived, NonFiniteError):  # all are at one point
            raise
        except BaseException as error:
            self._failure = error
            self._notify(error)
            raise

    def _notify(self, error: BaseException) -> str:
        """Tells the others why this rank fails; returns the reason if one is lost."""
        lost = str(error) if isinstance(error, PeerLost) else ""
        if self._links is not None:
            lost = lost or self._links.reason  # the cause
            self._links.end()
        self.world.alarm(lost or f"{type(error).__name__}: {error}")
        return lost

    def check_same(self, what: str, value: Any, remedy: str) -> None:
        """Compares with rank 0; a dict is compared by name.

        Raises:
            ConfigError: on all ranks, if one differs.
        """
        every = self.world.values(value if isinstance(value, dict) else {"": value})
        for rank, theirs in enumerate(every):
            for name in sorted({*every[0], *theirs}):
                own, first = theirs.get(name), every[0].get(name)
                if own != first:
                    joined = "." if what.isidentifier() else " "
                    label = f"{what}{joined}{name}" if name else what
                    raise ConfigError(
                        f"distributed: {label} is {own} on rank {rank} and {first} on "
                        f"rank 0, expected the same on all {self.size} ranks; {remedy}"
                    )

    def compare_start(self, path: Path | None, fingerprint: dict[str, Any]) -> None:
        """Raises if a rank would train differently from rank 0.

        Raises:
            ConfigError: on all ranks, if one differs.
        """
        self.check_same(
            "the checkpoint to go on from",
            "none" if path is None else path.name,
            "output_dir must be one folder that all ranks see",
        )
        self.check_same("the run's", fingerprint, "give all the same data and model")

    def first(self, value: Any) -> Any:
        """Returns rank 0's value, which must be JSON-serialisable."""
        return self.world.values(value if self.is_first else None)[0]

    def gather(self, values: list[Any]) -> list[Any]:
        """Returns the lists of all ranks, concatenated in rank order."""
        return [item for part in self.world.values(values) for item in part]

    def arrays(self, array: np.ndarray) -> np.ndarray:
        """Returns all ranks' arrays, concatenated; empty ones may have any shape."""
        parts = self.world.arrays([array if len(array) else None])
        found = [part for (part,) in parts if part is not None]
        return np.concatenate(found) if found else array

    def stopped(self, guard: Any) -> bool:
        """Whether the ranks have agreed to leave."""
        return guard is not None and self._signalled

    def agree(self, control: Any, guard: Any) -> None:
        """Shares signals among all ranks, and adopts rank 0's decisions."""
        number = None if guard is None else guard.received
        # A comparison of NumPy's numbers is not a bool, which JSON needs.
        mine = {f.name: bool(getattr(control, f.name)) for f in fields(TrainerControl)}
        every = self.world.values([number, mine])
        for name, value in every[0][1].items():
            setattr(control, name, value)
        received = [theirs[0] for theirs in every if theirs[0] is not None]
        if received and guard is not None:
            guard.received, self._signalled = received[0], True

    def begin(self, model: Any, draw: Callable[[], Any], bucket_mb: float) -> None:
        """Adopts rank 0's weights; counts the random passes of one batch.

        Args:
            model: equal on all ranks except for the weights.
            draw: computes the loss of some batch.
            bucket_mb: megabytes of gradients sent together.
        """
        from evolving_attention.distributed.gradients import GradientSum
        from evolving_attention.distributed.links import links

        buffers = [name for name, _ in getattr(model, "named_buffers", tuple)()]
        if buffers:
            raise ConfigError(
                f"Trainer: {type(model).__name__} keeps running statistics "
                f"({buffers[0]}) with {self.size} processes, expected none: every rank "
                "would have its own; train it in one process"
            )
        named = list(model.named_parameters())
        shapes = {name: [*p.shape, str(p.dtype)] for name, p in named}
        self.check_same("the model's", shapes, "build the same model on every rank")
        self._named, self._frozen = named, _frozen(named)
        self.check_same(
            "the frozen parameters",
            {name: "frozen" for name in self._frozen},
            "freeze the same parameters on every rank",
        )
        for _, parameter in named:
            values = np.array(host_array(parameter))
            self.world.broadcast(values)
            if not self.is_first:
                parameter.copy_(values)
        with runtime.kept_random_state(), runtime.no_grad():
            first = runtime.core_random_state()[1]
            self._kind = str(draw().dtype)  # dtype of every loss
            self._draws = runtime.core_random_state()[1] - first
        self._parameters = [p for _, p in named if p.requires_grad]
        device = str(getattr(model, "device", "cpu"))
        self._links = None if device == "cpu" else links(self.world, device)
        self._sum = GradientSum(
            self.world, self._parameters, int(bucket_mb * _MEGABYTE), self._links
        )
        self._signalled = False

    def check(self) -> None:
        """Rejects results of a device that has waited for a lost rank.

        Raises:
            PeerLost: the results are invalid; the message has the reason.
        """
        if self._links is not None:
            self._links.check()

    def merged(self, values: list[Any]) -> list[Any]:
        """Returns a value for each batch of a step, from the rank that has it."""
        every = self.world.values(values)
        return [every[i % self.size][i] for i in range(len(values))]

    def turns(self, shares: list[float], log: Any = None) -> Iterator[int]:
        """Yields this rank's batches, one per turn, and sets the generator for each."""
        if changed := sorted(self._frozen ^ _frozen(self._named)):
            raise ConfigError(
                f"distributed: requires_grad of {changed[0]} has changed since "
                "training began, expected the same parameters to stay frozen with "
                "several processes; freeze before train(), or train in one process"
            )
        batches = len(shares)
        self._batches = batches
        self._seed, self._offset = runtime.core_random_state()
        self._sum.begin()
        rounds = math.ceil(batches / self.size)
        for turn in range(rounds):
            index = turn * self.size + self.rank
            givers = min(self.size, batches - turn * self.size)
            self._sum.open(givers, last=turn + 1 == rounds)
            if index < batches:
                self._begins_at = self._offset + index * self._draws
                runtime.set_core_random_state((self._seed, self._begins_at))
                yield index
            self._sum.close()
            if log is not None:
                start = turn * self.size
                self._record_all(log, shares[start : start + givers])

    def record(self, log: Any, loss: Any, share: float) -> None:
        """Stores the loss until the losses of the turn's other ranks have arrived."""
        self._loss = loss.detach()

    def _record_all(self, log: Any, shares: list[float]) -> None:
        """Records the losses of a turn in rank order, without waiting."""
        givers = len(shares)
        own = self._loss if self.rank < givers else None
        shapes: list[list[int] | None] = [
            [] if rank < givers else None for rank in range(self.size)
        ]
        losses = self._links.ranks.gather(own, shapes, self._kind)
        for loss, share in zip(losses, shares, strict=False):
            log.add_loss(loss, share)

    def backward(self, loss: Any) -> None:
        """Adds the gradient of this turn's batch, and sends parts of it meanwhile."""
        drawn = runtime.core_random_state()[1] - self._begins_at
        if drawn != self._draws:
            raise InputError(
                f"distributed: a batch made {drawn} random passes and another "
                f"{self._draws}, expected the same number for every batch (ranks "
                "derive each other's dropout from it); make the loss call the model "
                "equally often, or train in one process"
            )
        loss.backward(None, self._parameters, self._sum.completed)

    def combine(self, sums: Any, go_on: bool) -> None:
        """Sums losses in batch order, and finds the first bad batch.

        Args:
            sums: sums of this rank; changed in place.
            go_on: whether batches after a bad one count too.
        """
        every = self.world.values(
            [sums.losses, sums.bad_batch, sums.tokens, sums.rows, sums.has_loss]
        )
        bad = [theirs[1] for theirs in every if theirs[1] is not None]
        sums.bad_batch = min(bad) if bad else None
        sums.losses = sorted(tuple(pair) for theirs in every for pair in theirs[0])
        sums.tokens = sum(theirs[2] for theirs in every)
        sums.rows = sum(theirs[3] for theirs in every)
        sums.has_loss = any(theirs[4] for theirs in every)
        done = self._batches
        if bad:
            place = self._offset + sums.bad_batch * self._draws
            sums.random_state = (self._seed, place)
            if not go_on:
                done = sums.bad_batch + 1
                sums.losses = [pair for pair in sums.losses if pair[0] < done]
        runtime.set_core_random_state((self._seed, self._offset + done * self._draws))

    def report(self, bad: int | None, make: Callable[[], Any]) -> dict[str, Any]:
        """Returns the same report on all ranks; without a bad batch, over all rows."""
        mine = make() if bad is None or bad % self.size == self.rank else None
        found = [theirs for theirs in self.world.values(mine) if theirs is not None]
        report: dict[str, Any] = found[0]
        for name in ("row_ids", "bad_row_ids"):
            report[name] = [row for theirs in found for row in theirs[name]]
        return report


def _frozen(named: list[tuple[str, Any]]) -> set[str]:
    """Returns the names of the parameters that are not trained."""
    return {name for name, p in named if not p.requires_grad}


def _way_on(output_dir: str) -> str:
    """Returns the advice for the error after a rank is lost."""
    present = durable.list_checkpoints(output_dir)
    if not present:
        return f"there is no checkpoint in {output_dir!r} yet: start all ranks afresh"
    return (
        f"the last checkpoint is {present[0]}: start all ranks again with "
        "resume_from_checkpoint=True"
    )
