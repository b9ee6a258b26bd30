"""An acceptability data set from our own grammar: thousands of minimal pairs.

Similar to CoLA (Warstadt et al., 2019) and BLiMP (Warstadt et al., 2020), but with our
own constructions, words and sentences: agreement with attractors, reflexives, islands,
argument structure, determiners, negative polarity. Train and dev share no content word.
The same seed gives the same rows on every Python version.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolving_attention.data.table import TableDataset
from evolving_attention.demo.grammar import CONSTRUCTIONS, Words
from evolving_attention.errors import ConfigError

__all__ = ["AcceptabilityDataset", "describe", "generate", "load", "parts"]

LABEL_NAMES = ("unacceptable", "acceptable")
COLUMNS = ("sentence", "label", "phenomenon", "construction", "pair")
_ATTEMPTS = 400  # draws for one new pair before the grammar counts as used up


class AcceptabilityDataset(TableDataset):
    """Rows ``{sentence, label, phenomenon, construction, pair}``; label 1 is good.

    ``pair`` numbers the minimal pairs: its two rows differ in acceptability only.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], split: str) -> None:
        super().__init__(columns, text_columns=("sentence",), label_names=LABEL_NAMES)
        self.task, self.split = "acceptability", split

    def _like(self, columns: Mapping[str, Sequence[Any]]) -> AcceptabilityDataset:
        return AcceptabilityDataset(columns, self.split)

    def describe(self) -> list[dict[str, Any]]:
        """Pairs per construction and one example: see :func:`describe`."""
        return describe(self)


_QUESTION_WORDS = frozenset(("what", "who", "whose", "which", "how", "did"))


def _finish(sentence: str) -> str:
    """ "an" before a vowel, a capital letter, and a full stop or question mark."""
    sentence = re.sub(r"\ba (?=[aeiou])", "an ", sentence)
    stop = "?" if sentence.split(maxsplit=1)[0] in _QUESTION_WORDS else "."
    return sentence[0].upper() + sentence[1:] + stop


def generate(split: str, pairs: int, seed: int = 0) -> AcceptabilityDataset:
    """Make minimal pairs of one half of the lexicon, evenly over the constructions.

    Args:
        split: ``"train"`` or ``"dev"``: which half of the lexicon.
        pairs: number of minimal pairs; the data set has twice as many rows.
        seed: same seed, same rows; the seeds of the halves are independent.

    Returns:
        The data set; consecutive rows are not the two halves of one pair: rows are
        shuffled. No sentence occurs twice.

    Raises:
        ConfigError: the split is unknown, or the grammar has fewer pairs.
    """
    if split not in ("train", "dev"):
        raise ConfigError(
            f"[acceptability] split is {split!r}, expected 'train' or 'dev'"
        )
    if pairs < 0:
        raise ConfigError(f"[acceptability] pairs is {pairs}, expected 0 or more")
    words = Words(split, 2 * seed + (split == "dev"))
    seen: set[str] = set()
    rows: list[dict[str, Any]] = []
    for pair in range(pairs):
        kind = CONSTRUCTIONS[pair % len(CONSTRUCTIONS)]
        for _ in range(_ATTEMPTS):
            good, bad = (_finish(text) for text in kind.make(words.start()))
            if good != bad and good not in seen and bad not in seen:
                break
        else:
            raise ConfigError(
                f"[acceptability] no new pair of {kind.name!r} after {_ATTEMPTS} "
                f"draws at pair {pair} of {pairs}: ask for fewer pairs"
            )
        seen.update((good, bad))
        for label, sentence in ((1, good), (0, bad)):
            rows.append(
                {
                    "sentence": sentence,
                    "label": label,
                    "phenomenon": kind.phenomenon,
                    "construction": kind.name,
                    "pair": pair,
                }
            )
    for i in range(len(rows) - 1, 0, -1):  # Fisher-Yates, with the promised generator
        j = words.below(i + 1)
        rows[i], rows[j] = rows[j], rows[i]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    return AcceptabilityDataset(columns, split)


def load(
    train_pairs: int = 4000, dev_pairs: int = 600, seed: int = 0
) -> tuple[AcceptabilityDataset, AcceptabilityDataset]:
    """The train and the dev half, which share no content word."""
    return generate("train", train_pairs, seed), generate("dev", dev_pairs, seed)


def parts(
    pairs: int = 4000, seed: int = 0
) -> tuple[AcceptabilityDataset, AcceptabilityDataset, AcceptabilityDataset]:
    """Training, tuning and test part (80, 10 and 10 %) of one half of the lexicon.

    For models that learn their words from the training part: the parts share words,
    constructions and no pair.

    Args:
        pairs: number of minimal pairs, at least 10; there are twice as many rows.
        seed: same seed, same rows.

    Raises:
        ConfigError: there are too few pairs, or the grammar has fewer.
    """
    if pairs < 10:
        raise ConfigError(
            f"[acceptability] pairs is {pairs}, expected 10 or more to make three parts"
        )
    rows = generate("train", pairs, seed)
    numbers = rows.column("pair")
    first, second = pairs * 8 // 10, pairs * 9 // 10
    ends = ((0, first), (first, second), (second, pairs))
    found = [
        rows.select([i for i, pair in enumerate(numbers) if low <= pair < high])
        for low, high in ends
    ]
    train, tuning, test = (
        AcceptabilityDataset({n: part.column(n) for n in COLUMNS}, name)
        for part, name in zip(found, ("train", "tuning", "test"), strict=True)
    )
    return train, tuning, test


def describe(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table of the data: per construction its phenomenon, pairs and one example.

    Returns:
        One dict per construction: ``phenomenon``, ``construction``, ``pairs``,
        ``acceptable`` and ``unacceptable`` (the first pair found).
    """
    count: Counter[str] = Counter()
    table: dict[str, dict[str, Any]] = {}
    first: dict[str, int] = {}
    for row in rows:
        name = row["construction"]
        entry = table.setdefault(
            name, {"phenomenon": row["phenomenon"], "construction": name, "pairs": 0}
        )
        count[name] += 1
        entry["pairs"] = count[name] // 2
        if first.setdefault(name, row["pair"]) == row["pair"]:
            entry[LABEL_NAMES[row["label"]]] = row["sentence"]
    order = [kind.name for kind in CONSTRUCTIONS]
    return [table[name] for name in order if name in table]
