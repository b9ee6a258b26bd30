"""Every training option in one dataclass, with Hugging Face's names and defaults."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from evolving_attention.field_types import PathText, check_fields
from evolving_attention.training import argument_rules as rules

_Class = TypeVar("_Class", bound=type)
_Strategy = Literal["no", "steps", "epoch"]
_Sampling = Literal["group_by_length", "random", "sequential"]
_LogLevel = Literal["debug", "info", "warning", "error", "critical", "passive"]


def _option(default: Any, text: str) -> Any:
    """Returns a field with its help text, used for the command line's flags."""
    return field(default=default, metadata={"help": text})


def _named_errors(cls: _Class) -> _Class:
    """Makes the constructor raise ConfigError for unknown and refused options."""
    known = {f.name for f in dataclasses.fields(cls)}
    original: Any = cls.__init__  # type: ignore[misc]  # of the class itself

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **rules.checked_keywords(known, kwargs))

    cls.__init__ = init  # type: ignore[misc]
    return cls


@_named_errors
@dataclass
class TrainingArguments:
    """Options of a training run.

    Names, defaults and meaning follow transformers' class of the same name. The main
    exceptions: batches are grouped by length by default; a non-finite loss stops the
    run instead of being hidden; ``bf16`` converts the model; runs shorter than
    ``logging_steps`` log ten times; ``auto_find_batch_size`` keeps the effective batch;
    options without meaning here are refused; ``warmup_ratio`` and
    ``overwrite_output_dir`` of older versions are kept.

    Example:
        >>> args = TrainingArguments("out", learning_rate=2e-5, eval_strategy="epoch")
        >>> args.per_device_train_batch_size
        8

    Raises:
        ConfigError: a value is out of range, unknown, or contradicts another one; the
            message names field, value, expected value and remedy.
    """

    output_dir: PathText = _option(
        "trainer_output", "Folder for checkpoints and results."
    )
    overwrite_output_dir: bool = _option(
        False,
        "Start a new run in a folder with an older one; removes its checkpoints, log "
        "and results.",
    )
    do_train: bool = _option(False, "Train the model.")
    do_eval: bool = _option(False, "Evaluate on the validation set.")
    do_predict: bool = _option(False, "Predict the test set.")

    per_device_train_batch_size: int = _option(8, "Sequences in one training batch.")
    per_device_train_batch_tokens: int | None = _option(
        None,
        "Most tokens in one training batch, of sources and targets together, instead "
        "of per_device_train_batch_size: rows of similar length fill each batch.",
    )
    per_device_eval_batch_size: int = _option(8, "Sequences in one evaluation batch.")
    gradient_accumulation_steps: int = _option(
        1, "Batches of one optimizer step, with the gradient of one large batch."
    )
    auto_find_batch_size: bool = _option(
        False, "Out of memory: split batches further, keeping the effective size."
    )
    gradient_checkpointing: bool | None = _option(
        None,
        "Keep few activations: layers run again in backward. Less memory, more time, "
        "the same bits.",
    )
    activation_checkpointing: bool | None = _option(
        None, "Newer spelling of gradient_checkpointing."
    )
    num_train_epochs: float = _option(3.0, "Passes over the training set.")
    max_steps: int = _option(-1, "Optimizer steps; > 0 overrides num_train_epochs.")
    train_sampling_strategy: _Sampling = _option(
        "group_by_length", "Order: group_by_length, random or sequential."
    )
    group_by_length: bool | None = _option(
        None, "Older spelling: False is train_sampling_strategy=random."
    )
    dataloader_drop_last: bool = _option(False, "Drop the last, smaller batch.")
    dataloader_prefetch_factor: int | None = _option(
        None,
        "Batches prepared ahead in a background thread; 0: none; default: 2, and none "
        "with your own data collator or data set (the thread would draw their random "
        "numbers, and move their state, too early for an exact resume).",
    )

    remove_unused_columns: bool | None = _option(
        None,
        "Hand a data collator only the columns that models take; default: collators of "
        "transformers, which fail on others.",
    )

    learning_rate: float = _option(5e-5, "Peak learning rate.")
    lr_scheduler_type: str = _option(
        "linear",
        "linear, cosine, cosine_with_min_lr, cosine_with_restarts, polynomial, "
        "constant, constant_with_warmup, inverse_sqrt or multistep.",
    )
    lr_scheduler_kwargs: dict[str, Any] | str | None = _option(
        None, 'Options of the schedule, as a dict or JSON: {"num_cycles": 2}.'
    )
    warmup_steps: float = _option(
        0, "Steps of linear warm-up; a value below 1 is a share of all steps."
    )
    warmup_ratio: float | None = _option(
        None, "Older spelling of a warm-up as a share of all steps."
    )
    optim: Literal[
        "adamw_torch_fused", "adamw_torch", "adamw", "adam", "radam", "sgd"
    ] = _option("adamw_torch_fused", "AdamW under its usual names, adam, radam or sgd.")
    optim_args: dict[str, Any] | str | None = _option(
        None,
        'Options of the optimizer, as a dict or JSON: {"momentum": 0.9, "nesterov": '
        "true}.",
    )
    weight_decay: float = _option(
        0.0,
        "Weight decay (not on biases and LayerNorm weights): decoupled for adamw, an "
        "L2 penalty for adam, radam and sgd.",
    )
    adam_beta1: float = _option(
        0.9, "Decay of the first moment, in [0, 1) (adamw, adam, radam)."
    )
    adam_beta2: float = _option(
        0.999, "Decay of the second moment, in [0, 1) (adamw, adam, radam)."
    )
    adam_epsilon: float = _option(
        1e-8, "Epsilon of the optimizer, > 0 (adamw, adam, radam)."
    )
    max_grad_norm: float = _option(1.0, "Clip the gradients' norm to this; 0: never.")
    label_smoothing_factor: float = _option(0.0, "Label smoothing, in [0, 1).")

    class_weight: dict[Any, float] | str | None = _option(
        None,
        "Weights of classes in the training loss: balanced, or a dict (JSON) by name "
        'or number, 1 for the others: {"good": 2}.',
    )

    eval_strategy: _Strategy = _option("no", "Evaluate: no, steps or epoch.")
    eval_steps: float | None = _option(
        None,
        "Steps between evaluations (below 1: share of the run), the last of "
        "which follows the last step; default: logging_steps.",
    )
    eval_delay: float = _option(0, "Steps or epochs before the first evaluation.")
    eval_on_start: bool = _option(False, "Evaluate once before training.")
    prediction_loss_only: bool = _option(False, "Evaluate the loss, keep no outputs.")

    logging_strategy: _Strategy = _option("steps", "Log: no, steps or epoch.")
    logging_steps: float = _option(
        500,
        "Steps between logs (below 1: share of the run); runs of fewer steps log ten "
        "times, unless another number is given.",
    )
    logging_first_step: bool = _option(False, "Log the first step too.")
    logging_dir: PathText | None = _option(
        None, "TensorBoard folder; default: <output_dir>/runs."
    )
    log_level: _LogLevel = _option(
        "passive", "Messages on stderr: debug … critical, passive."
    )
    report_to: str | list[str] | None = _option("none", "none or tensorboard.")
    run_name: str | None = _option(
        None, "Name of the run in reports; default: output_dir."
    )
    disable_tqdm: bool | None = _option(None, "No progress bar.")
    include_num_input_tokens_seen: bool | Literal["no", "all", "non_padding"] = _option(
        "no", "Log the number of tokens trained on: no, all or non_padding."
    )
    skip_memory_metrics: bool = _option(True, "Do not report memory in the metrics.")

    save_strategy: Literal["no", "steps", "epoch", "best"] = _option(
        "steps", "Save: no, steps, epoch or best."
    )
    save_steps: float = _option(500, "Steps between saves (below 1: share of the run).")
    save_total_limit: int | None = _option(None, "Checkpoints to keep; default: all.")
    save_only_model: bool = _option(
        False, "Save without optimizer state: smaller, but a run cannot resume from it."
    )
    on_save_error: Literal["stop", "continue"] = _option(
        "stop", "A failed save (disk full): stop, or continue with a warning."
    )
    load_best_model_at_end: bool = _option(
        False, "Load the best checkpoint when training ends."
    )
    metric_for_best_model: str | None = _option(
        None, "Metric that selects the best checkpoint; default: loss."
    )
    greater_is_better: bool | None = _option(
        None,
        "Whether larger is better; default: unless its name is that of a loss or an "
        "error (loss, perplexity, error, error_rate, mse, mae, mape, wer, cer, …).",
    )
    resume_from_checkpoint: bool | PathText | None = _option(
        None, "Checkpoint folder to resume from, or true: the newest."
    )
    force_resume: bool = _option(
        False, "Resume although the data, model, batching or optimizer changed."
    )

    seed: int = _option(42, "Seed of weights, dropout and order.")
    data_seed: int | None = _option(None, "Seed of the order only; default: seed.")
    full_determinism: bool = _option(False, "Accepted; runs are always deterministic.")
    deterministic: bool = _option(True, "Equal bits for any number of threads.")
    on_nonfinite: Literal["stop", "skip", "warn"] = _option(
        "stop",
        "A NaN or infinite loss or gradient: stop with a report, skip the update, or "
        "warn and continue.",
    )
    bf16: bool = _option(False, "Compute in bfloat16 with float32 master weights.")
    precision: Literal["float32", "bfloat16", "auto"] | None = _option(
        None,
        "float32, bfloat16, or auto: time three steps of each on the first batches, "
        "train in the faster one and report it; default: the model's own type.",
    )
    device: str = _option(
        "auto",
        "Device to train on: cpu, auto (the first GPU, else the CPU), or a name from "
        "ea.devices(); the Trainer moves the model there.",
    )
    use_cpu: bool = _option(False, "Stay on the CPU.")
    num_threads: int | None = _option(
        None, "Threads of the core; default: unchanged, or this process's share."
    )
    ddp_bucket_cap_mb: float | None = _option(
        None,
        "Several processes: megabytes of gradients that are sent together; default: "
        "25.",
    )
    ddp_timeout: float = _option(
        1800.0, "Several processes: seconds without an answer until one counts as lost."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.report_to is None or self.report_to == "none":
            self.report_to = []
        elif isinstance(self.report_to, str):
            self.report_to = [self.report_to]
        self.report_to = [name for name in self.report_to if name != "none"]
        if isinstance(self.include_num_input_tokens_seen, bool):
            self.include_num_input_tokens_seen = (
                "all" if self.include_num_input_tokens_seen else "no"
            )
        for name in ("lr_scheduler_kwargs", "optim_args"):
            setattr(self, name, rules.parse_json_object(name, getattr(self, name)))
        self.class_weight = rules.parse_class_weight(self.class_weight)
        if self.group_by_length is not None:
            self.train_sampling_strategy = (
                "group_by_length" if self.group_by_length else "random"
            )
        rules.settle_checkpointing(self)
        if self.eval_strategy == "steps" and not self.eval_steps:
            self.eval_steps = self.logging_steps
        rules.check_choices(self)
        rules.check_numbers(self)
        rules.check_combinations(self)
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            self.metric_for_best_model = "loss"
        if self.greater_is_better is None and self.metric_for_best_model is not None:
            self.greater_is_better = rules.is_greater_better(self.metric_for_best_model)

    @property
    def dtype(self) -> str | None:
        """Required element type of the model: float32, bfloat16, or None for any."""
        if self.precision == "auto":
            return None
        return "bfloat16" if self.bf16 else self.precision

    @property
    def train_batch_size(self) -> int:
        """Sequences in one training batch."""
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self) -> int:
        """Sequences in one evaluation batch."""
        return self.per_device_eval_batch_size

    def optimizer_settings(self) -> dict[str, Any]:
        """The optimizer's settings for :func:`evolving_attention.optim.create`."""
        return {
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "betas": (self.adam_beta1, self.adam_beta2),
            "eps": self.adam_epsilon,
            "options": self.optim_args,
        }

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Returns the warm-up length in steps for a run of ``num_training_steps``."""
        if self.warmup_ratio:
            return math.ceil(num_training_steps * self.warmup_ratio)
        if self.warmup_steps >= 1:
            return int(self.warmup_steps)
        return math.ceil(num_training_steps * self.warmup_steps)

    def every(self, event: str, num_training_steps: int) -> int:
        """Returns the interval of logging_steps, eval_steps or save_steps, in steps.

        A value below 1 is a share of the run, rounded up to a whole step.
        """
        value = getattr(self, event)
        if value is None:
            return 0
        return int(value) if value >= 1 else math.ceil(num_training_steps * value)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as plain values, ready for JSON."""
        return dataclasses.asdict(self)
