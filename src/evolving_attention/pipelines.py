"""``ea.pipeline``: a model and its tokenizer, called with texts, as in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evolving_attention.errors import ConfigError
from evolving_attention.modeling.auto import AutoModelForSequenceClassification
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.predict import TopK
from evolving_attention.modeling.text import TextModel

__all__ = ["TextClassificationPipeline", "pipeline"]

TASKS = ("text-classification", "sentiment-analysis")


class TextClassificationPipeline:
    """A classifier of texts with its tokenizer; made by :func:`pipeline`.

    Args:
        model: a model for sequence classification.
        tokenizer: its tokenizer, or one of transformers.
        options: defaults of the calls, as :meth:`TextModel.predict` takes them.
    """

    task = TASKS[0]

    def __init__(self, model: TextModel, tokenizer: Any, **options: Any) -> None:
        self.model, self.tokenizer, self.options = model, tokenizer, options

    def __call__(self, texts: Any, **options: Any) -> Any:
        """Label and score of texts, as :meth:`TextModel.predict` returns them.

        Args:
            texts: a text, a list of texts, or of pairs.
            options: ``top_k``, ``batch_size``, ``max_length``, ``progress``.
        """
        return self.model.predict(texts, self.tokenizer, **self.options | options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


def pipeline(
    task: str = TASKS[0],
    model: Any = None,
    tokenizer: Any = None,
    *,
    top_k: TopK = "best",
    batch_size: int = 32,
    device: str = "cpu",
    dtype: str = "float32",
) -> TextClassificationPipeline:
    """A classifier of texts from a trained folder, with Hugging Face's conventions.

    Args:
        task: ``"text-classification"``, or ``"sentiment-analysis"``, its older name.
        model: a folder or name of a trained model, or the model itself.
        tokenizer: a folder, a name or a tokenizer; default: the model folder's.
        top_k: how many labels to return; see :meth:`TextModel.predict`.
        batch_size: texts in one batch.
        device: where a model that is loaded here computes.
        dtype: its element type.

    Returns:
        A function from texts to labels and scores.

    Raises:
        ConfigError: the task is another one, or model or tokenizer is missing.
        CheckpointError: the folder cannot be read.

    Example::

        classify = ea.pipeline("text-classification", "out/mrpc")
        classify("A good film.")   # [{"label": "positive", "score": 0.98}]
        classify([("A film.", "A picture.")], top_k=None)   # pairs, every label
    """
    if task not in TASKS:
        raise ConfigError(
            f"pipeline: task {task!r} is not there, expected {' or '.join(TASKS)}; "
            "for other tasks call the model yourself"
        )
    if model is None:
        raise ConfigError(
            "pipeline: model is missing, expected a trained folder, a name or a model; "
            "pass model="
        )
    if tokenizer is None:
        if isinstance(model, PreTrainedModel):
            raise ConfigError(
                "pipeline: model is given as an object, expected its tokenizer beside "
                "it; pass tokenizer="
            )
        tokenizer = model
    if not isinstance(model, PreTrainedModel):
        model = AutoModelForSequenceClassification.from_pretrained(
            model, device=device, dtype=dtype
        )
    if not isinstance(model, TextModel) or model.head != "sequence_classification":
        raise ConfigError(
            f"pipeline: the model is a {type(model).__name__}, expected one for "
            "sequence classification of texts; load it by "
            "ea.AutoModelForSequenceClassification"
        )
    if isinstance(tokenizer, (str, Path)):
        from evolving_attention.text import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    return TextClassificationPipeline(
        model, tokenizer, top_k=top_k, batch_size=batch_size
    )
