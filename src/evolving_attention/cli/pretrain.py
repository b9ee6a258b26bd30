"""``evolving-attention pretrain``: masked language models from text files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evolving_attention import distributed
from evolving_attention.cli import pretrain_arguments as arguments
from evolving_attention.cli.attention_arguments import AttentionOptions, refuse
from evolving_attention.cli.commands import of_groups
from evolving_attention.cli.common import run_trainer
from evolving_attention.cli.repeat import Once
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.timeseries_results import listed
from evolving_attention.cli.token_speed import TokensPerSecond
from evolving_attention.errors import ConfigError, Error

_LOGGER = logging.getLogger("evolving_attention")
_Made = TypeVar("_Made")
_MOST_USED = (
    "train_file",
    "model_name",
    "output_dir",
    "attention",
    "tokenizer",
    "vocab_size",
    "max_seq_length",
    "next_sentence",
    "max_steps",
    "learning_rate",
    "per_device_train_batch_size",
)


def _pretrain(
    corpus: Any, model_args: Any, attention: Any, args: Any, once: Once
) -> dict[str, Any] | None:
    from evolving_attention.training.checkpoint import check_output_dir, check_writable
    from evolving_attention.training.pretraining import PretrainingTrainer
    from evolving_attention.training.runtime import set_seed

    source = _Source(corpus, model_args, attention.config())  # reports errors early
    given = args.resume_from_checkpoint
    checkpoint = check_output_dir(args) if given is None else given
    check_writable(args)
    tokenizer, train, held_out = _first_alone(
        args, lambda: _data(corpus, source, args, once)
    )
    if held_out is None and args.eval_strategy != "no":
        changed = {"eval_strategy": "no", "load_best_model_at_end": False}
        args = dataclasses.replace(args, **changed)
    set_seed(args.seed)
    model = source.model(tokenizer, args.dtype or "float32")
    if tokenizer.model_max_length is None:
        tokenizer.model_max_length = source.longest
    _LOGGER.info(
        "%d rows to train on, %s to evaluate, of %s tokens; %d tokens of vocabulary; "
        "%s parameters",
        len(train),
        "none" if held_out is None else len(held_out),
        f"{train.store.about['tokens']:,}",
        len(tokenizer),
        f"{model.num_parameters():,}",
    )
    trainer = PretrainingTrainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=held_out,
        processing_class=tokenizer,
        callbacks=[TokensPerSecond()],
    )
    metrics = run_trainer(trainer, checkpoint)
    trainer.save_model()
    trainer.save_metrics("train", metrics)
    if held_out is not None:
        scores = trainer.evaluate()
        trainer.save_metrics("eval", scores)
        metrics = {**metrics, **scores}
    trainer.save_state()
    if not trainer.is_world_process_zero():
        return None
    results = {"model": args.output_dir, **metrics}
    return {**results, "table": listed(results)}


TRAIN = of_groups(
    [
        (arguments.CorpusArguments, "Corpus"),
        (arguments.NewModelArguments, "Model"),
        (AttentionOptions, "Attention"),
        (RepeatArguments, "Training"),
        (arguments.PretrainingArguments, "Training"),
    ],
    _pretrain,
    """Pre-train a masked language model on text files.

    Tokenizes the corpus once, into a folder on disk; every later run with the same
    files and tokenizer starts at once. The same command continues after an
    interruption. The folder holds the model, the tokenizer and the checkpoints.

    Example: evolving-attention pretrain --train_file corpus.txt --model_name
    ea_bert_base --vocab_size 8000 --max_steps 10000 --output_dir out/bert
    """,
    _MOST_USED,
)


def _refuse_misspelt(kind: Any, values: Mapping[str, Any], file: str) -> None:
    """Refuses keys that look like an option that is absent; others are kept.

    Raises:
        ConfigError: names the file, the key and the option.
    """
    known = kind.known_options()
    absent = [name for name in known if name not in values]
    for key in values:
        if key not in known and (hint := kind.misspelt(key, absent)):
            raise ConfigError(
                f"--config {file}: has the key {key!r}, which no option has; {hint}"
            )


def _first_alone(args: Any, make: Callable[[], _Made]) -> _Made:
    """Let the first process prepare files, which the other processes then read.

    Raises:
        PeerLost: in the other processes, if the first one fails.
    """
    world = distributed.world()
    if world is None:
        return make()
    world.timeout = float(args.ddp_timeout)
    if world.rank == 0:
        try:
            made = make()
        except Error as error:
            world.alarm(f"{type(error).__name__}: {error}")
            raise
        world.values("ready")
        return made
    world.values("waiting")
    return make()


# ------------------------------------------------------------------------------ model


class _Source:
    """Where the model comes from: a name, a config, or a checkpoint.

    Raises:
        ConfigError: the name is unknown, or the model has no head for the task.
        CheckpointError: the config or checkpoint cannot be read.
    """

    def __init__(self, corpus: Any, model_args: Any, attention: Any) -> None:
        self.corpus, self.given, self.attention = corpus, model_args, attention
        self.longest = 0  # longest sequence of the model, in tokens
        self.values: dict[str, Any] = {}  # values of the config, if there is one
        self.task = "pretraining" if corpus.next_sentence else "masked_lm"
        self.kind = self._kind()
        if corpus.next_sentence and self.kind != "bert":
            raise refuse(
                "next_sentence",
                True,
                f"a BERT, and this model is {self.kind!r}, which has no such task",
                "leave it out, or choose a BERT",
            )
        if not self.given.model_name_or_path:
            self._check_length(self._config())

    def _kind(self) -> str:
        """The model's type, such as ``bert``."""
        from evolving_attention.interop.evolving_mark import base_type
        from evolving_attention.modeling import list_models
        from evolving_attention.modeling.base import MODELS
        from evolving_attention.modeling.names import sizes_of

        name = self.given.model_name
        if name:
            known = [n for n in list_models() if _is_encoder(n) and sizes_of(n)]
            if name not in known:
                fix = "ea.list_models() lists them"
                raise refuse("model_name", name, f"one of {', '.join(known)}", fix)
            return "roberta" if "roberta" in name else "bert"
        self.values = self._config_values()
        kind = str(base_type({"model_type": "bert", **self.values}))
        if kind not in MODELS["masked_lm"]:
            where = "config" if self.given.config else "model_name_or_path"
            raise refuse(
                where,
                getattr(self.given, where),
                f"a model_type of {', '.join(sorted(MODELS['masked_lm']))}, not "
                f"{kind!r}",
                "choose another model",
            )
        return kind

    def _config_values(self) -> dict[str, Any]:
        from evolving_attention.interop.config_rules import check_config
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.json_file import parse_object
        from evolving_attention.interop.resolve import resolve

        if self.given.model_name_or_path:
            return load_config(resolve(str(self.given.model_name_or_path)))
        path = Path(self.given.config)
        if path.is_dir():
            return load_config(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"--config {path}: cannot be read ({error}), expected a JSON file as "
                'config.json: {"model_type": "bert", "hidden_size": 256, …}; correct it'
            ) from error
        values = parse_object(data, f"--config {path}", ConfigError)
        check_config(values, f"--config {path}")
        return values

    def _config(self, **of_tokenizer: Any) -> Any:
        """Returns the config of a new model.

        Raises:
            ConfigError: it has an unknown option or an impossible value.
        """
        from evolving_attention.modeling.config import CONFIGS, named_source
        from evolving_attention.modeling.names import sizes_of

        options = {**of_tokenizer, **self.given.model_options}
        if self.attention is not None:
            options["attention"] = self.attention
        named = sizes_of(self.given.model_name or "")
        if named is not None:
            kind, sizes = named
            return kind(**{**sizes, **options})
        kind = CONFIGS[self.kind]
        _refuse_misspelt(kind, self.values, self.given.config)
        file = f"--config {self.given.config}"
        with named_source(file, partial(kind.from_dict, self.values)):
            return kind.from_dict(self.values, **options)

    def model(self, tokenizer: Any, dtype: str) -> Any:
        """Builds the model for the tokenizer's vocabulary."""
        from evolving_attention import modeling

        size = len(tokenizer)
        if self.given.model_name_or_path:
            return self._from_checkpoint(size, dtype)
        config = self._config(vocab_size=size, pad_token_id=tokenizer.pad_token_id)
        if config.vocab_size < size:
            given, fix = config.vocab_size, "leave it out of --model_options"
            raise refuse("vocab_size", given, f"{size} or more, the tokenizer's", fix)
        self.longest = self._check_length(config)
        auto = {
            "masked_lm": modeling.AutoModelForMaskedLM,
            "pretraining": modeling.AutoModelForPreTraining,
        }[self.task]
        return auto.from_config(config, dtype)

    def _from_checkpoint(self, size: int, dtype: str) -> Any:
        from evolving_attention import modeling
        from evolving_attention.modeling.untrained import weights_hash

        auto: Any = modeling.AutoModelForMaskedLM
        if self.task == "pretraining":
            auto = modeling.AutoModelForPreTraining
        name = str(self.given.model_name_or_path)
        model = auto.from_pretrained(name, attention=self.attention, dtype=dtype)
        _LOGGER.info("%s", model.load_report)
        if model.config.vocab_size < size:
            raise refuse(
                "tokenizer",
                self.corpus.tokenizer,
                f"at most {model.config.vocab_size} tokens, those of {name}, and it "
                f"has {size}",
                "leave --tokenizer out",
            )
        self.longest = self._check_length(model.config)
        model.initial_facts = {"model_name_or_path": weights_hash(model)}
        return model

    def _check_length(self, config: Any) -> int:
        """Returns the maximum number of tokens per row."""
        # RoBERTa's position numbers begin after the padding id
        shift = config.pad_token_id + 1 if self.kind == "roberta" else 0
        most = config.max_position_embeddings - shift
        if self.corpus.max_seq_length > most:
            raise refuse(
                "max_seq_length",
                self.corpus.max_seq_length,
                f"at most {most}, the model's positions",
                "lower it",
            )
        return int(most)


