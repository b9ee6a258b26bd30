"""SST-5, SNLI and generated sentences as training, validation and test sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evolving_attention as ea
from evolving_attention.data.text_sets import halves, load_text_set
from evolving_attention.demo import acceptability


def sst5(folder: Path, **files: str) -> Path:
    """Writes a folder of SST-5 with these files."""
    for part, text in files.items():
        (folder / f"stsa.fine.{part}").write_text(text)
    return folder


def snli(folder: Path, official: bool, **parts: list[str]) -> Path:
    """Writes a folder of SNLI whose rows have these labels."""
    names = ("premise", "hypothesis", "label")
    form = "{}.jsonl"
    if official:
        names, form = ("sentence1", "sentence2", "gold_label"), "snli_1.0_{}.jsonl"
    for part, labels in parts.items():
        rows = [
            json.dumps(dict(zip(names, (f"A {i}.", f"B {i}.", label), strict=True)))
            for i, label in enumerate(labels)
        ]
        (folder / form.format(part)).write_text("\n".join(rows) + "\n")
    return folder


def test_sst5_has_its_dev_file_halved(tmp_path: Path) -> None:
    dev = "".join(f"{i % 5} row {i} .\n" for i in range(7))
    parts = load_text_set("sst5", sst5(tmp_path, train="4 a film .\n0 no\n", dev=dev))
    assert parts.train[0] == {"sentence": "a film .", "label": 4, "idx": 0}
    assert parts.train.label_names[4] == "very positive"
    assert (len(parts.tuning), len(parts.test)) == (3, 4)
    both = sorted([*parts.tuning.column("idx"), *parts.test.column("idx")])
    assert both == list(range(7))
    again = load_text_set("sst5", tmp_path)
    assert again.test.column("idx") == parts.test.column("idx")
    assert parts.test.column("idx") == sorted(parts.test.column("idx"))
    sst5(tmp_path, test="1 the test .\n")
    given = load_text_set("sst5", tmp_path)
    assert (len(given.tuning), given.test.column("label")) == (7, [1])
    with pytest.raises(ea.DataError, match="has one row"):
        halves(given.test)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4 good\n5 bad\n", r"stsa\.fine\.train:2:1: label '5', expected 0 to 4"),
        ("4 good\nbad film\n", r"stsa\.fine\.train:2:1: label 'bad', expected 0"),
        ("4 good\n3 \n", r"stsa\.fine\.train:2:2: text is empty"),
    ],
)
def test_bad_rows_of_sst5(text: str, message: str, tmp_path: Path) -> None:
    folder = sst5(tmp_path, train=text, dev="0 a\n1 b\n")
    with pytest.raises(ea.DataError, match=message):
        load_text_set("sst5", folder)
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        assert len(load_text_set("sst5", folder, bad_rows="skip").train) == 1


@pytest.mark.parametrize("official", [True, False])
def test_snli_in_both_forms(official: bool, tmp_path: Path) -> None:
    labels = ["neutral", "entailment", "contradiction", "neutral"]
    extra = ["-"] if official else []
    folder = snli(tmp_path, official, train=[*extra, *labels], dev=labels[:2])
    parts = load_text_set("snli", folder)
    assert parts.train.label_names == ("contradiction", "entailment", "neutral")
    assert parts.train.column("label") == [2, 1, 0, 2]
    first = parts.train[0]
    assert [first[name] for name in parts.train.text_columns] == [
        f"A {len(extra)}.",
        f"B {len(extra)}.",
    ]
    assert sorted([*parts.tuning.column("label"), *parts.test.column("label")]) == [
        1,
        2,
    ]
    snli(tmp_path, official, test=["neutral", "other"])
    with pytest.raises(ea.DataError, match=r"test\.jsonl:2:.*'other' is not known"):
        load_text_set("snli", folder)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ea.ConfigError, match="'sst', expected one of sst5, snli"):
        load_text_set("sst", tmp_path)
    with pytest.raises(ea.DataError, match=r"stsa\.fine\.train: no such file"):
        load_text_set("sst5", tmp_path)
    with pytest.raises(ea.DataError, match=r"no SNLI here, expected snli_1\.0_train"):
        load_text_set("snli", tmp_path)


def test_generated_sentences_share_words_and_no_pair() -> None:
    train, tuning, test = acceptability.parts(200, seed=3)
    assert [len(part) for part in (train, tuning, test)] == [320, 40, 40]
    words = {w for row in train for w in row["sentence"].lower().strip(".?").split()}
    pairs = [set(part.column("pair")) for part in (train, tuning, test)]
    assert not pairs[0] & pairs[1]
    assert not pairs[1] & pairs[2]
    assert pairs[0] | pairs[1] | pairs[2] == set(range(200))
    for part in (tuning, test):
        new = {w for r in part for w in r["sentence"].lower().strip(".?").split()}
        assert len(new - words) < 0.2 * len(new)
        assert sum(part.column("label")) == len(part) / 2
    again = acceptability.parts(200, seed=3)
    assert again[2].column("sentence") == test.column("sentence")
    with pytest.raises(ea.ConfigError, match="pairs is 9, expected 10"):
        acceptability.parts(9)


def test_the_real_files(data_dir: Path) -> None:
    parts = load_text_set("sst5", data_dir / "text" / "SST-5")
    assert [len(part) for part in parts] == [8544, 550, 551]
    assert set(parts.train.column("label")) == set(range(5))
    parts = load_text_set("snli", data_dir / "glue" / "SNLI")
    assert [len(part) for part in parts] == [8999, 500, 500]
    assert parts.test.label_names == ("contradiction", "entailment", "neutral")
