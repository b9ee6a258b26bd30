"""``ea.pipeline``: a model and its tokenizer, called with texts, like transformers'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from evolving_attention.errors import ConfigError, InputError, suggestion
from evolving_attention.modeling.answering import answer
from evolving_attention.modeling.auto import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
)
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.predict import TopK
from evolving_attention.modeling.text import TextModel

TASKS = ("text-classification", "sentiment-analysis", "question-answering")
_ANSWERS = "question-answering"


class _Pipeline:
    """A model, its tokenizer and default options of calls."""

    def __init__(self, model: TextModel, tokenizer: Any, **options: Any) -> None:
        self.model, self.tokenizer, self.options = model, tokenizer, options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"


class TextClassificationPipeline(_Pipeline):
    """A text classifier with its tokenizer; created by :func:`pipeline`.

    Args:
        model: a model for sequence classification.
        tokenizer: its tokenizer, or one of transformers.
        options: default options of calls, as for :meth:`TextModel.predict`.
    """

    task = TASKS[0]

    def __call__(self, texts: Any, **options: Any) -> Any:
        """Returns label and score of texts, like :meth:`TextModel.predict`.

        Args:
            texts: a text, or a list of texts or of pairs.
            options: ``top_k``, ``batch_size``, ``max_length``, ``progress``.
        """
        chosen = _known(self.task, self.options | options, _CLASSIFIES)
        return self.model.predict(texts, self.tokenizer, **chosen)


class QuestionAnsweringPipeline(_Pipeline):
    """A question-answering model with its tokenizer; created by :func:`pipeline`.

    Args:
        model: a model for question answering.
        tokenizer: its tokenizer, or a fast one of transformers.
        options: default options of calls.
    """

    task = _ANSWERS

    def __call__(
        self,
        inputs: Any = None,
        *others: Any,
        question: Any = None,
        context: Any = None,
        **options: Any,
    ) -> Any:
        """Returns the best answers, as spans of their contexts.

        Args:
            inputs: ``{"question": …, "context": …}``, or a list of such dicts.
            others: refused; question and context are given by name.
            question, context: the inputs by name: two texts, or two lists; or a list of
                questions about one text.
            options: ``top_k`` (1), ``max_answer_len`` (15 tokens),
                ``handle_impossible_answer`` (False; True: "" may be an answer),
                ``max_seq_len`` (384), ``doc_stride`` (128), ``batch_size`` (32).

        Returns:
            ``{"score", "start", "end", "answer"}``, or a list of such dicts if the
            input is a list; with ``top_k`` above 1 a list for each question. The score
            is the probability of the start times the probability of the end, in the
            answer's window of the context; ``start`` and ``end`` are character
            positions.

        Raises:
            InputError: a question or a context is missing or not text.
            ConfigError: an option is unknown or out of range.

        Example::

            answer = ea.pipeline("question-answering", "out/squad")
            answer(question="Where is it?", context="It is in the house.")
        """
        if others or isinstance(inputs, str):
            raise InputError(
                f"question-answering: inputs is {inputs!r:.60}, expected a dict with "
                "question and context, or a list of them; pass two texts by name: "
                "question=…, context=…"
            )
        if inputs is None:
            inputs = _asked(question, context)
        chosen = _known(self.task, self.options | options, _ANSWERS_BY)
        return answer(self.model, inputs, self.tokenizer, **chosen)


_CLASSIFIES = ("batch_size", "max_length", "progress", "top_k")
_ANSWERS_BY = (
    "batch_size",
    "doc_stride",
    "handle_impossible_answer",
    "max_answer_len",
    "max_seq_len",
    "top_k",
)


def _known(task: str, options: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Returns the options of a call.

    Raises:
        ConfigError: an option is unknown.
    """
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise ConfigError(
            f"{task}: option {unknown!r} is not known, expected some of "
            f"{', '.join(known)}; {suggestion(unknown, known, 'leave it out')}"
        )
    return options


def _asked(question: Any, context: Any) -> Any:
    """Returns question and context as one row, or as several rows.

    Raises:
        InputError: one is missing, or their numbers differ.
    """
    for name, given in (("question", question), ("context", context)):
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise InputError(
                f"question-answering: {name} is {given!r:.60}, expected a text, or a "
                "list of texts; pass question=…, context=…"
            )
    if isinstance(question, str) and isinstance(context, str):
        return {"question": question, "context": context}
    questions = [question] if isinstance(question, str) else list(question)
    one = isinstance(context, str)
    contexts = [context] * len(questions) if one else list(context)
    if len(questions) != len(contexts):
        raise InputError(
            f"question-answering: {len(questions)} questions and {len(contexts)} "
            "contexts, expected a context for each question; pass lists of one length, "
            "or one text as context of all"
        )
    pairs = zip(questions, contexts, strict=True)
    return [{"question": q, "context": c} for q, c in pairs]


