"""``evolving-attention glue`` with T5: rows and labels as text, generated answers."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.cli import glue_results
from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.glue_run import GlueRun
from evolving_attention.data.glue_tasks import GlueTask
from evolving_attention.data.text_to_text import (
    PromptDataset,
    answer_of,
    answers,
    wrong,
)
from evolving_attention.errors import ConfigError
from evolving_attention.training.evaluate import speed_metrics
from evolving_attention.training.trainer import Trainer

_LOGGER = logging.getLogger("evolving_attention")


class _TextTrainer(Trainer):
    """Evaluates by greedy generation, in addition to the loss per target token.

    Args:
        task: the task of the rows.
        options: see :class:`Trainer`; ``processing_class`` is required.
    """

    def __init__(
        self, model: Any, args: Any, *, task: GlueTask, **options: Any
    ) -> None:
        super().__init__(model, args, **options)
        self.task = task
        every = self.processing_class(answers(task)).input_ids
        self.limit = max(map(len, every))  # a longer text cannot be an answer

    def answers(self, rows: PromptDataset) -> list[float | int | None]:
        """Returns the answer for each row; None if the text contains none."""
        order = np.argsort([-len(ids) for ids in rows.prompts], kind="stable")
        mine = order[self.team.rank :: self.team.size].tolist()
        size = self.args.per_device_eval_batch_size
        starts = range(0, len(mine), size)
        found: list[Any] = []
        with self.team.watching(self.args.output_dir):
            for done, start in enumerate(starts):
                part = mine[start : start + size]
                options = {"num_beams": 1, "max_new_tokens": self.limit}
                made = self.model.search("glue", rows.sources(part), options)
                texts = map(self._text, made.rows)
                found += zip(
                    part, (answer_of(self.task, t) for t in texts), strict=True
                )
                self._after_prediction(done + 1, len(starts))
            every = dict(map(tuple, self.team.gather(found)))
        return [every[i] for i in range(len(rows))]

    def _text(self, ids: list[int]) -> str:
        tokenizer = self.processing_class
        known = [index for index in ids if index < len(tokenizer)]
        return str(tokenizer.decode(known, skip_special_tokens=True))

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: Sequence[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Returns the loss per target token, and the metrics of the generated answers.

        A text that is not an answer counts as a wrong one: another class, or the end of
        the scale that is farther from the score. ``invalid_outputs`` counts such texts.
        """
        rows = self.eval_dataset if eval_dataset is None else eval_dataset
        began = time.monotonic()
        output = self._predict(rows, "eval_dataset", metric_key_prefix, True)
        metrics = output.metrics
        if not self.args.prediction_loss_only and rows.labels is not None:
            found = self.answers(rows)
            invalid = sum(answer is None for answer in found)
            filled = [
                wrong(self.task, label) if answer is None else answer
                for answer, label in zip(found, rows.labels.tolist(), strict=True)
            ]
            values = {"invalid_outputs": invalid}
            if self.compute_metrics is not None:
                values |= self.compute_metrics((np.array(filled), rows.labels))
            metrics |= {f"{metric_key_prefix}_{k}": v for k, v in values.items()}
            _tell(invalid, len(rows), "counts as a wrong answer")
        steps = math.ceil(len(rows) / self.args.per_device_eval_batch_size)
        seconds = time.monotonic() - began
        metrics |= speed_metrics(metric_key_prefix, seconds, len(rows), steps)
        self.log(metrics)
        self._event("on_evaluate", metrics=metrics)
        return metrics


class TextRun(GlueRun):
    """A run of a text-to-text model: prompts, target words and generated answers."""

    text_to_text = True

    def __init__(self, model_args: Any, attention: Any, data_args: Any, *rest: Any):
        if not data_args.task_name:
            raise ConfigError(
                f"--model_name_or_path {model_args.model_name_or_path}: a text-to-text "
                "model has prompts for GLUE's tasks alone, expected --task_name; for "
                "data of your own take a BERT or RoBERTa, or ea.Trainer with text"
            )
        if data_args.pad_to_max_length:
            raise refuse(
                "pad_to_max_length",
                True,
                "False with a text-to-text model",
                "leave it out: the results are the same",
            )
        super().__init__(model_args, attention, data_args, *rest)

    def _agree_on_labels(self, data: Any) -> None:
        """Does nothing: labels are words, not numbers."""

    def _tokenises(self, tokenizer: Any, length: int) -> Any:
        task: Any = self.data.task
        return lambda part: PromptDataset(part, task, tokenizer, length)

    def _model(self) -> Any:
        from evolving_attention.modeling import AutoModelForSeq2SeqLM
        from evolving_attention.modeling.encoder_decoder import evolving_chains

        options: dict[str, Any] = dict(self.changes)
        if self.attention is not None:
            options |= evolving_chains(self.attention)
            options.pop("attention")  # load_model passes it
        return self.load_model(AutoModelForSeq2SeqLM, **options)

    def _trainer_of(self, tokenizer: Any, length: int) -> Any:
        return self._built(_TextTrainer, tokenizer, task=self.data.task)

    def _predict(self, trainer: Any) -> None:
        folder = Path(self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.test_rows.items():
            found = trainer.answers(rows)
            if not trainer.is_world_process_zero():
                continue
            invalid = sum(answer is None for answer in found)
            lowest = "the first class" if self.data.label_names else "0"
            _tell(invalid, len(rows), f"is written as {lowest}")
            self.results[f"predict_{name}_invalid_outputs"] = invalid
            path = folder / f"predict_results_{name}.txt"
            filled = np.array([answer or 0 for answer in found])
            index = self.data.prediction[name].column("idx")  # of the file's rows
            glue_results.write_answers(path, filled, self.data.label_names, index)
            _LOGGER.info("%d predictions are in %s", len(rows), path)


def _tell(invalid: int, rows: int, what: str) -> None:
    if invalid:
        _LOGGER.warning(
            "%d of %d generated texts are no answer of the task; each %s",
            *(invalid, rows, what),
        )
