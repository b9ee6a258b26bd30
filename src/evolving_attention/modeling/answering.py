"""Answers of a trained model to questions, with their probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.autograd import evaluating
from evolving_attention.data.answers import spans_of
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.squad import Question, Questions
from evolving_attention.data.windows import WindowDataset
from evolving_attention.device_names import host_array
from evolving_attention.errors import InputError
from evolving_attention.field_types import check_whole
from evolving_attention.modeling.predict import limit_of

Found = dict[str, Any]


def answer(
    model: Any,
    inputs: Any,
    tokenizer: Any,
    *,
    top_k: int = 1,
    max_answer_len: int = 15,
    handle_impossible_answer: bool = False,
    max_seq_len: int = 384,
    doc_stride: int = 128,
    batch_size: int = 32,
) -> Any:
    """Implements :class:`QuestionAnsweringPipeline`; see there."""
    where = "question-answering"
    check_whole(where, top_k=top_k, max_answer_len=max_answer_len)
    check_whole(where, batch_size=batch_size)
    check_whole(where, 0, doc_stride=doc_stride)
    single = isinstance(inputs, Mapping)
    rows = [inputs] if single else list(inputs)
    questions = Questions([_question(row, i) for i, row in enumerate(rows)], "inputs")
    if not len(questions):
        return []
    name = "question-answering: max_seq_len"
    length: Any = limit_of(model.config, tokenizer, max_seq_len, name)
    windows = WindowDataset.from_questions(
        questions, tokenizer, max_length=length, stride=min(doc_stride, length // 2)
    )
    logits = _logits(model, windows, batch_size)
    found: list[list[Found]] = [[] for _ in questions]
    none = np.ones(len(found))  # lowest "no answer" probability over the windows
    for i in range(len(windows)):
        of = int(windows.windows.question[i])
        part = logits[windows.offsets[i] : windows.offsets[i + 1]]
        some, nothing = _scored(windows, i, part, top_k, max_answer_len)
        none[of] = min(none[of], nothing)
        found[of] += some
    chosen = []
    for one, scores in zip(found, none, strict=True):
        if handle_impossible_answer:
            one.append({"score": float(scores), "start": 0, "end": 0, "answer": ""})
        best = sorted(one, key=lambda each: -each["score"])[:top_k]
        chosen.append(best[0] if top_k == 1 and best else best)
    return chosen[0] if single else chosen


def _question(row: Any, index: int) -> Question:
    """Returns a question that the caller gave as a mapping.

    Raises:
        InputError: the question or the context is missing or empty.
    """
    texts: list[Any] = (
        [row.get(n) for n in ("question", "context")] if _is_row(row) else [None]
    )
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(
            f"question-answering: inputs[{index}] is {str(row)!r:.60}, expected "
            '{"question": …, "context": …} with two texts; correct it, or leave it out'
        )
    return Question(str(index), texts[0], texts[1], None)


def _is_row(row: Any) -> bool:
    return isinstance(row, Mapping)


def _logits(model: Any, windows: WindowDataset, batch_size: int) -> np.ndarray:
    """Starts and end logits of all tokens, float64 [tokens, 2], in data set order."""
    found = np.zeros((int(windows.offsets[-1]), 2))
    loader = PackedLoader(windows, batch_size, shuffle=False, longest_first=True)
    with evaluating(model):
        for batch in loader:
            inputs: dict[str, Any] = dict(batch or {})
            rows = inputs.pop("row_ids")
            out = model(**inputs)
            both = [host_array(x) for x in (out.start_logits, out.end_logits)]
            places = [
                np.arange(windows.offsets[row], windows.offsets[row + 1])
                for row in rows
            ]
            found[np.concatenate(places)] = np.stack(both, axis=-1)
    return found


def _scored(
    windows: WindowDataset, index: int, logits: np.ndarray, count: int, longest: int
) -> tuple[list[Found], float]:
    """Returns a window's best spans with probabilities, and that of no answer.

    The probability of a span is the product of the probabilities of its start and its
    end, each normalised over the context's tokens and [CLS].
    """
    w = windows.windows
    inside = np.zeros(len(logits), bool)
    inside[int(w.place[index]) : int(w.place[index] + w.tokens[index])] = True
    inside[0] = True
    shares = np.exp(logits - logits[inside].max(axis=0)) * inside[:, None]
    shares /= shares.sum(axis=0)
    context = windows.questions[int(w.question[index])].context
    scored: Sequence[Any] = spans_of(windows, index, shares, count, longest)
    some = [
        {
            "score": float(share),
            "start": start,
            "end": end,
            "answer": context[start:end],
        }
        for start, end, share in scored
    ]
    return some, float(shares[0].prod())
