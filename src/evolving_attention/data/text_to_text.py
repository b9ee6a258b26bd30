"""GLUE as text to text: prompts and target words in T5's format.

Raffel et al., JMLR 2020, Section 2.4 and Appendix D: a row becomes a prompt that begins
with the task's name; its label becomes the class's name, and STS-B's score the nearest
multiple of 0.2 as text. The paper rewrites WNLI as a question about a pronoun; here it
has the form of the other pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.data.features import tokenize_dataset
from evolving_attention.data.glue_tasks import GlueTask
from evolving_attention.data.parallel import ParallelDataset, pack_sentences
from evolving_attention.data.table import TableDataset

_STEPS = 5  # steps per point of STS-B's score
_BEST = 5.0  # the score of equal sentences; the lowest is 0


def prompt(task: GlueTask, texts: Sequence[str]) -> str:
    """Returns a row as one text.

    Args:
        task: the row's task; ``ax`` gets MNLI's prompt, because it tests MNLI models.
        texts: the row's texts, in the order of ``task.text``.

    Example:
        >>> from evolving_attention.data.glue_tasks import get_task
        >>> prompt(get_task("mnli"), ["It rains.", "It is wet."])
        'mnli hypothesis: It is wet. premise: It rains.'
    """
    name = "mnli" if task.name == "ax" else task.name
    parts = sorted(zip(task.text, texts, strict=True))
    return " ".join([name, *(f"{key}: {text}" for key, text in parts)])


def target(task: GlueTask, label: float) -> str:
    """Returns the target text of a row: its class, or its score in steps of 0.2.

    Example:
        >>> from evolving_attention.data.glue_tasks import get_task
        >>> target(get_task("rte"), 1), target(get_task("stsb"), 3.25)
        ('not_entailment', '3.2')
    """
    if task.label_names is None:
        return f"{round(label * _STEPS) / _STEPS:.1f}"
    return task.label_names[int(label)]


def answers(task: GlueTask) -> list[str]:
    """Returns every text that :func:`target` can return."""
    if task.label_names is not None:
        return list(task.label_names)
    return [target(task, i / _STEPS) for i in range(round(_BEST * _STEPS) + 1)]


def answer_of(task: GlueTask, text: str) -> float | int | None:
    """Returns the class or score in a generated text; None if it contains none.

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
    """Returns the worst possible answer, used for a text without meaning."""
    if task.label_names is not None:
        return (int(label) + 1) % len(task.label_names)
    return 0.0 if label > _BEST / 2 else _BEST


class PromptDataset(ParallelDataset):
    """Rows of a task as pairs of texts, as a data set for the Trainer.

    Args:
        table: rows of the task.
        task: the task of the rows.
        tokenizer: one whose encoding ends with its end token.
        longest: maximum number of prompt tokens; longer prompts are truncated, and this
            is logged.

    Attributes:
        labels: classes or scores, [N]; None if unknown. The targets are then a
            placeholder.
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
        """Returns the prompts with these indices, packed."""
        return pack_sentences([self.prompts[i] for i in indices])
