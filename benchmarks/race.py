"""Builds the contenders of inference, compares their outputs, times them in turn."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.models import Shape, our_model, weights
from benchmarks.worker import Batch, Worker, environment

SIDES = (
    "ours",
    "torch eager",
    "torch.compile",
    "onnxruntime",
    "openvino",
    "ctranslate2",
)
# Largest difference of a logit from PyTorch's float32 logit, over the largest logit.
TOLERANCE = {"float32": 1e-3, "bfloat16": 1e-1}


def request(shape: Shape, dtype: str, threads: int, padded: bool, folder: Path) -> dict:
    """Returns every side's request; writes the common weights into the folder."""
    import evolving_attention as ea

    ea.manual_seed(0)
    path = folder / "weights.npz"
    np.savez(path, **weights(our_model(shape, "float32")))  # type: ignore[arg-type]
    return {
        "shape": asdict(shape),
        "dtype": dtype,
        "threads": threads,
        "padded": padded,
        "weights": str(path),
        "onnx": str(folder / "model.onnx"),
    }


def export(wanted: dict[str, Any], example: Sequence[int]) -> str | None:
    """Exports the peer's model to ONNX in a separate process; None or the error."""
    text = json.dumps(wanted | {"example": list(example)})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.worker"],
        env=environment(wanted["threads"], {"EA_BENCH_EXPORT": text}),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (lines[-1] if lines else "it failed")


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference over the largest expected value; NaN: infinite."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def race(
    shape: Shape,
    dtype: str,
    batches: Mapping[str, Sequence[Batch]],
    *,
    threads: int,
    rounds: int,
    sides: Sequence[str] = SIDES,
    padded: bool = False,
    keep: Callable[[str, dict[str, Any]], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns results by set of batches and side: :func:`race_kinds` of one kind."""

    def kept(kind: str, name: str, result: dict[str, Any]) -> None:
        if keep is not None:
            keep(name, result)

    return race_kinds(
        {"": shape},
        dtype,
        batches,
        threads=threads,
        rounds=rounds,
        sides=sides,
        padded=padded,
        keep=kept,
    )[""]


def race_kinds(
    shapes: Mapping[str, Shape],
    dtype: str,
    batches: Mapping[str, Sequence[Batch]],
    *,
    threads: int,
    rounds: int,
    sides: Sequence[str] = SIDES,
    padded: bool = False,
    keep: Callable[[str, str, dict[str, Any]], None] | None = None,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns results by kind, set of batches and side; all kinds and sides take turns.

    For a side that cannot take part the result is the reason.

    Args:
        shapes: the models, by attention kind.
        batches: named lists of batches, the same for every side; with several lengths
            in one batch (``padded``) ours packs and the others pad.
        sides: names of ``engines.ENGINES``.
        keep: called with the kind, the name and the sides of each set as soon as it is
            timed.
    """
    results: dict[str, dict[str, dict[str, Any]]] = {
        kind: {name: {} for name in batches} for kind in shapes
    }
    with contextlib.ExitStack() as stack:
        workers: dict[tuple[str, str], Worker] = {}
        for kind, shape in shapes.items():
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ea-bench-")
            )
            wanted = request(shape, dtype, threads, padded, Path(folder))
            found = _workers(stack, wanted, batches, sides, results[kind])
            workers |= {(kind, side): worker for side, worker in found.items()}
        for name in batches:
            runs = {
                key: (lambda worker=worker, name=name: worker.run(name))
                for key, worker in workers.items()
            }
            times = harness.interleave(runs, rounds, warmup=1)
            for (kind, side), seconds in times.items():
                results[kind][name][side] |= harness.summarize(seconds)
            for kind in shapes:
                if keep is not None:
                    keep(kind, name, results[kind][name])
    return results


def _workers(
    stack: contextlib.ExitStack,
    wanted: dict[str, Any],
    batches: Mapping[str, Sequence[Batch]],
    sides: Sequence[str],
    results: dict[str, dict[str, Any]],
) -> dict[str, Worker]:
    """Returns the sides with correct outputs; the others' reasons go into ``results``.

    The stack closes the workers.
    """
    first = next(iter(batches.values()))[0][0]
    if {"onnxruntime", "openvino"} & set(sides):
        failed = export(wanted, first.shape)
        if failed:
            print(f"no ONNX export: {failed}")
    expected = reference(wanted, batches)
    workers: dict[str, Worker] = {}
    for side in sides:
        try:
            worker = Worker(side, wanted)
            stack.callback(worker.close)
            for name, some in batches.items():
                worker.load(name, some)
                error = difference(worker.outputs(name), expected[name])
                if error > TOLERANCE[wanted["dtype"]]:
                    raise RuntimeError(f"its logits differ by {error:.1e}")
                results[name][side] = {"difference": error, **worker.built}
            workers[side] = worker
        except RuntimeError as error:
            for result in results.values():
                result[side] = {"skipped": str(error)}
            print(f"  {side:14s} not measured: {error}", flush=True)
    return workers


def reference(
    wanted: dict[str, Any], batches: Mapping[str, Sequence[Batch]]
) -> dict[str, np.ndarray]:
    """Returns float32 logits: PyTorch's, or ours where PyTorch is not installed."""
    for side in ("torch eager", "ours"):
        try:
            with Worker(side, wanted | {"dtype": "float32"}) as worker:
                for name, some in batches.items():
                    worker.load(name, some)
                return {name: worker.outputs(name) for name in batches}
        except RuntimeError as error:
            print(f"  no reference from {side}: {error}")
    raise SystemExit("neither PyTorch nor this package can give reference outputs")


def ratios(results: Mapping[str, Any]) -> dict[str, float]:
    """Returns the time of each other side over ours, by side."""
    ours = results.get("ours", {}).get("median_s")
    return {
        side: one["median_s"] / ours
        for side, one in results.items()
        if ours and side != "ours" and "median_s" in one
    }
