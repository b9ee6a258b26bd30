"""Options of ``evolving-attention translate``: data, model, training, generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evolving_attention.cli.attention_arguments import (
    DEVICE,
    option,
    refuse,
    refuse_input,
    refuse_missing,
    refuse_unknown,
)
from evolving_attention.cli.model_options import read_model_options
from evolving_attention.data.parallel import LONGER
from evolving_attention.device_names import resolve_device
from evolving_attention.field_types import PathText, check_fields
from evolving_attention.training.arguments import TrainingArguments

_LONGER = (
    "Sentences with more tokens than the model has positions: error, or cut (their "
    "first tokens are kept)."
)
_IDS = "leave it out: the tokenizer has its own"
_JSON = "Print the results as JSON on stdout."
#: Options that require a validation set, and the values with which they do not.
OFF_WITHOUT_EVALUATION: dict[str, tuple[Any, ...]] = {
    "do_eval": (False,),
    "eval_on_start": (False,),
    "load_best_model_at_end": (False,),
    "early_stopping_patience": (None,),
    "save_strategy": ("no", "steps", "epoch"),
}
_Strategy = Literal["no", "steps", "epoch"]


@dataclass
class PairArguments:
    """The files of pairs, and the tokenizer that is trained on them."""

    source_file: PathText | None = option(
        None, "Sentences to translate, one a line: UTF-8, or gzip of it."
    )
    target_file: PathText | None = option(None, "Their translations, line by line.")
    eval_source_file: PathText | None = option(
        None, "Sentences of the validation set; without them the last epoch is kept."
    )
    eval_target_file: PathText | None = option(None, "Their translations.")
    vocab_size: int = option(
        8000, "Tokens of the byte-level BPE that both languages share."
    )
    lowercase: bool = option(False, "Lower-case all text.")
    longer: str = option("error", _LONGER)

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "longer", LONGER)
        refuse_missing(
            self,
            source_file="the sentences to train on, such as train.en or train.en.gz",
            target_file="their translations, such as train.de",
        )
        pair = (self.eval_source_file, self.eval_target_file)
        if (pair[0] is None) != (pair[1] is None):
            given, lacking = ("source", "target") if pair[0] else ("target", "source")
            raise refuse(
                f"eval_{given}_file",
                pair[0] or pair[1],
                f"--eval_{lacking}_file with it",
                "give both or none",
            )


@dataclass
class TranslationModelArguments:
    """The new model."""

    model: str = option(
        "ea_transformer_lite",
        "Name of its size: transformer_lite, transformer_base, and those with ea_ "
        "(evolving attention) or pa_ (predictive attention) in front.",
    )
    dropout: float | None = option(
        None, "Dropout of embeddings and residuals; default: 0.1."
    )
    model_options: dict[str, Any] | str | None = option(
        None, 'Options of the config as JSON: {"encoder_layers": 3, "norm_first": true}'
    )

    def __post_init__(self) -> None:
        check_fields(self)
        ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), _IDS)
        example = '{"norm_first": true}'
        self.model_options = read_model_options(
            self, example, ids, {"dropout": "dropout"}
        )

    def config_options(self) -> dict[str, Any]:
        """Returns options of the config."""
        given = {} if self.dropout is None else {"dropout": self.dropout}
        found: Any = self.model_options  # the arguments' check has made it a dict
        return {**found, **given}


@dataclass
class TranslationTrainingArguments(TrainingArguments):
    """The training arguments, with defaults for translation (docs/translation.md)."""

    paper_settings: str | None = option(
        None,
        "Learning rate, dropout and gradient accumulation of the evolving attention "
        "paper (Table 10) for de-en, en-de or en-fr; the last two are for 8 GPUs. "
        "--model sets alpha and beta. Other options take precedence.",
    )
    num_train_epochs: float = option(40.0, "Passes over the training set, at most.")
    learning_rate: float = option(1e-3, "Peak learning rate.")
    lr_scheduler_type: str = option(
        "inverse_sqrt",
        "linear, cosine, cosine_with_min_lr, cosine_with_restarts, polynomial, "
        "constant, constant_with_warmup, inverse_sqrt or multistep.",
    )
    warmup_steps: float = option(
        4000, "Steps of linear warm-up; a value below 1 is a share of all steps."
    )
    adam_beta2: float = option(
        0.98, "Decay of the second moment, in [0, 1) (adamw, adam, radam)."
    )
    max_grad_norm: float = option(0.0, "Clip the gradients' norm to this; 0: never.")
    label_smoothing_factor: float = option(0.1, "Label smoothing, in [0, 1).")
    per_device_train_batch_tokens: int | None = option(
        8192, "Most tokens in one training batch, of sources and targets together."
    )
    per_device_train_batch_size: int = option(
        8, "Pairs in one training batch, with --per_device_train_batch_tokens none."
    )
    per_device_eval_batch_size: int = option(64, "Pairs in one evaluation batch.")
    prediction_loss_only: bool = option(
        True, "Evaluate only losses; do not keep the logits of all tokens."
    )
    eval_strategy: _Strategy = option(
        "epoch", "Evaluate the validation set, if there is one: no, steps or epoch."
    )
    load_best_model_at_end: bool = option(
        True, "Keep the weights of the lowest validation loss, if there is one."
    )
    save_strategy: Literal["no", "steps", "epoch", "best"] = option(
        "epoch", "Save: no, steps, epoch or best."
    )
    save_total_limit: int | None = option(10, "Checkpoints to keep.")
    include_num_input_tokens_seen: bool | Literal["no", "all", "non_padding"] = option(
        "all", "Log the number of tokens trained on, of both languages."
    )
    early_stopping_patience: int | None = option(
        5, "Stop after this many evaluations without a lower loss; none: never."
    )
    json: bool = option(False, _JSON)


_MODEL = "the model's"  # generation_config takes precedence over a default


@dataclass
class SearchArguments:
    """The model, and its search options."""

    model_dir: PathText | None = option(
        None, "Folder of translate train or average, or a checkpoint."
    )
    beam: int | None = option(
        None,
        "Beams; 1: greedy search. Default: the model's, else 5, with --do_sample 1.",
    )
    length_penalty: float = option(
        1.0, "More than 0 favours long translations.", _MODEL
    )
    length_penalty_form: Literal["transformers", "gnmt"] = option(
        "transformers",
        "Divisor of a beam's log probability, for n tokens: n^penalty (transformers) "
        "or ((5 + n) / 6)^penalty (gnmt).",
        _MODEL,
    )
    early_stopping: bool | Literal["never"] = option(
        False,
        "When to stop once enough beams have ended. True: at once; False: when no open "
        "beam can beat them at its current length; never: when none can at any length.",
        _MODEL,
    )
    max_new_tokens: int | None = option(
        None,
        "Most tokens of a translation; default: the model's, else those of its source "
        "+ 50.",
    )
    min_new_tokens: int = option(0, "Fewest tokens of a translation.", _MODEL)
    no_repeat_ngram_size: int = option(
        0,
        "No n-gram of this length occurs twice in a translation; 0: no rule.",
        _MODEL,
    )
    do_sample: bool = option(False, "Draw tokens by their probabilities.", _MODEL)
    temperature: float = option(1.0, "Draw from softmax(logits / temperature).", _MODEL)
    top_k: int | None = option(
        50, "Draw from this many of the best tokens; none: from all.", _MODEL
    )
    top_p: float = option(
        1.0, "Draw from the fewest tokens whose probabilities sum to this.", _MODEL
    )
    seed: int | None = option(
        None,
        "Seed of drawn tokens, which also depend on the line; default: the model's, "
        "else 0.",
    )
    batch_size: int = option(32, "Sentences that are translated together.")
    longer: str = option("error", _LONGER)
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")

    def __new__(cls, **given: Any) -> SearchArguments:
        """Record which options are given; the model's own defaults fill the rest."""
        made = super().__new__(cls)
        vars(made)["_given"] = frozenset(given)
        return made

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "longer", LONGER)

    @property
    def given(self) -> frozenset[str]:
        """Names of the options that are given."""
        found: frozenset[str] = vars(self)["_given"]
        return found

    def translator(self) -> Any:
        """Loads the translator of the folder.

        Raises:
            ConfigError, CheckpointError, BackendUnavailable: the translator cannot be
                loaded.
        """
        from evolving_attention.pipelines.translator import Translator

        refuse_missing(self, model_dir="a trained folder, such as out/en-de")
        return Translator.from_pretrained(
            str(self.model_dir), device=resolve_device(self.device)
        )

    def search_options(self, translator: Any) -> dict[str, Any]:
        """Returns the given options of :meth:`Translator.translate`."""
        names = self.given - {"model_dir", "device", "num_threads"}
        found = {name: getattr(self, name) for name in names}
        usual = {"seed": 0, **translator.model.generation_config}
        if {**usual, **found}.get("do_sample") and self.seed is None:
            found["seed"] = usual["seed"]
        return found


