"""``evolving-attention sweep``: search spaces, workers, and interrupted sweeps."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers_commands import glue as glue_words
from helpers_commands import runner

from evolving_attention.cli import search_spaces, sweep, sweep_workers
from evolving_attention.cli.search_spaces import SPACES, Choice, Range, read_space
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.cli.sweep_study import Study
from evolving_attention.cli.sweep_workers import Answer, Worker
from evolving_attention.cli.trainings import COMMANDS, training
from evolving_attention.errors import CheckpointError, ConfigError, Interrupted

optuna = pytest.importorskip("optuna", reason="no optuna (extra sweep)")


@pytest.fixture
def command(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    return runner(capfd, monkeypatch)


def read(file: Path) -> Any:
    return json.loads(file.read_text())


# ---------------------------------------------------------------------- search spaces


def test_the_papers_spaces_have_their_sizes() -> None:
    found = {
        name: search_spaces.size_of(paper.space()) for name, paper in SPACES.items()
    }
    assert found == {
        "icml-glue": 162,
        "icml-glue-plain": 18,
        "icml-translation": 9,
        "predictive-glue": 54,
        "predictive-text": 14,
        "predictive-text-layers": 4,
        "realformer-glue": 21,
        "realformer-squad": 24,
        "journal-series": 1400,
    }


@pytest.mark.parametrize("name", SPACES)
def test_every_value_is_one_of_its_command(name: str) -> None:
    paper = SPACES[name]
    options = training(paper.command).fields().options
    for option, values in paper.grid.items():
        for value in values:
            assert options[option].value(value, name) == value
    assert {*paper.settings} <= {*options}
    space, fixed = read_space(name, [], paper.command, training(paper.command).fields())
    assert len(search_spaces.grid_of(space)) == search_spaces.size_of(space)
    assert fixed == paper.settings


def test_a_space_of_words_and_of_a_file(tmp_path: Path) -> None:
    fields = training("glue").fields()
    words = [
        "learning-rate=1e-5..1e-3:log",
        "per_device_train_batch_size=8..32",
        "alpha=0.1,0.2",
        "conv_init=fan_in,identity",
        "num_train_epochs=2,3",
    ]
    expected = {
        "learning_rate": Range(1e-5, 1e-3, log=True),
        "per_device_train_batch_size": Range(8, 32, whole=True),
        "alpha": Choice((0.1, 0.2)),
        "conv_init": Choice(("fan_in", "identity")),
        "num_train_epochs": Choice((2.0, 3.0)),
    }
    assert read_space(None, words, "glue", fields)[0] == expected
    file = tmp_path / "space.json"
    file.write_text(json.dumps({k: v.to_dict() for k, v in expected.items()}))
    assert read_space(str(file), [], "glue", fields)[0] == expected
    mixed, fixed = read_space("icml-glue", ["attention=evolving"], "glue", fields)
    assert mixed["attention"] == Choice(("evolving",))
    assert fixed == {"adam_epsilon": 1e-8}


def test_the_command_is_found_among_the_words() -> None:
    from evolving_attention.cli.options import Fields

    split = sweep._split
    options = Fields([(SweepArguments, "")])
    words = ["--study_name", "glue", "--search", "a=1", "b=2", "squad", "train", "--x"]
    assert split(words, options) == (words[:5], "squad train", ["--x"])
    assert split(["--json", "glue"], options) == (["--json"], "glue", [])
    assert split(["--help"], options) == (["--help"], None, [])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_searched(name: str) -> None:
    options = training(name).fields().options
    assert {"output_dir", "num_threads", "seeds", "compare", "json"} <= options.keys()


# ----------------------------------------------------------------- with fake workers


class Killed(BaseException):
    """Ends the process like SIGKILL: our code does not catch it."""


class Fake:
    """Fake worker whose loss follows from its settings."""

    started: list[dict[str, Any]]
    answers: Callable[[int, dict[str, Any]], Answer]

    def __init__(self, trial: Any, command: str, given: Any, log: Path) -> None:
        self.trial, self.log, self.given = trial, log, given
        Fake.started.append(given)

    def answer(self) -> Answer:
        return Fake.answers(len(Fake.started), self.given)


def loss_of(count: int, given: dict[str, Any]) -> Answer:
    """Writes weights as a training does, and returns its answer."""
    folder = Path(given["output_dir"])
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_text("weights")
    return Answer(
        {"eval_loss": 100 * given["learning_rate"], "eval_f1": given["alpha"]}
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Returns a function that runs a sweep with fake workers and reads its results."""
    monkeypatch.setattr(sweep, "Worker", Fake)
    monkeypatch.setattr(sweep, "ready", lambda workers, seconds: list(workers))
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    Fake.started, Fake.answers = [], staticmethod(loss_of)

    def run(*search: str, **options: Any) -> dict[str, Any]:
        words = [*("learning_rate=1e-2,1e-3,1e-4", "alpha=0.1,0.4"), *search]
        options = {"search": words, "output_dir": str(tmp_path / "out"), **options}
        own = ["--train_file", "a.csv", *options.pop("words", ())]
        return sweep._Sweep(SweepArguments(**options), "glue", own).run()

    return run


