"""Mistakes with questions and answers, and with models of spans, tags and choices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers_squad import document, model, questions, tokenizer, write

import evolving_attention as ea
from mistakes.row import IDS, Row
from mistakes.row import model as tiny


def changed(change: Callable[[Any], Any]) -> Callable[[Path], Any]:
    """Loads a SQuAD file modified by ``change``."""

    def load(folder: Path) -> Any:
        content = document(2)
        change(content)
        return ea.squad.load(write(folder / "dev.json", content))

    return load


def raw(text: bytes) -> Callable[[Path], Any]:
    """Loads a file with this content."""

    def load(folder: Path) -> Any:
        (folder / "dev.json").write_bytes(text)
        return ea.squad.load(folder / "dev.json")

    return load


def first(content: Any) -> Any:
    """Returns the first question of a file."""
    return content["data"][0]["paragraphs"][0]["qas"][0]


def windows(folder: Path, **options: Any) -> Any:
    """Returns the windows of a file's questions."""
    made = ea.squad.WindowDataset.from_questions
    return made(questions(folder), tokenizer(folder), **options)


def answers(folder: Path, logits: Any, **options: Any) -> Any:
    """Returns the best answers to a file's questions for these logits."""
    found = windows(folder, max_length=24, stride=6)
    total = int(found.offsets[-1])
    return ea.squad.best_answers(found, np.resize(logits, (total, 2)), **options)


def weighted(folder: Path) -> Any:
    """Trains on weighted rows with positions."""
    rows = [
        {"input_ids": [2, 5, 3], **dict.fromkeys(PLACES, 1), "sample_weight": 1.0 + i}
        for i in range(4)
    ]
    args = ea.TrainingArguments(folder / "out", max_steps=1, save_strategy="no")
    return ea.Trainer(model(), args, train_dataset=rows).train()


