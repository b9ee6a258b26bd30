"""``--seeds`` of the training commands: bits of single runs, resume, tables."""

from __future__ import annotations

import errno
import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import ESTIMATORS, LINES, runner, series
from helpers_commands import glue as glue_words
from helpers_commands import graph as graph_words
from series_data import waves, write_ts

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.cli import graph, images, repeat, repeat_results
from evolving_attention.cli.contents import content_hashes
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.trainings import COMMANDS
from evolving_attention.training.trainer import Trainer


@pytest.fixture
def command(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return runner(capfd, monkeypatch)


class Killed(BaseException):
    """Ends a run like SIGKILL: our code does not catch it."""


def killed_in_second_run(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Makes the second run end at the given step, as if by SIGKILL."""
    before, runs = Trainer._step, []

    def one(self: Any, *args: Any) -> None:
        if self.state.global_step == 0:
            runs.append(self)
        if len(runs) == 2 and self.state.global_step == step:
            raise Killed
        before(self, *args)

    monkeypatch.setattr(Trainer, "_step", one)


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def weights(folder: Path) -> bytes:
    (file,) = folder.glob("*.safetensors")
    return file.read_bytes()


def loss_of(words: list[Any]) -> str:
    """Returns the score that a sweep of the command minimizes."""
    command = itertools.takewhile(lambda word: not word.startswith("--"), words)
    return COMMANDS[" ".join(command)].loss


@pytest.mark.parametrize("name", LINES)
def test_every_seed_has_the_bits_of_the_single_command(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = LINES[name](tmp_path)
    single = tmp_path / "single"
    code, shown, told = command(*words, "--seed", 4, "--output_dir", single, "--json")
    assert code == 0, told
    out = tmp_path / "out"
    several = [*words, "--seeds", 3, 4, "--output_dir", out]
    with monkeypatch.context() as patch:
        killed_in_second_run(patch, 4)  # after the checkpoint of step 3
        with pytest.raises(Killed):
            command(*several)
    assert (out / "seed-3" / "run.json").is_file()
    assert not (out / "seed-4" / "run.json").exists()
    trained = []
    before = Trainer.train
    monkeypatch.setattr(
        Trainer, "train", lambda self, **k: trained.append(self) or before(self, **k)
    )
    code, table, told = command(*several)
    assert code == 0, told
    assert len(trained) == 1
    assert "seed 3 (kept): " in told
    assert weights(out / "seed-4") == weights(single)
    found, expected = read(out / "seed-4" / "run.json"), json.loads(shown)
    scores = repeat_results.scores_of(found)
    assert {loss_of(words), "train_loss"} <= scores.keys()
    assert scores == repeat_results.scores_of(expected)
    assert table.split()[:7] == ["score", "mean", "sd", "seed", "3", "seed", "4"]
    results = read(out / "results.json")
    assert [run["seed"] for run in results["runs"]] == [3, 4]
    assert table.strip() == results["table"]
    code, again, _ = command(*several, "--json")
    assert code == 0
    assert json.loads(again) == results
    assert len(trained) == 1


def test_data_are_prepared_once(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evolving_attention.cli import glue_data

    calls, load = [], glue_data.load_data
    monkeypatch.setattr(glue_data, "load_data", lambda *a: calls.append(a) or load(*a))
    words = [*glue_words(tmp_path), "--max_steps", 1, "--output_dir", tmp_path / "out"]
    code, _, told = command(*words, "--seeds", 1, 2, 3)
    assert code == 0, told
    assert len(calls) == 1


def test_a_command_shares_with_its_own_runs_alone() -> None:
    """Two commands in one process do not share cached results."""
    options = Fields([(RepeatArguments, ""), (ea.TrainingArguments, "")])
    made: list[int] = []

    def run(given: dict[str, Any], once: repeat.Once) -> dict[str, Any]:
        return {"rows": once("rows", lambda: made.append(1) or len(made))}

    for expected in (1, 2):
        assert repeat.repeated(options, {"output_dir": "a"}, run) == {"rows": expected}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_seed_of_an_estimator_has_its_bits(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed seed is retrained; the data are read once for all seeds."""
    module = {"image": images, "graph": graph}[name]
    read_data = {"image": "_pictures", "graph": "_load"}[name]
    load, reads = getattr(module, read_data), []
    words = ESTIMATORS[name](tmp_path)
    out, single = tmp_path / "out", tmp_path / "single"
    several = [*words, "--seeds", 3, 4, "--output_dir", out]
    write = durable.write_json

    def dies(path: Path, value: Any) -> None:
        if path == out / "seed-4" / "run.json":
            raise Killed
        write(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_json", dies)
        counted = lambda *a: reads.append(a) or load(*a)  # noqa: E731
        patch.setattr(module, read_data, counted)
        with pytest.raises(Killed):
            command(*several)
    assert len(reads) == {"image": 2, "graph": 1}[name]
    (model,) = (out / "seed-3").glob("*.safetensors")
    before = model.stat().st_mtime_ns
    code, table, told = command(*several)
    assert code == 0, told
    assert "seed 3 (kept): " in told
    assert model.stat().st_mtime_ns == before
    code, shown, told = command(*words, "--seed", 4, "--output_dir", single, "--json")
    assert code == 0, told
    assert weights(out / "seed-4") == weights(single)
    scores = repeat_results.scores_of(json.loads(shown))
    assert scores == repeat_results.scores_of(read(out / "seed-4" / "run.json"))
    assert {loss_of(words), "validation_accuracy"} <= scores.keys()
    assert not {"seconds", "test_pictures"} & scores.keys()
    assert table.split()[:7] == ["score", "mean", "sd", "seed", "3", "seed", "4"]
    code, _, told = command(*several, "--learning_rate", "1e-5")
    assert code == 2
    assert "choose another --output_dir or add --overwrite_output_dir" in told


@pytest.mark.parametrize("seeds", [[], ["--seeds", 3]])
@pytest.mark.parametrize("name", [*ESTIMATORS, "glue", "timeseries"])
def test_a_folder_that_a_run_trains_into_is_refused(
    name: str,
    seeds: list[Any],
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second run with other options does not claim the folder of the first."""
    owner, method = {
        "image": (ea.ImageClassifier, "fit"),
        "graph": (ea.GraphNodeClassifier, "fit"),
        "glue": (Trainer, "_train"),
        "timeseries": (ea.TimeSeriesRegressor, "fit"),
    }[name]
    out, train, told = tmp_path / "out", getattr(owner, method), []
    begun: list[Any] = []
    lines = {**LINES, **ESTIMATORS, "timeseries": series}
    words = [*lines[name](tmp_path), *seeds, "--output_dir", out]

    def meanwhile(self: Any, *args: Any, **options: Any) -> Any:
        if not begun:
            begun.append(self)
            for more in ([], ["--overwrite_output_dir"]):
                told.append(command(*words, "--learning_rate", "1e-5", *more))
        return train(self, *args, **options)

    monkeypatch.setattr(owner, method, meanwhile)
    code, _, shown = command(*words)
    assert code == 0, shown
    assert len(told) == 2
    for code, _, text in told:
        assert (code, "another run trains into" in text) == (2, True), text
    if (out / "settings.json").exists():
        rate = read(out / "settings.json").get("learning_rate")
        assert rate == {"glue": 5e-3}.get(name)
    assert not list(out.rglob(".lock"))
    code, _, shown = command(*words)  # with the same options
    assert code == 0, shown


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_finished_run_on_a_read_only_disk_is_not_trained_again(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*ESTIMATORS[name](tmp_path), "--output_dir", tmp_path / "out"]
    assert command(*words)[0] == 0

    def refuses(dir: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuses)
    monkeypatch.setattr({"image": images, "graph": graph}[name], "fit", pytest.fail)
    code, _, told = command(*words)
    assert code == 3, told
    assert f"{tmp_path / 'out'}: Read-only file system: check the path" in told


DAMAGED: list[tuple[str, Any]] = [
    ("seed-3/run.json", {"seed": None}),
    ("seed-3/run.json", {"seed": "3"}),
    ("seed-3/run.json", {"seed": 4}),
    ("settings.json", {"content": []}),
]


@pytest.mark.parametrize(("name", "change"), DAMAGED)
def test_a_damaged_record_of_a_run_is_told(
    name: str, change: dict[str, Any], command: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = [*graph_words(tmp_path), "--seeds", 3, "--output_dir", out]
    assert command(*words)[0] == 0
    good = read(out / name)
    (out / name).write_text(json.dumps({**good, **change}))
    code, _, told = command(*words)
    assert (code, f"{out / name}: " in told, "expected" in told) == (3, 1, 1), told
    (out / name).write_text("[" * 100_000)
    code, _, told = command(*words)
    assert (code, f"{out / name}: not usable JSON" in told) == (3, True), told
    (out / name).write_text(json.dumps({**good, "loss": 10**400}))  # no score
    assert command(*words)[0] == (0 if name.startswith("seed") else 2)


def test_scores_of_series_in_a_record_are_numbers(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    words = [*series(tmp_path), "--output_dir", tmp_path / "out"]
    assert command(*words)[0] == 0
    file = tmp_path / "out" / "seed-1" / "run.json"
    good = read(file)
    for change in (
        {"validation": None},
        {"test": {"rmse": None}},
        {"test": {"rmse": "x"}},
        {"fit_seconds": 10**400},
    ):
        file.write_text(json.dumps({**good, **change}))
        code, _, told = command(*words)
        assert (code, "remove the file to run again" in told) == (3, True), told
    file.write_text(json.dumps({**good, "test": {**good["test"], "rmse": "inf"}}))
    code, _, told = command(*words)
    assert (code, "test rmse inf" in told) == (0, True), told


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_seed_that_was_interrupted_is_not_finished(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = {"image": ea.ImageClassifier, "graph": ea.GraphNodeClassifier}[name]
    fit = fitted.fit

    def interrupted(self: Any, *args: Any, **options: Any) -> Any:
        fit(self, *args, **options).interrupted_ = "SIGINT"
        return self

    monkeypatch.setattr(fitted, "fit", interrupted)
    out = tmp_path / "out"
    words = ESTIMATORS[name](tmp_path)
    code, _, told = command(*words, "--seeds", 3, 4, "--output_dir", out)
    assert code == 130
    assert "SIGINT after" in told
    assert "trains it again from the beginning" in told
    assert [file.parent.name for file in out.glob("*/*.safetensors")] == ["seed-3"]
    assert not (out / "seed-3" / "run.json").exists()


def test_a_run_without_a_checkpoint_begins_again(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*glue_words(tmp_path), "--save_strategy", "no", "--max_steps", 2]
    out = tmp_path / "out"
    code, _, told = command(*words, "--seeds", 1, 2, "--output_dir", out)
    assert code == 0, told
    before = weights(out / "seed-2")
    (out / "seed-2" / "run.json").unlink()  # as if killed between model and record
    code, _, told = command(*words, "--seeds", 1, 2, "--output_dir", out)
    assert code == 0, told
    assert weights(out / "seed-2") == before


def test_an_interrupted_overwrite_keeps_no_run_with_the_old_options(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*glue_words(tmp_path), "--max_steps", 2, "--save_steps", 1, "--seeds"]
    out, new = tmp_path / "out", ["--learning_rate", "1e-3"]
    code, _, told = command(*words, 1, 2, 3, "--output_dir", out)
    assert code == 0, told
    with monkeypatch.context() as patch:
        killed_in_second_run(patch, 1)
        with pytest.raises(Killed):
            command(
                *(*words, 1, 2, "--output_dir", out, *new, "--overwrite_output_dir")
            )
    assert [file.parent.name for file in out.rglob("run.json")] == ["seed-1"]
    assert not (out / "results.json").exists()
    code, _, told = command(*words, 1, 2, 3, "--output_dir", out, *new)
    assert code == 0, told
    assert "seed 1 (kept)" in told
    code, _, told = command(*words, 1, 2, 3, "--output_dir", tmp_path / "fresh", *new)
    assert code == 0, told
    for seed in ("seed-1", "seed-2", "seed-3"):
        assert weights(out / seed) == weights(tmp_path / "fresh" / seed)


def write_runs(folder: Path, **scores: list[float]) -> Path:
    """Writes a results folder of a command with --seeds; seeds count from 0."""
    columns = zip(*scores.values(), strict=True)
    runs = []
    for i, column in enumerate(columns):
        own = dict(zip(scores, column, strict=True))
        runs.append({"seed": i, "train_runtime": 3.0, "epoch": 2.0, **own})
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps({"runs": runs}))
    return folder


def test_the_table_and_the_comparison(tmp_path: Path) -> None:
    stats = pytest.importorskip("scipy.stats")
    mine = write_runs(
        tmp_path / "mine", eval_f1=[0.5, 0.75, 0.7, 0.9], eval_loss=[1] * 4
    )
    theirs = write_runs(tmp_path / "theirs", eval_f1=[0.5, 0.5, 0.6])
    runs = repeat_results.read_runs(mine)
    found = repeat_results.collected(runs, compare=str(theirs))
    assert set(found["summary"]) == {"eval_f1", "eval_loss"}
    f1 = found["summary"]["eval_f1"]
    assert f1["mean"] == pytest.approx(0.7125)
    assert f1["sd"] == pytest.approx(np.std([0.5, 0.75, 0.7, 0.9], ddof=1))
    gains = np.array([0.0, 0.25, 0.1])
    one = found["comparison"]["eval_f1"]
    assert (one["seeds"], one["pairs"]) == ([0, 1, 2], 3)
    low, high = stats.ttest_1samp(gains, 0).confidence_interval()
    assert (one["low"], one["high"]) == pytest.approx((low, high))
    assert one["mean"] == pytest.approx(gains.mean())
    lines = found["table"].splitlines()
    assert lines[1].split() == [
        "eval_f1",
        "0.7125",
        f"{f1['sd']:.4f}",
        *(["0.5000", "0.7500", "0.7000", "0.9000"]),
    ]
    assert lines[4].split()[:4] == ["less", str(theirs), "mean", "sd"]
    assert lines[5].split()[1] == "+0.1167"


def test_many_seeds_have_no_column_each(tmp_path: Path) -> None:
    runs = repeat_results.read_runs(write_runs(tmp_path / "m", eval_f1=[0.5] * 12))
    assert "seed" not in repeat_results.collected(runs)["table"]


def test_a_score_that_is_not_finite_stays_one(tmp_path: Path) -> None:
    runs = [{"seed": 0, "eval_pearson": "nan"}, {"seed": 1, "eval_pearson": 0.5}]
    found = repeat_results.collected(runs)
    assert np.isnan(found["summary"]["eval_pearson"]["mean"])
    assert "nan" in found["table"]


def test_another_content_of_a_file_is_refused(command: Any, tmp_path: Path) -> None:
    words, out = glue_words(tmp_path), tmp_path / "out"
    words += ["--max_steps", 1, "--seeds", 1, "--output_dir", out]
    assert command(*words)[0] == 0
    file = Path(words[words.index("--train_file") + 1])
    text, settings = file.read_text(), read(out / "settings.json")
    file.write_text("\n".join([*text.splitlines()[:-1], ""]))
    code, _, told = command(*words)
    assert code == 2, told
    assert "with other options (content of --train_file), expected the same" in told
    del settings["content"]  # earlier versions did not record it
    durable.write_json(out / "settings.json", settings)
    code, _, told = command(*words)
    assert (code, "seed 1 (kept)" in told) == (0, True), told


def test_another_content_of_the_model_is_refused(command: Any, tmp_path: Path) -> None:
    words, out = glue_words(tmp_path), tmp_path / "out"
    words += ["--max_steps", 1, "--seeds", 1, "--output_dir", out]
    assert command(*words)[0] == 0
    settings, file = read(out / "settings.json"), tmp_path / "bert" / "vocab.txt"
    (tmp_path / "bert" / "README.md").write_text("decides no result")
    assert command(*words)[0] == 0
    file.write_text(file.read_text().replace("good\nbad", "bad\ngood"))
    code, _, told = command(*words)
    expected = "with other options (content of --model_name_or_path), expected the same"
    assert (code, expected in told) == (2, True), told
    del settings["content"]["model_name_or_path"]  # earlier versions did not record it
    durable.write_json(out / "settings.json", settings)
    code, _, told = command(*words)
    assert (code, "seed 1 (kept)" in told) == (0, True), told
    file.write_text(file.read_text().replace("bad\ngood", "good\nbad"))
    code, _, told = command(*words)  # from now on it is recorded
    assert (code, expected in told) == (2, True), told


def test_the_contents_of_folders(tmp_path: Path) -> None:
    """The files that a command reads decide, by their names and contents."""
    task, other, text = tmp_path / "G/SST-2", tmp_path / "G/RTE", tmp_path / "text/a"
    for folder in (task, other, text):
        folder.mkdir(parents=True)
        (folder / "train.tsv").write_text("sentence\tlabel\n")
    given = {
        "data_dir": str(tmp_path / "G"),
        "task_name": "sst2",
        "train_file": [str(tmp_path / "text")],
        "output_dir": str(tmp_path),
        "cache_dir": str(tmp_path),
        "overwrite_output_dir": True,
        "test_file": None,
        "validation_file": "",
        "model_name_or_path": "no/model",
    }
    before = content_hashes(given)
    assert {name: len(found) for name, found in before.items()} == {
        "data_dir": 1,
        "train_file": 1,
    }
    (other / "train.tsv").write_text("another task's")
    (tmp_path / "text" / ".hidden").write_text("not read")
    assert content_hashes(given) == before
    (task / "train.tsv").write_text("sentence\tlabel\nit\t1\n")
    assert content_hashes(given)["data_dir"] != before["data_dir"]
    (text / "train.tsv").rename(text / "z.tsv")
    assert content_hashes(given)["train_file"] != before["train_file"]
    (text / os.fsdecode(b"caf\xe9")).write_text("a name that is not UTF-8")
    assert content_hashes(given)["train_file"]


def test_another_pretraining_of_series_is_refused(command: Any, tmp_path: Path) -> None:
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    data, pre = tmp_path / "a.ts", tmp_path / "pre"
    write_ts(data, *waves(16))
    words = ["--train_file", data, "--hidden_size", 8, "--num_blocks", 1, "--n_epochs"]
    pretrain = ["timeseries", "pretrain", *words, 1, "--output_dir", pre]
    train = ["timeseries", "train", *words, 1, "--pretrained", pre]
    train += ["--output_dir", tmp_path / "out"]
    file = tmp_path / "out" / "seed-1" / "run.json"
    first: dict[str, Any] = {}
    for anew in ([], ["--overwrite_output_dir"]):  # the second has the same bits
        code, _, told = command(*pretrain, *anew)
        assert code == 0, told
        code, _, told = command(*train)
        assert code == 0, told
        first = first or read(file)
    assert read(file) == first
    assert command(*pretrain, "--n_epochs", 2, "--overwrite_output_dir")[0] == 0
    code, _, told = command(*train)
    expected = f"a run with other content of --pretrained {pre}, expected the same"
    assert (code, expected in told) == (2, True), told
    del first["content"]["pretrained"]  # earlier versions did not record it
    durable.write_json(file, first)
    assert command(*train)[0] == 0
    assert read(file) == first
