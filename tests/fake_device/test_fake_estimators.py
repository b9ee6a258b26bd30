"""Time-series estimators on a device the host cannot read: the bits of the CPU."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from series_data import TINY, levels, waves, write_ts
from support.cases import forced

import evolving_attention as ea
from evolving_attention.cli.main import app
from evolving_attention.estimators import fitting

if not any("fake device" in what for what in ea.devices().values()):
    pytest.skip(
        "no fake device in this build (tools/run_fake_device.sh makes one)",
        allow_module_level=True,
    )
pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

from sklearn.base import clone

SMALL = {**TINY, "n_epochs": 3, "max_length": 24}


def data_for(kind: Any) -> Any:
    return waves() if kind is ea.TimeSeriesClassifier else levels()


@pytest.fixture(autouse=True)
def reference():
    """Forces ``ref``, whose kernels the device has too."""
    with forced(("*", "ref")):
        yield


@pytest.mark.parametrize("kind", [ea.TimeSeriesClassifier, ea.TimeSeriesRegressor])
def test_a_fit_there_has_the_bits_of_the_cpu(kind: Any) -> None:
    X, y = data_for(kind)
    here = kind(**SMALL).fit(X, y)
    there = clone(here).set_params(device="cuda:1").fit(X, y)
    assert (here.model_.device, there.model_.device) == ("cpu", "cuda:1")
    assert there.history_ == here.history_
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
    assert there.model_.device == "cuda:1"
    assert kind(**SMALL, device="auto").fit(X, y).model_.device == "cuda:0"


def test_a_fitted_estimator_moves(tmp_path: Path) -> None:
    X, y = waves()
    fitted = ea.TimeSeriesClassifier(**SMALL, device="cuda").fit(X, y)
    expected = fitted.predict_proba(X)
    fitted.save(tmp_path)
    loaded = ea.TimeSeriesClassifier.load(tmp_path)
    assert (loaded.device, loaded.model_.device) == ("cpu", "cpu")
    again = ea.TimeSeriesClassifier.load(tmp_path, device="cuda:1")
    assert (again.device, again.model_.device) == ("cuda:1", "cuda:1")
    copied = pickle.loads(pickle.dumps(fitted))
    assert copied.get_params() == fitted.get_params()
    moved = pickle.loads(pickle.dumps(fitted)).set_params(device="cpu")
    for one in (loaded, again, copied, moved):
        np.testing.assert_array_equal(one.predict_proba(X), expected)
    assert copied.model_.device == "cuda:0"
    assert moved.model_.device == "cpu"
    fitted.set_params(device="cpu")
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
    assert fitted.model_.device == "cpu"


def test_pretraining_there(tmp_path: Path) -> None:
    X, _ = waves()
    found = {}
    for device in ("cpu", "cuda:1"):
        estimator = ea.TimeSeriesClassifier(**SMALL, device=device)
        model, result = ea.estimators.pretrain(estimator, X)
        assert model.device == device
        found[device] = result.history, model.state_dict()
    assert found["cuda:1"][0] == found["cpu"][0]
    for name, value in found["cpu"][1].items():
        np.testing.assert_array_equal(found["cuda:1"][1][name], value, err_msg=name)


def test_the_command_computes_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, outputs = [], fitting.outputs

    def spy(model: Any, *args: Any) -> Any:
        found = outputs(model, *args)
        seen.append(model.device)
        return found

    def run(*words: Any) -> Any:
        seen.clear()
        with pytest.raises(SystemExit) as left:
            app(["timeseries", *map(str, words), "--json"])
        shown = capsys.readouterr()
        assert not left.value.code, shown.err
        return json.loads(shown.out)

    monkeypatch.setattr(fitting, "outputs", spy)
    file = write_ts(tmp_path / "Waves_TRAIN.ts", *waves(40))
    words = ["train", "--train_file", file, "--test_file", file, "--n_epochs", 1]
    words += ["--hidden_size", 16, "--num_blocks", 1, "--num_attention_heads", 2]
    here = run(*words, "--output_dir", tmp_path / "cpu")["runs"][0]
    assert seen == ["cpu"]
    out = tmp_path / "out"
    there = run(*words, "--output_dir", out, "--device", "cuda:1")["runs"][0]
    assert seen == ["cuda:1"]
    assert there["options"].pop("device") == "cuda:1"
    assert here["options"].pop("device") == "cpu"
    assert {**there, "fit_seconds": 0} == {**here, "fit_seconds": 0}
    model = ["--model_dir", out / "seed-1", "--test_file", file]
    assert run("evaluate", *model, "--device", "auto")["test"] == here["test"]
    assert seen == ["cuda:0"]
