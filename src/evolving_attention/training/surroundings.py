"""Methods of the Trainer besides its loop: files, callbacks, hyper-parameter search."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, overload

from evolving_attention import durable
from evolving_attention.durable import plain
from evolving_attention.training import checkpoint as ckpt
from evolving_attention.training import given, numerics, results, search
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.callbacks import CallbackHandler
from evolving_attention.training.state import TrainerState


class Surroundings:
    """The methods of a Trainer that write files, change its callbacks or search.

    With several processes, only the first one writes.
    """

    model: Any
    args: TrainingArguments
    processing_class: Any
    train_dataset: Any
    eval_dataset: Any
    optimizer: Any
    lr_scheduler: Any
    team: Alone
    state: TrainerState
    callback_handler: CallbackHandler

    def __init_subclass__(cls) -> None:
        """Rejects methods that nothing would call."""
        given.check_methods(cls)

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """Writes weights, configuration, tokenizer and training_args.json.

        A subclass may override it: the first process also writes checkpoints by it,
        which hold regular files and no folders.

        Args:
            output_dir: default: that of the arguments.
            _internal_call: True: for a checkpoint, whose weights are checked already.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
            CheckpointError: the folder is a file, or cannot be written.
        """
        if not self.team.is_first:
            return
        folder = pathlib.Path(output_dir or self.args.output_dir)
        if not _internal_call:
            numerics.check_finite(self.model, None, f"saving {folder}")
            durable.make_folder(folder)
        self.model.save_pretrained(folder)
        if hasattr(self.processing_class, "save_pretrained"):
            self.processing_class.save_pretrained(folder)
        durable.write_json(folder / ckpt.ARGUMENTS, plain(self.args.to_dict()))

    def save_state(self) -> None:
        """Writes ``trainer_state.json`` into output_dir."""
        if self.team.is_first:
            self.state.stateful_callbacks = self.callback_handler.state_dict()
            path = pathlib.Path(self.args.output_dir) / ckpt.STATE
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write_json(path, self.state.to_dict())

    def log_metrics(self, split: str, metrics: dict[str, Any]) -> None:
        """Shows metrics as a table on stderr."""
        if self.team.is_first:
            results.print_metrics(split, metrics)

    def save_metrics(
        self, split: str, metrics: dict[str, Any], combined: bool = True
    ) -> None:
        """Writes ``<split>_results.json`` and updates ``all_results.json``."""
        if self.team.is_first:
            results.save_metrics(self.args.output_dir, split, metrics, combined)

    def is_world_process_zero(self) -> bool:
        """Whether this is the process that writes: rank 0, or the only one."""
        return self.team.is_first

    def is_local_process_zero(self) -> bool:
        """Whether this is the first process of this machine."""
        return self.team.local_rank == 0

    def _objects(self) -> dict[str, Any]:
        """Returns the keyword arguments of every callback."""
        return {
            "model": self.model,
            "processing_class": self.processing_class,
            "optimizer": self.optimizer,
            "lr_scheduler": self.lr_scheduler,
            "train_dataset": self.train_dataset,
            "eval_dataset": self.eval_dataset,
        }

    def add_callback(self, callback: Any) -> None:
        """Adds a callback, given as instance or class."""
        self.callback_handler.add(callback)

    def pop_callback(self, callback: Any) -> Any:
        """Removes and returns a callback, given as instance or class, or None."""
        return self.callback_handler.pop(callback)

    def remove_callback(self, callback: Any) -> None:
        """Removes a callback, given as instance or class."""
        self.callback_handler.pop(callback)

    @overload
    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, Any]] | None = ...,
        compute_objective: Callable[[dict[str, Any]], Any] | None = ...,
        n_trials: int = ...,
        direction: str = ...,
        backend: str | None = ...,
        hp_name: Callable[[Any], str] | None = ...,
        **kwargs: Any,
    ) -> search.BestRun: ...

    @overload
    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, Any]] | None = ...,
        compute_objective: Callable[[dict[str, Any]], Any] | None = ...,
        n_trials: int = ...,
        *,
        direction: list[str] | tuple[str, ...],
        backend: str | None = ...,
        hp_name: Callable[[Any], str] | None = ...,
        **kwargs: Any,
    ) -> list[search.BestRun]: ...

    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, Any]] | None = None,
        compute_objective: Callable[[dict[str, Any]], Any] | None = None,
        n_trials: int = 20,
        direction: str | Sequence[str] = "minimize",
        backend: str | None = None,
        hp_name: Callable[[Any], str] | None = None,
        **kwargs: Any,
    ) -> search.BestRun | list[search.BestRun]:
        """Searches the arguments for the best objective, as transformers' Trainer does.

        Each trial trains a new model from ``model_init`` in ``output_dir/run-N``. A
        trial that diverges (NonFiniteError), or whose process dies, fails, and the
        search continues. This Trainer keeps its model and its arguments.

        Args:
            hp_space: maps an optuna trial to options of TrainingArguments; default:
                learning rate, epochs, seed and batch size.
            compute_objective: maps the metrics of the last evaluation (of the best
                model with ``load_best_model_at_end``) to a number, or to one per
                direction; default: the loss, or the sum of all other metrics.
            n_trials: number of trials, in addition to those of a stored study.
            direction: "minimize", "maximize", or a list for several objectives.
            backend: "optuna" (or None): one trial after another, in this process.
                "ray": optuna proposes, and the trials are Ray tasks. The Ray is the one
                that this process is connected to, the one in ``RAY_ADDRESS``, or a new
                one on this machine. Trainer, data and functions are pickled for the
                tasks; a ``model_init(trial)`` is also called here.
            hp_name: maps a trial to its ``run_name``.
            kwargs: options of optuna: ``study_name``, ``storage``, ``load_if_exists``,
                ``sampler``; ``timeout`` in seconds. With "optuna" also ``pruner`` and
                ``gc_after_trial``; with "ray" ``resources_per_trial``, by default
                ``{"cpu": 1, "gpu": 0}``; a trial uses as many threads as CPUs.

        Returns:
            BestRun(run_id, objective, hyperparameters, run_summary); with several
            directions, the list of the best ones.

        Raises:
            ConfigError: there is no model_init, an option is not one of
                TrainingArguments, or the stored study has another space or direction.
            InputError: no trial had a result, or what Ray's trials need cannot be
                pickled.
            BackendUnavailable: no Ray answers.
            MissingExtraError: optuna is not installed (extra ``sweep``), or ray (extra
                ``ray``).

        Example::

            trainer = ea.Trainer(model_init=make, args=args, train_dataset=train,
                                 eval_dataset=dev)
            best = trainer.hyperparameter_search(
                lambda trial: {
                    "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-3)
                },
                n_trials=10,
            )
        """
        return search.search(
            self,
            hp_space=hp_space,
            compute_objective=compute_objective,
            n_trials=n_trials,
            direction=direction,
            backend=backend,
            hp_name=hp_name,
            options=kwargs,
        )
