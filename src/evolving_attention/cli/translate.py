"""``evolving-attention translate``: trains, scores and averages translation models."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from evolving_attention.cli import paper_settings
from evolving_attention.cli import translate_arguments as arguments
from evolving_attention.cli.attention_arguments import refuse, refuse_unknown
from evolving_attention.cli.commands import of_groups, settle_saving
from evolving_attention.cli.common import run_trainer
from evolving_attention.cli.repeat import Once
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.timeseries_results import align, listed
from evolving_attention.cli.token_speed import TokensPerSecond
from evolving_attention.cli.translate_generate import GENERATE
from evolving_attention.errors import ConfigError
from evolving_attention.training.argument_rules import parse_json_object

__all__ = ["AVERAGE", "GENERATE", "SCORE", "TRAIN"]

_LOGGER = logging.getLogger("evolving_attention")
_MOST_USED = (
    "source_file",
    "target_file",
    "eval_source_file",
    "eval_target_file",
    "output_dir",
    "model",
    "vocab_size",
    "dropout",
    "num_train_epochs",
    "learning_rate",
    "warmup_steps",
    "per_device_train_batch_tokens",
)


# ------------------------------------------------------------------------------ train


def _settled(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options; without a validation set, evaluation is turned off.

    Raises:
        ConfigError: there is no validation set, and an option requires it; or the paper
            has no settings for the direction or the model.
    """
    given = _with_paper_settings(given)
    if given.get("eval_source_file") or given.get("eval_target_file"):
        # Early stopping monitors the loss even if no best weights are kept.
        return {"metric_for_best_model": "loss", **settle_saving(given)}
    for name, off in arguments.OFF_WITHOUT_EVALUATION.items():
        if given.get(name, off[0]) not in off:
            fix = "add it and --eval_target_file, or leave this out"
            raise refuse(name, given[name], "--eval_source_file with it", fix)
    return {**given, "eval_strategy": "no", "load_best_model_at_end": False}


def _with_paper_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Adds the paper's options for a direction where others are not given."""
    direction = given.get("paper_settings")
    if direction is None:
        return given
    usual = arguments.TranslationModelArguments.model
    found = paper_settings.translation(direction, given.get("model", usual))
    options = parse_json_object("model_options", given.get("model_options"))
    if isinstance(options, dict) and "dropout" in options:
        del found["dropout"]
    return {**found, **given}


