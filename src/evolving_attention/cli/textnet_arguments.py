"""Options of ``evolving-attention textnet``: data, words, model, training.

Defaults are those of *Predictive Attention Transformer* (section 4.1.1 and appendix
B.2.1) for SST; ``RECIPES`` has the differences for the paper's other data sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from evolving_attention.cli.attention_arguments import (
    KINDS,
    AttentionOptions,
    option,
    refuse,
    refuse_below,
    refuse_input,
    refuse_missing,
    refuse_unknown,
)
from evolving_attention.cli.glue_arguments import ColumnNames
from evolving_attention.cli.model_options import read_model_options
from evolving_attention.data.records import SUFFIXES
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields
from evolving_attention.text.word_level import SPLITS
from evolving_attention.training.arguments import TrainingArguments

DATASETS = ("sst5", "snli", "acceptability")
MODELS = ("transformer", "conv_transformer", "cnn")
_JSON = "Print all results as JSON on stdout."
_DEVICE = "Where the model computes: cpu, auto (the first GPU, else the CPU), cuda."
_OF_DATA = ("type_vocab_size", "num_labels", "problem_type", "id2label", "label2id")
_OURS = {
    **dict.fromkeys(_OF_DATA, "leave it out: it follows from the texts"),
    "pad_token_id": "leave it out: the tokenizer has its own",
    "fixed_words": "give --train_words",
}
_FLAGS = {
    "embedding_size": "embedding_size",
    "max_position_embeddings": "max_seq_length",
    "embedding_dropout_prob": "embedding_dropout",
    "hidden_dropout_prob": "dropout",
}
_Strategy = Literal["no", "steps", "epoch"]

_THIRDS = [1 / 3, 2 / 3]
#: The paper's settings for each data set, by option; SST's are the defaults.
RECIPES: dict[str, dict[str, Any]] = {
    "sst": {
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": 1e-6},
    },
    "yelp": {
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr": 1e-6},
        "max_seq_length": 256,
    },
    "snli": {
        "lr_scheduler_type": "multistep",
        "lr_scheduler_kwargs": {"milestones": _THIRDS, "gamma": 0.1},
        "num_train_epochs": 30.0,
        "alpha": 0.5,
    },
}


@dataclass
class TextDataArguments(ColumnNames):
    """The texts and their classes."""

    dataset: str | None = option(
        None,
        "A data set by name: sst5 or snli (their files in --data_dir), or "
        "acceptability (sentences that are generated).",
    )
    data_dir: PathText | None = option(None, "Folder of the files of --dataset.")
    pairs: int = option(
        4000, "Minimal pairs of acceptability; there are twice as many sentences."
    )
    train_file: PathText | None = option(
        None, "A csv, tsv or json file with a text or two and a label in each row."
    )
    validation_file: PathText | None = option(
        None, "A file to evaluate on after each epoch; the best one is kept."
    )
    test_file: PathText | None = option(None, "A file to report test results for.")
    label_column_name: str | None = option(
        None, "The label column of your own files; default: label, else labels."
    )
    max_train_samples: int | None = option(None, "Use only the first N rows.")
    max_eval_samples: int | None = option(
        None, "Use only the first N rows of the tuning part and of the test part."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        files = {
            name: getattr(self, name)
            for name in ("train_file", "validation_file", "test_file")
            if getattr(self, name) is not None
        }
        fix = "leave it out to use all rows"
        refuse_below(1, self, "max_train_samples", "max_eval_samples", fix=fix)
        if self.dataset is None:
            self._check_files(files)
            return
        refuse_unknown(self, "dataset", DATASETS)
        own = ("text_column_names", "label_column_name", "delimiter")
        given = [*files, *(name for name in own if getattr(self, name) is not None)]
        if given:
            value = getattr(self, given[0])
            raise refuse(given[0], value, "no --dataset with it", "leave one out")
        generated = self.dataset == "acceptability"
        if generated and self.data_dir is not None:
            fix = "leave it out: the sentences are generated"
            raise refuse("data_dir", self.data_dir, "sst5 or snli with it", fix)
        if not generated:
            refuse_missing(self, data_dir=f"the folder of {self.dataset}'s files")

    def _check_files(self, files: dict[str, str]) -> None:
        if not files:
            raise ConfigError(
                "no data: expected --dataset sst5 with --data_dir, or files with "
                "--train_file, --validation_file and --test_file; choose one"
            )
        if self.data_dir is not None:
            fix = "name the files, or add --dataset sst5"
            raise refuse("data_dir", self.data_dir, "--dataset with it", fix)
        for name, path in files.items():
            if Path(path).suffix.lower() not in SUFFIXES:
                raise refuse(name, path, f"a file in {', '.join(SUFFIXES)}", "save so")

    def read_options(self) -> dict[str, Any]:
        """Returns options of :func:`~evolving_attention.data.rows.load_file`."""
        return {
            "text_columns": self.text_columns,
            "label_column": self.label_column_name,
            "bad_rows": self.bad_rows,
            "delimiter": self.separator,
        }


@dataclass
class WordArguments:
    """The vocabulary, and the vectors of its words."""

    vocab_size: int = option(30_000, "Maximum size of the vocabulary.")
    min_count: int = option(
        1, "Leave out words that are rarer than this in the training texts."
    )
    lowercase: bool = option(True, "Lower-case all text.")
    split_at: str | None = option(
        None,
        "Where words end: punctuation (and spaces), or space; default: space for sst5, "
        "whose texts are already split, else punctuation.",
    )
    word_vectors: PathText | None = option(
        None,
        "Vectors of the words: a file of GloVe or word2vec (text, or gzip of it), or "
        "the word embeddings of a BERT or RoBERTa (folder, package:NAME/PATH).",
    )
    train_words: bool | None = option(
        None,
        "Train the vectors of words; default: only without --word_vectors. In the "
        "paper they are fixed.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.split_at not in (None, *SPLITS):
            raise refuse("split_at", self.split_at, " or ".join(SPLITS), "choose one")
        if self.train_words is False and self.word_vectors is None:
            raise refuse(
                "train_words",
                False,
                "--word_vectors with it: random vectors are of no use if fixed",
                "add them, or leave this out",
            )

    @property
    def fixed(self) -> bool:
        """Whether the vectors are frozen."""
        return not (self.word_vectors is None or self.train_words)


@dataclass
class TextNetModelArguments:
    """The net; it has the paper's sizes unless --model_options changes them."""

    model: str = option(
        "transformer",
        "transformer, conv_transformer (half attention, half convolution) or cnn.",
    )
    max_seq_length: int = option(
        64, "Most words of a text, or of both and the separator; others are cut off."
    )
    embedding_size: int | None = option(
        None, "Width of the word vectors; default: that of --word_vectors, else 300."
    )
    embedding_dropout: float = option(0.4, "Dropout of the word vectors.")
    dropout: float = option(0.2, "Dropout of the layers.")
    model_options: dict[str, Any] | str | None = option(
        None,
        'Other options of ea.TextNetConfig as JSON: {"num_hidden_layers": 6, '
        '"hidden_size": 384}.',
    )

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "model", MODELS)
        refuse_below(1, self, "max_seq_length", fix="64 is usual")
        example = '{"hidden_size": 384}'
        self.model_options = read_model_options(self, example, _OURS, _FLAGS)

    def config_options(self) -> dict[str, Any]:
        """Returns options of the config, except those of words and classes."""
        found: Any = self.model_options  # the arguments' check has made it a dict
        return {
            "max_position_embeddings": self.max_seq_length,
            "embedding_dropout_prob": self.embedding_dropout,
            "hidden_dropout_prob": self.dropout,
            **found,
        }


