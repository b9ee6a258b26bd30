"""Precision, recall and F1 of entities in labelled tokens, computed by seqeval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.collate import IGNORED, unpadded
from evolving_attention.data.packed import PackedDataset
from evolving_attention.data.parallel_files import as_texts
from evolving_attention.errors import InputError, ShapeError, require

Values = dict[str, float]


def entity_scores(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> Values:
    """Scores whole entities: an entity is right if its type and all its tokens are.

    Args:
        predictions: the tags of each sentence: ``"O"``, ``"B-PER"``, ``"I-PER"``, …
        references: the true tags.

    Returns:
        ``precision``, ``recall``, ``f1`` (micro-averages over all entities) and
        ``accuracy`` (of tokens), from 0 to 1, as Hugging Face's run_ner reports them.

    Raises:
        InputError: the tags are no lists of texts, the numbers of sentences or tokens
            differ, or there is no token.
        MissingExtraError: seqeval is not installed.

    Example::

        entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]])["f1"]
    """
    predictions = _sentences("predictions", predictions)
    references = _sentences("references", references)
    pairs = list(zip(predictions, references, strict=False))
    wrong = next((i for i, (p, r) in enumerate(pairs) if len(p) != len(r)), None)
    if len(predictions) != len(references) or not pairs or wrong is not None:
        where = "" if wrong is None else f", sentence {wrong} has other tokens"
        raise InputError(
            f"entity_scores: {len(predictions)} predictions and {len(references)} "
            f"references{where}; expected as many tags of each sentence, and at least "
            "one sentence"
        )
    if not any(len(tags) for tags in references):
        raise InputError(
            f"entity_scores: none of {len(references)} sentences has a token with a "
            "tag, expected at least one (the label -100 is no tag); score labelled "
            "sentences, or leave compute_metrics out"
        )
    seqeval = require("seqeval.metrics", extra="ner", why="to score entities")
    both = [references, predictions]
    found = {"precision": seqeval.precision_score, "recall": seqeval.recall_score}
    found |= {"f1": seqeval.f1_score}
    values = {name: float(f(*both, zero_division=0)) for name, f in found.items()}
    return {**values, "accuracy": float(seqeval.accuracy_score(*both))}


def _sentences(name: str, given: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the tags of each sentence as lists."""
    where = f"entity_scores: {name}"
    return [as_texts(tags, f"{where}[{i}]") for i, tags in enumerate(given)]


def entity_metrics(label_names: Sequence[str], rows: Any) -> Callable[[Any], Values]:
    """Returns a ``compute_metrics`` for a Trainer of token classification.

    Tokens with the label -100 are ignored: special tokens, and all but the first token
    of a word.

    Args:
        label_names: tag of each class, such as ``("O", "B-PER", "I-PER")``.
        rows: the evaluation data set; its rows define where sentences end, unless
            predictions are padded to one length, as a ``data_collator`` makes them.

    Example::

        trainer = ea.Trainer(model, args, eval_dataset=dev,
            compute_metrics=ea.metrics.entity_metrics(names, dev))
    """
    names = list(label_names)
    if isinstance(rows, PackedDataset):
        lengths = np.asarray(rows.lengths)
    else:
        lengths = np.array([len(unpadded(row)["input_ids"]) for row in rows], np.int64)
    ends = np.cumsum(lengths)[:-1]

    def compute(prediction: Any) -> Values:
        logits, labels = (np.asarray(part) for part in prediction)
        padded = labels.ndim == 2 and len(labels) == len(lengths)
        if logits.shape != (*labels.shape, len(names)) or not (
            padded or labels.shape == (lengths.sum(),)
        ):
            raise ShapeError(
                f"entity_metrics: predictions {logits.shape} and labels "
                f"{labels.shape}, expected ({lengths.sum()}, {len(names)}) and "
                f"({lengths.sum()},), the tokens of rows and the classes of "
                "label_names; pass the data set that is evaluated"
            )
        parts: Any = (logits, labels)
        if not padded:
            parts = (np.split(logits, ends), np.split(labels, ends))
        found, true = [], []
        for scores, right in zip(*parts, strict=True):
            kept = right != IGNORED
            found.append([names[i] for i in scores[kept].argmax(axis=-1)])
            true.append([names[i] for i in right[kept]])
        return entity_scores(found, true)

    return compute
