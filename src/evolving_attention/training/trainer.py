"""The Trainer: the training loop, readable from top to bottom.

It is composed of objects: Loaders make batches, a StepRunner runs steps, the Evaluator
runs over data sets, the Saver writes checkpoints, the Reporter counts and logs, and a
Team represents the processes of the run.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.row_forms import sets_of
from evolving_attention.errors import InputError
from evolving_attention.training import batches as b
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training import (
    given,
    logging,
    metric_names,
    numerics,
    parallel,
    precision,
    runtime,
    trials,
)
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import CallbackHandler, DefaultFlowCallback
from evolving_attention.training.deferred import step_runner
from evolving_attention.training.evaluate import Evaluator, given_loss, replaced_loss
from evolving_attention.training.fingerprint import run_fingerprint
from evolving_attention.training.interrupts import InterruptGuard, SignalReceived
from evolving_attention.training.loaders import Loaders
from evolving_attention.training.optimizers import Optimizers
from evolving_attention.training.plan import RunPlan, make_plan
from evolving_attention.training.reporting import Reporter
from evolving_attention.training.saving import Saver
from evolving_attention.training.state import (
    PredictionOutput,
    TrainerControl,
    TrainerState,
    TrainOutput,
)
from evolving_attention.training.step import StepRunner
from evolving_attention.training.surroundings import Surroundings
from evolving_attention.training.weights import RowWeights, weighted_loss

_MADE = {"team", "model", "device", "state", "control", "callback_handler"}
_MADE |= {"_guard", "_loaders", "_evaluator", "_reporter", "_saver", "_weights"}
_MADE.add("_remade")


class Trainer(Optimizers, Surroundings):
    """Fine-tunes a model, with the interface of Hugging Face's Trainer.

    A run is a function of model, data and arguments: its result is bit-identical for
    any number of threads, and after any interruption and resume. A non-finite loss or
    gradient stops it before the weights change; SIGINT, SIGTERM and SIGHUP save and
    leave. Processes started by mpirun or torchrun train one model together: see
    docs/distributed.md. Parameters with ``requires_grad = False`` are frozen: they have
    no gradients, moments or decay, and backward stops at the first trained layer.

    Args:
        model: a model of this package, called with packed batches.
        args: options, or a dict of them; default:
            ``TrainingArguments("trainer_output")``.
        data_collator: makes a batch from a list of rows; default: packed batches.
        train_dataset: sequence of dicts with ``input_ids`` and ``label`` or ``labels``,
            or with text and a ``processing_class``, or with the input of a model of
            images, ``pixel_values`` of one shape; a DataFrame or a dict of such
            columns. Padding marked by an ``attention_mask`` is removed; text labels
            are numbered by the model's ``label2id``; ``sample_weight`` weighs the rows
            in the loss. A model without class names takes those of the data
            (``label_names``, or its text labels); else they are matched by name. Edited
            rows are read again by the next ``train``, ``evaluate`` or ``predict``. Or a
            ``PackedDataset`` of any kind: see ``evolving_attention.data.packed``.
        eval_dataset: the same, or a dict of several.
        processing_class: the tokenizer; saved with every checkpoint.
        compute_metrics: maps EvalPrediction(predictions, label_ids) to a dict, or to
            one number, which is called ``metric``.
        callbacks: further callbacks, as instances or classes.
        optimizers: (optimizer, schedule) to use instead of those that ``args`` name;
            you may also assign ``optimizer`` and ``lr_scheduler`` later.
        compute_loss_func: replaces the model's loss, called as
            ``compute_loss_func(outputs, labels, num_items_in_batch=n)``.
        model_init: makes a model for each ``train()``, after the seed was set.

    Example::

        args = ea.TrainingArguments("out", num_train_epochs=3, eval_strategy="epoch")
        trainer = ea.Trainer(model, args, train_dataset=train, eval_dataset=dev)
        trainer.train(resume_from_checkpoint="auto")

    Raises:
        ConfigError: model and arguments do not fit together.
        BackendUnavailable: ``args.device`` is not available.
    """

    _reporter_class, _saver_class = Reporter, Saver
    _watch: trials.Watch | None = None  # in a trial of a search

    def __init__(
        self,
        model: Any = None,
        args: TrainingArguments | dict[str, Any] | None = None,
        *,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        compute_metrics: Any = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        compute_loss_func: Callable[..., Any] | None = None,
        model_init: Callable[..., Any] | None = None,
        tokenizer: None = None,
    ) -> None:
        self.args = given.arguments(args, tokenizer)
        given.check_loss_func(compute_loss_func, self.args)
        self.compute_loss_func, self.model_init = compute_loss_func, model_init
        self.data_collator, self.processing_class = data_collator, processing_class
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_metrics = compute_metrics
        self.optimizer, self.lr_scheduler = given.check_optimizers(optimizers)
        self._set_up(model, given.check_callbacks(callbacks))

    def _set_up(self, model: Any, callbacks: list[Any]) -> None:
        """Sets up what the arguments decide: processes, model, the Trainer's parts."""
        team = self.team = parallel.join(self.args)
        self._take_model(model)
        self.state, self.control = TrainerState(), TrainerControl()
        self._guard: InterruptGuard | None = None
        logging.set_log_level(self.args.log_level)
        runtime.set_num_threads(team.threads(self.args.num_threads))
        runtime.set_seed(self.args.seed)
        self._loaders = Loaders(self.args, (team.rank, team.size))
        self._evaluator = Evaluator(self.args, team)
        self._reporter = self._reporter_class(self.args, team)
        self.callback_handler = CallbackHandler(
            [DefaultFlowCallback(), *callbacks, *self._reporter.displays()],
            self.args,
            self._objects,
        )
        self._saver = self._saver_class(
            self.args,
            team,
            self.callback_handler,
            on_saved=lambda: self._event("on_save"),
            on_report=self._reporter.write_nonfinite,
        )
        self._event("on_init_end")

    def _bare(self) -> tuple[Trainer, list[Any]]:
        """Returns a copy without the results of :meth:`_set_up`, and own callbacks.

        The copy can go to another process, where :meth:`_complete` sets it up again.
        """
        other = copy.copy(self)
        for name in _MADE & vars(other).keys():
            delattr(other, name)
        other.optimizer, other.lr_scheduler = self._given()
        theirs = [DefaultFlowCallback(), *self._reporter.displays()]
        return other, trials.own_callbacks(self.callback_handler.callbacks, theirs)

    def _complete(
        self, args: TrainingArguments, make: Any, callbacks: list[Any]
    ) -> Any:
        """Completes a bare copy, with other arguments and its own model."""
        self.args, self.model_init = args, make
        self._set_up(None, callbacks)
        return self

    def _take_model(self, model: Any) -> None:
        """Sets the model, or a new one from ``model_init``, in its type and device."""
        if self.model_init is not None:
            runtime.set_seed(self.args.seed)
        own = self._given()[0]
        self.model = given.model_of(model, self.model_init, own)
        precision.check(self.model, self.args, own is not None)
        self.device = runtime.place_model(self.model, self.team.device(self.args))
        self._has_trained = False

    # ------------------------------------------------------------------ training

    def train(self, resume_from_checkpoint: bool | str | None = None) -> TrainOutput:
        """Trains to the end, from the start or from a checkpoint.

        Args:
            resume_from_checkpoint: None: ``args.resume_from_checkpoint``, or a new run;
                True: the newest complete checkpoint in output_dir; "auto": the same,
                or a new run if there is none; else the path of a checkpoint.

        Returns:
            (global_step, training_loss, metrics).

        Raises:
            ConfigError, InputError: arguments or data do not fit; output_dir is in use.
            CheckpointError: the checkpoint is unusable, or saving failed.
            NonFiniteError: a loss or gradient is not finite; nothing was saved.
            Interrupted: a signal came; the message names what is saved and where.
            PeerLost: another process of this run ended or failed.
        """
        kept = self._loaders.keeping(self.train_dataset, self.eval_dataset)
        with self.team.watching(self.args.output_dir), kept, self._saver.alone():
            return self._train(resume_from_checkpoint)

    def _train(self, resume_from_checkpoint: bool | str | None) -> TrainOutput:
        """Implements :meth:`train`."""
        if self.model_init is not None and self._has_trained:
            self._take_model(None)
        self._has_trained = True
        wanted = resume_from_checkpoint
        if wanted is None:
            wanted = self.args.resume_from_checkpoint
        if self.args.gradient_checkpointing:
            runtime.recompute_activations(self.model)
        if self._saver.writes and self.team.is_first:
            ckpt.check_writable(self.args, self.model, self.data_collator)
        rows = self._rows(self.train_dataset, "train_dataset")
        given.name_data(self.model, self.train_dataset, rows)
        config, own = getattr(self.model, "config", None), self.compute_loss_func
        self._weights = RowWeights(
            self.args, self.train_dataset, rows, config, own is not None
        )
        batches = len(self._loaders.training(rows, self.data_collator))
        plan = make_plan(self.args, batches, self.team.size)
        checkpoint = ckpt.find(self.args, wanted)
        choice = precision.settle(
            self.model,
            self.args,
            checkpoint,
            team=self.team,
            batches=lambda: Loaders(self.args).training(rows, self.data_collator),
            compute_loss=self.compute_loss,
        )
        self._begin(plan, rows, checkpoint)
        self.state.precision = choice or self.state.precision
        runner = step_runner(self.device, self.optimizer, self.args)(
            self.model,
            self.optimizer,
            self.args,
            loss_of=self._loss,
            event=self._event,
            on_report=self._reporter.write_nonfinite,
            team=self.team,
        )
        self._reporter.begin(self.state, self.device)
        with InterruptGuard() as guard:
            self._guard = guard
            try:
                with self.team.alarming():
                    self._decide("on_train_begin")
                    if choice is not None and self.state.global_step == 0:
                        self.log({f"precision_{n}": v for n, v in choice.items()})
                    self._run(runner, plan, rows)
                    self.team.agree(self.control, guard)
                    self._leave_on_signal()
                    self._saver.load_best(self.model, self.state)
                    metrics = self._reporter.train_metrics(self.state, self.device)
                    self.log(metrics)
            except SignalReceived:
                with self.team.alarming():
                    self._saver.leave(self.state, self.control, guard)
            finally:
                self._guard = None
                self.model.eval()
                self._event("on_train_end")
        if self.team.stopped(guard):
            self._saver.leave_after_the_end(self.state, self.control, guard)
        return TrainOutput(self.state.global_step, metrics["train_loss"], metrics)

    def _run(self, runner: StepRunner, plan: RunPlan, rows: Any) -> None:
        """Runs the remaining epochs; first finishes what a signal interrupted."""
        state = self.state
        if self.args.eval_on_start and state.global_step == 0:
            self.control.should_evaluate = True
        self._log_evaluate_save()
        if state.epoch_ended and state.global_step < plan.max_steps:
            if state.epoch_is_cut:
                state.epoch_ended = state.epoch_is_cut = False
            else:
                self._next_epoch()
        while state.epoch_index < plan.num_epochs and not state.epoch_ended:
            if self.control.should_training_stop:
                break
            self._run_epoch(runner, plan, rows)
            self._decide("on_epoch_end")
            state.epoch_ended = True
            self._leave_on_signal()
            self._log_evaluate_save()
            if self.control.should_training_stop or state.global_step >= plan.max_steps:
                break
            self._next_epoch()

    def _run_epoch(self, runner: StepRunner, plan: RunPlan, rows: Any) -> None:
        """Runs the remaining batches of one epoch, step by step."""
        state = self.state
        loader = self._loaders.training(
            rows, self.data_collator, state.epoch_index, state.batches_done
        )
        self._decide("on_epoch_begin")
        self.model.train()
        size = self.team.size * self.args.gradient_accumulation_steps
        with contextlib.closing(b.groups_of(loader, size)) as groups:
            for group in groups:
                done = state.global_step >= plan.max_steps
                if done or self.control.should_epoch_stop:
                    break
                self._step(runner, plan, group)
                if self.control.should_epoch_stop or self.control.should_training_stop:
                    state.epoch_is_cut = state.batches_done < plan.batches_per_epoch
                    break
        self._look(runner)
        if self.control.should_epoch_stop:  # its other batches are never used
            self.control.should_epoch_stop = state.epoch_is_cut = False

    def _step(
        self, runner: StepRunner, plan: RunPlan, group: list[b.Batch | None]
    ) -> None:
        """Runs one optimizer step, then what the callbacks request."""
        self._event("on_step_begin")
        rate = self.optimizer.param_groups[0]["lr"]
        outcome = runner.run(group, self.state)
        self.lr_scheduler.step()
        self._reporter.count(self.state, len(group), outcome, float(rate), plan)
        self._event("on_step_end")  # not _decide(): a call less in each step
        self.team.agree(self.control, self._guard)
        if runner.is_full or self._needs_results():
            self._look(runner)
            self._leave_on_signal()
        self._log_evaluate_save()

    def _needs_results(self) -> bool:
        """Whether the run logs, evaluates, saves or leaves after this step."""
        control, guard = self.control, self._guard
        wants = control.should_log or control.should_evaluate or control.should_save
        return wants or (guard is not None and guard.received is not None)

    def _look(self, runner: StepRunner) -> None:
        """Counts the steps whose results were still on the device."""
        for outcome in runner.look(self.state):
            self._reporter.add(self.state, outcome)

    def _next_epoch(self) -> None:
        """Moves to the beginning of the next epoch."""
        self.state.epoch_index += 1
        self.state.batches_done, self.state.epoch_ended = 0, False

    def _log_evaluate_save(self) -> None:
        """Does what the callbacks have requested, in this order."""
        state = self.state
        best = state.best_metric, state.best_global_step  # best saved checkpoint
        if self.control.should_log:  # a callback may replace the control
            self.control.should_log = False
            self.log(self._reporter.step_logs(state))
            self.team.agree(self.control, self._guard)
        if self.control.should_evaluate:
            try:
                metrics = self.evaluate()
                if self._watch is not None:
                    self._watch.see(metrics, state, self.control)
                is_best = self._evaluator.is_new_best(state, metrics)
            except SignalReceived:
                raise
            except Exception as error:
                self._saver.keep_unscored(state, self.control, error)
                raise
            self.control.should_evaluate = False
            self.team.agree(self.control, self._guard)
            if is_best and (
                self.args.load_best_model_at_end or self.args.save_strategy == "best"
            ):
                self.control.should_save = True
        if self.control.should_save:
            self.control.should_save = False
            if not self._saver.checkpoint(state, self.control):
                state.best_metric, state.best_global_step = best
            self.team.agree(self.control, self._guard)
        state.pending = {}

    def _leave_on_signal(self) -> None:
        """Stops between two steps after a signal."""
        if self.team.stopped(self._guard):
            raise SignalReceived

    # ------------------------------------------------------- beginning and end

    def _begin(self, plan: RunPlan, rows: Any, path: pathlib.Path | None) -> None:
        """Sets model, optimizer, schedule, generators and counters to their start."""
        self._make_optimizers(plan.max_steps)
        self.control = TrainerControl()
        parts = ckpt.RunParts(
            model=self.model,
            optimizer=self.optimizer,
            schedule=self.lr_scheduler,
            args=self.args,
            save_model=self.save_model,
            data_collator=self.data_collator,
            fingerprint=run_fingerprint(self.args, self.model, rows, self.team.size)
            | self._weights.fingerprint(),
        )
        self._saver.begin(parts)
        self.team.compare_start(path, parts.fingerprint)
        if self.team.is_first:
            ckpt.refuse_others(self.args, path)
        if path is None:
            runtime.set_seed(self.args.seed)
            self.state = TrainerState()
        else:
            with ckpt.usable(path):
                self.state = ckpt.restore(parts, path)
                self.callback_handler.load_state_dict(self.state.stateful_callbacks)
            vars(self.control).update(self.state.pending)
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()
        plan.tell(self.state, self.args)
        self.team.begin(  # before the optimizer copies master weights
            self.model,
            lambda: self._sample_loss(rows),
            self.args.ddp_bucket_cap_mb or 25.0,
        )
        sets, evaluates = self.eval_dataset, self.args.eval_strategy != "no"
        if evaluates or self.args.eval_on_start or sets is not None:
            for part in sets_of(sets, "eval").values():
                self._rows(part, "eval_dataset")  # fails now, not after an epoch
        numerics.check_finite(self.model, self.optimizer, "before training")
        scoring = operator.attrgetter("evaluate", "_scored", "log")  # may add results
        if evaluates and scoring(type(self)) == scoring(Trainer):
            metric_names.check_before_training(
                *(self.args, self.model, sets, self.compute_metrics),
                collated=self.data_collator is not None,
                callbacks=self.callback_handler.callbacks,
                rows_of=lambda part: self._rows(part, "eval_dataset"),
            )
        self.callback_handler.check()
        if self.team.is_first:
            ckpt.clear_others(self.args, path)

    def _sample_loss(self, rows: Any) -> Any:
        """Returns the loss of one batch of rows, with the dropout of training."""
        loader = Loaders(self.args).training(rows, self.data_collator)
        count = min(len(rows), loader.batch_size)
        was_training = self.model.training
        self.model.train()
        try:
            with ckpt.kept_collator(self.data_collator):
                return self._loss(loader.make_batch(np.arange(count)))
        finally:
            self.model.train(was_training)

    def _loss(self, batch: b.Batch) -> Any:
        """Returns the loss of a batch of training rows."""
        return self.compute_loss(self.model, self._weights.inputs_of(batch))

    def _rows(self, dataset: Any, role: str) -> Any:
        """Returns the data set's rows, from which batches are made."""
        loss = self.compute_loss_func or type(self).compute_loss
        parts = (dataset, role, self.processing_class, self.data_collator, self.model)
        return self._loaders.rows(*parts, own_loss=loss is Trainer.compute_loss)

    def _event(self, name: str, **kwargs: Any) -> None:
        handler = self.callback_handler
        self.control = handler.call(name, self.state, self.control, **kwargs)

    def _decide(self, name: str) -> None:
        """Calls the callbacks; all processes do what those of rank 0 decide."""
        self._event(name)
        self.team.agree(self.control, self._guard)

    # ------------------------------------------------- what subclasses may override

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        """Returns the mean loss of a batch as a 0-d tensor; here the model's own.

        Args:
            model: the model; evaluation calls this function too.
            inputs: the model's inputs, with ``labels``, and with ``sample_weight`` [B]
                if rows or classes are weighted.

        Example::

            class Weighted(ea.Trainer):
                def compute_loss(self, model, inputs):
                    return super().compute_loss(model, inputs) * 0.5
        """
        if self.compute_loss_func is not None and "labels" in inputs:
            return given_loss(model, inputs, self.compute_loss_func)[1]
        smoothing = self.args.label_smoothing_factor
        inputs = dict(inputs)
        weights = inputs.pop("sample_weight", None)
        if weights is not None and "labels" in inputs:
            return weighted_loss(model, inputs, weights, smoothing)
        if weights is not None:
            raise InputError(
                f"Trainer: sample_weight with {', '.join(inputs)}, expected labels, "
                "which it weighs; leave it out, or override compute_loss"
            )
        options = {"label_smoothing": smoothing} if smoothing else {}
        fewer = getattr(model, "at_labels", dict)  # the logits are not needed
        loss = model(**fewer(inputs), **options).loss
        if loss is None:
            raise InputError(
                "Trainer: the model gave no loss, expected 'label' or 'labels' in each "
                f"row, not -1 in all of them; this batch has {', '.join(inputs)}"
            )
        return loss

    def log(self, logs: dict[str, Any]) -> None:
        """Adds the epoch to ``logs``, extends log_history and calls the callbacks."""
        self._reporter.enter(self.state, logs)
        self._event("on_log", logs=logs)

    # ---------------------------------------------------- evaluation and prediction

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: Sequence[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Returns loss and metrics of a data set, logged under ``<prefix>_…`` keys.

        Args:
            eval_dataset: default: the Trainer's. Each data set of a dict is evaluated
                under ``<prefix>_<name>_…``.
            ignore_keys: as in transformers; predictions hold the logits alone.
            metric_key_prefix: the prefix.
        """
        given.check_names(ignore_keys, metric_key_prefix)
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        sets, together = sets_of(data, metric_key_prefix), dict[str, float]()
        # All before the first is logged: after a signal a resumed run logs all again.
        for metrics in [self._scored(part, prefix) for prefix, part in sets.items()]:
            self.log(metrics)
            self._event("on_evaluate", metrics=metrics)
            together |= metrics
        return together

    def _scored(self, dataset: Any, prefix: str) -> dict[str, float]:
        """Returns loss and metrics of one data set."""
        only = self.args.prediction_loss_only
        return self._predict(dataset, "eval_dataset", prefix, only).metrics

    def predict(
        self,
        test_dataset: Any,
        ignore_keys: Sequence[str] | None = None,
        metric_key_prefix: str = "test",
    ) -> PredictionOutput:
        """Returns logits of every row in data set order; metrics if it has labels."""
        given.check_names(ignore_keys, metric_key_prefix)
        output = self._predict(test_dataset, "test_dataset", metric_key_prefix, False)
        self._event("on_predict", metrics=output.metrics)
        return output

    def _predict(
        self, dataset: Any, role: str, prefix: str, loss_only: bool
    ) -> PredictionOutput:
        """Predicts a data set in one pass, shared by all processes."""
        with self.team.watching(self.args.output_dir):
            rows = self._rows(dataset, role)
            self._loaders.compare(self.team, rows, prefix)
            return self._evaluator.predict(
                self.model,
                self._loaders.evaluation(rows, self.data_collator),
                prefix,
                loss_only=loss_only,
                compute_metrics=self.compute_metrics,
                on_batch=self._after_prediction,
                own_loss=replaced_loss(self, Trainer.compute_loss),
            )

    def _after_prediction(self, done: int, total: int) -> None:
        """Called after each batch of an evaluation."""
        self._leave_on_signal()
        self._event("on_prediction_step", done=done, total=total)
