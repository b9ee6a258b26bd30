"""One run of ``evolving-attention glue``: data, model and Trainer, then the steps."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.cli import glue_data, glue_results
from evolving_attention.cli.fine_tuning import (
    FineTuning,
    accuracy,
    mean_squared_error,
)
from evolving_attention.cli.glue_arguments import (
    AttentionArguments,
    DataTrainingArguments,
    ModelArguments,
    TuningArguments,
)
from evolving_attention.cli.repeat import Once
from evolving_attention.training.arguments import TrainingArguments

_LOGGER = logging.getLogger("evolving_attention")


class GlueRun(FineTuning):
    """One run: data, model and Trainer, then the requested steps."""

    text_to_text = False
    eval_rows: dict[str, Any]
    test_rows: dict[str, Any]

    def __init__(
        self,
        model_args: ModelArguments,
        attention: AttentionArguments,
        data_args: DataTrainingArguments,
        tuning: TuningArguments,
        args: TrainingArguments,
        base: dict[str, Any],
        changes: dict[str, Any],
        once: Once,
    ) -> None:
        super().__init__(model_args, tuning, args, attention.config(), once)
        self.data_args, self.base, self.changes = data_args, base, changes
        glue_data.check_needs(data_args, args, base)

    def run(self) -> dict[str, Any]:
        """Run all steps and return this run's part of all_results.json."""

        checkpoint = self.last_checkpoint()
        self.data = self.once("data", self._load_data)
        self.metrics = self._metrics()
        trainer = self._trainer()
        if self.args.do_train:
            self.train(trainer, checkpoint)
        self.remove_displays(trainer)
        with self.logging_the_saved_model():
            if self.args.do_eval:
                self._evaluate(trainer)
            if self.args.do_predict:
                self._predict(trainer)
        if self.args.do_train and trainer.is_world_process_zero():
            self._write_card(trainer)
        return self.results

    def _load_data(self) -> glue_data.RunData:
        data = glue_data.load_data(self.data_args, self.args, self.base)
        self._agree_on_labels(data)
        return data

    def _agree_on_labels(self, data: glue_data.RunData) -> None:
        """Use the checkpoint's class numbers if it has the same class names."""
        names, known = data.label_names, self.base.get("label2id")
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
        data.train = None if data.train is None else change(data.train)
        data.evaluation = {n: change(part) for n, part in data.evaluation.items()}
        data.prediction = {n: change(part) for n, part in data.prediction.items()}
        order = sorted(range(len(names)), key=ids.__getitem__)
        data.label_names = tuple(names[i] for i in order)

    def _trainer(self) -> Any:
        """Builds tokenizer, model and Trainer."""
        from concurrent.futures import ThreadPoolExecutor

        from evolving_attention.training.runtime import set_num_threads, set_seed

        tokenizer, length = self.tokenizer(self.data_args.max_seq_length)
        set_num_threads(self.args.num_threads)
        set_seed(self.args.seed)
        with ThreadPoolExecutor(1, "ea-tokenise") as pool:
            ready = pool.submit(self._tokenise, tokenizer, length)
            self.model = self._model()
        self.tuning.apply(self.model)
        ready.result()  # raises the errors of the tokenising thread
        return self._trainer_of(tokenizer, length)

    def _trainer_of(self, tokenizer: Any, length: int) -> Any:
        """Builds the Trainer from the model and the tokenised rows."""
        from evolving_attention.training.trainer import Trainer

        collator = self.collator(self.data_args, tokenizer, length)
        return self._built(Trainer, tokenizer, data_collator=collator)

    def _built(self, trainer: Any, tokenizer: Any, **own: Any) -> Any:
        """Builds a Trainer of this class, with options of its own."""
        return trainer(
            self.model,
            self.args,
            train_dataset=self.train_rows,
            eval_dataset=next(iter(self.eval_rows.values()), None),
            processing_class=tokenizer,
            compute_metrics=self.metrics,
            callbacks=self.callbacks(),
            **own,
        )

    def _tokenise(self, tokenizer: Any, length: int) -> None:
        """Tokenises all rows, in the background while the model loads."""
        ready = self._tokenises(tokenizer, length)

        def rows() -> tuple[Any, dict[str, Any], dict[str, Any]]:
            data = self.data
            train = None if data.train is None else ready(data.train)
            parts = (data.evaluation, data.prediction)
            dev, test = ({n: ready(rows) for n, rows in p.items()} for p in parts)
            return train, dev, test

        self.train_rows, self.eval_rows, self.test_rows = self.once("rows", rows)

    def _tokenises(self, tokenizer: Any, length: int) -> Callable[[Any], Any]:
        """Returns a function that converts rows of text to rows of ids."""
        from evolving_attention.data.features import tokenize_dataset

        return functools.partial(
            tokenize_dataset, tokenizer=tokenizer, max_length=length
        )

    def _model(self) -> Any:
        from evolving_attention.modeling import AutoModelForSequenceClassification

        names = self.data.label_names
        overrides = dict(self.changes)
        if names is not None:
            overrides["id2label"] = {i: label for i, label in enumerate(names)}
            overrides["label2id"] = {label: i for i, label in enumerate(names)}
        if self.data.is_regression:
            overrides["problem_type"] = "regression"
        elif self.data.several:
            overrides["problem_type"] = "multi_label_classification"
        auto = AutoModelForSequenceClassification
        return self.load_model(auto, num_labels=self.data.num_labels, **overrides)

    def _metrics(self) -> Callable[[Any], dict[str, float]] | None:
        """Returns the task's metrics; for own data accuracy or mean squared error."""
        from evolving_attention.metrics import compute_metrics

        if not self.data.evaluation:
            return None
        if self.data.task is not None:
            task = self.data.task
            return compute_metrics(task.metrics, regression=task.is_regression)
        if self.data.several:
            return _several
        return mean_squared_error if self.data.is_regression else accuracy

    # ------------------------------------------------------------------------- steps

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
                path,
                output.predictions,
                self.data.label_names,
                self.data.several,
                self.data.prediction[name].column("idx"),  # --bad_rows may skip some
            )
            _LOGGER.info("%d predictions are in %s", len(rows), path)

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
            text_to_text=self.text_to_text,
        )
        durable.write_bytes(folder / "README.md", card.encode("utf-8", "replace"))


def _several(prediction: Any) -> dict[str, float]:
    """Returns micro F1 over all labels, and the share of rows with all labels right."""
    found, true = np.asarray(prediction[0]) > 0, np.asarray(prediction[1]) > 0
    both = int((found & true).sum())
    either = int(found.sum() + true.sum())
    return {
        "f1": 2 * both / either if either else 1.0,
        "accuracy": float((found == true).all(axis=1).mean()),
    }