PLACES = {"start_positions": [0, 1], "end_positions": [1, 2]}
SPANS = "BertForQuestionAnswering"
ROWS = {
    "an answer that is not in its context": Row(
        changed(lambda d: first(d)["answers"][0].update(text="purple")),
        ea.DataError,
        r"answer 'purple' is not at character \d+ of its context 'The ",
        r"dev\.json: data\[0\]\.paragraphs\[0\]\.qas\[0\] \(id '0-0-0'\)",
        r"expected answer_start where the answer begins; correct it",
    ),
    "an answer at another place": Row(
        changed(lambda d: first(d)["answers"][0].update(answer_start=0)),
        ea.DataError,
        r"is not at character 0 .* which has 'The",
        r"\(it begins at \d+\)",
        r"bad_rows='skip'",
    ),
    "two questions with one id": Row(
        changed(lambda d: d["data"][0]["paragraphs"][1]["qas"][0].update(id="0-0-0")),
        ea.DataError,
        r"the id is that of data\[0\]\.paragraphs\[0\]\.qas\[0\] too",
        r"data\[0\]\.paragraphs\[1\]\.qas\[0\] \(id '0-0-0'\)",
        r"rename one",
    ),
    "a file of questions that is cut short": Row(
        raw(b'{"data": [{"title": "T",\n "paragraphs": [{"cont'),
        ea.DataError,
        r"not JSON: Unterminated string",
        r"dev\.json:2:18:",
        r"get it again, or correct it",
    ),
    "a file of questions in Latin-1": Row(
        raw('{"data": "Müller"}'.encode("latin-1")),
        ea.DataError,
        r"byte 0xfc is not UTF-8",
        r"dev\.json:1:12",
        r"convert the file",
    ),
    "a file that is no SQuAD": Row(
        raw(b'{"rows": []}'),
        ea.DataError,
        r"has no 'data', only 'rows'",
        r"dev\.json: the file",
        r"as SQuAD has it; add it",
    ),
    "a file without questions": Row(
        raw(b'{"data": []}'),
        ea.DataError,
        r"no question of 0 can be used",
        r"dev\.json",
        r"expected at least one",
    ),
    "a question without a context": Row(
        changed(lambda d: d["data"][0]["paragraphs"][1].pop("context")),
        ea.DataError,
        r"has no 'context'|no 'context'",
        r"data\[0\]\.paragraphs\[1\]",
        r"expected it, as SQuAD has it; add it",
    ),
    "a question that is a number": Row(
        changed(lambda d: first(d).update(question=7)),
        ea.DataError,
        r"'question' is a int, expected text",
        r"qas\[0\]",
        r"correct it",
    ),
    "an impossible question with an answer": Row(
        changed(lambda d: first(d).update(is_impossible=True)),
        ea.DataError,
        r"is_impossible is true with 2 answers",
        r"id '0-0-0'",
        r"expected none",
    ),
    "windows that share too much": Row(
        lambda folder: windows(folder, max_length=16, stride=16),
        ea.ConfigError,
        r"stride=16",
        r"max_length=16",
        r"expected 0 to 15",
    ),
    "rows longer than the model": Row(
        lambda folder: windows(folder, max_length=384),
        ea.ConfigError,
        r"max_length=384",
        r"--max_seq_length",
        r"expected at most 64",
    ),
    "a question that fills the window": Row(
        lambda folder: windows(folder, max_length=12, stride=3),
        ea.InputError,
        r"leaves room for \d tokens of its context of \d+",
        r"question '0-0-0'",
        r"raise max_length",
    ),
    "logits of other windows": Row(
        lambda folder: ea.squad.best_answers(
            windows(folder, max_length=24, stride=6), np.zeros((5, 2))
        ),
        ea.ShapeError,
        r"predictions have shape \(5, 2\)",
        r"best_answers",
        r"of the same windows",
    ),
    "logits that are not finite": Row(
        lambda folder: answers(folder, [np.nan, 0.0]),
        ea.NonFiniteError,
        r"logits of token 0 are \[nan, 0\.0\]",
        r"question '0-0-0'",
        r"expected finite numbers",
    ),
    "answers of no token": Row(
        lambda folder: answers(folder, 0.0, max_answer_length=0),
        ea.ConfigError,
        r"max_answer_length=0",
        r"max_answer_length",
        r"expected a whole number, 1 or more",
    ),
    "scores without every prediction": Row(
        lambda folder: ea.metrics.squad_scores({}, questions(folder)),
        ea.InputError,
        r"16 of 16 questions have no prediction",
        r"the first is '0-0-0'",
        r"expected one for each",
    ),
    "SQuAD 1.1's scores of questions without an answer": Row(
        lambda folder: ea.metrics.squad_scores(
            {q.id: "" for q in questions(folder, unanswerable=True)},
            questions(folder, unanswerable=True),
        ),
        ea.InputError,
        r"has no right answer",
        r"question '0-1-1'",
        r"use squad_v2_scores",
    ),
    "labels for a model of spans": Row(
        lambda _: tiny(SPANS)(IDS, labels=[0, 1]),
        ea.InputError,
        r"labels are given",
        SPANS,
        r"expected start_positions and end_positions",
    ),
    "positions for a classifier": Row(
        lambda _: tiny()(IDS, **PLACES),
        ea.InputError,
        r"start_positions is given",
        r"BertForSequenceClassification",
        r"use ea\.AutoModelForQuestionAnswering",
    ),
    "a start without an end": Row(
        lambda _: tiny(SPANS)(IDS, start_positions=[0, 1]),
        ea.InputError,
        r"start_positions is given without end_positions",
        r"forward",
        r"give both or none",
    ),
    "a position in front of the text": Row(
        lambda _: tiny(SPANS)(IDS, start_positions=[0, -1], end_positions=[0, 0]),
        ea.InputError,
        r"start_positions\[1\] = -1",
        r"forward",
        r"expected a position, 0 or more",
    ),
    "positions of other rows": Row(
        lambda _: tiny(SPANS)(IDS, start_positions=[0], end_positions=[0, 0]),
        ea.ShapeError,
        r"start_positions has shape \(1,\)",
        r"forward",
        r"expected \(2,\)",
    ),
    "smoothed positions": Row(
        lambda _: tiny(SPANS)(IDS, **PLACES, label_smoothing=0.1),
        ea.ConfigError,
        r"label smoothing is for classes",
        r"forward",
        r"leave label_smoothing out",
    ),
    "weights of spans": Row(
        weighted,
        ea.InputError,
        r"sample_weight with input_ids",
        r"Trainer",
        r"expected labels, which it weighs; leave it out",
    ),
    "a model of spans with three labels": Row(
        lambda _: model(SPANS, num_labels=3),
        ea.ConfigError,
        r"num_labels = 3",
        SPANS,
        r"pass num_labels=2",
    ),
    "a tag that is no class": Row(
        lambda _: tiny("BertForTokenClassification")(IDS, labels=np.full((2, 5), 2)),
        ea.InputError,
        r"labels\[0, 0\] = 2",
        r"forward",
        r"expected 0 to 1 \(num_labels is 2\)",
    ),
    "a choice of another question": Row(
        lambda _: tiny("BertForMultipleChoice")(IDS, labels=[0, 1]),
        ea.ShapeError,
        r"labels have shape \(2,\)",
        r"forward",
        r"one choice for each of 1 questions",
    ),
    "tags of other sentences": Row(
        lambda _: ea.metrics.entity_scores([["O", "O"]], [["O"]]),
        ea.InputError,
        r"sentence 0 has other tokens",
        r"entity_scores",
        r"as many tags of each sentence",
    ),
}
