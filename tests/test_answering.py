"""``ea.pipeline("question-answering")``: the best spans and their probabilities."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_squad import document, folder_of

import evolving_attention as ea

QUESTION = "What colour has the dog?"
CONTEXT = "The cat is red. The dog is blue. The door is white. The tree is black."


@pytest.fixture
def answer(tmp_path: Path) -> Any:
    folder = folder_of(tmp_path, "BertForQuestionAnswering", initializer_range=0.5)
    return ea.pipeline("question-answering", folder)


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def by_hand(answer: Any, longest: int = 15) -> list[tuple[float, int, int]]:
    """Returns (probability, first, last character) of every span of one window."""
    encoded = answer.tokenizer(
        QUESTION, CONTEXT, return_tensors="np", return_offsets_mapping=True
    )
    offsets = encoded.pop("offset_mapping")[0]
    out = answer.model(**{k: encoded[k] for k in ("input_ids", "token_type_ids")})
    length = len(offsets)
    tokens = np.flatnonzero(encoded["token_type_ids"][0] == 1)[:-1]
    inside = np.array([0, *tokens])
    shares = np.zeros((2, length))
    for side, logits in enumerate((out.start_logits, out.end_logits)):
        shares[side, inside] = softmax(np.asarray(logits, np.float64)[0, inside])
    spans = [
        (shares[0, a] * shares[1, b], int(offsets[a, 0]), int(offsets[b, 1]))
        for a, b in itertools.product(tokens, repeat=2)
        if a <= b < a + longest
    ]
    return [(shares[:, 0].prod(), 0, 0), *sorted(spans, reverse=True)]


def test_the_most_probable_spans(answer: Any):
    none, *spans = by_hand(answer)
    found = answer(question=QUESTION, context=CONTEXT, top_k=7)
    for one, (share, start, end) in zip(found, spans, strict=False):
        assert one["score"] == pytest.approx(share, rel=1e-5)
        assert (one["start"], one["end"]) == (start, end)
        assert one["answer"] == CONTEXT[start:end]
    assert len(found) == 7
    best = answer({"question": QUESTION, "context": CONTEXT})
    assert best == found[0]
    short = answer(question=QUESTION, context=CONTEXT, max_answer_len=1, top_k=100)
    assert len(short) == len(by_hand(answer, 1)) - 1
    both = answer(
        question=QUESTION,
        context=CONTEXT,
        top_k=1000,
        handle_impossible_answer=True,
    )
    empty = next(one for one in both if one["answer"] == "")
    assert empty["score"] == pytest.approx(none[0], rel=1e-5)


def test_many_questions_in_windows(answer: Any):
    """Lists give each question's answer; positions count in the whole text."""
    paragraphs = document(5)["data"][0]["paragraphs"]
    rows = [
        {"question": one["question"], "context": each["context"]}
        for each in paragraphs
        for one in each["qas"]
    ]
    options = {"max_seq_len": 20, "doc_stride": 4}
    found = answer(rows, batch_size=3, **options)
    assert len(found) == len(rows)
    for row, one in zip(rows, found, strict=True):
        alone = answer(row, **options)
        assert alone["answer"] == one["answer"]
        assert alone["score"] == pytest.approx(one["score"], rel=1e-5)
        assert row["context"][one["start"] : one["end"]] == one["answer"] != ""
    lists = answer(
        question=[row["question"] for row in rows],
        context=[row["context"] for row in rows],
        **options,
    )
    assert [one["start"] for one in lists] == [one["start"] for one in found]
    assert answer([]) == []
    assert not answer.model.training


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({}, ea.InputError, "question is None, expected a text, or a list"),
        ({"question": "Why?"}, ea.InputError, "context is None, expected a text, or"),
        ({"question": None, "context": "a"}, ea.InputError, "question is None, expe"),
        ({"inputs": "Why?"}, ea.InputError, r"inputs is 'Why\?', .* by name: question"),
        ({"inputs": {}, "doc_stride": -1}, ea.ConfigError, "stride=-1, .* 0 or more"),
        (
            {"question": "a", "context": "b", "max_seq_len": 0},
            ea.ConfigError,
            "question-answering: max_seq_len=0, expected 1 or more",
        ),
        (
            {"question": "the " * 40, "context": "the " * 40},
            ea.InputError,
            "in a pipeline max_seq_len= and doc_stride=, or shorten the question",
        ),
        (
            {"question": ["a", "b"], "context": ["c"]},
            ea.InputError,
            "2 questions and 1",
        ),
        ({"inputs": ["Why?"]}, ea.InputError, r"inputs\[0\] is 'Why"),
        ({"inputs": [], "topk": 2}, ea.ConfigError, "'topk' is not known"),
        ({"inputs": {}, "top_k": 0}, ea.ConfigError, "top_k=0, expected .* 1 or more"),
    ],
)
def test_mistakes(answer: Any, given: Any, error: Any, told: str):
    with pytest.raises(error, match=told):
        answer(**given)


def test_two_texts_by_place_are_told_the_names(answer: Any):
    with pytest.raises(ea.InputError, match="pass two texts by name: question=…, con"):
        answer(QUESTION, CONTEXT)


def test_one_context_of_several_questions(answer: Any):
    questions = [QUESTION, "What is red?"]
    expected = [answer(question=one, context=CONTEXT) for one in questions]
    found = answer(question=questions, context=CONTEXT)
    assert [one["start"] for one in found] == [one["start"] for one in expected]
    assert [one["answer"] for one in found] == [one["answer"] for one in expected]


def test_a_classifier_is_refused(tmp_path: Path):
    folder = folder_of(tmp_path, "BertForSequenceClassification")
    model = ea.AutoModelForSequenceClassification.from_pretrained(folder)
    with pytest.raises(ea.ConfigError, match="expected one for question answering"):
        ea.pipeline("question-answering", model, folder)
