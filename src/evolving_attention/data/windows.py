"""Questions with contexts as token ids; long contexts become overlapping windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evolving_attention.data.packed import SPAN, Batch, PackedRows, digest
from evolving_attention.data.squad import Question, Questions
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.notices import say

Array = np.ndarray[Any, Any]
_NO_LIMIT = 2**62
_CHUNK = 4096  # texts per tokenizer call


class _Template(NamedTuple):
    """The special tokens around a question and its context, and all token types."""

    ids: tuple[Array, Array, Array]  # before, between, after
    types: tuple[int, int, int, int, int]  # before, question, between, context, after

    @property
    def total(self) -> int:
        return sum(map(len, self.ids))


class Windows(NamedTuple):
    """Positions of the windows of a data set.

    Attributes:
        question: int64 [N], the index of each window's question.
        place: int64 [N], the position in its row of a window's first context token.
        first: int64 [N], the index of that token in ``begins`` and ``ends``.
        tokens: int64 [N], number of context tokens in the window.
        begins, ends: int64 [M], character ranges of the tokens of all contexts.
    """

    question: Array
    place: Array
    first: Array
    tokens: Array
    begins: Array
    ends: Array


class WindowDataset(PackedRows):
    """N windows of questions with contexts, as a data set for the Trainer.

    A row is ``[CLS] question [SEP] window [SEP]``, the tokenizer's format of a pair. A
    context that does not fit is split into windows; each repeats the last ``stride``
    tokens of the previous one. ``start_positions`` and ``end_positions`` are the
    positions of the first answer's first and last tokens, or 0, the position of [CLS],
    in a window that does not contain the whole answer. Create it by
    :meth:`from_questions`.

    Attributes:
        questions: the questions.
        windows: positions of the windows.
    """

    tokens: ClassVar[tuple[str, ...]] = ("input_ids", "token_type_ids")
    place: ClassVar[str] = "window {} of {} windows"
    labels = None

    def __init__(
        self,
        arrays: dict[str, Array],
        questions: Questions,
        windows: Windows,
        positions: tuple[Array, Array] | None,
    ) -> None:
        self.input_ids: Array = arrays["input_ids"]
        self.token_type_ids: Array | None = arrays.get("token_type_ids")
        self.offsets = arrays["offsets"]
        self.questions, self.windows, self.positions = questions, windows, positions

    @classmethod
    def from_questions(
        cls,
        questions: Questions,
        tokenizer: Any,
        *,
        max_length: int = 384,
        stride: int = 128,
    ) -> WindowDataset:
        """Tokenizes questions and contexts; each context once.

        Args:
            questions: the result of :func:`ea.squad.load`.
            tokenizer: the model's, or a fast one of transformers.
            max_length: tokens of the longest row.
            stride: tokens that two windows of a context share.

        Raises:
            ConfigError: max_length or stride is out of range.
            InputError: a question leaves no room for the next part of its context.
        """
        limit = getattr(tokenizer, "model_max_length", None)
        if limit is not None and max_length > limit:
            raise ConfigError(
                f"max_length={max_length} (--max_seq_length), expected at most "
                f"{limit}, the most this model takes; use that"
            )
        if not 0 <= stride < max_length:
            raise ConfigError(
                f"stride={stride} (--doc_stride), expected 0 to {max_length - 1}, less "
                f"than max_length={max_length} (--max_seq_length); 128 of 384 is usual"
            )
        template = _template(tokenizer)
        contexts = list(dict.fromkeys(one.context for one in questions))
        number = {text: i for i, text in enumerate(contexts)}
        texts = _tokens(tokenizer, contexts)
        asked = _tokens(tokenizer, [one.question.lstrip() for one in questions])
        bounds = np.cumsum([0, *(len(one.ids) for one in texts)])
        rows: list[Array] = []
        types: list[Array] = []
        found: list[tuple[int, int, int, int]] = []
        for i, one in enumerate(questions):
            at = number[one.context]
            ids, length = texts[at].ids, len(asked[i].ids)
            room = max_length - template.total - length
            for first, stop in _spans(len(ids), room, stride, one):
                parts = (asked[i].ids, ids[first:stop])
                rows.append(_row(template, parts))
                types.append(_types(template, parts))
                place = len(rows[-1]) - len(template.ids[2]) - (stop - first)
                found.append((i, place, int(bounds[at]) + first, stop - first))
        columns = np.array(found, np.int64).reshape(-1, 4)
        windows = Windows(
            columns[:, 0],
            columns[:, 1],
            columns[:, 2],
            columns[:, 3],
            np.concatenate([one.begins for one in texts]),
            np.concatenate([one.ends for one in texts]),
        )
        arrays = {
            "input_ids": np.concatenate(rows),
            "offsets": np.cumsum([0, *map(len, rows)], dtype=np.int64),
        }
        if "token_type_ids" in getattr(tokenizer, "model_input_names", ()):
            arrays["token_type_ids"] = np.concatenate(types)
        positions = _positions(questions, windows) if questions.labelled else None
        return cls(arrays, questions, windows, positions)

    def take(self, indices: Any) -> WindowDataset:
        """Returns these windows as a data set."""
        indices = np.asarray(indices, np.int64)
        w = self.windows
        names = ("question", "place", "first", "tokens")
        chosen = {name: getattr(w, name)[indices] for name in names}
        return WindowDataset(
            self._gathered(indices),
            self.questions,
            w._replace(**chosen),
            None if self.positions is None else self._of(indices),
        )

    def _of(self, indices: Array) -> tuple[Array, Array]:
        """Returns the answer positions in these windows."""
        assert self.positions is not None
        start, end = self.positions
        return start[indices], end[indices]

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these windows, with answer positions if known.

        ``start_positions`` and ``end_positions`` are the batch's targets.
        """
        batch = super().gather(indices)
        more: dict[str, Array] = {}
        if self.positions is not None:
            chosen = self._of(np.asarray(indices, np.int64))
            more = dict(zip(SPAN, chosen, strict=True))
        return Batch({**batch, **more}, self.tokens, SPAN)

    def fingerprint(self) -> str:
        """Returns a hash of all ids and positions."""
        arrays = {**self._arrays(), "offsets": self.offsets}
        if self.positions is not None:
            arrays |= dict(zip(SPAN, self.positions, strict=True))
        return digest(len(self), [arrays])

    def __getitem__(self, index: Any) -> Any:
        row = super().__getitem__(index)
        if isinstance(row, dict) and self.positions is not None:
            for name, values in zip(SPAN, self.positions, strict=True):
                row[name] = values[index].item()
        return row


