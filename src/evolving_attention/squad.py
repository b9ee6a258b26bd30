"""Public interface of question answering: questions, windows, answers and scores."""

from evolving_attention.data.answers import (
    Answers,
    Span,
    best_answers,
    write_answers,
)
from evolving_attention.data.squad import (
    Answer,
    Question,
    Questions,
    from_rows,
    load,
    load_hub,
)
from evolving_attention.data.windows import WindowDataset
from evolving_attention.metrics.squad import (
    answer_f1,
    best_thresholds,
    exact_match,
    normalize_answer,
    squad_scores,
    squad_v2_scores,
)

__all__ = [
    "Answer",
    "Answers",
    "Question",
    "Questions",
    "Span",
    "WindowDataset",
    "answer_f1",
    "best_answers",
    "best_thresholds",
    "exact_match",
    "from_rows",
    "load",
    "load_hub",
    "normalize_answer",
    "squad_scores",
    "squad_v2_scores",
    "write_answers",
]
