"""GLUE metrics against their definitions, mistakes, and leaderboard files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import evolving_attention.glue as glue
from evolving_attention import errors
from evolving_attention.errors import (
    ConfigError,
    DataError,
    InputError,
    MissingExtraError,
    NonFiniteError,
    ShapeError,
)

KEYS = {
    "cola": ["matthews_correlation"],
    "sst2": ["accuracy"],
    "mrpc": ["accuracy", "f1", "combined_score"],
    "stsb": ["pearson", "spearmanr", "combined_score"],
    "qqp": ["accuracy", "f1", "combined_score"],
    "mnli": ["accuracy"],
    "qnli": ["accuracy"],
    "rte": ["accuracy"],
    "wnli": ["accuracy"],
    "ax": ["matthews_correlation"],
}


def logits_of(classes: np.ndarray, count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.eye(count)[classes] * 3 + rng.uniform(0, 1, (len(classes), count))


def ranks(values: np.ndarray) -> np.ndarray:
    """Returns the rank of each value; ties get their mean rank."""
    return np.array(
        [(values < v).sum() + ((values == v).sum() - 1) / 2 for v in values]
    )


@pytest.fixture
def predicted_and_true() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 500)
    return np.where(rng.uniform(size=500) < 0.2, 1 - true, true), true


@pytest.mark.parametrize("task", sorted(KEYS))
def test_keys(task):
    pytest.importorskip("sklearn")
    pytest.importorskip("scipy")
    count = glue.TASKS[task].num_labels
    true = np.arange(12) % max(count, 2)
    outputs = (
        (true + np.arange(12) * 0.1)[:, None] if count == 1 else np.eye(count)[true]
    )
    values = glue.metrics(task)(glue.EvalPrediction(outputs, true))
    assert list(values) == KEYS[task]
    assert all(type(value) is float for value in values.values())


def test_values_by_definition(predicted_and_true):
    pytest.importorskip("sklearn")
    predicted, true = predicted_and_true
    tp = float(((predicted == 1) & (true == 1)).sum())
    tn = float(((predicted == 0) & (true == 0)).sum())
    fp = float(((predicted == 1) & (true == 0)).sum())
    fn = float(((predicted == 0) & (true == 1)).sum())
    logits = logits_of(predicted, 2)
    values = glue.metrics("mrpc")((logits, true))
    assert values["accuracy"] == pytest.approx((tp + tn) / 500)
    assert values["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    mean = (values["accuracy"] + values["f1"]) / 2
    assert values["combined_score"] == pytest.approx(mean)
    mcc = (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    values = glue.metrics("cola")((logits, true))
    assert values["matthews_correlation"] == pytest.approx(mcc)


def test_correlations_by_definition():
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    true = rng.integers(0, 11, 200) / 2  # with ties
    scores = true + rng.normal(size=200)
    values = glue.metrics("stsb")((scores[:, None].astype(np.float32), true))
    assert values["pearson"] == pytest.approx(np.corrcoef(scores, true)[0, 1], abs=1e-6)
    spearman = np.corrcoef(ranks(scores), ranks(true))[0, 1]
    assert values["spearmanr"] == pytest.approx(spearman, abs=1e-6)


def test_constant_predictions():
    pytest.importorskip("sklearn")
    metric = glue.metrics("stsb")
    with pytest.warns(UserWarning, match="all 3 predictions are 2.5, so the corr"):
        values = metric((np.full(3, 2.5), np.array([1.0, 2.0, 3.0])))
    assert all(np.isnan(value) for value in values.values())
    assert glue.metrics("cola")((np.eye(2)[[1, 1]], [0, 1])) == {
        "matthews_correlation": 0.0
    }
    assert glue.metrics("qqp")((np.eye(2)[[0, 0]], [0, 0]))["f1"] == 0.0


def test_tuple_of_outputs_counts_by_its_first():
    pytest.importorskip("sklearn")
    outputs = (np.eye(3), np.zeros((3, 7)))
    assert glue.metrics("mnli")((outputs, [0, 1, 0]))["accuracy"] == pytest.approx(
        2 / 3
    )


def test_rows_without_a_class_are_left_out(predicted_and_true):
    pytest.importorskip("sklearn")
    predicted, true = predicted_and_true
    logits, without = logits_of(predicted, 2), true.copy()
    without[::3] = -100
    kept = without != -100
    for task in ("cola", "mrpc"):
        expected = glue.metrics(task)((logits[kept], true[kept]))
        assert glue.metrics(task)((logits, without)) == expected
    with pytest.raises(InputError, match=r"all 4 labels are -100, .*; evaluate rows"):
        glue.metrics("cola")((logits[:4], np.full(4, -100)))


@pytest.mark.parametrize("true", [[0, 1, 2], [0, 2, 2]])
def test_f1_is_of_two_classes(true):
    pytest.importorskip("sklearn")
    predicted = np.eye(3)[[0, 0, 2]]
    with pytest.raises(InputError, match=r"f1: .*classes \[0, .*2\], expected 0 and 1"):
        glue.metrics("mrpc")((predicted, np.array(true)))


def test_mistakes():
    metric = glue.metrics("mnli")
    with pytest.raises(ShapeError, match=r"shape \(2, 3\) and labels \(3,\)"):
        metric((np.zeros((2, 3)), np.zeros(3)))
    with pytest.raises(ShapeError, match="no rows to evaluate"):
        metric((np.zeros((0, 3)), np.zeros(0)))
    with pytest.raises(NonFiniteError, match="the first is row 1") as caught:
        metric((np.array([[0.0], [np.nan], [np.inf]]), np.zeros(3)))
    assert caught.value.report == {"rows": [1, 2]}
    with pytest.raises(ShapeError, match=r"expects \[N\] or \[N, 1\]"):
        glue.metrics("stsb")((np.zeros((2, 3)), np.zeros(2)))
    with pytest.raises(ConfigError, match="task 'xnli' is not known"):
        glue.metrics("xnli")


@pytest.mark.parametrize(("task", "module"), [("cola", "sklearn"), ("stsb", "scipy")])
def test_missing_library_names_the_extra(monkeypatch, task, module):
    for name in [m for m in sys.modules if m.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{module}.stats", None)
    monkeypatch.setitem(sys.modules, f"{module}.metrics", None)
    with pytest.raises(MissingExtraError, match=r'"evolving-attention\[glue\]"'):
        glue.metrics(task)


# --- the leaderboard ---------------------------------------------------------

SIZES = {
    "CoLA": 1063,
    "SST-2": 1821,
    "MRPC": 1725,
    "STS-B": 1379,
    "QQP": 390_965,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "QNLI": 5463,
    "RTE": 3000,
    "WNLI": 146,
    "AX": 1104,
}


def test_sizes_are_the_official_ones():
    sizes = {}
    for task in glue.TASKS.values():
        sizes |= task.test_sizes
    assert sizes == SIZES


def write_all(folder: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Writes the prediction files of every task as run_glue does."""
    for task in glue.TASKS.values():
        for name, size in task.test_sizes.items():
            if name in leave_out:
                continue
            split = "test_mismatched" if name == "MNLI-mm" else "test"
            values = (
                np.linspace(-1, 6, size)
                if task.is_regression
                else np.arange(size) % task.num_labels
            )
            place = folder / task.name
            place.mkdir(exist_ok=True, parents=True)
            path = place / glue.predict_file_name(task.name, split)
            glue.write_predictions(task.name, values, path)


