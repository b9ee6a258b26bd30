"""Small time-series problems that a model can learn in seconds, and their .ts files."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.training import TrainerCallback

#: Options of a model that is quick to train.
TINY = {
    "hidden_size": 16,
    "num_blocks": 1,
    "num_attention_heads": 2,
    "model_options": {"intermediate_size": 16},
    "n_epochs": 12,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "random_state": 0,
}


def waves(
    count: int = 48,
    seed: int = 0,
    lengths: tuple[int, int] = (12, 20),
    channels: int = 2,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Slow and fast waves in noise, series of unequal length: classes by frequency."""
    rng = np.random.default_rng(seed)
    labels = np.array(["slow", "fast"])[np.arange(count) % 2]
    series = []
    for label in labels:
        steps = np.arange(rng.integers(*lengths))
        frequency = 0.4 if label == "slow" else 1.6
        phases = rng.uniform(0, 6, size=(channels, 1))
        wave = np.sin(frequency * steps + phases)
        series.append(wave + rng.normal(scale=0.1, size=wave.shape))
    return series, labels


def levels(count: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Series [n, 1, 10] around a level of their own, which is their value."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(10, 30, size=count)
    series = values[:, None, None] + rng.normal(size=(count, 1, 10))
    return series, values


def signal_sender(monkeypatch: Any) -> Any:
    """A function that makes each fit from now on raise these signals.

    They come after the first step of the epoch, counted from 1.
    """

    from evolving_attention.estimators import fitting  # needs aeon

    class Sender(TrainerCallback):
        def __init__(self, signals: tuple[int, ...], epoch: int) -> None:
            self.signals, self.epochs_left = list(signals), epoch

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.epochs_left -= 1

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            while self.epochs_left == 0 and self.signals:
                signal.raise_signal(self.signals.pop())

    def send(*signals: int, epoch: int = 0) -> None:
        def displays(reporter: Any) -> list[Any]:
            return [Sender(signals, epoch)]

        monkeypatch.setattr(fitting._Reporter, "displays", displays)

    return send


def write_ts(file: Path, series: list[np.ndarray], targets: np.ndarray) -> Path:
    """A .ts file of these series."""
    regression = targets.dtype.kind == "f"
    names = " ".join(sorted(set(map(str, targets))))
    lines = [
        "@problemName Tiny",
        "@timeStamps false",
        "@missing false",
        f"@univariate {'true' if len(series[0]) == 1 else 'false'}",
        "@equalLength false",
        "@targetLabel true" if regression else f"@classLabel true {names}",
        "@data",
    ]
    for one, target in zip(series, targets, strict=True):
        parts = [",".join(f"{value:.6f}" for value in channel) for channel in one]
        lines.append(":".join([*parts, str(target)]))
    file.write_text("\n".join(lines) + "\n")
    return file
