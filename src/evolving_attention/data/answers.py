"""Answers from start and end logits: the n best spans, or no answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evolving_attention.data.windows import WindowDataset
from evolving_attention.errors import ConfigError, NonFiniteError, ShapeError
from evolving_attention.field_types import check_whole

Array = np.ndarray[Any, Any]


class Span(NamedTuple):
    """A possible answer.

    Attributes:
        text: text of the span in the context; "" for no answer.
        probability: probability among the n best spans of the question.
        start_logit, end_logit: logits of its first and last tokens.
        start, end: its character range in the context; (0, 0) for no answer.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int
    end: int

    @property
    def score(self) -> float:
        """The sum of the two logits."""
        return self.start_logit + self.end_logit


@dataclass
class Answers:
    """The answers to questions, by question id.

    Attributes:
        texts: the answers; "" for no answer.
        nbest: for each question the n best spans, the best first.
        best_texts: the best span that is not "no answer", regardless of the threshold.
        null_odds: score of "no answer" minus the score of that span; empty if every
            question has an answer.
    """

    texts: dict[str, str] = field(default_factory=dict)
    nbest: dict[str, list[Span]] = field(default_factory=dict)
    best_texts: dict[str, str] = field(default_factory=dict)
    null_odds: dict[str, float] = field(default_factory=dict)


def best_answers(
    windows: WindowDataset,
    predictions: Any,
    *,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    version_2_with_negative: bool = False,
    null_score_diff_threshold: float = 0.0,
) -> Answers:
    """Returns the best answer to each question, over all windows of its context.

    The score of a span is the sum of its start and end logits (Devlin et al., 2019,
    Section 4.2). In each window the ``n_best_size`` best starts and ends are combined.
    With ``version_2_with_negative`` a question has no answer if the score of [CLS], the
    lowest over its windows, exceeds the score of its best span by more than
    ``null_score_diff_threshold`` (Section 4.3). Rules and names follow Hugging Face's
    run_qa.

    Args:
        windows: windows of the questions.
        predictions: the result of ``Trainer.predict(windows)``, or its ``predictions``
            [tokens, 2]: start and end logits of all tokens, window after window.
        n_best_size: number of spans to keep per question.
        max_answer_length: tokens of the longest answer.
        version_2_with_negative: whether questions may have no answer.
        null_score_diff_threshold: see above.

    Raises:
        ConfigError: an option is out of range.
        ShapeError, NonFiniteError: the predictions cannot be used.

    Example::

        found = best_answers(windows, trainer.predict(windows))
        found.texts["56be4db0acb8001400a502ec"]
    """
    where, usual = "best_answers", "20 or 30 is usual"
    check_whole(where, 1, usual, n_best_size=n_best_size)
    check_whole(where, 1, usual, max_answer_length=max_answer_length)
    threshold = float(null_score_diff_threshold)
    if math.isnan(threshold):
        raise ConfigError("null_score_diff_threshold is NaN, expected a number; try 0")
    logits = _checked(windows, predictions)
    found: list[list[_Raw]] = [[] for _ in windows.questions]
    nulls = [_NOTHING] * len(found)
    for i in range(len(windows)):
        question = int(windows.windows.question[i])
        part = logits[windows.offsets[i] : windows.offsets[i + 1]]
        null = _Raw(0, 0, float(part[0, 0]), float(part[0, 1]))
        nulls[question] = min(nulls[question], null, key=_Raw.score)
        found[question] += _spans(
            part, _characters(windows, i), n_best_size, max_answer_length
        )
    answers = Answers()
    for one, spans, null in zip(windows.questions, found, nulls, strict=True):
        spans.sort(key=_Raw.score, reverse=True)  # stable: earlier window first
        best = spans[0] if spans else None
        if version_2_with_negative:
            spans = sorted([*spans, null], key=_Raw.score, reverse=True)
        kept = spans[:n_best_size]
        if version_2_with_negative and null not in kept:
            kept.append(null)
        answers.nbest[one.id] = _shown(kept, one.context)
        text = "" if best is None else one.context[best.start : best.end]
        answers.texts[one.id] = answers.best_texts[one.id] = text
        if not version_2_with_negative:
            continue
        odds = null.score() - (0.0 if best is None else best.score())
        answers.null_odds[one.id] = odds
        if odds > threshold or best is None:
            answers.texts[one.id] = ""
    return answers


class _Raw(NamedTuple):
    start: int  # start and end are character positions
    end: int
    start_logit: float
    end_logit: float

    def score(self) -> float:
        return self.start_logit + self.end_logit


_NOTHING = _Raw(0, 0, math.inf, math.inf)  # placeholder until a window is read