def test_a_grid_is_searched_whole_and_once(fake: Any, tmp_path: Path) -> None:
    found = fake(workers=2)
    settings = {(one["learning_rate"], one["alpha"]) for one in Fake.started}
    assert len(Fake.started) == len(settings) == 6
    assert (found["best"]["params"]["learning_rate"], found["best"]["value"]) == (
        1e-4,
        0.01,
    )
    assert [one["value"] for one in found["trials"]] == sorted(
        one["value"] for one in found["trials"]
    )
    assert all(one["do_train"] and one["do_eval"] for one in Fake.started)
    assert fake(workers=2) == found
    assert len(Fake.started) == 6
    kept = [*(tmp_path / "out").glob("trial-*/model.safetensors")]
    assert [file.parent.name for file in kept] == [f"trial-{found['best']['number']}"]
    best = read(tmp_path / "out" / "best.json")
    assert best["learning_rate"] == 1e-4
    assert "output_dir" not in best
    assert read(tmp_path / "out" / "results.json") == found


def test_the_best_is_the_highest_score(fake: Any) -> None:
    found = fake(objective="eval_f1", keep="all")
    assert found["direction"] == "maximize"
    assert found["best"]["value"] == 0.4


@pytest.mark.parametrize("objective", ["eval_perplexity", "eval_invalid_outputs"])
def test_the_best_is_the_lowest_error(fake: Any, objective: str) -> None:
    Fake.answers = staticmethod(
        lambda count, given: Answer({objective: given["alpha"]})
    )
    found = fake(objective=objective, keep="all")
    assert found["direction"] == "minimize"
    assert found["best"]["value"] == 0.1


def test_several_seeds_count_by_their_mean(fake: Any) -> None:
    summary = {"eval_loss": {"mean": 0.25, "sd": 0.1, "seeds": 2}}
    Fake.answers = staticmethod(lambda count, given: Answer({"summary": summary}))
    found = fake(n_trials=1, words=["--seeds", "1", "2"])
    assert found["best"]["value"] == 0.25
    assert Fake.started[0]["seeds"] == [1, 2]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_ranges_are_sampled_anew_after_a_restart(fake: Any, sampler: str) -> None:
    given = {"sampler": sampler, "n_trials": 3}
    fake("learning_rate=1e-5..1e-2:log", **given)
    fake("learning_rate=1e-5..1e-2:log", **{**given, "n_trials": 5})
    rates = [one["learning_rate"] for one in Fake.started]
    assert len(set(rates)) == len(rates) == 5
    assert all(1e-5 <= rate <= 1e-2 for rate in rates)


