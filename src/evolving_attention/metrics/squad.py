"""Exact match and F1 of answers, as defined by SQuAD 1.1 and 2.0.

Rajpurkar et al., EMNLP 2016, Section 6.1, and Rajpurkar et al., ACL 2018. Answers are
compared without case, punctuation, articles and repeated spaces. Written from the
definition.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from evolving_attention.errors import InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class _Question(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def texts(self) -> tuple[str, ...]: ...


def normalize_answer(text: str) -> str:
    """Normalises a text: lower case, no punctuation, no articles, single spaces.

    Example:
        >>> normalize_answer("The  U.S. Army")
        'us army'
    """
    plain = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer: str, right: str) -> float:
    """Returns 1 if both texts are equal when normalised, else 0."""
    return float(normalize_answer(answer) == normalize_answer(right))


def answer_f1(answer: str, right: str) -> float:
    """Returns F1 of the words that both texts share, 2pr / (p + r).

    p is the share of the answer's words that match, r the share of the right answer's
    words; repeated words count as often as they occur. If a text has no word: 1 if
    neither has one, else 0.
    """
    found, true = normalize_answer(answer).split(), normalize_answer(right).split()
    if not found or not true:
        return float(found == true)
    shared = sum((Counter(found) & Counter(true)).values())
    return 2 * shared / (len(found) + len(true))


def squad_scores(
    predictions: Mapping[str, str], questions: Iterable[_Question]
) -> dict[str, float]:
    """Returns ``exact_match`` and ``f1`` of SQuAD 1.1, in percent of all questions.

    Each question uses the right answer that matches its prediction best.

    Args:
        predictions: question id to answer.
        questions: objects with ``id`` and ``texts``, their right answers.

    Raises:
        InputError: a question has no prediction or no right answer, or there is no
            question.
    """
    scores = []
    for one in _with_predictions(predictions, questions):
        if not one.texts:
            raise InputError(
                f"squad_scores: question {one.id!r} has no right answer, expected one "
                "or more, as in SQuAD 1.1; use squad_v2_scores "
                "(--version_2_with_negative)"
            )
        answer = predictions[one.id]
        # SQuAD 1.1 gives 0 if neither text has a word, because nothing is shared.
        words = normalize_answer(answer).split()
        f1 = max(answer_f1(answer, text) for text in one.texts) if words else 0.0
        scores.append((_best(exact_match, answer, one.texts), f1))
    exact, f1s = zip(*scores, strict=True)
    return {"exact_match": _percent(exact), "f1": _percent(f1s)}


def squad_v2_scores(
    predictions: Mapping[str, str], questions: Iterable[_Question]
) -> dict[str, float]:
    """Returns ``exact``, ``f1`` and ``total`` of SQuAD 2.0, and of both question kinds.

    The right answer to a question without one is "". ``HasAns_…`` and ``NoAns_…`` are
    the values of the questions with and without an answer, if there are any.

    Args:
        predictions: question id to answer, "" for no answer.
        questions: objects with ``id`` and ``texts``, their right answers or none.

    Raises:
        InputError: a question has no prediction, or there is no question.
    """
    asked = _with_predictions(predictions, questions)
    has = [bool(one.texts) for one in asked]
    found: dict[str, float] = {}
    for prefix, kept in (
        ("", [True] * len(asked)),
        ("HasAns_", has),
        ("NoAns_", [not one for one in has]),
    ):
        some = [one for one, keep in zip(asked, kept, strict=True) if keep]
        if not some:
            continue
        for name, measure in (("exact", exact_match), ("f1", answer_f1)):
            values = [_best(measure, predictions[q.id], _right(q)) for q in some]
            found[f"{prefix}{name}"] = _percent(values)
        found[f"{prefix}total"] = len(some)
    return found


def best_thresholds(
    answers: Mapping[str, str],
    questions: Iterable[_Question],
    null_odds: Mapping[str, float],
) -> dict[str, float]:
    """Returns the best scores over the thresholds of "no answer", and the thresholds.

    Has ``best_exact`` with ``best_exact_thresh``, and ``best_f1`` with
    ``best_f1_thresh``. A question whose ``null_odds`` exceed the threshold has no
    answer. A threshold chosen on the questions on which it is reported is too
    optimistic; use it on other questions.

    Args:
        answers: question id to the best answer that is not "".
        questions: objects with ``id`` and ``texts``.
        null_odds: question id to the odds of "no answer".

    Raises:
        InputError: a question has no answer or no odds, or there is no question.
    """
    asked = _with_predictions(answers, questions)
    lacking = next((one.id for one in asked if one.id not in null_odds), None)
    if lacking is not None:
        raise InputError(
            f"best_thresholds: question {lacking!r} has no null_odds, expected them "
            "for every question; take answers and null_odds from one prediction"
        )
    order = sorted(asked, key=lambda one: null_odds[one.id])
    found: dict[str, float] = {}
    for name, measure in (("exact", exact_match), ("f1", answer_f1)):
        # If nothing is answered, the questions without an answer are right.
        total = best = float(sum(not one.texts for one in asked))
        threshold = 0.0
        for one in order:  # answer one more, the most certain first
            answer = answers[one.id]
            if one.texts:
                total += _best(measure, answer, _right(one))
            elif answer:
                total -= 1
            if total > best:
                best, threshold = total, float(null_odds[one.id])
        found[f"best_{name}"] = 100.0 * best / len(asked)
        found[f"best_{name}_thresh"] = threshold
    return found


def _right(question: _Question) -> Sequence[str]:
    """Returns the right answers that have a word, or else only ""."""
    return [text for text in question.texts if normalize_answer(text)] or [""]


def _best(
    measure: Callable[[str, str], float], answer: str, right: Sequence[str]
) -> float:
    return max(measure(answer, text) for text in right)


def _percent(values: Sequence[float]) -> float:
    return 100.0 * sum(values) / len(values)


def _with_predictions(
    predictions: Mapping[str, str], questions: Iterable[_Question]
) -> list[_Question]:
    """Returns the questions; each must have a prediction that is text."""
    asked = list(questions)
    if not asked:
        raise InputError("no questions to score, expected at least one; check the file")
    lacking = [one.id for one in asked if one.id not in predictions]
    if lacking:
        raise InputError(
            f"{len(lacking)} of {len(asked)} questions have no prediction, the first "
            f"is {lacking[0]!r}; expected one for each, '' for no answer; predict all "
            "of them"
        )
    for one in asked:
        if not isinstance(predictions[one.id], str):
            kind = type(predictions[one.id]).__name__
            raise InputError(
                f"the prediction of question {one.id!r} is a {kind}, expected text; "
                "correct it"
            )
    return asked
