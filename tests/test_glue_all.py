"""``evolving-attention glue-all``: tasks, their table, the average and the archive."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import WORDS, bert, runner

from evolving_attention.cli import glue, glue_all
from evolving_attention.data.glue_tasks import TASKS

pytest.importorskip("sklearn")


@pytest.fixture
def command(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return runner(capfd, monkeypatch)


def sentences(count: int) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 4)) for _ in range(count)]


@pytest.fixture
def words(tmp_path: Path) -> list[Any]:
    """The command, with a few rows of CoLA and RTE; CoLA's test set is complete."""
    root = tmp_path / "GLUE"
    for name in ("CoLA", "RTE"):
        (root / name).mkdir(parents=True)
    for split, count in (("train", 16), ("dev", 8)):
        rows = enumerate(sentences(count))
        lines = [f"gj04\t{i % 2}\t\t{text}" for i, text in rows]
        (root / "CoLA" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
        lines = ["index\tsentence1\tsentence2\tlabel"]
        for i, text in enumerate(sentences(count)):
            label = ("entailment", "not_entailment")[i % 2]
            lines.append(f"{i}\t{text}\t{text}\t{label}")
        (root / "RTE" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    lines = [f"{i}\t{text}" for i, text in enumerate(sentences(1063))]
    text = "index\tsentence\n" + "\n".join(lines) + "\n"
    (root / "CoLA" / "test.tsv").write_text(text)
    return [
        *("glue-all", "--model_name_or_path", bert(tmp_path / "bert")),
        *("--data_dir", root, "--max_steps", 2, "--output_dir", tmp_path / "out"),
    ]


def test_two_tasks_their_average_and_a_restart(
    words: list[Any], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, run = [], glue._one_run
    monkeypatch.setattr(
        glue, "_one_run", lambda given, once: runs.append(given) or run(given, once)
    )
    code, shown, told = command(*words, "--tasks", "RTE", "cola")
    assert code == 0, told
    assert [run["task_name"] for run in runs] == ["cola", "rte"]
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert shown.strip() == found["table"]
    every = [
        json.loads((tmp_path / "out" / task / "all_results.json").read_text())
        for task in ("cola", "rte")
    ]
    expected = every[0]["eval_matthews_correlation"], every[1]["eval_accuracy"]
    assert found["average"]["mean"] == pytest.approx(np.mean(expected))
    lines = [line.split() for line in shown.splitlines()]
    assert lines[1][:2] == ["cola", "matthews_correlation"]
    assert lines[2][:3] == ["rte", "accuracy", f"{100 * expected[1]:.2f}"]
    assert lines[3][:3] == ["average", "of", "2"]
    code, again, _ = command(*words, "--tasks", "cola", "rte", "--json")
    assert code == 0
    assert json.loads(again) == found
    assert len(runs) == 2
    code, _, told = command(*words, "--tasks", "cola", "--learning_rate", "1e-3")
    assert (code, "other options (--learning_rate)" in told) == (2, True)
    shutil.copy(tmp_path / "GLUE/RTE/train.tsv", tmp_path / "GLUE/RTE/dev.tsv")
    code, _, told = command(*words, "--tasks", "rte")
    assert (code, "(content of --data_dir of rte)" in told) == (2, True), told


def test_seeds_and_the_archive(words: list[Any], command: Any, tmp_path: Path) -> None:
    code, shown, told = command(
        *(*words, "--tasks", "cola", "--seeds", 1, 2, "--do_predict", "--json")
    )
    assert code == 0, told
    found = json.loads(shown)
    scores = [
        run["eval_matthews_correlation"] for run in found["tasks"]["cola"]["runs"]
    ]
    one = found["tasks"]["cola"]["metrics"]["matthews_correlation"]
    assert one["mean"] == pytest.approx(np.mean(scores))
    assert one["sd"] == pytest.approx(np.std(scores, ddof=1))
    assert found["average"]["sd"] == one["sd"]
    with zipfile.ZipFile(tmp_path / "out" / "submission.zip") as archive:
        assert archive.namelist() == ["CoLA.tsv"]
        assert archive.read("CoLA.tsv").count(b"\n") == 1064
    assert "RTE" in found["missing"]


@pytest.mark.parametrize("seeds", [[], ["--seeds", 1, 2]])
def test_an_interrupted_overwrite_keeps_no_task_with_the_old_options(
    words: list[Any],
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: list[Any],
) -> None:
    words = [*words, "--tasks", "cola", "rte", "--save_steps", 1, *seeds]
    new, run = ["--learning_rate", "1e-3"], glue._one_run
    assert command(*words)[0] == 0

    def interrupted(given: dict[str, Any], once: Any) -> Any:
        if given["task_name"] == "rte":
            raise KeyboardInterrupt
        return run(given, once)

    with monkeypatch.context() as patch:
        patch.setattr(glue, "_one_run", interrupted)
        assert command(*words, *new, "--overwrite_output_dir")[0] == 130
    code, _, told = command(*words, *new)
    assert code == 0, told
    found = [
        json.loads(file.read_text())["learning_rate"]
        for file in (tmp_path / "out").rglob("training_args.json")
    ]
    assert set(found) == {1e-3}


def test_the_average_is_that_of_the_leaderboard() -> None:
    """The mean over eight tasks of each task's mean; WNLI is left out."""
    every = {}
    for i, name in enumerate(glue_all._NINE):
        keys = [f"eval_{metric}" for metric in TASKS[name].metrics]
        if name == "mnli":
            keys.append("eval_accuracy_mm")
        every[name] = [{key: (i + j) / 100 for j, key in enumerate(keys)}]
    found = glue_all._collected(every)
    by_hand = [0, 1, 2.5, 3.5, 4.5, 5.5, 6, 7]
    assert found["average"]["mean"] == pytest.approx(np.mean(by_hand) / 100)
    assert "wnli" not in found["average"]["tasks"]
    assert "average of 8" in found["table"]


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--tasks", "cola", "imdb"], 2, "'imdb' is not known"),
        (["--tasks", "ax"], 2, "mnli predicts it"),
        (["--task_name", "cola"], 2, "choose tasks with --tasks"),
        (["--tasks", "sst2"], 3, "SST-2"),
        (
            ["--tasks", "cola", "--do_predict", "--max_predict_samples", 9],
            2,
            "--max_predict_samples 9: expected all rows: the archive needs them",
        ),
        (["--tasks", "rte", "--do_predict"], 3, "no file for split 'test' of task rte"),
        (
            ["--tasks", "cola", "--do_predict", "--data_dir", "SHORT"],
            3,
            "test.tsv: 2 rows, expected the 1063 of the official test set of CoLA",
        ),
    ],
)
def test_mistakes(
    words: list[Any],
    command: Any,
    tmp_path: Path,
    more: list[str],
    code: int,
    says: str,
) -> None:
    """Each mistake is reported before any training."""
    folder = tmp_path / "SHORT" / "CoLA"
    shutil.copytree(tmp_path / "GLUE" / "CoLA", folder)
    (folder / "test.tsv").write_text("index\tsentence\n0\ta\n1\tb\n")
    more = [str(tmp_path / "SHORT") if word == "SHORT" else word for word in more]
    found, _, told = command(*words, *more)
    assert (found, says in told) == (code, True), told
    assert "step 1/" not in told