class _Tokens(NamedTuple):
    ids: Array  # int32
    begins: Array  # character positions, int64
    ends: Array


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[_Tokens]:
    """Returns ids and character ranges of each text, without special tokens."""
    own = type(tokenizer).__module__.startswith("evolving_attention.")
    # Long texts are split here, so that none is too long to encode.
    options: dict[str, Any] = {"max_length": _NO_LIMIT} if own else {"verbose": False}
    found = []
    for start in range(0, len(texts), _CHUNK):
        encoded = tokenizer(
            list(texts[start : start + _CHUNK]),
            add_special_tokens=False,
            return_attention_mask=False,
            return_offsets_mapping=True,
            **options,
        )
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        for ids, offsets in pairs:
            places = np.array(offsets, np.int64).reshape(-1, 2)
            found.append(_Tokens(np.array(ids, np.int32), places[:, 0], places[:, 1]))
    return found


def _template(tokenizer: Any) -> _Template:
    """Derives the template from an encoded pair, by the positions of its two texts.

    Raises:
        ConfigError: no special token precedes the first text.
    """
    alone = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in "ab"]
    pair = tokenizer("a", "b", return_token_type_ids=True)
    ids, types = list(pair["input_ids"]), list(pair["token_type_ids"])
    first = _find(ids, alone[0], 0)
    second = _find(ids, alone[1], first + len(alone[0]))
    if first < 1 or second < 0:
        raise ConfigError(
            f"the tokenizer makes {ids} of the pair 'a', 'b', expected a special token "
            "such as [CLS] in front of both texts, where 'no answer' points to; use "
            "the tokenizer of a BERT or RoBERTa model"
        )
    middle, last = first + len(alone[0]), second + len(alone[1])
    as_ids = functools.partial(np.array, dtype=np.int32)
    parts = ids[:first], ids[middle:second], ids[last:]
    at = (0, first, min(middle, second), second, min(last, len(ids) - 1))
    return _Template(
        (as_ids(parts[0]), as_ids(parts[1]), as_ids(parts[2])),
        (types[at[0]], types[at[1]], types[at[2]], types[at[3]], types[at[4]]),
    )