def _train(pairs: Any, model_args: Any, args: Any, once: Once) -> dict[str, Any] | None:
    from evolving_attention.modeling import create_model, list_models
    from evolving_attention.training.callbacks import EarlyStoppingCallback
    from evolving_attention.training.checkpoint import check_output_dir, check_writable
    from evolving_attention.training.runtime import set_seed
    from evolving_attention.training.trainer import Trainer

    # fail before files are read
    refuse_unknown(model_args, "model", list_models("*transformer_*"))
    given = args.resume_from_checkpoint
    checkpoint = check_output_dir(args) if given is None else given
    check_writable(args)
    text, held_out, tokenizer = once("text", lambda: _text(pairs))
    set_seed(args.seed)
    model = create_model(
        model_args.model,
        task="seq2seq_lm",
        vocab_size=len(tokenizer),
        dtype=args.dtype or "float32",
        **model_args.config_options(),
    )
    config: Any = model.config
    longest = tokenizer.model_max_length = config.max_position_embeddings
    rows = once(
        "rows",
        lambda: [_rows(p, tokenizer, longest, pairs.longer) for p in (text, held_out)],
    )
    _LOGGER.info(
        "%d pairs to train on, %s to evaluate; %d tokens of BPE; %s parameters",
        len(rows[0]),
        "none" if rows[1] is None else len(rows[1]),
        len(tokenizer),
        f"{model.num_parameters():,}",
    )
    callbacks: list[Any] = [TokensPerSecond()]
    if held_out is not None and args.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(args.early_stopping_patience))
    trainer = Trainer(
        model,
        args,
        train_dataset=rows[0],
        eval_dataset=rows[1],
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    metrics = run_trainer(trainer, checkpoint)
    trainer.save_model()
    trainer.save_state()
    results: dict[str, Any] = {"model": args.output_dir, **metrics}
    if trainer.state.best_metric is not None:
        results["best_eval_loss"] = trainer.state.best_metric
        best = results["best_step"] = trainer.state.best_global_step
        for log in trainer.state.log_history:
            if log.get("step") == best and "eval_token_loss" in log:
                results["best_eval_token_loss"] = log["eval_token_loss"]
    if not trainer.is_world_process_zero():
        return None
    return {**results, "table": listed(results)}


TRAIN = of_groups(
    [
        (arguments.PairArguments, "Data"),
        (arguments.TranslationModelArguments, "Model"),
        (RepeatArguments, "Training"),
        (arguments.TranslationTrainingArguments, "Training"),
    ],
    _train,
    """Train a translation model on two files of sentences, line by line.

    Trains a byte-level BPE on both files, then the model. The same command goes on
    after an interruption. The folder holds the model of the lowest validation loss (or
    the last one), the tokenizer and the checkpoints.

    Example: evolving-attention translate train --source_file train.en.gz --target_file
    train.de.gz --eval_source_file val.en --eval_target_file val.de
    --output_dir out/en-de
    """,
    _MOST_USED,
    _settled,
)


def _text(pairs: Any) -> tuple[Any, Any, Any]:
    """Returns training pairs, validation pairs or None, and a new tokenizer."""
    from evolving_attention.data.parallel_files import read_parallel
    from evolving_attention.text import train_bpe

    held_out = None
    if pairs.eval_source_file:
        held_out = read_parallel(pairs.eval_source_file, pairs.eval_target_file)
    text = read_parallel(pairs.source_file, pairs.target_file)
    tokenizer = train_bpe(
        [*text.source, *text.target], pairs.vocab_size, lowercase=pairs.lowercase
    )
    return text, held_out, tokenizer


def _rows(text: Any, tokenizer: Any, longest: int, longer: Any) -> Any:
    from evolving_attention.data.parallel import ParallelDataset

    if text is None:
        return None
    return ParallelDataset.from_text(text, tokenizer, longest, longer)


# ------------------------------------------------------------------------------ score


def _score(files: Any, search: Any) -> dict[str, Any]:
    from evolving_attention.data.parallel_files import read_parallel
    from evolving_attention.metrics.translation import (
        paired_bootstrap,
        translation_scores,
    )

    results: dict[str, Any] = {}
    other = None
    if files.baseline_file:  # a wrong file is found before translating
        other = read_parallel(files.baseline_file, files.target_file).source
    if files.hypothesis_file:
        if search.model_dir or files.source_file:
            raise ConfigError(
                f"--hypothesis_file {files.hypothesis_file}: expected no --model_dir "
                "and no --source_file with it; leave it out to translate"
            )
        for option in sorted(search.given - {"num_threads"}):
            fix = "leave one out: these translations are there already"
            expected = "no --hypothesis_file with it"
            raise refuse(option, getattr(search, option), expected, fix)
        pair = read_parallel(files.hypothesis_file, files.target_file)
        hypotheses = pair.source
    elif not files.source_file:
        raise ConfigError(
            "--hypothesis_file is missing: expected the translations to score, or "
            "--model_dir and --source_file; add one of them"
        )
    else:
        pair = read_parallel(files.source_file, files.target_file)
        translator = search.translator()
        options = {"batch_size": search.batch_size, "longer": search.longer}
        loss = translator.score(pair.source, pair.target, **options)
        results |= {"loss": loss.loss, "perplexity": math.exp(loss.loss)}
        results["tokens"] = loss.tokens
        hypotheses = translator.translate(
            pair.source, name=files.source_file, **search.search_options(translator)
        )
    found = translation_scores(hypotheses, pair.target, lowercase=files.lowercase)
    for key, (value, signature) in found.items():
        results |= {key: value, f"{key}_signature": signature}
    if other is not None:
        compared = paired_bootstrap(
            hypotheses, other, pair.target, lowercase=files.lowercase
        )
        for key, (_, before, p, signature) in compared.items():
            results |= {f"baseline_{key}": before, f"{key}_p_value": p}
            results[f"{key}_signature"] = signature
    return {**results, "sentences": len(hypotheses), "table": listed(results)}


SCORE = of_groups(
    [
        (arguments.ScoreArguments, "Data"),
        (arguments.SearchArguments, "Model and search"),
    ],
    _score,
    """Score translations by BLEU and chrF (sacrebleu), with their signatures.

    With --model_dir and --source_file it translates first, and also reports the loss of
    a token of --target_file, without label smoothing. With --baseline_file it compares
    with another system, by 1000 bootstrap samples of the lines (Koehn, 2004).

    Example: evolving-attention translate score --model_dir out/en-de --source_file
    test.en --target_file test.de
    """,
)


# ---------------------------------------------------------------------------- average


def _average(files: Any) -> dict[str, Any]:
    from evolving_attention.training.averaging import (
        average_checkpoints,
        last_checkpoints,
    )

    paths = last_checkpoints(files.model_dir, files.last)
    average_checkpoints(paths, Path(files.output_dir))
    results = {"model": files.output_dir, "averaged": [path.name for path in paths]}
    lines = [["model", files.output_dir], ["averaged", ", ".join(results["averaged"])]]
    return {**results, "table": align(lines)}


AVERAGE = of_groups(
    [(arguments.AverageArguments, "Checkpoints")],
    _average,
    """Average the weights of the last checkpoints of a run.

    Example: evolving-attention translate average --model_dir out/en-de --last 10
    --output_dir out/en-de/average
    """,
)
