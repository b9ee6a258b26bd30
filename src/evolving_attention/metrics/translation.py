"""BLEU and chrF of translations, and their differences, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from evolving_attention.data.parallel_files import as_texts
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
        InputError: an argument is no list of texts, the numbers of texts differ, or
            there are none.
        MissingExtraError: sacrebleu is not installed.
    """
    right, texts = _lists(
        "translation_scores", references=references, hypotheses=hypotheses
    )
    found = {}
    for name, metric in _metrics(lowercase).items():
        score = metric.corpus_score(texts, [right])
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
        InputError: an argument is no list of texts, the numbers of texts differ, or
            there are none.
        MissingExtraError: sacrebleu is not installed.

    Example::

        paired_bootstrap(ours, theirs, references)["bleu"].p_value < 0.05

    Source: Koehn, Statistical Significance Tests for Machine Translation Evaluation
    (EMNLP 2004).
    """
    right, texts, before = _lists(
        "paired_bootstrap",
        references=references,
        hypotheses=hypotheses,
        baseline=baseline,
    )
    if samples < 1:
        raise ConfigError(
            f"paired_bootstrap: samples={samples}, expected 1 or more; 1000 is usual"
        )
    metrics = _metrics(lowercase)
    test = require("sacrebleu.significance", extra="seq2seq", why=_WHY).PairedTest
    systems = [("baseline", before), ("system", texts)]
    signatures, scores = test(systems, metrics, [right], "bs", samples)()
    found = {}
    for name, (key, signature) in zip(metrics, signatures.items(), strict=True):
        old, new = scores[key]
        # sacrebleu counts gaps *above* d₀, none if all are 0: p would be the least.
        p = 1.0 if old.score == new.score else float(new.p_value)
        pair = float(new.score), float(old.score)
        found[name] = PairedScore(*pair, p, str(signature))
    return found


def _lists(function: str, **given: Sequence[str]) -> list[list[str]]:
    """Returns the references and the other texts as lists of one length."""
    found = {name: as_texts(one, f"{function}: {name}") for name, one in given.items()}
    right = len(found["references"])
    for name, texts in found.items():
        if len(texts) != right or not right:
            raise InputError(
                f"{function}: {len(texts)} {name} and {right} references, "
                "expected as many of both, and at least one; check the files"
            )
    return list(found.values())


def _metrics(lowercase: bool) -> dict[str, Any]:
    """Returns sacrebleu's metrics by our names."""
    metrics = require("sacrebleu.metrics", extra="seq2seq", why=_WHY)
    return {
        "bleu": metrics.BLEU(lowercase=lowercase),
        "chrf": metrics.CHRF(lowercase=lowercase),
    }