@overload
def pipeline(
    task: Literal["question-answering"],
    model: Any = ...,
    tokenizer: Any = ...,
    *,
    top_k: TopK = ...,
    batch_size: int = ...,
    device: str | int | None = ...,
    dtype: str | None = ...,
) -> QuestionAnsweringPipeline: ...
@overload
def pipeline(
    task: Literal["text-classification", "sentiment-analysis"] = ...,
    model: Any = ...,
    tokenizer: Any = ...,
    *,
    top_k: TopK = ...,
    batch_size: int = ...,
    device: str | int | None = ...,
    dtype: str | None = ...,
) -> TextClassificationPipeline: ...
@overload
def pipeline(
    task: str,
    model: Any = ...,
    tokenizer: Any = ...,
    *,
    top_k: TopK = ...,
    batch_size: int = ...,
    device: str | int | None = ...,
    dtype: str | None = ...,
) -> TextClassificationPipeline | QuestionAnsweringPipeline: ...
def pipeline(
    task: str = TASKS[0],
    model: Any = None,
    tokenizer: Any = None,
    *,
    top_k: TopK = "best",
    batch_size: int = 32,
    device: str | int | None = None,
    dtype: str | None = None,
) -> TextClassificationPipeline | QuestionAnsweringPipeline:
    """Loads a trained model with its tokenizer, like Hugging Face's ``pipeline``.

    Args:
        task: ``"text-classification"``, or its older name ``"sentiment-analysis"``; or
            ``"question-answering"``.
        model: a folder or name of a trained model, or the model itself.
        tokenizer: a folder, a name or a tokenizer; default: the model folder's.
        top_k: number of labels to return, see :meth:`TextModel.predict`; or number of
            answers (1 by default).
        batch_size: texts per batch.
        device: a device's name; or -1 for the CPU, 0 for the first GPU, as in
            transformers; default: the CPU, or that of the model. A given model is
            moved itself, not a copy.
        dtype: element type; default: float32, or that of the model. A given model is
            converted itself.

    Returns:
        A function from texts to labels and scores, or from questions to answers.

    Raises:
        ConfigError: the task is unknown, or model or tokenizer is missing.
        CheckpointError: the folder cannot be read.

    Example::

        classify = ea.pipeline("text-classification", "out/mrpc")
        classify("A good film.")   # [{"label": "positive", "score": 0.98}]
        classify([("A film.", "A picture.")], top_k=None)   # pairs, every label
    """
    if task not in TASKS:
        raise ConfigError(
            f"pipeline: task {task!r} is not there, expected "
            f"{', '.join(TASKS[:-1])} or {TASKS[-1]}; "
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
                "pipeline: model is given as an object, expected its tokenizer with "
                "it; pass tokenizer="
            )
        tokenizer = model
    answers = task == _ANSWERS
    model = _placed(model, answers, device, dtype)
    if isinstance(tokenizer, (str, Path)):
        from evolving_attention.text import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    if answers:
        count = 1 if top_k == "best" else top_k
        return QuestionAnsweringPipeline(
            model, tokenizer, top_k=count, batch_size=batch_size
        )
    return TextClassificationPipeline(
        model, tokenizer, top_k=top_k, batch_size=batch_size
    )


def _placed(model: Any, answers: bool, device: Any, dtype: Any) -> TextModel:
    """Returns the model of a name, or a given one, on its device.

    Raises:
        ConfigError: the model has another task.
    """
    auto: Any = AutoModelForSequenceClassification
    head, what = "sequence_classification", "sequence classification of texts"
    if answers:
        auto = AutoModelForQuestionAnswering
        head, what = "question_answering", "question answering"
    if type(device) is int and device >= -1:  # transformers' numbers
        device = "cpu" if device == -1 else f"cuda:{device}"
    options = {"device": device, "dtype": dtype}
    options = {name: value for name, value in options.items() if value is not None}
    given = isinstance(model, PreTrainedModel)
    if not given:
        model = auto.from_pretrained(model, **options)
    if not isinstance(model, TextModel) or model.head != head:
        raise ConfigError(
            f"pipeline: the model is a {type(model).__name__}, expected one for "
            f"{what}; load it by ea.{auto.__name__}"
        )
    return model.to(**options) if given and options else model
