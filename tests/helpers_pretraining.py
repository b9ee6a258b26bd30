"""A generated corpus, a tokenizer with its words, and commands that train on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention.text import train_wordpiece

NAMES = ["the cat", "a dog", "my house", "one tree", "the old car", "this sparrow"]
VERBS = ["sees", "follows", "remembers", "surrounds", "forgets"]
PLACES = ["in the garden", "at night", "behind the mountains", "without a reason"]
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}


def documents(count: int, sentences: int = 6, seed: int = 0) -> list[list[str]]:
    """Returns documents of up to ``sentences`` sentences; each mentions one place."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        place = str(random.choice(PLACES))
        lines = []
        for _ in range(int(random.integers(2, sentences + 1))):
            one, verb, two = (str(random.choice(w)) for w in (NAMES, VERBS, NAMES))
            lines.append(f"{one} {verb} {two} {place}.".capitalize())
        found.append(lines)
    return found


def write(path: Path, texts: list[list[str]]) -> Path:
    """Writes the documents as a text file."""
    path.write_text("\n\n".join("\n".join(lines) for lines in texts) + "\n")
    return path


def tokenizer(texts: list[list[str]], size: int = 120) -> Any:
    """Returns a WordPiece tokenizer of these documents."""
    return train_wordpiece((line for lines in texts for line in lines), size)


def dataset(
    folder: Path, count: int = 12, texts: list[list[str]] | None = None, **options: Any
) -> Any:
    """Returns the rows of a corpus of ``count`` documents, and its tokenizer."""
    texts = texts or documents(count)
    words = tokenizer(texts)
    rows = ea.pretraining.PretrainingDataset.from_files(
        write(folder / "corpus.txt", texts),
        words,
        **{"max_seq_length": 24, "cache_dir": folder / "cache", **options},
    )
    return rows, words
