"""Optimizer steps that a GPU does as one recorded piece of work: CUDA graphs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention import optim
from evolving_attention.errors import ConfigError
from evolving_attention.training import batches as b
from evolving_attention.training import runtime
from evolving_attention.training.callbacks import TrainerCallback
from evolving_attention.training.deferred import DeferredStepRunner
from evolving_attention.training.overrides import OverridesMixin
from evolving_attention.training.state import TrainerState
from evolving_attention.training.step import StepSums, present

__all__ = ["MOST_SHAPES", "RecordedStepRunner", "RecordedSteps", "check_recordable"]

MOST_SHAPES = 64  # recordings kept; that of the shape not seen for longest goes


@dataclass
class _Shape:
    """What is known of the steps of one shape."""

    residents: Any  # where their batches lie
    graph: Any
    bytes: int | None = None  # of memory that such a step takes
    recorded: bool = False
    offset: int = 0  # of the random streams, where the recorded step began
    streams: int = 0  # that it drew


class RecordedSteps:
    """Does training steps, and starts a step whole where one of its shape was before.

    Batches are made up to few shapes (``model.prepare()``). The first step of all is
    done as any other. So is the first of a shape, which says how much memory it takes;
    the second is recorded and then started. For all later ones nothing but the batch,
    the numbers of the optimizer and the place in the random streams goes to the device,
    and the host does nothing else. What a step computes does not depend on whether it
    was recorded.

    Args:
        model: of text, with a task, on a GPU; its parameters stay where they are.
        optimizer: of this package, over the model's parameters.
        log: a ``StepLog``; the caller keeps and looks at the steps.
        max_norm: clips the gradients' norm; 0: not at all.
    """

    def __init__(self, model: Any, optimizer: Any, log: Any, max_norm: float) -> None:
        from evolving_attention import _core

        self.model, self.optimizer, self.log = model, optimizer, log
        self.max_norm = max_norm
        self.parameters = list(model.parameters())
        self._core, self._device = _core, model.device
        self._warm = False  # whether all is there that a first step makes for good
        self._shapes: OrderedDict[str, _Shape] = OrderedDict()
        self._shift = _core.Tensor(np.zeros(1, np.int64), device=self._device)

    def run(self, prepared: Any) -> None:
        """One step on what ``model.prepare()`` gave."""
        shape = self._shape_of(prepared.key)
        shape.residents.load(prepared)
        self.optimizer.prepare_numbers()
        self._do(shape, prepared)

    def _shape_of(self, key: str) -> _Shape:
        """The shape's entry; a new one, perhaps, instead of the oldest."""
        if key not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.popitem(last=False)
            self._shapes[key] = _Shape(
                self._core.Residents(self._device), self._core.StepGraph(self._device)
            )
        self._shapes.move_to_end(key)
        return self._shapes[key]

    def _do(self, shape: _Shape, prepared: Any) -> None:
        """The step itself: done, recorded and started, or started."""
        seed, offset = runtime.core_random_state()
        if shape.recorded:
            self._shift_streams(offset - shape.offset)
            shape.graph.start()
            self.optimizer.count_step()
            runtime.set_core_random_state((seed, offset + shape.streams))
            return
        self._shift_streams(0)
        if not self._warm:
            self._forward_backward_update(shape, prepared)
            self._warm = True
            return
        first = shape.bytes is None
        if first:
            shape.graph.measure()
        else:
            shape.graph.record(shape.bytes)
        try:
            self._forward_backward_update(shape, prepared)
            if first:
                shape.bytes = shape.graph.measured()
                return
            shape.graph.recorded()
        except BaseException:
            shape.graph.cancel()
            raise
        shape.recorded, shape.offset = True, offset
        shape.streams = runtime.core_random_state()[1] - offset
        shape.graph.start()

    def _shift_streams(self, by: int) -> None:
        """Let dropout draw streams so much further on than it says."""
        self._shift.copy_(np.array([by]))

    def _forward_backward_update(self, shape: _Shape, prepared: Any) -> None:
        """Hand the step over to the device, and keep nothing of it."""
        with shape.residents, self._core.RandomShift(self._shift):
            self.log.restart_step()
            loss = self.model.prepared_loss(prepared)
            self.log.add_loss(loss, 1.0)
            loss.backward()
            scale = self.log.finish(self.parameters, self.max_norm, keep=False)
            self.optimizer.step(scale=scale, prepared=True)
            self.optimizer.zero_grad()


class RecordedStepRunner(DeferredStepRunner):
    """Runs the steps of a Trainer by :class:`RecordedSteps`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        limit = self.args.max_grad_norm or 0.0
        self._steps = RecordedSteps(self.model, self.optimizer, self._log, limit)

    def _work(self, batches: list[b.Batch | None], state: TrainerState) -> StepSums:
        """All that the device does for a step; the log gets the outcome."""
        (batch,) = present(batches)
        smoothing = self.args.label_smoothing_factor
        self._steps.run(
            self.model.prepare(**b.inputs_of(batch), label_smoothing=smoothing)
        )
        self.event("on_pre_optimizer_step")
        self.event("on_optimizer_step")
        return StepSums.of([batch])


def check_recordable(trainer: Any) -> None:
    """Refuse ``cuda_graphs=True`` where steps cannot be recorded.

    Raises:
        ConfigError: says what is in the way.
    """
    own_events = [
        type(one).__name__
        for one in trainer.callback_handler.callbacks
        if getattr(type(one), "on_pre_optimizer_step", None)
        not in (None, TrainerCallback.on_pre_optimizer_step)
    ]
    reasons = {
        f"training on {trainer.device}": trainer.device == "cpu",
        f"a {type(trainer.optimizer).__name__} as optimizer": not isinstance(
            trainer.optimizer, (optim.AdamW, optim.RAdam)
        ),
        f"a {type(trainer.model).__name__}": not hasattr(trainer.model, "prepare"),
        "a compute_loss() of your own": type(trainer).compute_loss
        is not OverridesMixin.compute_loss,
        f"on_pre_optimizer_step() of {', '.join(own_events)}": bool(own_events),
        f"{trainer.team.size} processes": trainer.team.size > 1,
    }
    for what, in_the_way in reasons.items():
        if in_the_way:
            raise ConfigError(
                f"Trainer: cuda_graphs=True with {what}, expected one GPU, a model of "
                "text of this package with a task, its loss and its optimizer, and no "
                "callback between gradients and update; leave the option out"
            )