def _checked(windows: WindowDataset, predictions: Any) -> Array:
    """Returns the logits as float64 [tokens, 2]."""
    predictions = getattr(predictions, "predictions", predictions)
    if isinstance(predictions, tuple) and len(predictions) == 2:
        predictions = np.stack([np.asarray(part) for part in predictions], axis=-1)
    logits = np.asarray(predictions, np.float64)
    total = int(windows.offsets[-1])
    if logits.shape != (total, 2):
        raise ShapeError(
            f"best_answers: predictions have shape {logits.shape}, expected ({total}, "
            f"2), the logits of start and end of each token of {len(windows)} windows; "
            "pass Trainer.predict(windows) of the same windows"
        )
    if not np.isfinite(logits).all():
        row = int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])
        of = int(np.searchsorted(windows.offsets, row, side="right")) - 1
        question = windows.questions[int(windows.windows.question[of])]
        raise NonFiniteError(
            f"best_answers: the logits of token {row} are {logits[row].tolist()}, in "
            f"the window of question {question.id!r}, expected finite numbers; the "
            "model's weights or its training diverged",
            {"rows": [of]},
        )
    return logits


def _characters(windows: WindowDataset, index: int) -> Array:
    """Returns [tokens, 2], each token's character range; -1 outside the context."""
    w = windows.windows
    length = int(windows.offsets[index + 1] - windows.offsets[index])
    place, first, count = int(w.place[index]), int(w.first[index]), int(w.tokens[index])
    found = np.full((length, 2), -1, np.int64)
    found[place : place + count, 0] = w.begins[first : first + count]
    found[place : place + count, 1] = w.ends[first : first + count]
    return found


def _spans(logits: Array, characters: Array, n_best: int, longest: int) -> list[_Raw]:
    """Returns the spans of one window, from its best starts and its best ends."""
    starts, ends = (_best(logits[:, side], n_best) for side in (0, 1))
    starts = starts[characters[starts, 0] >= 0]
    ends = ends[characters[ends, 0] >= 0]
    length = ends[None, :] - starts[:, None] + 1
    rows, columns = np.nonzero((length >= 1) & (length <= longest))
    scores = logits[starts[rows], 0] + logits[ends[columns], 1]
    kept = np.argsort(-scores, kind="stable")[:n_best]
    return [
        _Raw(
            int(characters[start, 0]),
            int(characters[end, 1]),
            float(logits[start, 0]),
            float(logits[end, 1]),
        )
        for start, end in zip(starts[rows[kept]], ends[columns[kept]], strict=True)
    ]


def spans_of(
    windows: WindowDataset, index: int, shares: Array, count: int, longest: int
) -> list[tuple[int, int, float]]:
    """Returns a window's spans with the largest product of start and end probability.

    Args:
        windows, index: the window.
        shares: [tokens, 2], the probabilities of start and end.
        count: number of spans.
        longest: maximum number of tokens in a span.

    Returns:
        (first character, last character + 1, product) of each span, the best first.
    """
    characters = _characters(windows, index)
    tokens = np.flatnonzero(characters[:, 0] >= 0)
    found = []
    for start in tokens:  # the best ends for each start
        ends = tokens[(tokens >= start) & (tokens < start + longest)]
        products = shares[start, 0] * shares[ends, 1]
        for i in _best(products, count):
            span = int(characters[start, 0]), int(characters[ends[i], 1])
            found.append((*span, float(products[i])))
    return sorted(found, key=lambda one: -one[2])[:count]


def _best(values: Array, count: int) -> Array:
    """Returns positions of the largest values, largest first, ties in order."""
    return np.argsort(-values, kind="stable")[:count]


def _shown(spans: list[_Raw], context: str) -> list[Span]:
    """Adds texts and probabilities (the softmax of the scores) to the spans."""
    scores = np.array([span.score() for span in spans])
    shares = np.exp(scores - scores.max(initial=-math.inf)) if len(scores) else scores
    total = shares.sum()
    return [
        Span(
            context[span.start : span.end],
            float(share / total),
            *(span.start_logit, span.end_logit),
            *(span.start, span.end),
        )
        for span, share in zip(spans, shares, strict=True)
    ]


def write_answers(folder: str | Path, prefix: str, answers: Answers) -> list[Path]:
    """Write the files of run_qa; returns their paths.

    ``<prefix>_predictions.json`` has the texts by id, as the official scripts read
    them; ``<prefix>_nbest_predictions.json`` has the n best spans with their
    probabilities; ``<prefix>_null_odds.json`` has ``null_odds`` if questions may have
    no answer.
    """
    from evolving_attention.durable import write_json

    names = ("text", "probability", "start_logit", "end_logit")
    nbest = {
        key: [{name: getattr(span, name) for name in names} for span in spans]
        for key, spans in answers.nbest.items()
    }
    files: dict[str, Mapping[str, Any]] = {
        "predictions": answers.texts,
        "nbest_predictions": nbest,
    }
    if answers.null_odds:
        files["null_odds"] = answers.null_odds
    paths = []
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, values in files.items():
        paths.append(Path(folder) / f"{prefix}_{name}.json")
        write_json(paths[-1], values)
    return paths
