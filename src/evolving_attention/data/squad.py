"""Questions about texts, from files of SQuAD 1.1 and 2.0 or from the user's rows."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

from evolving_attention.data.json_objects import read_one_object, unclean
from evolving_attention.errors import ConfigError, DataError, require
from evolving_attention.notices import say

_POLICIES = ("raise", "skip")
_COLUMNS = ("text", "answer_start")  # keys of answers in the flat form
_SHOWN = 60  # maximum characters of a text in a message


class Answer(NamedTuple):
    """A text of the context, and the position of its first character there."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        id: unique id of the question.
        question, context, title: texts.
        answers: the right answers, each sufficient; empty: the context has no answer;
            None: unknown (a file to predict).
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None
    title: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the answers."""
        return tuple(answer.text for answer in self.answers or ())

    def row(self) -> dict[str, Any]:
        """Returns the question as a row of Hugging Face's data set ``squad``."""
        starts = [answer.start for answer in self.answers or ()]
        return {
            "id": self.id,
            "title": self.title,
            "context": self.context,
            "question": self.question,
            "answers": {"text": list(self.texts), "answer_start": starts},
        }


class Questions(Sequence[Question]):
    """Questions in file order.

    Args:
        questions: questions with distinct ids.
        name: name of the file or argument, for messages.
    """

    def __init__(self, questions: Iterable[Question], name: str = "questions") -> None:
        self._all, self.name = list(questions), name

    @property
    def labelled(self) -> bool:
        """Whether the answers of all questions are known."""
        return all(one.answers is not None for one in self._all)

    @property
    def some_unanswerable(self) -> bool:
        """Whether some question has no answer in its context (SQuAD 2.0)."""
        return any(one.answers == () for one in self._all)

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> Questions: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Questions(self._all[index], self.name)
        return self._all[operator.index(index)]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Question]:
        return iter(self._all)

    def __repr__(self) -> str:
        return f"Questions({len(self)} of {self.name})"


def load(path: str | Path, *, bad_rows: str = "raise") -> Questions:
    """Reads a file of SQuAD 1.1 or 2.0, or one in the format of ``run_qa``.

    The official format nests: ``{"data": [{"title", "paragraphs": [{"context", "qas":
    [{"id", "question", "answers": [{"text", "answer_start"}]}]}]}]}``. The format of
    run_qa is flat: ``{"data": [{"id", "context", "question", "answers": {"text": […],
    "answer_start": […]}}]}``. A question without ``answers`` is one to predict; with an
    empty list, or ``is_impossible``, its context has no answer.

    Args:
        path: path of the .json file, UTF-8.
        bad_rows: handling of a question with an empty or unusable text, with a repeated
            id, with an answer that is not in its context, or with answers although
            ``is_impossible``: ``"raise"``, or ``"skip"``: leave it out, and log how
            many were left out.

    Raises:
        DataError: the file is missing, is not JSON (says line and column), or lacks a
            part of a question (says where, ``data[3].paragraphs[0].qas[2]``); a
            question cannot be used; or there is no question.

    Example::

        questions = ea.squad.load("dev-v2.0.json")
        questions[0].question, questions[0].texts
    """
    if bad_rows not in _POLICIES:
        raise ConfigError(
            f"bad_rows={bad_rows!r}, expected one of {', '.join(_POLICIES)}; choose one"
        )
    expected = "an object with 'data', as SQuAD has it"
    found = read_one_object(Path(path), expected, "get it again, or correct it")
    data = _member(found, "data", list, str(path), "the file")
    rows = _nested(data, str(path))
    return _checked(rows, str(path), bad_rows)


def from_rows(
    rows: Iterable[Mapping[str, Any]], *, name: str = "rows", bad_rows: str = "raise"
) -> Questions:
    """Reads questions from dicts, such as the rows of Hugging Face's ``squad``.

    Args:
        rows: each with ``id``, ``question``, ``context`` and ``answers``: ``{"text":
            […], "answer_start": […]}``, a list of ``{"text", "answer_start"}``, or
            None.
        name: name of the rows, for messages.
        bad_rows: see :func:`load`.

    Raises:
        DataError: see :func:`load`.
    """
    placed = ((f"{name}[{i}]", row, row) for i, row in enumerate(rows))
    return _checked(placed, name, bad_rows)


# ------------------------------------------------------------------------------ reading


_Placed = tuple[str, Mapping[str, Any], Mapping[str, Any]]


def _nested(data: list[Any], path: str) -> Iterator[_Placed]:
    """Yields (path, question object, object with its context) of both formats."""
    for i, article in enumerate(data):
        place = f"data[{i}]"
        _object(article, path, place)
        if "context" in article:
            yield place, article, article
            continue
        paragraphs = _member(article, "paragraphs", list, path, place)
        for j, paragraph in enumerate(paragraphs):
            inner = f"{place}.paragraphs[{j}]"
            _object(paragraph, path, inner)
            both = {"title": article.get("title", ""), **paragraph}
            for k, one in enumerate(_member(paragraph, "qas", list, path, inner)):
                yield f"{inner}.qas[{k}]", one, both


def _object(value: Any, path: str, place: str) -> None:
    if not isinstance(value, Mapping):
        raise DataError(
            f"{place} is a {type(value).__name__}, expected an object; correct it", path
        )


_KINDS = {str: "text", list: "a list", int: "a whole number"}


def _member(
    value: Mapping[str, Any], name: str, kind: type, path: str, place: str
) -> Any:
    """Returns a required member of this type."""
    if name not in value:
        raise DataError(
            f"{place} has no {name!r}, only "
            f"{', '.join(map(repr, value)) or 'nothing'}; expected it, as SQuAD has "
            "it; add it",
            path,
        )
    found = value[name]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise DataError(
            f"{place}: {name!r} is a {type(found).__name__}, expected {_KINDS[kind]}; "
            "correct it",
            path,
        )
    return found


