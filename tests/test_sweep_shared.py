"""Sweeps of several processes that share one storage, as on several machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers_distributed import environment

optuna = pytest.importorskip("optuna", reason="no optuna (extra sweep)")

# A sweep with instant trials, so that the processes access the storage concurrently.
PROGRAM = """
import json, os, sys
from evolving_attention.cli import sweep
from evolving_attention.cli.sweep_arguments import SweepArguments
from evolving_attention.cli.sweep_workers import Answer

class Instant:
    def __init__(self, trial, command, given, log):
        self.trial, self.log, self.given = trial, log, given

    def answer(self):
        return Answer({"eval_loss": self.given["learning_rate"]})

sweep.Worker, sweep.ready = Instant, lambda workers, seconds: list(workers)
os.fsync = lambda fd: None
print("ready", flush=True)
sys.stdin.readline()
for given in json.loads(sys.argv[1]):
    sweep._Sweep(SweepArguments(**given), "glue", ["--train_file", "a.csv"]).run()
"""
MACHINES = "one", "tw\udcf6"  # a name that is not UTF-8
GRID = {
    "output_dir": "grid",
    "study_name": "grid",
    "search": ["learning_rate=1e-5,2e-5,3e-5,4e-5", "alpha=0.1,0.2"],
}
RANGE = {
    "output_dir": "range",
    "study_name": "range",
    "search": ["learning_rate=1e-5..1e-3:log"],
    "sampler": "random",
    "n_trials": 3,
}


def begun(folder: Path, storage: str) -> Any:
    folder.mkdir()
    own = [{**one, "storage": storage} for one in (GRID, RANGE)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(own)],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_machines_share_a_study_and_do_no_trial_twice(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'shared.db'}"
    machines = [begun(tmp_path / name, storage) for name in MACHINES]
    try:
        for machine in machines:
            assert machine.stdout.readline() == "ready\n"
        ends = []
        for machine in machines:  # start both before waiting for either
            machine.stdin.write("go\n")
            machine.stdin.flush()
        ends = [machine.communicate(timeout=120) for machine in machines]
    finally:
        for machine in machines:
            machine.kill()
    assert [machine.returncode for machine in machines] == [0, 0], ends
    for name, count in (("grid", 8), ("range", 3)):
        study = optuna.load_study(study_name=name, storage=storage)
        done = [one for one in study.trials if one.state.name == "COMPLETE"]
        assert len(done) == count
        assert len({json.dumps(one.params, sort_keys=True) for one in done}) == count
        records = [
            {
                int(file.stem[6:])
                for file in (tmp_path / one / name).glob("trial-*.json")
            }
            for one in MACHINES
        ]
        assert not records[0] & records[1]
        assert records[0] | records[1] == {one.number for one in done}
        others = [one for one in study.trials if one not in done]
        assert {one.state.name for one in others} <= {"PRUNED"}
        results = [
            json.loads((tmp_path / one / name / "results.json").read_text())
            for one in MACHINES
        ]
        assert max(len(one["trials"]) for one in results) == count
        assert not results[0]["failed"]
