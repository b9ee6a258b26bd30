"""Files of a glue run, in addition to the Trainer's: predictions and model card."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.data.several_labels import chosen
from evolving_attention.interop.resolve import is_hub_id
from evolving_attention.metrics.probabilities import finite_rows, probabilities


def prediction_lines(
    logits: np.ndarray,
    label_names: Sequence[str] | None,
    several: bool = False,
    index: Sequence[int] | None = None,
) -> list[str]:
    """Returns ``index<TAB>prediction`` and one line per row, as run_glue writes them.

    Args:
        logits: [N, classes], or for regression [N] or [N, 1].
        label_names: classes by id; None for regression (scores with three decimals).
        several: whether a row may have several labels; they are separated by commas.
        index: number of each row in its file, from 0; None: no row of it was left out.

    Raises:
        NonFiniteError: a prediction is NaN or infinite.
    """
    values = finite_rows(logits)
    if label_names is None:
        shown = [f"{value:.3f}" for value in values.reshape(-1)]
    else:
        shown = _classes(values, label_names, several)
    numbered = zip(_numbers(index, len(shown)), shown, strict=True)
    return ["index\tprediction", *(f"{i}\t{text}" for i, text in numbered)]


def probability_lines(
    logits: np.ndarray,
    label_names: Sequence[str],
    several: bool = False,
    index: Sequence[int] | None = None,
) -> list[str]:
    """Returns tab-separated lines: ``index``, ``prediction``, class probabilities.

    Args:
        logits: [N, classes].
        label_names: classes by id.
        several: whether a row may have several labels.
        index: number of each row in its file, from 0; None: no row of it was left out.
    """
    chances = probabilities(logits, _SEVERAL if several else None)
    written = io.StringIO()
    writer = csv.writer(written, "excel-tab", lineterminator="\n")
    writer.writerow(["index", "prediction", *label_names])
    predicted = _classes(np.asarray(logits), label_names, several)
    numbers = _numbers(index, len(predicted))
    for number, name, row in zip(numbers, predicted, chances, strict=True):
        writer.writerow([number, name, *(f"{value:.6g}" for value in row)])
    return written.getvalue().splitlines()


def _numbers(index: Sequence[int] | None, count: int) -> Sequence[int]:
    """Returns the rows' numbers, by default 0, 1, 2, …."""
    return range(count) if index is None else index


def _classes(logits: np.ndarray, names: Sequence[str], several: bool) -> list[str]:
    """Returns each row's predicted class, or all likely classes if ``several``."""
    if several:
        chances = probabilities(logits, _SEVERAL)
        return [chosen(row, names) for row in chances.tolist()]
    return [names[i] for i in logits.argmax(axis=1)]


def write_predictions(
    path: Path,
    logits: np.ndarray,
    label_names: Sequence[str] | None,
    several: bool = False,
    index: Sequence[int] | None = None,
) -> None:
    """Write ``predict_results….txt``, and for classes ``…_probabilities.tsv``.

    Each file is written atomically; nothing is written if a prediction is not finite.
    Arguments as for :func:`prediction_lines`.
    """
    files = {path: prediction_lines(logits, label_names, several, index)}
    if label_names is not None:
        beside = path.with_name(f"{path.stem}_probabilities.tsv")
        files[beside] = probability_lines(logits, label_names, several, index)
    for file, lines in files.items():
        durable.write_bytes(file, ("\n".join(lines) + "\n").encode("utf-8"))


def write_answers(
    path: Path,
    answers: np.ndarray,
    label_names: Sequence[str] | None,
    index: Sequence[int] | None = None,
) -> None:
    """Write ``predict_results….txt`` of classes [N] or scores [N], atomically.

    ``index`` as for :func:`prediction_lines`.
    """
    values = answers if label_names is None else np.eye(len(label_names))[answers]
    text = "\n".join(prediction_lines(values, label_names, index=index)) + "\n"
    durable.write_bytes(path, text.encode("utf-8"))


def model_card(
    *,
    name: str,
    base: str,
    task: str | None,
    attention: dict[str, Any],
    arguments: dict[str, Any],
    results: dict[str, Any],
    text_to_text: bool = False,
) -> str:
    """Returns a short README.md for the output folder: model, options, scores."""
    from evolving_attention.attention.spec import equals_vanilla, from_config

    front = ["---", "library_name: evolving-attention"]
    if is_hub_id(base):
        front.append(f"base_model: {base}")
    if task:
        front += ["datasets:", "- glue"]
    tag = "text2text-generation" if text_to_text else "text-classification"
    front += [f"pipeline_tag: {tag}", "---", ""]
    auto = "Seq2SeqLM" if text_to_text else "SequenceClassification"
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
        f'model = ea.AutoModelFor{auto}.from_pretrained("this/folder")',
        'tokenizer = ea.AutoTokenizer.from_pretrained("this/folder")',
        "```",
        "",
    ]
    return "\n".join(lines)


_SEVERAL = "multi_label_classification"
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