def _is_encoder(name: str) -> bool:
    return "bert" in name or name.startswith("realformer")


# ------------------------------------------------------------------------------- data


def _data(corpus: Any, source: _Source, args: Any, once: Once) -> tuple[Any, Any, Any]:
    """Returns tokenizer, training rows, and evaluation rows or None."""
    from evolving_attention.data.corpus import corpus_files
    from evolving_attention.data.pretraining import PretrainingDataset, default_cache

    if corpus.cache_dir is None:
        corpus = dataclasses.replace(corpus, cache_dir=default_cache())
    files = corpus_files(corpus.train_file)
    held_files = corpus_files(corpus.validation_file) if corpus.validation_file else []
    tokenizer = once("tokenizer", lambda: _tokenizer(corpus, source, files))
    options = {
        **corpus.row_options(),
        "seed": args.seed if args.data_seed is None else args.data_seed,
    }

    def rows(paths: list[Path]) -> PretrainingDataset:
        return PretrainingDataset.from_files(paths, tokenizer, **options)

    train = rows(files)
    share = corpus.validation_split_percentage / 100
    if held_files:
        return tokenizer, train, rows(held_files)
    if not share:
        return tokenizer, train, None
    return tokenizer, *train.split(share)


def _tokenizer(corpus: Any, source: _Source, files: list[Path]) -> Any:
    """Returns the given tokenizer, or one trained on the corpus; the cache keeps it."""
    from evolving_attention.data.corpus import corpus_texts
    from evolving_attention.data.token_store import cached_folder, file_key
    from evolving_attention.text import AutoTokenizer, train_byte_bpe, train_wordpiece

    name = corpus.tokenizer or source.given.model_name_or_path
    if name is None:
        name = "bpe" if source.kind == "roberta" else "wordpiece"
    if name not in arguments.TRAINED:
        return AutoTokenizer.from_pretrained(name)
    lowercase = corpus.lowercase
    if lowercase is None:
        lowercase = name == "wordpiece"
    key = [name, corpus.vocab_size, lowercase, [file_key(file) for file in files]]
    text = json.dumps(key).encode()
    folder = Path(corpus.cache_dir) / (
        f"tokenizer-{hashlib.blake2b(text, digest_size=16).hexdigest()}"
    )

    def write(into: Path) -> None:
        _LOGGER.info("training a tokenizer (%s) on %d files", name, len(files))
        train = {"wordpiece": train_wordpiece, "bpe": train_byte_bpe}[name]
        made = train(corpus_texts(files), corpus.vocab_size, lowercase=lowercase)
        made.save_pretrained(into)

    cached_folder(folder, write)
    return AutoTokenizer.from_pretrained(folder)