@dataclass
class TextNetAttention(AttentionOptions):
    """The attention options; by default a net has vanilla attention."""

    defaults: ClassVar[dict[str, float]] = {"alpha": 0.1, "beta": 0.1}

    attention: str | None = option(None, f"{KINDS}; default: vanilla.")
    alpha: float | None = option(
        None,
        "Weight of the previous map, 0 to 1 (evolving, predictive); default: 0.1, and "
        "0.5 for SNLI.",
    )
    predictive_layers: int | None = option(
        None,
        "Number of predicting convolutions (predictive), 0 to 3 in the paper's Table "
        "5; default: 1.",
    )


@dataclass
class TextNetTrainingArguments(TrainingArguments):
    """The training arguments, with the paper's defaults for SST."""

    paper_settings: str | None = option(
        None,
        "Schedule, epochs, length and alpha of the paper for sst, yelp or snli; "
        "default: those of --dataset, else sst's. Other options take precedence.",
    )
    num_train_epochs: float = option(10.0, "Passes over the training set.")
    per_device_train_batch_size: int = option(64, "Texts in one training batch.")
    per_device_eval_batch_size: int = option(64, "Texts in one evaluation batch.")
    learning_rate: float = option(4e-4, "Peak learning rate.")
    lr_scheduler_type: str = option(
        "cosine_with_min_lr",
        "linear, cosine, cosine_with_min_lr (to 1e-6), cosine_with_restarts, "
        "polynomial, constant, constant_with_warmup, inverse_sqrt or multistep.",
    )
    optim: Literal[
        "adamw_torch_fused", "adamw_torch", "adamw", "adam", "radam", "sgd"
    ] = option("adam", "adam, AdamW under its usual names, radam or sgd.")
    weight_decay: float = option(
        2e-6,
        "Weight decay (not on biases and LayerNorm weights): decoupled for adamw, an "
        "L2 penalty for adam, radam and sgd.",
    )
    max_grad_norm: float = option(0.0, "Clip the gradients' norm to this; 0: never.")
    eval_strategy: _Strategy = option(
        "epoch", "Evaluate on the tuning part, if there is one: no, steps or epoch."
    )
    save_strategy: Literal["no", "steps", "epoch", "best"] = option(
        "epoch", "Save: no, steps, epoch or best."
    )
    save_total_limit: int | None = option(1, "Checkpoints to keep, besides the best.")
    load_best_model_at_end: bool = option(
        True, "Keep the weights of the best epoch on the tuning part, if there is one."
    )
    metric_for_best_model: str | None = option(
        "accuracy", "Metric that selects the best checkpoint (regression: mse)."
    )
    json: bool = option(False, _JSON)


