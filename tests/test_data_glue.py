"""GLUE files: official layouts, real row counts, and the position of bad rows."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evolving_attention.glue as glue
from evolving_attention.errors import ConfigError, DataError, InputError

# rows of the shared data; QNLI, MNLI and QQP are subsets there
REAL = {
    ("cola", "train"): 8551,
    ("cola", "dev"): 1043,
    ("cola", "test"): 1063,
    ("sst2", "train"): 67349,
    ("sst2", "dev"): 872,
    ("mrpc", "train"): 3668,
    ("mrpc", "dev"): 408,
    ("stsb", "train"): 5749,
    ("stsb", "dev"): 1500,
    ("stsb", "test"): 1379,
    ("qqp", "train"): 8999,
    ("qqp", "dev"): 1000,
    ("mnli", "train"): 8999,
    ("mnli", "dev"): 1000,
    ("qnli", "train"): 8999,
    ("qnli", "dev"): 1000,
    ("rte", "train"): 2490,
    ("rte", "dev"): 277,
    ("rte", "test"): 3000,
    ("wnli", "train"): 635,
    ("wnli", "dev"): 71,
    ("wnli", "test"): 146,
}
NINE = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"]


@pytest.fixture(scope="module")
def glue_dir(data_dir: Path) -> Path:
    folder = data_dir / "glue"
    if not folder.is_dir():
        pytest.skip(f"no GLUE files at {folder}")
    return folder


# --- real files --------------------------------------------------------------------


@pytest.mark.parametrize(("task", "split"), sorted(REAL))
def test_real_files_load_with_exact_row_counts(glue_dir, task, split):
    (data,) = glue.load(task, glue_dir, splits=split)
    assert len(data) == REAL[task, split]
    report = data.report
    assert report.rows_in == report.used == len(data)
    assert not report.rejected
    assert data.column("idx") == list(range(len(data)))
    labels = set(data.column("label"))
    if split == "test":
        assert labels == {-1}
        assert not data.has_labels
    elif task == "stsb":
        assert data.is_regression
        assert all(0 <= label <= 5 for label in labels)
    else:
        assert labels == set(range(data.num_labels))


@pytest.mark.parametrize("task", NINE)
def test_official_samples_of_every_task(glue_dir, task):
    samples = glue_dir / "official_format_samples"
    splits = ["train", "dev", "test"]
    if task == "mnli":
        splits += ["dev_matched", "dev_mismatched", "test_matched", "test_mismatched"]
    sets = glue.load(task, samples, splits=splits)
    text = glue.TASKS[task].text
    for split, data in zip(splits, sets, strict=True):
        assert len(data) == (2 if task == "cola" and split != "test" else 1)
        assert all(data[0][name].strip() for name in text)
        assert data.has_labels != split.startswith("test")
    assert sets[0].column_names[: len(text)] == list(text)


def test_known_rows(glue_dir):
    samples = glue_dir / "official_format_samples"
    mrpc, *_ = glue.load("MRPC", samples / "MRPC", splits="train")
    assert mrpc[0]["sentence1"].startswith(
        'Amrozi accused his brother , whom he called "'
    )
    assert mrpc[0]["label"] == 1
    mnli, mismatched = glue.load("mnli", samples, ("train", "dev_mismatched"))
    assert mnli[0]["hypothesis"].endswith("cream skimming work. ")  # kept as it is
    assert mnli.label_names[mnli[0]["label"]] == "neutral"
    assert mismatched.label_names[mismatched[0]["label"]] == "contradiction"
    (rte,) = glue.load("rte", glue_dir, "dev")
    assert rte[0]["label"] == 1
    assert rte.label_names[1] == "not_entailment"
    (stsb,) = glue.load("STS-B", glue_dir, "train")
    assert stsb[0]["label"] == 5.0


def test_byte_order_mark_at_the_start_is_noted(glue_dir):
    (data,) = glue.load("mrpc", glue_dir, "dev")
    assert any("byte-order mark" in note for note in data.report.notes)


def test_cola_in_domain(glue_dir):
    train, dev = glue.load("cola", glue_dir)
    inside = glue.in_domain(dev)
    assert inside.sum() == 527
    assert inside[:527].all()
    assert not inside[527:].any()
    assert glue.in_domain(train).all()
    assert dev.column("source")[0] == "gj04"
    assert len(dev.select(np.flatnonzero(~inside))) == 516
    (test,) = glue.load("cola", glue_dir, "test")
    with pytest.raises(InputError, match="needs the column 'source'"):
        glue.in_domain(test)


# --- synthetic files ---------------------------------------------------------------


def cola(tmp_path: Path, content: bytes, name: str = "train.tsv") -> Path:
    folder = tmp_path / "CoLA"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return tmp_path


GOOD = b"gj04\t1\t\tA good row.\n"

# content (line 1 is good), line, column, part of the reason
BAD_COLA = {
    "too few fields": (b"gj04\t1\tText\n", 2, 12, r"3 fields \(too few\), expected 4"),
    "too many fields": (b"gj04\t1\t\ta\tb\n", 2, 10, r"5 fields \(too many\)"),
    "stray quotes do not join": (b'gj04\t1\t\t"a\tb"\n', 2, 11, "quotation marks are"),
    "wrong label": (b"gj04\tyes\t\tText\n", 2, 6, "label 'yes' is not known; expected"),
    "empty label": (b"gj04\t\t\tText\n", 2, 6, "the label is empty"),
    "label -1": (b"gj04\t-1\t\tText\n", 2, 6, "label '-1' is not known"),
    "label with space": (b"gj04\t1 \t\tText\n", 2, 6, "label '1 ' is not known"),
    "empty text": (b"gj04\t1\t\t\n", 2, 9, "text field is empty"),
    "blank text": (b"gj04\t1\t\t \n", 2, 9, "text field is empty"),
    "blank line": (b"\n" + GOOD, 2, 1, "blank line"),
    "NUL": (b"gj04\t1\t\tab\0c\n", 2, 11, "NUL character"),
    "not UTF-8": (b"gj04\t1\t\tcaf\xe9\n", 2, 12, "byte 0xe9 is not UTF-8"),
    "BOM inside": (b"\xef\xbb\xbf" + GOOD, 2, 1, "byte-order mark inside the file"),
    "CR LF in a LF file": (b"gj04\t1\t\ttext\r\n", 2, 13, "line ends with CR LF but"),
    "lone CR": (b"gj04\t1\t\tte\rxt\n", 2, 11, "carriage return inside"),
    "long line": (b"x" * 1_000_000 + b"\n", 2, 131_073, "at most 131072"),
    "half long line": (b"x" * 140_000 + b"\n", 2, 131_073, "line of 140000 char"),
    "repeated header": (b"source\tlabel\tmark\tsentence\n", 2, 8, "header line again"),
}


@pytest.mark.parametrize("name", sorted(BAD_COLA))
def test_bad_row_raises_with_place_and_reason(tmp_path, name):
    content, line, column, reason = BAD_COLA[name]
    root = cola(tmp_path, GOOD + content + GOOD)
    with pytest.raises(DataError, match=reason) as caught:
        glue.load("cola", root, "train")
    error = caught.value
    assert (error.line, error.column) == (line, column)
    path = root / "CoLA" / "train.tsv"
    assert str(error).startswith(f"{path}:{line}:{column}: ")
    assert 'bad_rows="skip"' in str(error)


@pytest.mark.parametrize("name", sorted(BAD_COLA))
def test_bad_row_is_skipped_with_a_warning(tmp_path, name):
    content, line, column, reason = BAD_COLA[name]
    root = cola(tmp_path, GOOD + content + GOOD)
    with pytest.warns(UserWarning, match="1 of [34] rows were left out"):
        (data,) = glue.load("cola", root, "train", bad_rows="skip")
    report = data.report
    assert report.rows_in == len(data) + len(report.rejected)
    assert len(report.rejected) == 1
    assert len(data) >= 2
    rejected = report.rejected[0]
    assert (rejected.line, rejected.column) == (line, column)
    assert re.search(reason, rejected.reason)
    assert data.column("idx")[-1] == report.rows_in - 1


def test_report_prints_a_table_to_stderr(tmp_path, capsys):
    root = cola(tmp_path, GOOD + b"bad\n" * 30 + GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (data,) = glue.load("cola", root, "train", bad_rows="report")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "32 rows = 2 used + 30 rejected" in printed.err
    assert "line:column" in printed.err
    assert "2:4 " in printed.err
    assert "… and 10 more" in printed.err
    assert len(data.report.rejected) == 30


BAD_FILES = {
    "empty": (b"", r"empty \(0 bytes\)"),
    "blank lines only": (b"\n\n\n", "only blank lines"),
    "UTF-16": ("gj04\t1\t\ta\n".encode("utf-16"), "iconv -f UTF-16"),
    "all rows bad": (b"x\ny\n", "all 2 rows were rejected, the first because"),
}


@pytest.mark.parametrize("policy", ["raise", "skip", "report"])
@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_unusable_file_is_an_error_under_every_policy(tmp_path, name, policy):
    content, reason = BAD_FILES[name]
    if name == "all rows bad" and policy == "raise":
        reason = "too few"
    with pytest.raises(DataError, match=reason):
        glue.load("cola", cola(tmp_path, content), "train", bad_rows=policy)


BAD_HEADERS = {
    "missing column": (b"sentence\tlabels\nx\t1\n", "no column 'label' in the header"),
    "no header": (b"good film\t1\nbad film\t0\n", "is the header missing"),
    "twice": (b"sentence\tlabel\tlabel\nx\t1\t1\n", "'label' appears twice"),
    "blank": (b"\nsentence\tlabel\nx\t1\n", "blank line where the header"),
    "NUL": (b"sen\0tence\tlabel\nx\t1\n", "header line: NUL"),
    "no rows": (b"sentence\tlabel\n", "no rows"),
}


@pytest.mark.parametrize("name", sorted(BAD_HEADERS))
def test_bad_header(tmp_path, name):
    content, reason = BAD_HEADERS[name]
    (tmp_path / "train.tsv").write_bytes(content)
    for policy in ("raise", "skip"):
        with pytest.raises(DataError, match=reason) as caught:
            glue.load("sst2", tmp_path, "train", bad_rows=policy)
        assert caught.value.line == 1


def test_tolerated_things_are_noted(tmp_path):
    rows = b'\xef\xbb\xbfsentence\tlabel\r\nna\xc3\xafve "film\t1\r\nbad\t0\r\n\r\n'
    (tmp_path / "train.tsv").write_bytes(rows)
    (data,) = glue.load("sst2", tmp_path, "train")
    assert data.column("sentence") == ['naïve "film', "bad"]
    notes = " ".join(data.report.notes)
    assert "byte-order mark" in notes
    assert "CR LF" in notes
    assert "blank line" in notes


def test_last_line_without_line_end_and_zero_width_space(tmp_path):
    text = "sentence\tlabel\na\ufeffb\t1\nlast\u2028line\t0"
    (tmp_path / "train.tsv").write_text(text, encoding="utf-8", newline="")
    (data,) = glue.load("sst2", tmp_path, "train")
    assert data.column("sentence") == ["a\ufeffb", "last\u2028line"]


def test_test_rows_are_never_lost_for_being_empty(tmp_path):
    (tmp_path / "test.tsv").write_bytes(b"index\tsentence\n0\t\n1\tx\n")
    (data,) = glue.load("sst2", tmp_path, "test")
    assert len(data) == 2
    assert data.column("label") == [-1, -1]


STSB = b"index\tgenre\tsentence1\tsentence2\tscore\n0\tg\ta\tb\t2.5\n"


@pytest.mark.parametrize(
    "score", ["5.001", "-0.1", "nan", "inf", "1e999", "1_0", "", "x"]
)
def test_scores_out_of_range(tmp_path, score):
    (tmp_path / "train.tsv").write_bytes(
        STSB + b"1\tg\ta\tb\t" + score.encode() + b"\n"
    )
    with pytest.raises(DataError, match="a number from 0 to 5") as caught:
        glue.load("stsb", tmp_path, "train")
    assert (caught.value.line, caught.value.column) == (3, 9)


# --- JSON lines ------------------------------------------------------------------


def mnli_lines(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


ROW = '{"premise": "a", "hypothesis": "b", "label": "neutral"}'

BAD_JSON = {
    "wrong label": (ROW.replace("neutral", "maybe"), 37, "label 'maybe' is not known"),
    "no majority": (ROW.replace("neutral", "-"), 37, "annotators did not agree"),
    "label out of range": (ROW.replace('"neutral"', "3"), 37, "label '3' is not known"),
    "bool label": (ROW.replace('"neutral"', "true"), 37, "label 'True' is not known"),
    "list label": (ROW.replace('"neutral"', "[1]"), 37, "not known"),
    "missing field": ('{"premise": "a", "label": 1}', 1, "no field 'hypothesis'"),
    "number as text": (ROW.replace('"a"', "5"), 2, "text field is int, not text"),
    "null text": (ROW.replace('"a"', "null"), 2, "text field is NoneType"),
    "twice": (ROW[:-1] + ', "label": 1}', 1, "key 'label' appears twice"),
    "not JSON": ("{premise: a}", 2, "not JSON"),
    "a list": ("[1, 2]", 1, "a JSON list; expected an object"),
    "a NUL": (ROW.replace('"a"', '"\\u0000"'), 2, "holds a NUL"),
    "half surrogate": (ROW.replace('"a"', '"\\ud800"'), 2, "surrogate pair"),
    "deep": ("[" * 100_000, 1, "not usable JSON|at most|not JSON"),
    "NaN": (ROW.replace('"neutral"', "NaN"), 1, "NaN is not JSON"),
}


@pytest.mark.parametrize("name", sorted(BAD_JSON))
def test_bad_json_rows(tmp_path, name):
    line, column, reason = BAD_JSON[name]
    root = mnli_lines(tmp_path, ROW, line, ROW)
    with pytest.raises(DataError, match=reason) as caught:
        glue.load("mnli", root, "train")
    assert caught.value.line == 2
    if name != "deep":
        assert caught.value.column == column
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        (data,) = glue.load("mnli", root, "train", bad_rows="skip")
    assert len(data) == 2


def test_a_whole_number_above_all_floats_is_no_score(tmp_path):
    rows = [{"sentence1": "a", "sentence2": "b", "label": n} for n in (1, 10**310)]
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "train.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"train\.jsonl:2:"):
        glue.load("stsb", tmp_path, "train")
    with pytest.warns(UserWarning, match="1 of 2 rows were left out"):
        (data,) = glue.load("stsb", tmp_path, "train", bad_rows="skip")
    assert data.column("label") == [1.0]


def test_json_labels_may_be_names_or_numbers(tmp_path):
    root = mnli_lines(tmp_path, ROW, ROW.replace('"neutral"', "2"))
    (data,) = glue.load("mnli", root, "train")
    assert data.column("label") == [1, 2]


def test_json_array(tmp_path):
    text = f"[\n  {ROW},\n  {ROW.replace('neutral', 'maybe')}\n]\n"
    (tmp_path / "train.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="'maybe'") as caught:
        glue.load("mnli", tmp_path, "train")
    assert (caught.value.line, caught.value.column) == (3, 39)


# --- arguments ---------------------------------------------------------------------


def test_unknown_names(tmp_path):
    with pytest.raises(ConfigError, match="task 'colla' is not known; expected one of"):
        glue.load("colla", tmp_path)
    with pytest.raises(ConfigError, match="split 'eval' is not known"):
        glue.load("cola", tmp_path, splits=("eval",))
    with pytest.raises(ConfigError, match="bad_rows='drop' is not known"):
        glue.load("cola", tmp_path, bad_rows="drop")
    with pytest.raises(DataError, match="no file for split 'train' of task cola"):
        glue.load("cola", tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        glue.load("cola", tmp_path / "absent")
    assert glue.get_task("STS-B").name == glue.get_task("sts_b").name == "stsb"


def test_folder_may_be_the_tasks_own_or_its_parent(tmp_path):
    root = cola(tmp_path, GOOD)
    assert len(glue.load("cola", root, "train")[0]) == 1
    assert len(glue.load("cola", root / "CoLA", "train")[0]) == 1


def test_diagnostic_set_is_not_another_tasks_test_set(tmp_path):
    mnli = tmp_path / "MNLI"
    mnli.mkdir()
    content = b"index\tsentence1\tsentence2\n0\ta\tb\n"
    (mnli / "test_matched.tsv").write_bytes(content)
    (mnli / "test.tsv").write_bytes(content)
    for place in (mnli, tmp_path):
        with pytest.raises(DataError, match="no file for split 'test' of task ax"):
            glue.load("ax", place, "test")
    (tmp_path / "diagnostic").mkdir()
    (tmp_path / "diagnostic" / "diagnostic.tsv").write_bytes(content)
    (data,) = glue.load("ax", tmp_path, "test")
    assert data[0] == {"premise": "a", "hypothesis": "b", "label": -1, "idx": 0}
    (data,) = glue.load("ax", tmp_path / "diagnostic", "test")
    assert len(data) == 1


def test_data_set_behaves_as_sequence_and_table(tmp_path):
    root = cola(
        tmp_path, b"".join(b"gj04\t%d\t\trow %d\n" % (i % 2, i) for i in range(9))
    )
    (data,) = glue.load("cola", root, "train")
    assert data.task == "cola"
    assert data.split == "train"
    assert data[-1]["sentence"] == "row 8"
    assert data[np.int64(2)]["label"] == 0
    assert [row["idx"] for row in data[2:4]] == [2, 3]
    assert data.select([5, 1]).column("idx") == [5, 1]
    assert isinstance(data[:3], glue.GlueDataset)
    assert data.features["label"] == ("unacceptable", "acceptable")
    assert len(list(data)) == 9
    with pytest.raises(IndexError):
        data[9]
    with pytest.raises(InputError, match="no column 'text'"):
        data.column("text")


# --- nothing is lost silently ----------------------------------------------------


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_mutated_files_keep_the_account(tmp_path, data):
    rows = b"".join(b"ad03\t%d\t*\tSentence %d.\n" % (i % 2, i) for i in range(6))
    content = bytearray(rows)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        junk = [
            b"\t",
            b"\n",
            b"\r",
            b"\r\n",
            b"\0",
            b'"',
            b"\xff",
            b"\xef\xbb\xbf",
            b"7",
        ]
        piece = data.draw(st.sampled_from(junk))
        cut = data.draw(st.integers(0, 3))
        content[place : place + cut] = piece
    root = cola(tmp_path, bytes(content))
    lines = bytes(content).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    while lines and lines[-1] in (b"", b"\r"):
        lines.pop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, error = None, None
        try:
            (result,) = glue.load("cola", root, "train", bad_rows="skip")
        except DataError as caught:
            error = caught
    if result is None:
        assert error.file.endswith("train.tsv")
        assert error.reason
        return
    report = result.report
    assert report.rows_in == len(lines) == len(result) + len(report.rejected)
    for row in report.rejected:
        assert 1 <= row.line <= len(lines)
        assert row.column >= 1
        assert row.reason


def test_json_fields_follow_the_hub(glue_dir):
    with open(glue_dir / "QQP" / "dev.jsonl", encoding="utf-8") as handle:
        first = json.loads(handle.readline())
    (data,) = glue.load("qqp", glue_dir, "dev")
    assert {key: data[0][key] for key in first} == first