def test_archive_of_all_tasks(tmp_path):
    write_all(tmp_path / "runs")
    report = glue.build_submission(tmp_path / "runs", tmp_path / "submission.zip")
    assert report.missing == []
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(f"{name}.tsv" for name in SIZES)
        for name, size in SIZES.items():
            lines = archive.read(f"{name}.tsv").decode().split("\n")
            assert lines[0] == "index\tprediction"
            assert lines[-1] == ""
            assert len(lines) == size + 2
            assert lines[size].startswith(f"{size - 1}\t")
        first = {n: archive.read(f"{n}.tsv").decode().split("\n")[1:4] for n in SIZES}
        scores = archive.read("STS-B.tsv").decode().split()[3::2]
    assert first["CoLA"] == first["WNLI"] == first["MRPC"] == ["0\t0", "1\t1", "2\t0"]
    assert first["RTE"] == ["0\tentailment", "1\tnot_entailment", "2\tentailment"]
    assert first["MNLI-mm"] == ["0\tentailment", "1\tneutral", "2\tcontradiction"]
    assert (scores[0], scores[-1]) == ("0.000", "5.000")
    again = glue.build_submission([tmp_path / "runs"], tmp_path / "again.zip")
    assert again.path.read_bytes() == report.path.read_bytes()


def test_missing_tasks(tmp_path):
    write_all(tmp_path, leave_out=("QQP", "MNLI-mm", "AX"))
    with pytest.raises(InputError, match="no predictions for QQP, MNLI-mm in"):
        glue.build_submission(tmp_path, tmp_path / "s.zip")
    assert not (tmp_path / "s.zip").exists()
    report = glue.build_submission(tmp_path, tmp_path / "s.zip", allow_missing=True)
    assert report.missing == ["QQP", "MNLI-mm", "AX"]
    assert "QQP.tsv  missing" in str(report)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no predictions for CoLA"):
        glue.build_submission(tmp_path / "none", tmp_path / "n.zip", allow_missing=True)


