"""Decoding of JPEG files into batches, compared with and within a training step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness

STEPS = 4  # in each round
PREFETCH = 2  # batches ready ahead of the step


def write_pictures(folder: Path, count: int, side: int) -> list[Path]:
    """Writes ``count`` JPEG files of smooth random pictures with some noise."""
    from PIL import Image

    rng, paths = np.random.default_rng(0), []
    for i in range(count):
        small = rng.integers(0, 256, (max(side // 8, 2),) * 2 + (3,), np.uint8)
        smooth = Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC)
        noise = rng.normal(0.0, 6.0, (side, side, 3))
        pixels = np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8)
        paths.append(folder / f"{i}.jpg")
        Image.fromarray(pixels).save(paths[-1], quality=90)
    return paths


class Files:
    """Rows of picture files, and the batches read from them."""

    def __init__(self, paths: Sequence[Path], side: int, classes: int) -> None:
        from evolving_attention.data.image_transforms import (
            Compose,
            HorizontalFlip,
            Normalize,
            RandomResizedCrop,
        )

        self.rows = [
            {"path": path, "label": i % classes} for i, path in enumerate(paths)
        ]
        crop, flip = RandomResizedCrop([side, side]), HorizontalFlip()
        self.change = Compose([crop, flip, Normalize([127.5] * 3, [58.0] * 3)])
        self.rng = np.random.default_rng(0)

    def batch(self, rows: Sequence[Mapping[str, Any]], ids: Sequence[int]) -> Any:
        """Returns decoded and augmented pictures with their classes."""
        from evolving_attention.data.images import read_pictures
        from evolving_attention.data.packed import Batch

        found = read_pictures([row["path"] for row in rows]).pixels
        changed = np.stack([self.change(one, self.rng) for one in found])
        pixels = np.ascontiguousarray(changed.transpose(0, 3, 1, 2))
        return Batch(
            {
                "pixel_values": pixels,
                "labels": np.array([row["label"] for row in rows]),
            }
        )

    def batches(self, size: int) -> Iterator[Any]:
        """Iterates over the files once; batches are prepared in a separate thread."""
        from evolving_attention.data.loader import PackedLoader

        return iter(
            PackedLoader(
                self.rows,
                size,
                group_by_length=False,
                collate=self.batch,
                prefetch=PREFETCH,
            )
        )


def race_input(model: Any, side: int, batch: int, rounds: int) -> dict[str, Any]:
    """Times STEPS batches: input alone, steps on arrays, and steps on files.

    Steps on files start without a prepared batch: their time has its delay.
    """
    import evolving_attention as ea

    optimizer = ea.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    model.train()

    def train(batches: Sequence[Any] | Iterator[Any]) -> None:
        for one in batches:
            loss = model(one["pixel_values"], labels=one["labels"]).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
        paths = write_pictures(Path(folder), STEPS * batch, side)
        files = Files(paths, side, model.config.num_labels)
        ready = list(files.batches(batch))
        sides: dict[str, Callable[[], object]] = {
            "input": lambda: list(files.batches(batch)),
            "arrays": lambda: train(ready),
            "files": lambda: train(files.batches(batch)),
        }
        times = harness.interleave(sides, rounds, warmup=1)
    found: dict[str, Any] = {k: harness.summarize(s) for k, s in times.items()}
    median = {name: one["median_s"] for name, one in found.items()}
    found["images"] = STEPS * batch
    found["input_over_step"] = median["arrays"] / median["input"]
    found["files_over_arrays"] = median["files"] / median["arrays"]
    return found
