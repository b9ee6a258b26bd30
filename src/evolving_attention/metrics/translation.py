"""BLEU and chrF of translations, and their differences, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from evolving_attention.errors import ConfigError, InputError, require

_WHY = "to score translations"


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
    _check("translation_scores", references, hypotheses=hypotheses)
    found = {}
    for name, metric in _metrics(lowercase).items():
        score = metric.corpus_score(list(hypotheses), [list(references)])
        signature = str(metric.get_signature())
        found[name] = TranslationScore(float(score.score), signature)
    return found


class PairedScore(NamedTuple):
    """Scores of two systems on one test set, and whether they differ.

    Attributes:
        score, baseline: scores from 0 to 100.
        p_value: in (0, 1]; small if chance hardly explains the difference.
        signature: sacrebleu's, with the number of resamples and their seed.
    """

    score: float
    baseline: float
    p_value: float
    signature: str


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = 1000,
    lowercase: bool = False,
) -> dict[str, PairedScore]:
    """Compares two systems by resampling the sentences of a test set:

        p = (1 + #{k: |dₖ| − mean |d| > |d₀|}) / (1 + samples)

    where d₀ is the difference of the scores, and dₖ that of sample k: as many sentences
    as the test set has, drawn with replacement, the same for both systems. For a
    clear difference p is about the share of samples in which the worse system is
    better, as in a one-sided test. If d₀ = 0, p is 1. sacrebleu draws the samples
    with the seed 12345, or that of the variable ``SACREBLEU_SEED``.

    Args:
        hypotheses, baseline: translations of the same sentences by both systems.
        references: one reference for each translation.
        samples: number of resamples.
        lowercase: compare lower-cased text.

    Returns:
        ``{"bleu": …, "chrf": …}``.

    Raises:
        ConfigError: ``samples`` is below 1.
        InputError: the numbers of texts differ, or there are none.
        MissingExtraError: sacrebleu is not installed.

    Example::

        paired_bootstrap(ours, theirs, references)["bleu"].p_value < 0.05

    Source: Koehn, Statistical Significance Tests for Machine Translation Evaluation
    (EMNLP 2004).
    """
    _check("paired_bootstrap", references, hypotheses=hypotheses, baseline=baseline)
    if samples < 1:
        raise ConfigError(
            f"paired_bootstrap: samples={samples}, expected 1 or more; 1000 is usual"
        )
    metrics = _metrics(lowercase)
    test = require("sacrebleu.significance", extra="seq2seq", why=_WHY).PairedTest
    systems = [("baseline", list(baseline)), ("system", list(hypotheses))]
    signatures, scores = test(systems, metrics, [list(references)], "bs", samples)()
    found = {}
    for name, (key, signature) in zip(metrics, signatures.items(), strict=True):
        before, after = scores[key]
        # sacrebleu counts gaps *above* d₀, none if all are 0: p would be the least.
        p = 1.0 if before.score == after.score else float(after.p_value)
        pair = float(after.score), float(before.score)
        found[name] = PairedScore(*pair, p, str(signature))
    return found


def _check(function: str, references: Sequence[str], **given: Sequence[str]) -> None:
    for name, texts in given.items():
        if len(texts) != len(references) or not len(references):
            raise InputError(
                f"{function}: {len(texts)} {name} and {len(references)} references, "
                "expected as many of both, and at least one; check the files"
            )


def _metrics(lowercase: bool) -> dict[str, Any]:
    """Returns sacrebleu's metrics by our names."""
    metrics = require("sacrebleu.metrics", extra="seq2seq", why=_WHY)
    return {
        "bleu": metrics.BLEU(lowercase=lowercase),
        "chrf": metrics.CHRF(lowercase=lowercase),
    }
