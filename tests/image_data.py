"""Pictures for tests: classes that are easy to tell apart, and files of every kind."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

TINY: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "n_epochs": 3,
    "batch_size": 16,
    "random_state": 0,
}


def stripes(count: int = 24, side: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Grey uint8 [count, side, side]: upright stripes ("a") and level ones ("b")."""
    rng = np.random.default_rng(seed)
    wave = 255 * (np.arange(side) // 2 % 2)
    pictures = rng.integers(0, 60, (count, side, side))
    labels = np.array(["a", "b"])[np.arange(count) % 2]
    for picture, label in zip(pictures, labels, strict=True):
        picture += (wave[None, :] if label == "a" else wave[:, None]) * 3 // 4
    return pictures.astype(np.uint8), labels


def folder_of(root: Path, count: int = 12, side: int = 8) -> Path:
    """A folder with a folder of PNG files for each class of :func:`stripes`."""
    from PIL import Image

    pictures, labels = stripes(count, side)
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        (root / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(root / label / f"{i:02}.png")
    return root


def png(mode: str = "RGB", size: tuple[int, int] = (8, 8), **options: Any) -> bytes:
    """A PNG of one colour."""
    from PIL import Image

    file = io.BytesIO()
    Image.new(mode, size, options.pop("color", 0)).save(file, "PNG", **options)
    return file.getvalue()


def bomb() -> bytes:
    """A PNG whose header says 30,000 x 30,000 pixels, in a hundred bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    size = (30_000).to_bytes(4, "big")
    header = chunk(b"IHDR", size + size + bytes([8, 2, 0, 0, 0]))
    body = chunk(b"IDAT", zlib.compress(bytes(64)))
    return b"\x89PNG\r\n\x1a\n" + header + body + chunk(b"IEND", b"")
