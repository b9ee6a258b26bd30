"""BLEU and chrF of translations, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evolving_attention.errors import InputError, require

__all__ = ["TranslationScore", "translation_scores"]


class TranslationScore(NamedTuple):
    """A score from 0 to 100, and sacrebleu's signature of its settings."""

    score: float
    signature: str


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> dict[str, TranslationScore]:
    """Returns BLEU (Papineni et al., 2002) and chrF (Popović, 2015) of a test set.

    Args:
        hypotheses: translations as plain text, not split into tokens.
        references: one reference for each translation.
        lowercase: compare lower-cased text.

    Returns:
        ``{"bleu": …, "chrf": …}``, each with its signature.

    Raises:
        InputError: the numbers of texts differ, or there are none.
        MissingExtraError: sacrebleu is not installed.
    """
    if len(hypotheses) != len(references) or not len(references):
        raise InputError(
            f"translation_scores: {len(hypotheses)} hypotheses and {len(references)} "
            "references, expected as many of both, and at least one; check the files"
        )
    why = "to score translations"
    metrics = require("sacrebleu.metrics", extra="seq2seq", why=why)
    found = {}
    for name, metric in (
        ("bleu", metrics.BLEU(lowercase=lowercase)),
        ("chrf", metrics.CHRF(lowercase=lowercase)),
    ):
        score = metric.corpus_score(list(hypotheses), [list(references)])
        signature = str(metric.get_signature())
        found[name] = TranslationScore(float(score.score), signature)
    return found
