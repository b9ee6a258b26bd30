"""Estimators in several Python threads: the same bits, and the caller's generators."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from series_data import waves

import evolving_attention as ea

pytest.importorskip("aeon", reason="no aeon (extra timeseries)")

from evolving_attention.estimators.randomness import seed_of, turn
from evolving_attention.training import runtime

TINY: dict[str, Any] = {"hidden_size": 16, "num_blocks": 1, "n_epochs": 2}


def test_fits_in_threads_equal_those_in_sequence() -> None:
    X, y = waves(40)

    def odds(seed: int) -> np.ndarray:
        model = ea.TimeSeriesClassifier(**TINY, random_state=seed).fit(X, y)
        return model.predict_proba(X)

    expected = [odds(seed) for seed in range(4)]
    before = runtime.get_random_state()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(odds, range(4)))
    np.testing.assert_array_equal(found, expected)
    assert runtime.get_random_state() == before


def test_loading_keeps_the_global_generators(tmp_path) -> None:
    ea.TimeSeriesClassifier(**TINY, random_state=0).fit(*waves(20)).save(tmp_path)
    before = runtime.get_random_state()
    ea.TimeSeriesClassifier.load(tmp_path)
    assert runtime.get_random_state() == before


def test_a_seed_is_not_drawn_from_the_generator_of_a_fit_in_a_thread() -> None:
    fitting, drawn = threading.Event(), threading.Event()
    waited = []

    def fit() -> None:
        with turn():
            fitting.set()
            waited.append(not drawn.wait(0.2))

    def draw() -> None:
        fitting.wait()
        seed_of(ea.TimeSeriesClassifier())
        drawn.set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda work: work(), (fit, draw)))
    assert waited == [True]
    assert drawn.is_set()


# Python warns when a process with threads forks, which this test does on purpose.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with turn():
            holding.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends the child if it waits
        with turn():
            os._exit(0)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