@dataclass
class _Fitted:
    model_dir: PathText | None = option(None, "Folder that textnet train wrote.")
    batch_size: int = option(64, "Texts in a batch.")
    device: str = option("cpu", _DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, _JSON)

    def __post_init__(self) -> None:
        check_fields(self)
        resolve_device(self.device)
        expected = "the folder that textnet train wrote, such as out/sst5"
        refuse_missing(self, model_dir=expected)
        refuse_below(1, self, "batch_size", fix="64 is usual")


@dataclass
class EvaluateArguments(_Fitted):
    """The trained net, and the part of a data set to evaluate."""

    part: str = option("test", "Part of --dataset: train, tuning or test.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part not in ("train", "tuning", "test"):
            raise refuse("part", self.part, "train, tuning or test", "choose one")


@dataclass
class PredictArguments(ColumnNames, _Fitted):
    """The trained net, the texts, and the file for the results."""

    input_file: PathText | None = option(
        None,
        "A csv, tsv or json file of texts; their labels may be missing or -1.",
    )
    output_file: PathText | None = option(
        None,
        "The .tsv file to write: index, prediction, and the probability of each class.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_missing(
            self,
            input_file="a csv, tsv or json file of texts",
            output_file="the .tsv file to write",
        )
        refuse_input("output_file", self.output_file, input_file=self.input_file)

    def data(self) -> TextDataArguments:
        """Returns the file as options of the data."""
        return TextDataArguments(
            test_file=self.input_file,
            text_column_names=self.text_column_names,
            delimiter=self.delimiter,
            bad_rows=self.bad_rows,
        )
