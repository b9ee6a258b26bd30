"""GLUE as text to text: prompts and target words as T5 has them.

Raffel et al., JMLR 2020, Section 2.4 and Appendix D: a row becomes a prompt that
begins with the task's name, its label the class's name, and STS-B's score the nearest
multiple of 0.2 as text. WNLI, which the paper rewrites as a question about a pronoun,
has the form of the other pairs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.data.features import tokenize_dataset
from evolving_attention.data.glue_tasks import GlueTask
from evolving_attention.data.parallel import ParallelDataset, pack_sentences
from evolving_attention.data.table import TableDataset

__all__ = ["PromptDataset", "answer_of", "answers", "prompt", "target", "wrong"]

_STEPS = 5  # of a point of STS-B's score
_BEST = 5.0  # the score of equal sentences; the lowest is 0


def prompt(task: GlueTask, texts: Sequence[str]) -> str:
    """A row as one text.

    Args:
        task: of the row; ``ax`` is asked as MNLI, which it is a test of.
        texts: its texts, in the order of ``task.text``.

    Example:
        >>> from evolving_attention.data.glue_tasks import get_task
        >>> prompt(get_task("mnli"), ["It rains.", "It is wet."])
        'mnli hypothesis: It is wet. premise: It rains.'
    """
    name = "mnli" if task.name == "ax" else task.name
    parts = sorted(zip(task.text, texts, strict=True))
    return " ".join([name, *(f"{key}: {text}" for key, text in parts)])


def target(task: GlueTask, label: float) -> str:
    """The text that answers a row: its class, or its score in steps of 0.2.

    Example:
        >>> from evolving_attention.data.glue_tasks import get_task
        >>> target(get_task("rte"), 1), target(get_task("stsb"), 3.25)
        ('not_entailment', '3.2')
    """
    if task.label_names is None:
        return f"{round(label * _STEPS) / _STEPS:.1f}"
    return task.label_names[int(label)]


def answers(task: GlueTask) -> list[str]:
    """Every text that :func:`target` can give."""
    if task.label_names is not None:
        return list(task.label_names)
    return [target(task, i / _STEPS) for i in range(round(_BEST * _STEPS) + 1)]


def answer_of(task: GlueTask, text: str) -> float | int | None:
    """The class or score that a generated text says; None if it says none.

    Example:
        >>> from evolving_attention.data.glue_tasks import get_task
        >>> task = get_task("stsb")
        >>> answer_of(task, "3.2"), answer_of(task, "32"), answer_of(task, "good")
        (3.2, None, None)
    """
    text = text.strip()
    if task.label_names is not None:
        names = task.label_names
        return names.index(text) if text in names else None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _BEST else None


def wrong(task: GlueTask, label: float) -> float:
    """An answer as wrong as one can be: what a text without meaning counts as."""
    if task.label_names is not None:
        return (int(label) + 1) % len(task.label_names)
    return 0.0 if label > _BEST / 2 else _BEST


class PromptDataset(ParallelDataset):
    """Rows of a task as pairs of texts, in the form that the Trainer takes.

    Args:
        table: rows of the task.
        task: what they are.
        tokenizer: one whose encoding ends with its end token.
        longest: most tokens of a prompt; longer ones are truncated, which is logged.

    Attributes:
        labels: classes or scores, [N]; None if they are not known. The targets are then
            a placeholder.
    """

    def __init__(
        self, table: TableDataset, task: GlueTask, tokenizer: Any, longest: int
    ) -> None:
        texts = zip(*(table.column(name) for name in task.text), strict=True)
        columns = {"text": [prompt(task, row) for row in texts]}
        prompts = TableDataset(columns, text_columns=["text"], report=table.report)
        found = tokenize_dataset(prompts, tokenizer, max_length=longest)
        self.prompts = np.split(found.input_ids, found.offsets[1:-1])
        self.labels = np.asarray(table.column("label")) if table.has_labels else None
        words = [""] * len(table)
        if self.labels is not None:
            words = [target(task, label) for label in self.labels.tolist()]
        known = {word: tokenizer(word).input_ids for word in {*words}}
        super().__init__(self.prompts, [known[word] for word in words])

    def sources(self, indices: Sequence[int]) -> dict[str, Any]:
        """The prompts with these indices, packed."""
        return pack_sentences([self.prompts[i] for i in indices])
