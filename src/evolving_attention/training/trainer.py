"""The Trainer: the training loop, readable from top to bottom, and its surroundings.

The parts live next door: one optimizer step in ``step.py``, evaluation in
``evaluate.py``, saving in ``saving.py`` and ``checkpoint.py``, callbacks and logs in
``reporting.py``, signals in ``interrupts.py``.
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from typing import Any

from evolving_attention.errors import ConfigError, Interrupted
from evolving_attention.training import batches as b
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training import (
    logging,
    numerics,
    parallel,
    runtime,
)
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import CallbackHandler, DefaultFlowCallback
from evolving_attention.training.deferred import step_runner
from evolving_attention.training.evaluate import EvaluationMixin
from evolving_attention.training.fingerprint import run_fingerprint
from evolving_attention.training.interrupts import InterruptGuard, SignalReceived
from evolving_attention.training.loaders import LoadersMixin
from evolving_attention.training.overrides import OverridesMixin
from evolving_attention.training.plan import RunPlan, make_plan
from evolving_attention.training.precision import PrecisionMixin
from evolving_attention.training.reporting import ReportingMixin
from evolving_attention.training.saving import SavingMixin
from evolving_attention.training.state import TrainerControl, TrainerState, TrainOutput
from evolving_attention.training.step import StepRunner

__all__ = ["Trainer"]


class Trainer(
    OverridesMixin,
    LoadersMixin,
    PrecisionMixin,
    EvaluationMixin,
    SavingMixin,
    ReportingMixin,
):
    """Fine-tunes a model, with the habits of Hugging Face's Trainer.

    A run is a function of model, data and arguments: the same bits for any number of
    threads, and after any interruption and resume. A non-finite loss or gradient stops
    it before it reaches the weights; SIGINT and SIGTERM save and leave. In processes
    that mpirun or torchrun started, all train one model: see docs/distributed.md.

    Args:
        model: a model of this package, called with packed batches.
        args: options; defaults with output_dir="trainer_output" when left out.
        data_collator: makes a batch of a list of rows; default: packed batches.
        train_dataset: sequence of dicts with ``input_ids`` and ``label`` or ``labels``,
            or a text data set of this package together with ``processing_class``.
        eval_dataset: the same, or a dict of several.
        processing_class: the tokenizer; saved with every checkpoint.
        compute_metrics: from EvalPrediction(predictions, label_ids) to a dict.
        callbacks: further callbacks, as instances or classes.
        optimizers: (optimizer, schedule) instead of AdamW and ``lr_scheduler_type``.

    Example::

        args = ea.TrainingArguments("out", num_train_epochs=3, eval_strategy="epoch")
        trainer = ea.Trainer(model, args, train_dataset=train, eval_dataset=dev)
        trainer.train(resume_from_checkpoint="auto")

    Raises:
        ConfigError: model and arguments do not fit.
        BackendUnavailable: ``args.device`` is not there.
    """

    def __init__(
        self,
        model: Any,
        args: TrainingArguments | None = None,
        *,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        compute_metrics: Any = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
    ) -> None:
        self.model, self.args = model, args or TrainingArguments()
        self.data_collator, self.processing_class = data_collator, processing_class
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_metrics = compute_metrics
        self._given = self.optimizer, self.lr_scheduler = optimizers
        if self.optimizer is None and self.lr_scheduler is not None:
            raise ConfigError(
                "Trainer: optimizers has a schedule without its optimizer, expected "
                "both or none; pass optimizers=(optimizer, schedule)"
            )
        self._check_dtype()
        self.team = parallel.join(self.args)
        self.device = runtime.place_model(model, self.team.device(self.args))
        self.state, self.control = TrainerState(), TrainerControl()
        self._prepared: dict[int, tuple[Any, Any]] = {}
        self._guard: InterruptGuard | None = None
        logging.set_log_level(self.args.log_level)
        runtime.set_num_threads(self.team.threads(self.args.num_threads))
        runtime.set_seed(self.args.seed)
        self.callback_handler = CallbackHandler(
            [DefaultFlowCallback(), *(callbacks or []), *self._reporters()],
            self.args,
            self._objects,
        )
        self._event("on_init_end")

    # ------------------------------------------------------------------ training

    def train(self, resume_from_checkpoint: bool | str | None = None) -> TrainOutput:
        """Train to the end, from the start or from a checkpoint.

        Args:
            resume_from_checkpoint: None: ``args.resume_from_checkpoint``, or afresh;
                True: the newest complete checkpoint in output_dir; "auto": the same,
                or afresh when there is none; else the path of a checkpoint.

        Returns:
            (global_step, training_loss, metrics).

        Raises:
            ConfigError, InputError: arguments and data do not fit.
            CheckpointError: the checkpoint cannot be used, or saving failed.
            NonFiniteError: a loss or gradient is not finite; nothing was saved.
            Interrupted: a signal came; the state is saved in a checkpoint.
            PeerLost: another process of this run died or gave up.
        """
        with self.team.watching(self.args.output_dir):
            return self._train(resume_from_checkpoint)

    def _train(self, resume_from_checkpoint: bool | str | None) -> TrainOutput:
        """What :meth:`train` does."""
        wanted = resume_from_checkpoint
        if wanted is None:
            wanted = self.args.resume_from_checkpoint
        if self.args.gradient_checkpointing:
            runtime.recompute_activations(self.model)
        rows = self._rows(self.train_dataset, "train_dataset")
        plan = make_plan(self.args, len(self._train_loader(rows, 0, 0)), self.team.size)
        checkpoint = ckpt.find(self.args, wanted)
        choice = self._settle_precision(rows, checkpoint)
        self._begin(plan, rows, checkpoint)
        self.state.precision = choice or self.state.precision
        runner = step_runner(self)(
            self.model,
            self.optimizer,
            self.args,
            loss_of=lambda batch: self.compute_loss(self.model, batch),
            event=self._event,
            on_report=self._write_report,
            team=self.team,
        )
        if not self.args.skip_memory_metrics:
            runtime.reset_peak_memory()
            runtime.reset_peak_memory(self.device)
        began, first_step, self._rows_seen = time.monotonic(), self.state.global_step, 0
        with InterruptGuard() as guard:
            self._guard = guard
            try:
                self._event("on_train_begin")
                self._log_choice(choice)
                self._run(runner, plan, rows)
                self.team.agree(self.control, guard)
                self._leave_on_signal()
                self._load_best()
                steps = self.state.global_step - first_step
                seconds = time.monotonic() - began
                metrics = self._train_metrics(seconds, self._rows_seen, steps)
                self.log(metrics)
            except SignalReceived:
                self._save_and_leave()
            finally:
                self._guard = None
                self.model.eval()
                self._event("on_train_end")
        if self.team.stopped(guard):
            raise Interrupted(
                f"{guard.name} after the last step; training had ended", guard.received
            )
        return TrainOutput(self.state.global_step, metrics["train_loss"], metrics)

    def _run(self, runner: StepRunner, plan: RunPlan, rows: Any) -> None:
        """All epochs that are left, first finishing what a signal left undone."""
        state = self.state
        if self.args.eval_on_start and state.global_step == 0:
            self.control.should_evaluate = True
        self._log_evaluate_save()
        if state.epoch_ended and state.global_step < plan.max_steps:
            self._next_epoch()
        while state.epoch_index < plan.num_epochs and not state.epoch_ended:
            if self.control.should_training_stop:
                break
            self._run_epoch(runner, plan, rows)
            self._event("on_epoch_end")
            state.epoch_ended = True
            self._leave_on_signal()
            self._log_evaluate_save()
            if self.control.should_training_stop or state.global_step >= plan.max_steps:
                break
            self._next_epoch()

    def _run_epoch(self, runner: StepRunner, plan: RunPlan, rows: Any) -> None:
        """The batches of one epoch that are left, one optimizer step after another."""
        state = self.state
        loader = self._train_loader(rows, state.epoch_index, state.batches_done)
        self._event("on_epoch_begin")
        self.model.train()
        with contextlib.closing(
            b.groups_of(loader, self.team.size * self.args.gradient_accumulation_steps)
        ) as groups:
            for group in groups:
                if state.global_step >= plan.max_steps:
                    break
                if self.control.should_epoch_stop:
                    break
                self._step(runner, plan, group)
                if self.control.should_epoch_stop or self.control.should_training_stop:
                    break
        self._look(runner)
        self.control.should_epoch_stop = False

    def _step(self, runner: StepRunner, plan: RunPlan, group: list[b.Batch]) -> None:
        """One optimizer step and what the callbacks ask for after it."""
        self._event("on_step_begin")
        rate = self.optimizer.param_groups[0]["lr"]
        outcome = runner.run(group, self.state)
        self.lr_scheduler.step()
        self._count(len(group), outcome, float(rate), plan)
        self._event("on_step_end")
        self.team.agree(self.control, self._guard)
        if runner.is_full or self._reads_results():
            self._look(runner)
            self._leave_on_signal()
        self._log_evaluate_save()

    def _next_epoch(self) -> None:
        """Stand at the beginning of the next epoch."""
        self.state.epoch_index += 1
        self.state.batches_done, self.state.epoch_ended = 0, False

    def _log_evaluate_save(self) -> None:
        """Do what the callbacks have asked for, in this order."""
        state, control = self.state, self.control
        if control.should_log:
            control.should_log = False
            self._log_step()
        if control.should_evaluate:
            metrics = self.evaluate()
            control.should_evaluate = False
            if self._is_new_best(metrics) and (
                self.args.load_best_model_at_end or self.args.save_strategy == "best"
            ):
                control.should_save = True
        if control.should_save:
            control.should_save = False
            self._save_checkpoint()
        state.pending = {}

    def _leave_on_signal(self) -> None:
        """Stop between two steps when a signal has come."""
        if self.team.stopped(self._guard):
            raise SignalReceived

    # ------------------------------------------------------- beginning and end

    def _begin(self, plan: RunPlan, rows: Any, path: pathlib.Path | None) -> None:
        """Put model, optimizer, schedule, generators and counters at their start."""
        self.create_optimizer_and_scheduler(plan)
        self.control = TrainerControl()
        self._parts = ckpt.RunParts(
            model=self.model,
            optimizer=self.optimizer,
            schedule=self.lr_scheduler,
            args=self.args,
            processing_class=self.processing_class,
            fingerprint=run_fingerprint(self.args, self.model, rows, self.team.size),
        )
        self.team.compare_start(path, self._parts.fingerprint)
        if path is None:
            if self.team.is_first:
                ckpt.clear_or_refuse(self.args)
            runtime.set_seed(self.args.seed)
            self.state = TrainerState()
        else:
            self.state = ckpt.restore(self._parts, path)
            self.callback_handler.load_state_dict(self.state.stateful_callbacks)
            for name, value in self.state.pending.items():
                setattr(self.control, name, value)
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()
        plan.tell(self.state, self.args)
        self.team.begin(  # before the optimizer makes its masters of the weights
            self.model,
            lambda: self._loss_of_some_rows(rows),
            self.args.ddp_bucket_cap_mb or 25.0,
        )
        if self.args.eval_strategy != "no":  # not only after an hour of training
            sets = self.eval_dataset
            for part in sets.values() if isinstance(sets, dict) else [sets]:
                self._rows(part, "eval_dataset")
        numerics.check_finite(self.model, self.optimizer, "before training")
