"""``evolving-attention textnet``: text classifiers from scratch, over word vectors."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.cli import textnet_arguments as arguments
from evolving_attention.cli import textnet_data as text_data
from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.commands import of_groups, settle_saving
from evolving_attention.cli.fine_tuning import (
    TrainedRun,
    accuracy,
    mean_squared_error,
    refuse_known,
)
from evolving_attention.cli.glue_arguments import TuningArguments
from evolving_attention.cli.glue_results import prediction_lines, probability_lines
from evolving_attention.cli.repeat import Once
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.device_names import resolve_device
from evolving_attention.training.refused_arguments import REFUSED

_LOGGER = logging.getLogger("evolving_attention")
_DATA = (arguments.TextDataArguments, "Data")
_TEST_FILE = "A csv, tsv or json file of labelled texts, instead of --dataset."
_MOST_USED = (
    "dataset",
    "data_dir",
    "train_file",
    "validation_file",
    "test_file",
    "word_vectors",
    "model",
    "attention",
    "alpha",
    "predictive_layers",
    "output_dir",
    "num_train_epochs",
    "learning_rate",
)


# ------------------------------------------------------------------------------ train


def _train(
    data: Any,
    words: Any,
    model: Any,
    attention: Any,
    tuning: Any,
    args: Any,
    once: Once,
) -> dict[str, Any]:
    if model.model == "cnn" and attention.attention not in (None, "vanilla"):
        fix = "leave it out, or choose a transformer"
        raise refuse("attention", attention.attention, "no --model cnn with it", fix)
    if attention.attention is not None and "attention" in (model.model_options or {}):
        both = "one of the two, --model_options has 'attention' too"
        raise refuse("attention", attention.attention, both, "leave one out")
    return _Run(tuning, args, once).run(data, words, model, attention.config())


def _settled(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options, with those of the paper and of early stopping."""
    refuse_known(given)
    given = settle_saving(_with_recipe(given))
    patience = given.get("early_stopping_patience")
    if patience is not None:
        given = {"eval_strategy": "epoch", **given}
        TuningArguments(early_stopping_patience=patience).settle(given)
    return given


TRAIN = of_groups(
    [
        _DATA,
        (arguments.WordArguments, "Words"),
        (arguments.TextNetModelArguments, "Model"),
        (arguments.TextNetAttention, "Attention"),
        (TuningArguments, "Training"),
        (RepeatArguments, "Training"),
        (arguments.TextNetTrainingArguments, "Training"),
    ],
    _train,
    """Train a text classifier from scratch, over vectors of words.

    Transformer, Conv-Transformer or CNN of the predictive attention paper, with
    its settings. The epoch that is best on the tuning part is kept; the test
    part is evaluated once, at the end. The same command continues after an
    interruption.

    Example: evolving-attention textnet train --dataset sst5 --data_dir SST-5
    --word_vectors glove.840B.300d.txt.gz --attention predictive --output_dir
    out/sst5
    """,
    _MOST_USED,
    _settled,
    refused={arguments.TextNetTrainingArguments: list(REFUSED)},
)


def _with_recipe(given: dict[str, Any]) -> dict[str, Any]:
    """Adds the options that the paper sets for a data set.

    Raises:
        ConfigError: no settings have this name.
    """
    of_sets = {"sst5": "sst", "snli": "snli", "acceptability": "sst"}
    name = given.get("paper_settings") or of_sets.get(str(given.get("dataset")), "sst")
    if name not in arguments.RECIPES:
        known = ", ".join(arguments.RECIPES)
        raise refuse("paper_settings", name, f"one of {known}", "choose one")
    recipe = dict(arguments.RECIPES[name])
    kind = given.get("attention")
    if kind not in ("evolving", "predictive"):
        recipe.pop("alpha", None)
    schedule = recipe["lr_scheduler_type"]
    if given.get("lr_scheduler_type", schedule) != schedule:
        recipe.pop("lr_scheduler_kwargs")  # options of the paper's schedule
    return {**recipe, **given}