@dataclass
class GenerateArguments:
    """The input to translate, and the output."""

    input_file: PathText | None = option(
        None, "Sentences, one a line (UTF-8, or gzip of it); default: stdin."
    )
    output_file: PathText | None = option(
        None, "File for their translations, line by line; default: stdout."
    )
    num_return_sequences: int = option(
        1, "Translations per line, each on a line of its own; beams: best first."
    )
    scores: bool = option(
        False, "Write the score and a tab in front of each translation."
    )
    prefix_file: PathText | None = option(
        None, "Prefix of each translation, line by line; an empty line: none."
    )
    resume: bool = option(False, "Continue after the lines that --output_file has.")
    overwrite: bool = option(False, "Replace --output_file.")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.resume and self.overwrite:
            raise refuse("resume", "", "no --overwrite with it", "leave one out")
        if self.resume and not self.output_file:
            raise refuse("resume", "", "--output_file with it", "name the file")
        if self.num_return_sequences < 1:
            given = self.num_return_sequences
            raise refuse("num_return_sequences", given, "at least 1", "leave it out")
        files = {name: getattr(self, name) for name in ("input_file", "prefix_file")}
        refuse_input("output_file", self.output_file, **files)


@dataclass
class ScoreArguments:
    """The translations to score."""

    target_file: PathText | None = option(None, "The right translations.")
    hypothesis_file: PathText | None = option(
        None, "The translations to score; default: those of --model_dir."
    )
    source_file: PathText | None = option(None, "The sentences, for --model_dir.")
    baseline_file: PathText | None = option(
        None,
        "Another system's translations of the same lines: adds its scores, and a "
        "p-value for each difference (paired bootstrap).",
    )
    lowercase: bool = option(False, "Compare lower-cased text.")
    json: bool = option(False, _JSON)

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(self, target_file="the right translations, such as test.de")


@dataclass
class AverageArguments:
    """The checkpoints to average."""

    model_dir: PathText | None = option(None, "Output folder of translate train.")
    last: int = option(10, "How many of its checkpoints: the last ones.")
    output_dir: PathText | None = option(None, "New folder for the average.")
    json: bool = option(False, _JSON)

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(
            self,
            model_dir="the output folder of translate train",
            output_dir="a new folder, such as out/en-de/average",
        )
