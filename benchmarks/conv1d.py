"""Causal dilated convolution along sequences: ours against torch's conv1d.

The shapes are those of EA-DC-Transformer: 48 to 128 channels, kernel 3, batch 64. Ours
takes packed rows; torch takes a batch padded to the longest sequence, with zeros on the
left only, so that it computes no more steps than ours does.
Times forward without a graph and backward alone, interleaved. Outputs and gradients are
compared before the timing.

    python -m benchmarks.conv1d [--dtype bfloat16] [--rounds 15]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks import options as spelled

KERNEL = 3
# Largest difference allowed, relative to the largest value.
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Shape:
    """One convolution; ``lengths`` are the shortest and the longest sequence."""

    channels: int
    out: int
    dilation: int
    lengths: tuple[int, int]
    batch: int = 64

    def __str__(self) -> str:
        low, high = self.lengths
        length = f"{low}" if low == high else f"{low}..{high}"
        return (
            f"{self.channels}->{self.out} dilation {self.dilation}, {self.batch} "
            f"sequences of {length}"
        )

    def drawn(self) -> np.ndarray:
        """Returns the lengths of all sequences, the longest first."""
        low, high = self.lengths
        found = np.random.default_rng(0).integers(low, high + 1, self.batch)
        found[0] = high
        return found


SHAPES = (
    Shape(128, 96, 1, (29, 29)),
    Shape(128, 96, 8, (29, 29)),
    Shape(128, 96, 4, (7, 29)),  # JapaneseVowels
    Shape(64, 48, 2, (7, 29)),
    Shape(128, 128, 2, (7, 7)),
    Shape(128, 96, 4, (144, 144)),
    Shape(64, 48, 4, (500, 500)),
    Shape(128, 96, 8, (2000, 2000), batch=16),
)
TINY = (Shape(3, 5, 2, (4, 6), batch=3),)


def draw(shape: Shape) -> dict[str, np.ndarray]:
    """Returns packed rows, weight, bias and the output gradient."""
    rng, tokens = np.random.default_rng(1), int(shape.drawn().sum())
    size = (shape.out, shape.channels, KERNEL)
    arrays = {
        "x": rng.standard_normal((tokens, shape.channels)),
        "weight": rng.standard_normal(size) / np.sqrt(shape.channels * KERNEL),
        "bias": rng.standard_normal(shape.out),
        "dy": rng.standard_normal((tokens, shape.out)),
    }
    return {name: a.astype(np.float32) for name, a in arrays.items()}


Side = tuple[Callable[[], Any], Callable[[], float], Callable[[], list[np.ndarray]]]


def our_side(shape: Shape, arrays: dict[str, np.ndarray], dtype: str) -> Side:
    """Returns forward, timed backward, and a function giving results as packed rows."""
    import evolving_attention as ea

    offsets = np.cumsum([0, *shape.drawn()])
    packing = ea.functional.Packing(1, offsets)
    leaves = [
        ea.Tensor(arrays[n], dtype=dtype, requires_grad=True)
        for n in ("x", "weight", "bias")
    ]
    dy = ea.Tensor(arrays["dy"], dtype=dtype)

    def convolve() -> Any:
        return ea.functional.conv1d(
            *leaves, packing, dilation=shape.dilation, causal=True
        )

    def forward() -> Any:
        with ea.no_grad():
            return convolve()

    def backward() -> float:
        y = convolve()
        for leaf in leaves:
            leaf.grad = None
        begin = time.perf_counter()
        y.backward(dy)
        return time.perf_counter() - begin

    def results() -> list[np.ndarray]:
        backward()
        return [
            np.asarray(t, np.float64) for t in (forward(), *(x.grad for x in leaves))
        ]

    return forward, backward, results


def torch_side(shape: Shape, arrays: dict[str, np.ndarray], dtype: str) -> Side:
    """Returns torch's side, which computes on a padded batch; see our_side()."""
    import torch

    lengths = shape.drawn()
    mask = np.arange(lengths.max()) < lengths[:, None]

    def padded(rows: np.ndarray) -> Any:
        dense = np.zeros((*mask.shape, rows.shape[1]), np.float32)
        dense[mask] = rows
        return torch.from_numpy(dense).transpose(1, 2).contiguous().to(kind)

    kind = getattr(torch, dtype)
    x, dy = padded(arrays["x"]), padded(arrays["dy"])
    leaves = [x, *(torch.from_numpy(arrays[n]).to(kind) for n in ("weight", "bias"))]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    before = (KERNEL - 1) * shape.dilation

    def convolve() -> Any:
        x = torch.nn.functional.pad(leaves[0], (before, 0))
        return torch.nn.functional.conv1d(x, *leaves[1:], dilation=shape.dilation)

    def forward() -> Any:
        with torch.no_grad():
            return convolve()

    def backward() -> float:
        y = convolve()
        for leaf in leaves:
            leaf.grad = None
        begin = time.perf_counter()
        y.backward(dy)
        return time.perf_counter() - begin

    def packed(batch: Any) -> np.ndarray:
        return batch.detach().double().transpose(1, 2).numpy()[mask]

    def results() -> list[np.ndarray]:
        backward()
        weights = [leaf.grad.double().numpy() for leaf in leaves[1:]]
        return [packed(forward()), packed(leaves[0].grad), *weights]

    return forward, backward, results


def measure(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """Times both sides on one shape, after comparing their results."""
    arrays = draw(shape)
    ours = our_side(shape, arrays, options.dtype)
    theirs = torch_side(shape, arrays, options.dtype)
    for mine, other in zip(ours[2](), theirs[2](), strict=True):
        error = np.abs(mine - other).max() / np.abs(other).max()
        if error > TOLERANCE[options.dtype]:
            raise SystemExit(f"{shape}: the sides differ by {error:.1e}")
    found: dict[str, Any] = {"tokens": int(shape.drawn().sum())}
    for part, number in (("forward", 0), ("backward", 1)):
        both = {"ours": ours[number], "torch": theirs[number]}
        times = harness.interleave(both, options.rounds, warmup=2)
        found[part] = {side: harness.summarize(s) for side, s in times.items()}
    return found


def show(shape: Shape, found: dict[str, Any]) -> None:
    """Prints the results of one shape."""
    work = 2 * found["tokens"] * shape.channels * shape.out * KERNEL
    parts = []
    for part, times in (("forward", 1), ("backward", 2)):
        ours, theirs = (found[part][s]["median_s"] for s in ("ours", "torch"))
        least = [found[part][s]["min_s"] for s in ("ours", "torch")]
        rate = times * work / ours / 1e9
        parts.append(
            f"{part} {ours * 1e3:.2f} ms (min {least[0] * 1e3:.2f}), torch "
            f"{theirs * 1e3:.2f} ms (min {least[1] * 1e3:.2f}), "
            f"{theirs / ours:.2f} x ({rate:.0f} GFLOP/s)"
        )
    print(f"{shape!s:52s} {'; '.join(parts)}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "dtype", "threads", "dry", rounds=15)
    parser.add_argument("--tiny", action="store_true", help="one small shape")
    options = parser.parse_args(arguments)
    machine = harness.measured_machine(options.threads, options.dtype)
    print(harness.machine_line(machine))
    results = {}
    for shape in TINY if options.tiny else SHAPES:
        results[str(shape)] = measure(shape, options)
        show(shape, results[str(shape)])
    if not options.dry:
        settings = spelled.settings(options, "tiny")
        name = f"conv1d-{options.dtype}"
        print(harness.write(name, machine, results, settings=settings))


if __name__ == "__main__":
    main()
