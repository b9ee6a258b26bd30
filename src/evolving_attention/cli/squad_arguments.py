"""Options of ``evolving-attention squad`` except model, attention and training.

Names, defaults and meaning are those of Hugging Face's run_qa.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolving_attention.cli.attention_arguments import (
    needs,
    option,
    refuse,
    refuse_below,
)
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields

_FILES = ("train_file", "validation_file", "test_file")


@dataclass
class QuestionArguments:
    """The files of questions, and how they become rows of tokens."""

    train_file: PathText | None = option(
        None, "Questions to train on: a .json file of SQuAD 1.1 or 2.0."
    )
    validation_file: PathText | None = option(None, "Questions to evaluate on.")
    test_file: PathText | None = option(None, "Questions to predict.")
    dataset_name: str | None = option(
        None, "squad, squad_v2 or another data set on the Hub, instead of files."
    )
    dataset_config_name: str | None = option(None, "Configuration of --dataset_name.")
    bad_rows: str = option(
        "raise",
        "Questions with an empty text, with an answer that is not in the context, or "
        "with a repeated id: raise, or skip.",
    )
    max_seq_length: int = option(
        384, "Tokens of a row; longer contexts are split into windows."
    )
    doc_stride: int = option(128, "Tokens that two windows of a context share.")
    max_train_samples: int | None = option(None, "Use only the first N questions.")
    max_eval_samples: int | None = option(None, "Use only the first N questions.")
    max_predict_samples: int | None = option(None, "Use only the first N questions.")
    pad_to_max_length: bool = option(
        False, "Pad every batch to max_seq_length: slower, with the same results."
    )
    overwrite_cache: bool = option(
        False, "Accepted; nothing is cached, every run tokenises its data."
    )
    preprocessing_num_workers: int | None = option(
        None, "Refused: the tokenizer already uses several threads."
    )
    json: bool = option(False, "Print all results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_below(8, self, "max_seq_length", fix="384 is usual")
        if self.preprocessing_num_workers is not None:
            raise refuse(
                "preprocessing_num_workers",
                self.preprocessing_num_workers,
                "no number of processes: the tokenizer uses threads, as many as "
                "RAYON_NUM_THREADS says",
                "leave it out",
            )
        if not 0 <= self.doc_stride < self.max_seq_length:
            raise refuse(
                "doc_stride",
                self.doc_stride,
                f"0 to {self.max_seq_length - 1}, less than --max_seq_length",
                "128 is usual",
            )
        limits = ("max_train_samples", "max_eval_samples", "max_predict_samples")
        refuse_below(1, self, *limits, fix="leave it out to use all")
        files = {name: getattr(self, name) for name in _FILES if getattr(self, name)}
        if self.dataset_name and files:
            raise ConfigError(
                f"--dataset_name {self.dataset_name}: expected no "
                f"--{next(iter(files))} with it; keep one of the two"
            )
        needs(self, "dataset_config_name", "dataset_name")
        for name, path in files.items():
            if Path(path).suffix.lower() != ".json":
                fix = "convert it: docs/question_answering.md shows the form"
                raise refuse(name, path, "a .json file", fix)


@dataclass
class AnswerArguments:
    """How answers are chosen."""

    version_2_with_negative: bool = option(
        False, "Questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float = option(
        0.0,
        "No answer is given if its score is above the best answer's by more than this.",
    )
    n_best_size: int = option(20, "Answers to keep of each question.")
    max_answer_length: int = option(30, "Tokens of the longest answer.")

    def __post_init__(self) -> None:
        check_fields(self)
        names = ("n_best_size", "max_answer_length")
        refuse_below(1, self, *names, fix="20 or 30 is usual")
        if not self.version_2_with_negative and self.null_score_diff_threshold:
            raise refuse(
                "null_score_diff_threshold",
                self.null_score_diff_threshold,
                "--version_2_with_negative with it",
                "add it, or leave this out",
            )

    def options(self) -> dict[str, Any]:
        """Returns the arguments of :func:`best_answers`."""
        return dict(vars(self))