# ------------------------------------------------------------------------------- checks


def _checked(rows: Iterable[_Placed], name: str, bad_rows: str) -> Questions:
    """Returns the usable questions; ids must be unique over all of them."""
    kept: list[Question] = []
    places: dict[str, str] = {}
    left_out: list[str] = []
    count = 0
    for place, one, around in rows:
        count += 1
        question, impossible = _question(name, place, one, around)
        wrong = _wrong_text(question) or _wrong_answer(question, impossible)
        if not wrong and question.id in places:
            wrong = (
                f"the id is that of {places[question.id]} too, expected one for each "
                "question; rename one, or leave it out"
            )
        places.setdefault(question.id, place)
        if not wrong:
            kept.append(question)
            continue
        reason = f"{place} (id {question.id!r}): {wrong}"
        if bad_rows == "raise":
            remedy = "or pass bad_rows='skip' (--bad_rows skip)"
            raise DataError(f"{reason}, {remedy}", name)
        left_out.append(reason)
    if not kept:
        first = f", the first because {left_out[0]}" if left_out else ""
        raise DataError(
            f"no question of {count} can be used{first}; expected at least one; check "
            "the file",
            name,
        )
    if left_out:
        say(f"{name}: {len(left_out)} of {count} questions are left out: {left_out[0]}")
    return Questions(kept, name)


def _question(
    path: str, place: str, one: Mapping[str, Any], around: Mapping[str, Any]
) -> tuple[Question, bool]:
    """Returns the question, and its ``is_impossible``."""
    _object(one, path, place)
    holders = {"id": one, "question": one, "context": around}
    texts = {n: _member(holder, n, str, path, place) for n, holder in holders.items()}
    answers = _answers(path, place, one)
    impossible = one.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise DataError(
            f"{place}: 'is_impossible' is {impossible!r}, expected true or false; "
            "correct it",
            path,
        )
    if impossible and answers is None:
        answers = ()
    title = around.get("title") or ""
    return Question(answers=answers, title=str(title), **texts), impossible


def _answers(
    path: str, place: str, one: Mapping[str, Any]
) -> tuple[Answer, ...] | None:
    """Returns the answers in either format; None if they are not given."""
    given = one.get("answers")
    if given is None:
        return None
    if isinstance(given, Mapping):
        columns = [list(_sequence(given, name, path, place)) for name in _COLUMNS]
        if len(columns[0]) != len(columns[1]):
            raise DataError(
                f"{place}: 'answers' has {len(columns[0])} texts and "
                f"{len(columns[1])} places, expected as many; correct it",
                path,
            )
        pairs = zip(*columns, strict=True)
        given = [dict(zip(_COLUMNS, pair, strict=True)) for pair in pairs]
    elif not isinstance(given, (list, tuple)):
        raise DataError(
            f"{place}: 'answers' is a {type(given).__name__}, expected a list; correct "
            "it",
            path,
        )
    found = []
    for i, answer in enumerate(given):
        inner = f"{place}.answers[{i}]"
        _object(answer, path, inner)
        text = _member(answer, "text", str, path, inner)
        start = _member(answer, "answer_start", int, path, inner)
        found.append(Answer(text, start))
    return tuple(found)


def _sequence(given: Mapping[str, Any], name: str, path: str, place: str) -> Any:
    found: Any = given.get(name)
    if hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, (list, tuple)):
        raise DataError(
            f"{place}: 'answers' has {name!r} {found!r:.40}, expected a list; correct "
            "it",
            path,
        )
    return found


def _wrong_text(question: Question) -> str:
    """Returns which text of the question cannot be used, and why, else ""."""
    for name in ("id", "question", "context"):
        text = getattr(question, name)
        if reason := unclean(text) or ("" if text.strip() else "is empty"):
            return f"{name!r} {reason}; correct it"
    return ""


def _wrong_answer(question: Question, impossible: bool) -> str:
    """Returns why an answer is not in the context, with both texts, else ""."""
    if impossible and question.answers:
        return (
            f"is_impossible is true with {len(question.answers)} answers, expected "
            "none (or plausible_answers); correct it"
        )
    context = question.context
    for text, start in question.answers or ():
        there = context[max(start, 0) : max(start, 0) + len(text)]
        if start >= 0 and text.strip() and there == text:
            continue
        if not text.strip():
            return f"the answer {text!r} is empty, expected a text; correct it"
        at = context.find(text)
        where = f"it begins at {at}" if at >= 0 else "the context does not have it"
        return (
            f"the answer {_short(text)} is not at character {start} of its context "
            f"{_short(context)}, which has {_short(there)} there ({where}); expected "
            "answer_start where the answer begins; correct it"
        )
    return ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def load_hub(
    name: str, split: str, config: str | None = None, bad_rows: str = "raise"
) -> Questions:
    """Loads questions from the Hub, such as ``squad`` or ``squad_v2``.

    Args:
        name, config: name and configuration of the data set.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        bad_rows: see :func:`load`.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        DataError: the data set cannot be loaded, or see :func:`load`.
    """
    why = "to read questions from the Hub (or give --train_file)"
    datasets = require("datasets", extra="data", why=why)
    try:
        table = datasets.load_dataset(name, config, split=split)
    except Exception as error:
        raise DataError(
            f"{name}: split {split!r} cannot be loaded from the Hub ({error}); check "
            "the network, or give files"
        ) from error
    return from_rows(table, name=f"{name}/{split}", bad_rows=bad_rows)