def test_other_content_of_the_data_is_refused(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials on different data would be compared."""
    monkeypatch.chdir(tmp_path)
    file, settings = Path("a.csv"), tmp_path / "out" / "settings.json"
    file.write_text("sentence,label\n")
    found = fake()
    file.write_text("sentence,label\na film,1\n")
    with pytest.raises(ConfigError, match=r"other options \(content of train_file\)"):
        fake()
    record = read(settings)
    del record["content"]  # earlier versions did not record it
    settings.write_text(json.dumps(record))
    assert fake() == found


@pytest.mark.parametrize("place", ["ask", "_begin", "_tell"])
def test_a_killed_sweep_loses_no_finished_trial(
    fake: Any, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner = sweep.Study if place == "ask" else sweep._Sweep
    before, calls = getattr(owner, place), []

    def ends(self: Any, *args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3 and place != "ask":
            raise Killed
        found = before(self, *args)
        if len(calls) == 3:
            raise Killed
        return found

    with monkeypatch.context() as patch:
        patch.setattr(owner, place, ends)
        with pytest.raises(Killed):
            fake()
    begun = len(Fake.started)
    found = fake()
    assert len(found["trials"]) == 6
    assert len(Fake.started) == 6
    assert begun == (3 if place == "_tell" else 2)


def test_a_killed_sweep_may_be_moved(
    fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its last trial has a record, which the study lacks."""

    def ends(self: Any, *args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(sweep._Sweep, "_tell", ends)
        with pytest.raises(Killed):
            fake()
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    (moved / "trial-old").mkdir()
    record = moved / "trial-0.json"
    whole = record.read_bytes()
    for damaged in (whole[:20], b"[]", b"{}", b"\xff"):
        record.write_bytes(damaged)
        with pytest.raises(
            CheckpointError, match=r"trial-0\.json: .* remove it to run"
        ):
            fake(output_dir=str(moved))
    record.write_bytes(whole)
    assert len(fake(output_dir=str(moved))["trials"]) == 6
    assert len(Fake.started) == 6


def test_a_storage_that_fails_says_why(fake: Any, tmp_path: Path) -> None:
    fake()
    url = f"sqlite:///file:{tmp_path / 'out' / 'study.db'}?mode=ro&uri=true"
    with pytest.raises(
        CheckpointError, match=r"\(attempt to write a readonly database"
    ):
        fake(storage=url, study_name="new")


def test_an_error_that_the_storage_hides_is_not_its_cause() -> None:
    report = Study._reported(SimpleNamespace(where="here"))  # type: ignore[arg-type]
    locked = RuntimeError("locked")
    locked.__context__, locked.__suppress_context__ = ValueError("earlier"), True
    with pytest.raises(CheckpointError, match=r"cannot be used \(locked\)"), report:
        raise locked


def test_a_dead_worker_is_tried_again(fake: Any) -> None:
    Fake.answers = staticmethod(
        lambda count, given: Answer(code=-9) if count == 1 else loss_of(count, given)
    )
    found = fake()
    assert len(found["trials"]) == 6
    assert Fake.started[0] == Fake.started[1]
    assert len(Fake.started) == 7


def test_a_setting_that_diverges_is_told_in_the_table(fake: Any) -> None:
    failed = Answer(None, ("NonFiniteError", "the loss is nan"), None, 1)
    Fake.answers = staticmethod(
        lambda count, given: failed if count < 3 else loss_of(count, given)
    )
    found = fake()
    assert found["failed"] == [0, 1]
    assert found["table"].endswith("2 failed")


def test_a_signal_leaves_what_is_finished(fake: Any) -> None:
    def answers(count: int, given: dict[str, Any]) -> Answer:
        if count == 2:
            signal.raise_signal(signal.SIGINT)
        return loss_of(count, given)

    Fake.answers = staticmethod(answers)
    with pytest.raises(Interrupted, match="SIGINT after 2 of 6 trials: they are kept"):
        fake()
    Fake.answers = staticmethod(loss_of)
    assert len(fake()["trials"]) == 6
    assert len(Fake.started) == 6


# -------------------------------------------------------------------- with processes


def test_trials_have_the_bits_of_the_command(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = glue_words(tmp_path)
    at = words.index("--learning_rate")
    del words[at : at + 2]
    begin, begun = Worker.__init__, []

    def begins(self: Any, *args: Any) -> None:
        begin(self, *args)
        begun.append(self)
        if len(begun) == 1:
            self.kill()

    monkeypatch.setattr(Worker, "__init__", begins)
    out = tmp_path / "out"
    code, shown, told = command(
        *("sweep", "--search", "learning_rate=1e-3,5e-3", "--workers", 2),
        *("--keep", "all", "--output_dir", out, "--json", *words),
    )
    assert code == 0, told
    assert "its process died (exit code -9)" in told
    assert len(begun) == 3
    found = json.loads(shown)
    assert len(found["trials"]) == 2
    best = found["best"]
    single = tmp_path / "single"
    code, shown, told = command(
        *("glue", out / "best.json", "--output_dir", single, "--json")
    )
    assert code == 0, told
    assert json.loads(shown)["eval_loss"] == best["value"]
    trial = out / f"trial-{best['number']}"
    (mine,), (its,) = (folder.glob("*.safetensors") for folder in (trial, single))
    assert mine.read_bytes() == its.read_bytes()
    assert not [*out.glob("trial-*/checkpoint-*/*.safetensors")]


def test_a_worker_leaves_with_its_sweep(tmp_path: Path) -> None:
    words = [*map(str, glue_words(tmp_path)[1:]), "--max_steps", "100000"]
    given = sweep._parsed(training("glue").fields(), words, "glue")
    out = tmp_path / "out"
    given |= {"output_dir": str(out), "save_steps": 10}
    worker = sweep_workers.Worker(None, "glue", given, tmp_path / "log")
    try:
        end = time.monotonic() + 120
        while not [*out.glob("checkpoint-*")] and time.monotonic() < end:
            time.sleep(0.05)
        worker._process.stdin.close()  # type: ignore[union-attr]
        while worker not in sweep_workers.ready([worker], 1):
            assert time.monotonic() < end, (tmp_path / "log").read_text()
        answer = worker.answer()
    finally:
        worker.kill()
    assert answer.error is not None
    assert answer.error[0] == "Interrupted"
    assert "checkpoint-" in answer.error[1]
