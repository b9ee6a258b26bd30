"""Users' CSV, TSV and JSON files: run_glue's rules, and positions of bad rows."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import types
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evolving_attention.data.hub import load_hub
from evolving_attention.data.rows import load_file
from evolving_attention.errors import ConfigError, DataError, MissingExtraError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# --- what is text, what is a label -------------------------------------------------

SHAPES = {
    "sentence": ("sentence,label\na film,1\nb,0\n", ("sentence",), ("0", "1")),
    "pair": ("sentence2,sentence1,label\nb,a,x\n", ("sentence1", "sentence2"), ("x",)),
    "first two": ("idx,q,a,label\n0,x,y,no\n", ("q", "a"), ("no",)),
    "label first": ("label,text\npos,a\nneg,b\n", ("text",), ("neg", "pos")),
    "numbers sort": ("text,label\na,10\nb,9\n", ("text",), ("9", "10")),
    "regression": ("text,label\na,1.0\nb,2\n", ("text",), None),
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_columns_and_labels(tmp_path, name):
    content, text, labels = SHAPES[name]
    data = load_file(write(tmp_path, "train.csv", content))
    assert data.text_columns == text
    assert data.label_names == labels
    assert data.column_names == [*text, "label", "idx"]


def test_dev_follows_train(tmp_path):
    train = load_file(write(tmp_path, "t.csv", "text,label\na,1\nb,2\nc,3\n"))
    dev = load_file(
        write(tmp_path, "d.csv", "n,label,text\n0,03,z\n1,1,y\n"), like=train
    )
    assert dev.label_names == ("1", "2", "3")
    assert dev.column("label") == [2, 0]
    assert dev.column("text") == ["z", "y"]
    path = write(tmp_path, "e.csv", "text,label\na,1\nb,4\n")
    with pytest.raises(
        DataError, match="label '4' is not known; expected 1, 2, 3"
    ) as e:
        load_file(path, like=train)
    assert (e.value.line, e.value.column) == (3, 3)
    path = write(tmp_path, "f.csv", "sentence,label\na,1\n")
    with pytest.raises(DataError, match="no column 'text' in the header"):
        load_file(path, like=train)


def test_file_to_predict_needs_no_labels(tmp_path):
    train = load_file(write(tmp_path, "t.csv", "text,label\na,no\nb,yes\n"))
    for content in ('text\nq\n""\n', 'text,label\nq,-1\n"",-1\n'):
        path = write(tmp_path, "p.csv", content)
        data = load_file(path, like=train, labelled=False)
        assert data.column("label") == [-1, -1]
        assert not data.has_labels
    with pytest.raises(DataError, match="no column 'label'"):
        load_file(write(tmp_path, "q.csv", "text\nq\n"), like=train)


def test_one_bad_number_does_not_make_classes(tmp_path):
    rows = "".join(f"row {i},{i / 2}\n" for i in range(30))
    path = write(tmp_path, "t.csv", f"text,label\n{rows}odd,n/a\n")
    with pytest.raises(DataError, match="label 'n/a' is not known; expected a finite"):
        load_file(path)


@pytest.mark.parametrize("regression", [None, True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_whole_number_above_all_floats_is_no_label(tmp_path, sign, regression):
    label = sign * 10**310
    rows = [{"text": f"row {i}", "label": i % 2} for i in range(2)]
    lines = [json.dumps(row) for row in [*rows, {"text": "odd", "label": label}]]
    path = write(tmp_path, "t.jsonl", "\n".join(lines))
    with pytest.raises(DataError, match=r"t\.jsonl:3:.*is not known"):
        load_file(path, regression=regression)
    with pytest.warns(UserWarning, match="1 of 3 rows were left out"):
        found = load_file(path, regression=regression, bad_rows="skip")
    assert list(found.column("label")) == [0, 1]


LISTS = {
    "names": (
        [["b", "a"], [], ["c"]],
        ["a", "b", "c"],
        [[1, 1, 0], [0] * 3, [0, 0, 1]],
    ),
    "marks": ([[1, 0, 1], [0, 0, 0]], ["0", "1", "2"], [[1, 0, 1], [0, 0, 0]]),
    "two marks": ([[1, 0], [0, 1]], ["0", "1"], [[1, 0], [0, 1]]),
    "numbers": ([[3], [1], [3, 1]], ["1", "3"], [[0, 1], [1, 0], [1, 1]]),
    "single numbers": ([[0], [1]], ["0", "1"], [[1, 0], [0, 1]]),
    "1.0 is 1": ([[2], [2.0, 3]], ["2", "3"], [[1, 0], [1, 1]]),
    "true is its name": ([[True, "x"], ["true"]], ["true", "x"], [[1, 1], [1, 0]]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_labels_are_zeros_and_ones(tmp_path, name):
    labels, names, expected = LISTS[name]
    lines = [{"text": "a", "label": one} for one in labels]
    path = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, lines)))
    table = load_file(path, several=True)
    assert list(table.label_names) == names
    assert table.column("label") == expected
    assert load_file(path, several=True, like=table).column("label") == expected


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("a", "the label is 'a', not a list of labels; expected some of a, b"),
        (["c"], r"the labels \['c'\] are not all known; expected some of a, b"),
    ],
)
def test_a_label_that_is_no_list_of_known_ones_is_told(tmp_path, label, says):
    good = write(tmp_path, "good.jsonl", '{"text": "a", "label": ["a", "b"]}')
    bad = write(tmp_path, "bad.jsonl", json.dumps({"text": "a", "label": label}))
    with pytest.raises(DataError, match=says):
        load_file(bad, several=True, like=load_file(good, several=True))
    if isinstance(label, str):
        with pytest.raises(DataError, match="a list of labels; expected a list of lab"):
            load_file(bad, several=True)


@pytest.mark.parametrize("value", [None, "", ["x"], {"k": 1}])
def test_a_value_in_a_list_that_is_no_label_is_told(tmp_path, value):
    lines = [{"text": "b", "label": ["x"]}, {"text": "a", "label": ["x", value]}]
    path = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, lines)))
    says = (
        rf"t\.jsonl:2:\d+: the labels .* contain {re.escape(repr(value))}, neither a "
    )
    with pytest.raises(DataError, match=says + "name nor a finite number; expected so"):
        load_file(path, several=True)


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_json_lines(tmp_path, suffix):
    rows = [{"text": 'a "b"\nc', "label": "x"}, {"label": "y", "text": "d"}]
    text = "\n".join(map(json.dumps, rows))
    data = load_file(write(tmp_path, f"train.{suffix}", text))
    assert data.column("text") == ['a "b"\nc', "d"]
    assert data.column("label") == [0, 1]


def test_fields_are_split_where_the_caller_says(tmp_path):
    path = write(tmp_path, "t.csv", 'text;label\n"a; b";1\nc, d;0\ne;f;0\n')
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        data = load_file(path, delimiter=";", bad_rows="skip")
    assert data.column("text") == ["a; b", "c, d"]
    assert data.column("label") == [1, 0]
    (row,) = data.report.rejected
    assert (row.line, row.column) == (4, 5)
    assert "a field that holds ';' in double quotation" in row.reason
    tsv = write(tmp_path, "t.tsv", "text\tlabel\na\t1\n")
    with pytest.raises(ConfigError, match=r"with a \.tsv file, expected a \.csv"):
        load_file(tsv, delimiter=";")


def test_a_list_of_labels_is_told_as_such(tmp_path):
    lines = [{"text": "a", "label": [1, 0, 0]}, {"text": "b", "label": [1, 0, 1]}]
    path = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, lines)))
    message = r"the label is a list, \[1, 0, 0\]; expected one label for each text; "
    with pytest.raises(
        DataError, match=message + r"a list of labels per text needs several=True"
    ):
        load_file(path)


def test_json_label_types(tmp_path):
    for labels, names in (
        ([1, 0], ("0", "1")),
        ([0.5, 1], None),
        ([True, False], None),
    ):
        text = "\n".join(json.dumps({"text": "a", "label": x}) for x in labels)
        data = load_file(write(tmp_path, "t.jsonl", text))
        assert data.label_names == (("false", "true") if labels[0] is True else names)


# --- chosen columns, and messages about them ----------------------------------------

CHOICES = {
    "pandas' index": (",text,label\n0,a b,1\n1,c d,0\n", ("text",)),
    "its index again": ("Unnamed: 0,text,label\n0,a b,1\n1,c,0\n", ("text",)),
    "ids and stars": ("id,text,stars,label\n7,a,5,1\n8,b,1,0\n", ("text",)),
    "an id of text": (
        "uid,text,source,label\nu1,a,x,1\nu2,b,y,0\n",
        ("text", "source"),
    ),
    "labels": ("text,labels\na,1\nb,0\n", ("text",), "labels"),
    "labels and text": ("text,label_text,label\na,bad,0\nb,good,1\n", ("text",)),
    "scores": ("score,a,target,b,label\n.5,x,2,y,0\n,z,3,w,1\n", ("a", "b")),
    "a text target": ("source,target,label\nx,y,0\nz,w,1\n", ("source", "target")),
    "texts of numbers": ("n,text,label\n1,23,0\n2,45,1\n", ("n", "text")),
}


@pytest.mark.parametrize("name", sorted(CHOICES))
def test_columns_are_chosen_and_said(tmp_path, caplog, name):
    content, texts, *rest = CHOICES[name]
    label = rest[0] if rest else "label"
    header = content.split("\n")[0].split(",")
    others = [n for n in header if n not in (*texts, label)]
    path = write(tmp_path, "train.csv", content)
    data = load_file(path)
    assert (data.text_columns, data.label_column) == (texts, label)
    assert data.column("label") in ([1, 0], [0, 1])
    quoted = ", ".join(f"'{n}'" for n in texts)
    unused = "".join(
        f", not used {n}" for n in [", ".join(map(repr, others))] if others
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: text {quoted}, label '{label}'{unused}; text_columns= and "
        "label_column= choose others (--text_column_names, --label_column_name)",
        f"{path}: classification, 2 labels: 0, 1; regression=True makes them scores "
        "(--do_regression)",
    ]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
def test_sample_weight_is_read_from_training_files(tmp_path, name):
    rows = [
        {"text": t, "sample_weight": w, "label": 0} for t, w in (("a", 2), ("b", 0.5))
    ]
    bad = [*rows, {"text": "c", "sample_weight": -1, "label": 0}]

    def written(rows):
        if name.endswith("jsonl"):
            return write(tmp_path, name, "".join(json.dumps(r) + "\n" for r in rows))
        lines = [rows[0], *(row.values() for row in rows)]
        between = "," if name == "t.csv" else "\t"
        return write(
            tmp_path, name, "".join(between.join(map(str, row)) + "\n" for row in lines)
        )

    data = load_file(written(rows))
    assert data.column("sample_weight") == [2.0, 0.5]
    assert data.features["sample_weight"] == "float64"
    for other in (
        load_file(tmp_path / name, like=data),
        load_file(tmp_path / name, labelled=False),
    ):
        assert "sample_weight" not in other.column_names
    with pytest.raises(DataError, match=rf"{name}:\d:\d+: sample_weight is '-1', exp"):
        load_file(written(bad))
    assert load_file(tmp_path / name, bad_rows="skip").column("text") == ["a", "b"]


def test_a_cell_before_the_others_is_named_by_its_own_place(tmp_path):
    path = write(tmp_path, "t.csv", "label,text\n0,a\n1,\n")
    with pytest.raises(DataError, match=r"t\.csv:3:3: text field is empty"):
        load_file(path)


def test_weights_that_are_missing_are_no_text(tmp_path):
    content = "text,sample_weight,label\na,1,0\nb,,1\nc,,0\n"
    path = write(tmp_path, "t.csv", content)
    with pytest.raises(DataError, match=r"t\.csv:3:3: sample_weight is '', expected"):
        load_file(path)
    assert load_file(path, labelled=False).text_columns == ("text",)


def test_columns_that_were_named_are_taken_without_a_word(tmp_path, caplog):
    content = "id,text,stars,label\n7,a,5,1\n8,b,1,0\n"
    path = write(tmp_path, "t.csv", content)
    named = {"text_columns": "text", "label_column": "stars"}
    train = load_file(path, **named, regression=True)
    assert train.column("label") == [5.0, 1.0]
    dev = load_file(path, like=train)
    assert (dev.text_columns, dev.column("label")) == (("text",), [5.0, 1.0])
    assert train[:1].label_column == "stars"
    assert caplog.records == []
    pair = load_file(path, text_columns=["text", "id"], label_column="label")
    assert pair.text_columns == ("text", "id")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{path}: classification")


@pytest.mark.parametrize(
    ("labels", "regression", "names", "says"),
    [
        (
            ["1.0", "0.0"],
            None,
            None,
            "scores, such as 1.0: regression; regression=False",
        ),
        (["1.0", "0.0"], False, ("0", "1"), None),
        (["0.5", "2"], False, ("0.5", "2"), None),
        (["1", "5"], True, None, None),
        (["no", "yes"], None, ("no", "yes"), "classification, 2 labels: no, yes"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_kind_of_task(tmp_path, caplog, labels, regression, names, says, suffix):
    rows = [{"text": f"row {i}", "label": label} for i, label in enumerate(labels)]
    text = "text,label\n" + "".join(f"{r['text']},{r['label']}\n" for r in rows)
    if suffix == "jsonl":
        numbers = [
            {**row, "label": float(row["label"])} if names != ("no", "yes") else row
            for row in rows
        ]
        text = "\n".join(map(json.dumps, numbers))
    path = write(tmp_path, f"t.{suffix}", text)
    data = load_file(path, regression=regression)
    assert data.label_names == names
    dev = load_file(path, like=data)
    assert dev.column("label") == data.column("label")
    if names is not None:
        assert [names[i] for i in data.column("label")] == [
            str(label).removesuffix(".0") for label in labels
        ]
    lines = [record.getMessage() for record in caplog.records][1:]
    assert len(lines) == (says is not None)
    assert all(says in line for line in lines)


MISTAKEN_COLUMNS = {
    "no label": (
        "text,stars\na,1\n",
        {},
        "no column 'label'; the header has text, stars; name the labels' column by "
        r"label_column= \(--label_column_name\)",
    ),
    "another separator": (
        "text;label\na, b;1\n",
        {"text_columns": "text", "label_column": "label"},
        r"t.csv:1:1: no column 'label'; the only column is 'text;label': is "
        r"the separator ';'\? Use delimiter=';' \(--delimiter ';'\)",
    ),
    "tabs": (
        "text\tlabel\na, b\t1\n",
        {},
        r"no column 'label'; .* Use delimiter='\\t' \(--delimiter tab\)",
    ),
    "two characters": (
        "text;label\n",
        {"delimiter": ";;"},
        "delimiter=';;', expected one character",
    ),
    "no such label": ("text,stars\na,1\n", {"label_column": "s"}, "no column 's'"),
    "no such text": (
        "a,label\na,1\n",
        {"text_columns": "b"},
        r"t.csv:1:1: no column 'b'; the header has a, label; name the texts' columns",
    ),
    "only numbers": (
        "id,stars,label\n1,2,3\n",
        {},
        r"0 text columns; expected one or two besides 'label'.*--text_column_names",
    ),
    "three texts": ("a,b,c,label\n", {"text_columns": list("abc")}, "3 text columns"),
    "a text of labels": (
        "label,stars\na,1\n",
        {"text_columns": "label", "label_column": "stars"},
        "the text column 'label' has a name that is taken",
    ),
}


@pytest.mark.parametrize("name", sorted(MISTAKEN_COLUMNS))
def test_columns_that_cannot_be_chosen(tmp_path, name):
    content, options, message = MISTAKEN_COLUMNS[name]
    with pytest.raises((DataError, ConfigError), match=message):
        load_file(write(tmp_path, "t.csv", content), **options)


# --- CSV quoting -------------------------------------------------------------------


def test_csv_quoting(tmp_path):
    content = 'text,label\r\n"a, ""b""\nsecond line",1\r\nplain "quote",0\r\n'
    data = load_file(write(tmp_path, "t.csv", content))
    assert data.column("text") == ['a, "b"\nsecond line', 'plain "quote"']
    assert data.column("idx") == [0, 1]
    assert data.report.rows_in == 2
    assert any("span several lines" in note for note in data.report.notes)


BAD_CSV = {
    "extra comma": ("a, b,1\n", 3, 6, r"3 fields \(too many\), expected 2"),
    "missing": ("a\n", 3, 2, r"1 fields \(too few\)"),
    "stray quote": ('"a,1\n', 3, 1, "CSV quoting"),
    "text after quote": ('"a"b,1\n', 3, 1, "CSV quoting"),
    "empty label": ("a,\n", 3, 3, "the label is empty"),
    "empty text": (",1\n", 3, 1, "text field is empty"),
    "wrong label": ('"a ""x"", y",\n', 3, 14, "the label is empty"),
    "blank": ("\n", 3, 1, "blank line"),
    "header again": ("text,label\n", 3, 1, "header line again"),
    "NUL": ("a\0,1\n", 3, 2, "NUL"),
}


@pytest.mark.parametrize("name", sorted(BAD_CSV))
def test_bad_csv_rows(tmp_path, name):
    bad, line, column, reason = BAD_CSV[name]
    content = f"text,label\ngood,0\n{bad}good,1\nmore,0\n"
    path = write(tmp_path, "t.csv", content)
    with pytest.raises(DataError, match=reason) as caught:
        load_file(path)
    assert (caught.value.line, caught.value.column) == (line, column)
    with pytest.warns(UserWarning, match="1 of 4 rows were left out"):
        data = load_file(path, bad_rows="skip")
    assert data.column("text") == ["good", "good", "more"]
    assert data.column("idx") == [0, 2, 3]


def test_scores_of_minus_one_are_labels(tmp_path):
    path = write(tmp_path, "t.csv", "text,label\na,-1.0\nb,-1.0\n")
    assert load_file(path).has_labels
    assert not load_file(path, like=load_file(path), labelled=False).has_labels


def test_unknown_kind_of_file(tmp_path):
    with pytest.raises(ConfigError, match=r"file type '.xlsx' is not known"):
        load_file(write(tmp_path, "t.xlsx", "x"))
    with pytest.raises(DataError, match="no such file"):
        load_file(tmp_path / "absent.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        load_file(tmp_path / "d.csv")
    with pytest.raises(ConfigError, match="0 text columns"):
        load_file(write(tmp_path, "l.csv", "label\n1\n"))


TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda text: text.strip() and not text.startswith("\ufeff")
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXTS, st.integers(0, 1)), min_size=1, max_size=20))
def test_csv_round_trip(tmp_path, rows):
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerows([("text", "label"), *rows])
    data = load_file(write(tmp_path, "t.csv", buffer.getvalue()))
    assert data.column("text") == [text for text, _ in rows]
    names = data.label_names
    assert [int(names[i]) for i in data.column("label")] == [label for _, label in rows]


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), suffix=st.sampled_from(["csv", "tsv", "jsonl", "json"]))
def test_mutated_files_keep_the_account(tmp_path, data, suffix):
    rows = [(f"text {i}", i % 2) for i in range(6)]
    if suffix in ("jsonl", "json"):
        parts = [json.dumps({"text": t, "label": y}) for t, y in rows]
        array = f"[{', '.join(parts)}]"
        content = bytearray(("\n".join(parts) if suffix == "jsonl" else array).encode())
    else:
        mark = "," if suffix == "csv" else "\t"
        lines = [f"text{mark}label", *(f"{t}{mark}{y}" for t, y in rows)]
        content = bytearray("\n".join(lines).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        junk = [b",", b"\n", b"\r", b'"', b'""', b"\t", b"\0", b"\xff", b"\xef\xbb\xbf"]
        junk += [b"}", b"]", b"[", b"1e999", b"\\"]
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from(junk)
        )
    path = write(tmp_path, f"t.{suffix}", bytes(content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, error = None, None
        try:
            result = load_file(path, bad_rows="skip")
        except (DataError, ConfigError) as caught:
            error = caught
    if result is None:
        assert getattr(error, "reason", "") or "text columns" in str(error)
        return
    report = result.report
    assert report.rows_in == len(result) + len(report.rejected)
    assert result.column("idx") == sorted(set(result.column("idx")))


# --- the Hub -----------------------------------------------------------------------


def test_hub_without_datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"evolving-attention\[data\]"):
        load_hub("cola")


def test_hub_data_set(monkeypatch):
    def load_dataset(name, config, split):
        assert (name, config) == ("nyu-mll/glue", "mnli")
        if split == "test_mismatched":
            raise ConnectionError("no network")
        label = -1 if split.startswith("test") else 2
        rows = {"premise": ["a"], "hypothesis": ["b"], "label": [label], "idx": [0]}
        asked.append(split)
        return rows

    asked: list[str] = []
    fake = types.SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    train, dev, test = load_hub("mnli", ("train", "dev", "test"))
    assert asked == ["train", "validation_matched", "test_matched"]
    assert dev[0] == {"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}
    assert train.has_labels
    assert not test.has_labels
    with pytest.raises(DataError, match="no network"):
        load_hub("mnli", "test_mismatched")