BAD_FILES = {
    "header": ("id\tlabel\n", ":1:1: expected the header"),
    "fields": ("index\tprediction\n0 acceptable\n", ":2:1: expected index<TAB>"),
    "order": ("index\tprediction\n1\tacceptable\n", ":2:1: index 1, expected 0"),
    "label": ("index\tprediction\n0\tgood\n", ":2:3: label 'good' is not known"),
    "rows": ("index\tprediction\n0\tacceptable\n", "1 predictions; the official test"),
    "empty": ("", "empty"),
}


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_bad_prediction_files(tmp_path, name):
    content, message = BAD_FILES[name]
    (tmp_path / "predict_results_cola.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        glue.build_submission(tmp_path, tmp_path / "s.zip", allow_missing=True)


def test_two_files_for_one_task(tmp_path):
    write_all(tmp_path / "a")
    write_all(tmp_path / "b", leave_out=tuple(n for n in SIZES if n != "RTE"))
    with pytest.raises(InputError, match="2 files hold predictions for RTE"):
        glue.build_submission([tmp_path / "a", tmp_path / "b"], tmp_path / "s.zip")


def test_leaderboard_file_from_arrays():
    name, text = glue.leaderboard_file("wnli", np.eye(2)[[1] * 146])
    assert name == "WNLI.tsv"
    assert text.startswith("index\tprediction\n0\t1\n")
    name, _ = glue.leaderboard_file("mnli", np.zeros(9847, int), "test_mismatched")
    assert name == "MNLI-mm.tsv"
    with pytest.raises(ShapeError, match="145 predictions; the official test set has"):
        glue.leaderboard_file("wnli", np.zeros(145, int))
    with pytest.raises(InputError, match="class ids from 0 to 2; expected 0 to 1"):
        glue.leaderboard_file("wnli", np.array([0, 2]))
    with pytest.raises(ShapeError, match=r"expected \[N, 3\]"):
        glue.leaderboard_file("mnli", np.zeros((4, 2)))
    with pytest.raises(InputError, match="not all finite"):
        glue.leaderboard_file("stsb", np.array([np.nan]))
    with pytest.raises(ConfigError, match=r"must end in \.zip"):
        glue.build_submission([], "out.tar")


def test_scores_of_classes_that_do_not_exist():
    from evolving_attention.metrics import confusion_matrix, top_k

    scores = [[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]]
    assert top_k(scores, np.array([1, 2], np.uint8), k=1) == 0.5
    with pytest.raises(errors.NonFiniteError, match="first row 0"):
        top_k([[np.nan, 0.9]], [0], k=1)
    for labels, says in (
        ([0, -1], r"labels\[1\] = -1, expected a class from 0 to 2"),
        ([5, 0], r"labels\[0\] = 5, expected a class from 0 to 2"),
        ([0.0, 1.0], "labels of dtype float64, expected integers"),
    ):
        with pytest.raises(errors.InputError, match=f"top_k: {says}"):
            top_k(scores, labels)
        with pytest.raises(errors.InputError, match=f"confusion_matrix: {says}"):
            confusion_matrix([0, 1], labels, 3)
    with pytest.raises(errors.InputError, match=r"predictions\[1\] = 2"):
        confusion_matrix([0, 2], [0, 1], 2)
    assert confusion_matrix([], [], 2).tolist() == [[0, 0], [0, 0]]
