"""Shared parts of commands that fine-tune a checkpoint with Hugging Face's flags."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from evolving_attention.cli.common import run_trainer
from evolving_attention.cli.glue_arguments import ModelArguments, TuningArguments
from evolving_attention.cli.repeat import Once
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.refused_arguments import REFUSED, on_the_command_line

_LOGGER = logging.getLogger("evolving_attention")


def refuse_known(given: dict[str, Any]) -> None:
    """Refuse options that are parsed only to explain why they are not supported."""
    for name in REFUSED.keys() & given.keys():
        if refusal := on_the_command_line(name, given[name]):
            raise ConfigError(refusal)


def set_up_hub(model_args: ModelArguments) -> None:
    """Pass cache folder and token to huggingface_hub in environment variables."""
    if model_args.cache_dir:
        os.environ["HF_HUB_CACHE"] = os.path.expanduser(model_args.cache_dir)
    if model_args.token:
        os.environ["HF_TOKEN"] = model_args.token


def base_config(model_args: ModelArguments) -> dict[str, Any]:
    """Returns config.json of the model (or of --config_name)."""
    from evolving_attention.interop.hf import load_config
    from evolving_attention.interop.resolve import resolve

    return load_config(
        resolve(model_args.config_name or str(model_args.model_name_or_path))
    )


def accuracy(prediction: Any) -> dict[str, float]:
    """Returns the share of right classes, for a Trainer."""
    logits, labels = np.asarray(prediction[0]), np.asarray(prediction[1])
    return {"accuracy": float((logits.argmax(axis=1) == labels).mean())}


def mean_squared_error(prediction: Any) -> dict[str, float]:
    """Returns the mean squared error, for a Trainer."""
    values, labels = np.asarray(prediction[0]), np.asarray(prediction[1])
    return {"mse": float(((values.reshape(-1) - labels) ** 2).mean())}


class TrainedRun:
    """One run of a Trainer with Hugging Face's flags; the commands add the rest.

    Args:
        tuning, args: the options.
        once: keeps values that the runs of other seeds also need.
    """

    def __init__(
        self, tuning: TuningArguments, args: TrainingArguments, once: Once
    ) -> None:
        self.tuning, self.args, self.once = tuning, args, once
        self.train_rows: Any = None
        self.results: dict[str, Any] = {}

    def last_checkpoint(self) -> str | None:
        """Returns the checkpoint to resume.

        Raises:
            ConfigError: the folder has other files, or cannot be written.
        """
        from evolving_attention.training.checkpoint import (
            check_output_dir,
            check_writable,
        )

        last = check_output_dir(self.args) if self.args.do_train else None
        check_writable(self.args)
        if last is not None and self.args.resume_from_checkpoint is None:
            _LOGGER.info(
                "resuming from %s; to train afresh, choose another --output_dir or "
                "add --overwrite_output_dir",
                last,
            )
        return last

    def callbacks(self) -> list[Any] | None:
        """Returns the callbacks that the options request."""
        from evolving_attention.training.callbacks import EarlyStoppingCallback

        patience = self.tuning.early_stopping_patience
        return None if patience is None else [EarlyStoppingCallback(patience)]

    def train(self, trainer: Any, last: str | None) -> None:
        """Train from the beginning or from a checkpoint, and save the model."""
        given = self.args.resume_from_checkpoint
        metrics = run_trainer(trainer, last if given is None else given)
        metrics["train_samples"] = len(self.train_rows or ())
        trainer.save_model()
        self.report(trainer, "train", metrics)
        trainer.save_state()

    def remove_displays(self, trainer: Any) -> None:
        """Remove the displays of logs: later results are printed once, at the end.

        The bar of later evaluations stays.
        """
        from evolving_attention.training.logging import ConsoleCallback
        from evolving_attention.training.progress import TerminalProgress

        for display in (ConsoleCallback, TerminalProgress):
            trainer.remove_callback(display)

    @contextlib.contextmanager
    def logging_the_saved_model(self) -> Iterator[None]:
        """If a step after training fails, log where the trained model is saved."""
        try:
            yield
        except BaseException:
            if self.args.do_train:
                folder = self.args.output_dir
                _LOGGER.warning("the trained model is saved in %s", folder)
            raise

    def report(self, trainer: Any, split: str, metrics: dict[str, Any]) -> None:
        """Save the metrics of a step and add them to the results."""
        trainer.save_metrics(split, metrics)
        self.results.update(metrics)


class FineTuning(TrainedRun):
    """A run that starts from a checkpoint.

    Args:
        model_args, tuning, args: the options.
        attention: attention of the model; None: the checkpoint's.
        once: keeps values that the runs of other seeds also need.
    """

    def __init__(
        self,
        model_args: ModelArguments,
        tuning: TuningArguments,
        args: TrainingArguments,
        attention: Any,
        once: Once,
    ) -> None:
        super().__init__(tuning, args, once)
        self.model_args, self.attention = model_args, attention

    def tokenizer(self, max_seq_length: int) -> tuple[Any, int]:
        """Returns the tokenizer, and the row length that it and the model support."""
        from evolving_attention.modeling.predict import limit_of
        from evolving_attention.text import AutoTokenizer

        name = str(self.model_args.model_name_or_path)
        tokenizer = AutoTokenizer.from_pretrained(
            self.model_args.tokenizer_name or name
        )
        config = base_config(self.model_args)
        limit: Any = limit_of(config, tokenizer, max_seq_length)
        if max_seq_length > limit:
            _LOGGER.warning(
                "max_seq_length %d: the model takes %d", max_seq_length, limit
            )
        return tokenizer, limit

    def collator(self, data: Any, tokenizer: Any, length: int) -> Any:
        """Returns what pads every batch to ``length``; None: not requested."""
        from evolving_attention.data.collate import collate_padded

        if not data.pad_to_max_length:
            return None
        return functools.partial(
            collate_padded,
            pad_token_id=tokenizer.pad_token_id or 0,
            pad_to_length=length,
        )

    def load_model(self, auto: Any, **overrides: Any) -> Any:
        """Loads the model from the checkpoint, with its own head or another task's.

        Args:
            auto: the Auto class of the task.
            overrides: config options; they replace those of --config_name.
        """
        from evolving_attention.modeling import AutoConfig
        from evolving_attention.modeling.untrained import weights_hash

        options: dict[str, Any] = {}
        if self.model_args.config_name:
            config = AutoConfig.from_pretrained(self.model_args.config_name)
            options = {option: getattr(config, option) for option in config.defaults}
            options.pop("add_pooling_layer", None)  # depends on the task
        load = functools.partial(
            auto.from_pretrained,
            str(self.model_args.model_name_or_path),
            attention=self.attention,
            dtype=self.args.dtype or "float32",
            strict=not self.model_args.ignore_mismatched_sizes,
        )
        try:
            model = load(**{**options, **overrides})
        except CheckpointError as error:
            if "strict=False" not in str(error):
                raise
            option = "(on the command line: --ignore_mismatched_sizes)"
            raise type(error)(f"{error} {option}") from error
        _LOGGER.info("%s", model.load_report)
        if self.args.do_train:
            model.initial_facts = {"model_name_or_path": weights_hash(model)}
        return model
