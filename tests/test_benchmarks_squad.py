"""Question answering benchmark: separate articles per split, paired questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import seeds, squad_seeds


def test_every_fourth_article_is_asked_where_it_has_answers(tmp_path: Path) -> None:
    def article(title: str) -> dict[str, object]:
        context, right = f"This is {title}.", {"text": title, "answer_start": 8}
        told = {"id": title, "question": "What?", "answers": [right]}
        silent = {"id": f"{title} not", "question": "Who?", "answers": []}
        paragraphs = [
            {"context": context, "qas": [silent, told]},
            {"context": context, "qas": [{**silent, "id": f"{title} nor"}]},
        ]
        return {"title": title, "paragraphs": paragraphs}

    file = tmp_path / "all.json"
    articles = [article(f"a{i}") for i in range(8)]
    file.write_text(json.dumps({"version": "v2.0", "data": articles}))
    train, dev = squad_seeds.parts(file, tmp_path)
    assert [one.id for one in train] == ["a0", "a1", "a2", "a4", "a5", "a6"]
    assert [one.id for one in dev] == ["a3", "a7"]


def test_scores_take_the_best_right_answer_and_silence_where_there_is_none() -> None:
    def asked(name: str, *right: str) -> SimpleNamespace:
        return SimpleNamespace(
            id=name, answers=[SimpleNamespace(text=t) for t in right]
        )

    questions = [asked("1", "the red house", "a house"), asked("2"), asked("3")]
    texts = {"1": "house", "2": "", "3": "there"}
    found = squad_seeds.by_question(texts, questions)
    assert found == {"exact match": [100, 100, 0], "F1": [100, 100, 0]}


def test_the_table_pairs_questions_and_names_both_arms() -> None:
    runs = [
        {
            "arm": arm,
            "seed": 1,
            "scores": {name: [gain, 50.0] for name in ("exact match", "F1")},
        }
        for arm, gain in (("vanilla", 0.0), ("evolving", 100.0))
    ]
    lines = squad_seeds.table(runs).splitlines()
    assert "| exact match | vanilla | 25.0 | 25.0 |" in lines
    assert lines[4].startswith("| | evolving − vanilla | +50.0 (+0.0 to +100.0)")
    assert squad_seeds.over_questions(np.ones(5)) == "+1.0 (+1.0 to +1.0)"


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"arm": "a", "seed": 0, "split": None}, {"arm": "a", "seed": 0}),
        (
            {"arm": "a", "curve": {"loss": [1.0]}, "scores": {"x": 2.0}},
            {"arm": "a", "scores": {"x": 2.0}},
        ),
    ],
)
def test_a_series_prints_no_lists(
    run: dict[str, object], told: dict[str, object]
) -> None:
    assert seeds.short(run) == told


def test_a_file_of_runs_has_its_curves_on_single_lines() -> None:
    record = {"name": "[1, 2]", "runs": [{"curve": [1.5, -2e-05], "arms": ["a"]}, {}]}
    text = seeds.as_json(record)
    assert json.loads(text) == record
    assert '"curve": [1.5,-2e-05]' in text