class _Run(TrainedRun):
    """One run: texts, words, net and Trainer, then the steps."""

    def run(
        self,
        data: arguments.TextDataArguments,
        words: arguments.WordArguments,
        model_args: arguments.TextNetModelArguments,
        attention: Any,
    ) -> dict[str, Any]:
        """Trains, evaluates and tests; returns this run's part of all_results.json."""
        from evolving_attention.training.runtime import set_seed
        from evolving_attention.training.trainer import Trainer

        self.args.do_train = True
        checkpoint = self.last_checkpoint()
        longest = model_args.max_seq_length
        parts, tokenizer, table, rows = self.once(
            "text", lambda: _prepared(data, words, longest)
        )
        self.train_rows, tuning, test = rows
        self._settle(parts)
        set_seed(self.args.seed)
        model = _model(parts, tokenizer, table, words, model_args, attention)
        if self.args.dtype is not None:
            model = model.to(self.args.dtype)
        self.tuning.apply(model)
        _LOGGER.info(
            "%d texts to train on, %s to tune, %s to test; %d words; %s parameters",
            len(self.train_rows),
            *("none" if part is None else len(part) for part in (tuning, test)),
            len(tokenizer),
            f"{model.num_parameters():,}",
        )
        trainer = Trainer(
            model,
            self.args,
            train_dataset=self.train_rows,
            eval_dataset=tuning,
            processing_class=tokenizer,
            compute_metrics=mean_squared_error if parts.is_regression else accuracy,
            callbacks=self.callbacks(),
        )
        self.train(trainer, checkpoint)
        self.remove_displays(trainer)
        with self.logging_the_saved_model():
            for prefix, part in (("eval", tuning), ("test", test)):
                if part is not None:
                    found = trainer.evaluate(part, metric_key_prefix=prefix)
                    found[f"{prefix}_samples"] = len(part)
                    self.report(trainer, prefix, found)
        return self.results

    def _settle(self, parts: text_data.Parts) -> None:
        """Skip evaluation without a tuning part; evaluate scores by their error."""
        changed: dict[str, Any] = {}
        if parts.tuning is None:
            changed |= {"eval_strategy": "no", "load_best_model_at_end": False}
            changed["metric_for_best_model"] = None
        elif parts.is_regression and self.args.metric_for_best_model == "accuracy":
            changed |= {"metric_for_best_model": "mse", "greater_is_better": False}
        self.args = dataclasses.replace(self.args, **changed)


def _prepared(
    data: arguments.TextDataArguments, words: arguments.WordArguments, longest: int
) -> tuple[text_data.Parts, Any, Any, list[Any]]:
    """Returns parts, tokenizer, word vectors or None, and the rows of each part."""
    parts = text_data.load_parts(data)
    tokenizer = text_data.make_tokenizer(parts, data, words, longest)
    table = text_data.word_table(words, tokenizer)
    rows = [
        text_data.tokenized(part, tokenizer, longest, parts.are_pairs)
        for part in (parts.train, parts.tuning, parts.test)
    ]
    return parts, tokenizer, table, rows


def _model(
    parts: text_data.Parts,
    tokenizer: Any,
    table: Any,
    words: arguments.WordArguments,
    model_args: arguments.TextNetModelArguments,
    attention: Any,
) -> Any:
    """Builds the new net.

    Raises:
        ConfigError: options contradict one another or the vectors.
    """
    from evolving_attention.modeling import create_model

    width = model_args.embedding_size or 300
    if table is not None:
        width = int(table.values.shape[1])
        if model_args.embedding_size not in (None, width):
            given, fix = model_args.embedding_size, "leave it out"
            raise refuse("embedding_size", given, f"{width}, the vectors' width", fix)
    options: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "embedding_size": width,
        "type_vocab_size": 2 if parts.are_pairs else 1,
        "fixed_words": words.fixed,
        "num_labels": parts.num_labels,
        **model_args.config_options(),
    }
    names = parts.label_names
    if names is None:
        options["problem_type"] = "regression"
    else:
        options["id2label"] = dict(enumerate(names))
    if attention is not None:
        options["attention"] = attention
    model: Any = create_model(f"text_{model_args.model}", **options)
    model.initial_facts = {"word_vectors": text_data.word_hash(table)}
    return model if table is None else model.set_word_vectors(table.values)


# --------------------------------------------------------------------------- evaluate