def _find(ids: list[int], part: list[int], start: int) -> int:
    stop = len(ids) - len(part) + 1
    places = range(start, stop) if part and start >= 0 else ()
    return next((i for i in places if ids[i : i + len(part)] == part), -1)


def _spans(
    total: int, room: int, stride: int, question: Question
) -> list[tuple[int, int]]:
    """Returns (first, last + 1) token of each window of a context of ``total`` tokens.

    Raises:
        InputError: the question leaves no space for its context.
    """
    if total <= room:
        return [(0, total)]
    if room <= stride:
        raise InputError(
            f"question {question.id!r} ({question.question[:60]}) leaves room for "
            f"{max(room, 0)} tokens of its context of {total}, expected more than the "
            f"{stride} that windows share; raise max_length (--max_seq_length), lower "
            "stride (--doc_stride), in a pipeline max_seq_len= and doc_stride=, or "
            "shorten the question"
        )
    count = -(-(total - room) // (room - stride)) + 1
    begins = [i * (room - stride) for i in range(count)]
    return [(begin, min(begin + room, total)) for begin in begins]


def _row(template: _Template, parts: tuple[Array, Array]) -> Array:
    before, between, after = template.ids
    return np.concatenate([before, parts[0], between, parts[1], after])


def _types(template: _Template, parts: tuple[Array, Array]) -> Array:
    before, between, after = map(len, template.ids)
    counts = (before, len(parts[0]), between, len(parts[1]), after)
    return np.repeat(np.array(template.types, np.int32), counts)


def _positions(questions: Questions, windows: Windows) -> tuple[Array, Array]:
    """Returns the first answer's first and last tokens in each window, or 0.

    A token belongs to the answer if it contains a character of the answer.
    """
    start = np.zeros(len(windows.question), np.int64)
    end = np.zeros_like(start)
    whole: set[int] = set()  # questions for which some window contains the whole answer
    for i, (of, place, first, count) in enumerate(
        zip(windows.question, windows.place, windows.first, windows.tokens, strict=True)
    ):
        answers = questions[int(of)].answers
        if not answers:
            continue
        text, begin = answers[0]
        begins = windows.begins[first : first + count]
        ends = windows.ends[first : first + count]
        if not count or begin < begins[0] or begin + len(text.rstrip()) > ends[-1]:
            continue
        a = int(np.searchsorted(ends, begin, side="right"))
        b = int(np.searchsorted(begins, begin + len(text), side="left")) - 1
        if a <= b:
            start[i], end[i] = place + a, place + b
            whole.add(int(of))
    answerable = {i for i, one in enumerate(questions) if one.answers}
    lost = len(answerable - whole)
    if lost:
        say(
            f"{questions.name}: {lost} of {len(answerable)} answers lie in no window "
            "as a whole; their windows are trained as having none; raise stride "
            "(--doc_stride) to keep more"
        )
    return start, end
