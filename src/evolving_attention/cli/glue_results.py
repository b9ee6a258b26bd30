"""Files of a glue run besides the Trainer's: predictions and model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.errors import NonFiniteError
from evolving_attention.interop.resolve import is_hub_id

__all__ = ["model_card", "prediction_lines", "write_predictions"]


def prediction_lines(
    logits: np.ndarray, label_names: Sequence[str] | None
) -> list[str]:
    """``index<TAB>prediction`` and one line per row, as run_glue writes them.

    Args:
        logits: [N, classes], or for regression [N] or [N, 1].
        label_names: classes by id; None for regression (scores with three decimals).

    Raises:
        NonFiniteError: a prediction is NaN or infinite.
    """
    values = np.asarray(logits, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(bad):
        raise NonFiniteError(
            f"predictions of {len(bad)} rows are not finite, first row {bad[0]}; "
            "nothing was written: look at the training log",
            {"rows": bad.tolist()},
        )
    if label_names is None:
        shown = [f"{value:.3f}" for value in values.reshape(-1)]
    else:
        shown = [label_names[i] for i in values.argmax(axis=1)]
    return ["index\tprediction", *(f"{i}\t{text}" for i, text in enumerate(shown))]


def write_predictions(
    path: Path, logits: np.ndarray, label_names: Sequence[str] | None
) -> None:
    """Write a prediction file atomically."""
    text = "\n".join(prediction_lines(logits, label_names)) + "\n"
    durable.write_bytes(path, text.encode("utf-8"))


def model_card(
    *,
    name: str,
    base: str,
    task: str | None,
    attention: dict[str, Any],
    arguments: dict[str, Any],
    results: dict[str, Any],
) -> str:
    """A short README.md for the output folder: model, options, scores."""
    from evolving_attention.attention.spec import equals_vanilla, from_config

    front = ["---", "library_name: evolving-attention"]
    if is_hub_id(base):
        front.append(f"base_model: {base}")
    if task:
        front += ["datasets:", "- glue"]
    front += ["pipeline_tag: text-classification", "---", ""]
    kind = attention.get("kind", "vanilla")
    details = ", ".join(f"{k} {v}" for k, v in attention.items() if k != "kind")
    lines = [
        *front,
        f"# {name}",
        "",
        f"`{base}` fine-tuned on {f'GLUE {task.upper()}' if task else 'own data'} with "
        f"{kind} attention{f' ({details})' if details else ''} by evolving-attention.",
        "",
        "## Results",
        "",
        "| metric | value |",
        "|---|---|",
    ]
    for key, value in sorted(results.items()):
        shown = f"{value:.4f}" if isinstance(value, float) else str(value)
        lines.append(f"| {key} | {shown} |")
    lines += ["", "## Training", "", "| option | value |", "|---|---|"]
    for key in _CARD_ARGUMENTS:
        if key in arguments:
            lines.append(f"| {key} | {arguments[key]} |")
    lines += ["", "## Use", ""]
    if not equals_vanilla(from_config(attention)):
        lines += [_REFUSED, ""]
    lines += [
        "```python",
        "import evolving_attention as ea",
        "",
        'model = ea.AutoModelForSequenceClassification.from_pretrained("this/folder")',
        'tokenizer = ea.AutoTokenizer.from_pretrained("this/folder")',
        "```",
        "",
    ]
    return "\n".join(lines)


_REFUSED = (
    "Other libraries do not compute this attention: transformers refuses this folder. "
    "It is loaded by evolving-attention:"
)
_CARD_ARGUMENTS = (
    "learning_rate",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "adam_epsilon",
    "seed",
    "bf16",
    "precision",
)