def _evaluate(fitted: Any, data: arguments.TextDataArguments) -> dict[str, Any]:
    for name in ("train_file", "validation_file"):
        if getattr(data, name) is not None:
            fix = "give the file to evaluate on as --test_file"
            raise refuse(name, getattr(data, name), "no such file with it", fix)
    net, tokenizer = _load(fitted)
    rows = text_data.load_test(data, fitted.part, net.config)
    values, labels = _chances(net, tokenizer, rows, fitted), rows.column("label")
    results: dict[str, Any] = {
        "model": fitted.model_dir,
        "data": data.dataset or data.test_file,
    }
    if rows.is_regression:
        errors = values[:, 0] - np.asarray(labels)
        results["mse"] = float((errors**2).mean())
    else:
        right = values[np.arange(len(labels)), labels]
        results["accuracy"] = float((values.argmax(axis=1) == labels).mean())
        results["loss"] = float(-np.log(np.maximum(right, 1e-300)).mean())
    results["samples"] = len(rows)
    return results


EVALUATE = of_groups(
    [(arguments.EvaluateArguments, "Model"), _DATA],
    _evaluate,
    """Evaluate a trained net: accuracy, and the loss of a text.

    Example: evolving-attention textnet evaluate --model_dir out/sst5 --dataset
    sst5 --data_dir SST-5
    """,
    ("model_dir", "dataset", "data_dir", "part", "test_file"),
    texts={"train_file": "", "validation_file": "", "test_file": _TEST_FILE},
)


def _load(fitted: Any) -> tuple[Any, Any]:
    """Loads the net and its tokenizer.

    Raises:
        ConfigError: the folder holds another model.
        CheckpointError: the net cannot be read.
    """
    from evolving_attention.interop.hf import load_config
    from evolving_attention.modeling.text_net import TextNetForSequenceClassification
    from evolving_attention.text import AutoTokenizer

    folder = str(fitted.model_dir)
    kind = load_config(folder).get("model_type")
    if kind != "text_net":
        raise refuse(
            "model_dir",
            folder,
            f"a net of textnet train, this is a {kind!r}",
            "give its --output_dir",
        )
    net = TextNetForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return net.to(device=resolve_device(fitted.device)).eval(), tokenizer


def _chances(net: Any, tokenizer: Any, rows: Any, fitted: Any) -> np.ndarray:
    """Returns class probabilities, or regression values, [N, num_labels]."""
    columns = [rows.column(name) for name in rows.text_columns]
    given = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    found = net.predict(given, tokenizer, top_k=None, batch_size=fitted.batch_size)
    values = np.zeros((len(found), net.config.num_labels))
    for row, scores in enumerate(found):
        for one in scores:
            values[row, net.config.label2id[one["label"]]] = one["score"]
    return values


# ---------------------------------------------------------------------------- predict


def _predict(fitted: Any) -> dict[str, Any]:
    net, tokenizer = _load(fitted)
    path = Path(fitted.output_file)
    path.parent.mkdir(parents=True, exist_ok=True)  # fail before any work
    rows = text_data.load_test(fitted.data(), "test", net.config, labelled=False)
    values = _chances(net, tokenizer, rows, fitted)
    names, counts = rows.label_names, {}
    index = rows.column("idx")  # of the file's rows: --bad_rows may skip some
    if names is None:
        lines = prediction_lines(values, None, index=index)
    else:
        # The softmax of the logarithm restores the probability.
        logits = np.log(np.maximum(values, 1e-300))
        lines = probability_lines(logits, names, index=index)
        found = values.argmax(axis=1)
        counts = {f"texts of {n}": int((found == i).sum()) for i, n in enumerate(names)}
    durable.write_bytes(path, ("\n".join(lines) + "\n").encode("utf-8"))
    return {"file": str(path), "texts": len(rows), **counts}


PREDICT = of_groups(
    [(arguments.PredictArguments, "Model and texts")],
    _predict,
    """Predict the classes of a file's texts, into a .tsv file.

    Example: evolving-attention textnet predict --model_dir out/sst5 --input_file
    reviews.csv --output_file classes.tsv
    """,
    ("model_dir", "input_file", "output_file"),
)
