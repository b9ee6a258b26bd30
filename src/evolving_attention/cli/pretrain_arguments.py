"""Options of ``evolving-attention pretrain`` except attention and training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evolving_attention.cli.attention_arguments import option, refuse, refuse_missing
from evolving_attention.cli.model_options import json_object, refuse_own_keys
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields
from evolving_attention.training.arguments import TrainingArguments

TRAINED = ("wordpiece", "bpe")  # tokenizers that are trained on the corpus


@dataclass
class CorpusArguments:
    """The corpus, its tokenizer, and how its text becomes rows."""

    train_file: str | list[str] | None = option(
        None,
        "Text files of the corpus (UTF-8, or gzip of it), or folders of them: a "
        "sentence or paragraph in each line, blank lines between documents.",
    )
    validation_file: str | list[str] | None = option(
        None, "Text files to evaluate on; default: a part of the corpus."
    )
    validation_split_percentage: float = option(
        5.0,
        "Without --validation_file, the last rows of the corpus that are held out, in "
        "percent; 0: none.",
    )
    tokenizer: str | None = option(
        None,
        "wordpiece or bpe (byte-level), trained on the corpus, or a folder that has a "
        "tokenizer. Default: that of --model_name_or_path, else wordpiece for BERT "
        "and bpe for RoBERTa.",
    )
    vocab_size: int = option(30522, "Tokens of a trained tokenizer.")
    lowercase: bool | None = option(
        None, "Lower-case text for a trained tokenizer; default: for wordpiece."
    )
    max_seq_length: int = option(
        128, "Most tokens of a row; without --next_sentence, all but the last are full."
    )
    next_sentence: bool = option(
        False,
        "Rows are pairs of texts; the model also predicts whether the second follows.",
    )
    mlm_probability: float = option(0.15, "Share of tokens to predict.")
    mask_replace_prob: float = option(
        0.8, "Share of these that are replaced by the mask token."
    )
    random_replace_prob: float = option(
        0.1, "Share of these that are replaced by a random token."
    )
    whole_word_mask: bool = option(False, "Choose whole words to predict.")
    cache_dir: PathText | None = option(
        None,
        "Folder for the tokens of the corpus; default: evolving-attention/corpora in "
        "the user's cache folder.",
    )
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        example = "such as corpus.txt or corpus.txt.gz"
        refuse_missing(self, train_file=f"text files or folders of them, {example}")
        percent = self.validation_split_percentage
        if not 0 <= percent < 100:
            raise refuse(
                "validation_split_percentage",
                percent,
                "0 to 100, without 100",
                "5 is usual",
            )

    def row_options(self) -> dict[str, Any]:
        """Returns options of ``PretrainingDataset.from_files``."""
        names = (
            "max_seq_length",
            "next_sentence",
            "mlm_probability",
            "mask_replace_prob",
            "random_replace_prob",
            "whole_word_mask",
            "cache_dir",
        )
        return {name: getattr(self, name) for name in names}


@dataclass
class NewModelArguments:
    """The model: a new one by name or config, or a checkpoint."""

    model_name: str | None = option(
        None,
        "New model by the name of its size: bert_base, ea_bert_base (evolving "
        "attention), realformer_small, roberta_base, …",
    )
    config: PathText | None = option(
        None, "New model by its config: a JSON file, or a folder that has config.json."
    )
    model_name_or_path: PathText | None = option(
        None,
        "Continue from this checkpoint: a folder, package:NAME/PATH or a model of the "
        "Hub. Parameters that --attention adds are drawn at random.",
    )
    model_options: dict[str, Any] | str | None = option(
        None,
        'Options of a new model\'s config as JSON: {"num_hidden_layers": 6, '
        '"norm_first": true}.',
    )

    def __post_init__(self) -> None:
        check_fields(self)
        names = ("model_name", "config", "model_name_or_path")
        given = [name for name in names if getattr(self, name)]
        if not given:
            raise ConfigError(
                "--model_name is missing: expected the name of a size such as "
                "ea_bert_base, or --config or --model_name_or_path in place of it; add "
                "one"
            )
        if len(given) > 1:
            raise refuse(
                given[0],
                getattr(self, given[0]),
                f"no --{given[1]} with it",
                "keep one of the two",
            )
        example = '{"norm_first": true}'
        found = json_object("model_options", self.model_options, example)
        if found and self.model_name_or_path:
            fix = "leave it out: a checkpoint has its own config"
            text = self.model_options
            raise refuse("model_options", text, "--model_name or --config", fix)
        refuse_own_keys(found, {"name": "give --model_name"})
        self.model_options = found


@dataclass
class PretrainingArguments(TrainingArguments):
    """The training arguments, with the defaults of RealFormer's appendix."""

    num_train_epochs: float = option(40.0, "Passes over the corpus.")
    per_device_train_batch_size: int = option(32, "Rows in one training batch.")
    per_device_eval_batch_size: int = option(32, "Rows in one evaluation batch.")
    train_sampling_strategy: Literal["group_by_length", "random", "sequential"] = (
        option("random", "Order of rows: random, group_by_length or sequential.")
    )
    learning_rate: float = option(1e-4, "Peak learning rate.")
    warmup_steps: float = option(
        0.01, "Steps of linear warm-up; a value below 1 is a share of all steps."
    )
    weight_decay: float = option(
        0.01,
        "Weight decay (not on biases and LayerNorm weights): decoupled for adamw, an "
        "L2 penalty for adam, radam and sgd.",
    )
    adam_epsilon: float = option(
        1e-6, "Epsilon of the optimizer, > 0 (adamw, adam, radam)."
    )
    eval_strategy: Literal["no", "steps", "epoch"] = option(
        "epoch", "Evaluate held-out rows, if there are any: no, steps or epoch."
    )
    save_strategy: Literal["no", "steps", "epoch", "best"] = option(
        "steps", "Save: no, steps, epoch or best."
    )
    save_total_limit: int | None = option(3, "Checkpoints to keep.")
    include_num_input_tokens_seen: bool | Literal["no", "all", "non_padding"] = option(
        "all", "Log the number of tokens trained on."
    )
