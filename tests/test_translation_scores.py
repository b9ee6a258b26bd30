"""BLEU and chrF, with their signatures."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.metrics.translation import paired_bootstrap, translation_scores

RIGHT = ["A man rides a bicycle down the street.", "Two dogs are playing."]
FOUND = ["A man rides a bike down the street.", "two dogs play."]


def test_scores_are_those_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    for lowercase in (False, True):
        found = translation_scores(FOUND, RIGHT, lowercase=lowercase)
        bleu = sacrebleu.corpus_bleu(FOUND, [RIGHT], lowercase=lowercase)
        assert found["bleu"].score == bleu.score
        case = "lc" if lowercase else "mixed"
        assert f"case:{case}" in found["bleu"].signature
    chrf = sacrebleu.corpus_chrf(FOUND, [RIGHT]).score
    assert translation_scores(FOUND, RIGHT)["chrf"].score == chrf


def test_the_paired_bootstrap_is_its_formula(monkeypatch: pytest.MonkeyPatch):
    sacrebleu = pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    right = [f"The {w} dog runs over hill {i} today." for i, w in enumerate("abcdefgh")]
    wrong = [line.replace("runs over", "ran on") for line in right]
    ours = [*right[:5], *wrong[5:]]
    theirs = [*wrong[:3], right[3], wrong[4], *right[5:7], wrong[7]]
    samples = 50
    found = paired_bootstrap(ours, theirs, right, samples=samples)
    drawn = np.random.default_rng(12345).choice(8, (samples, 8), replace=True)
    for name, score in (
        ("bleu", sacrebleu.corpus_bleu),
        ("chrf", sacrebleu.corpus_chrf),
    ):

        def value(texts: list[str], rows: Any, score: Any = score) -> float:
            picked = [texts[i] for i in rows], [[right[i] for i in rows]]
            return float(score(*picked).score)

        assert found[name].score == pytest.approx(value(ours, range(8)))
        assert found[name].baseline == pytest.approx(value(theirs, range(8)))
        gap = found[name].score - found[name].baseline
        gaps = np.array([abs(value(ours, r) - value(theirs, r)) for r in drawn])
        p = (1 + np.count_nonzero(gaps - gaps.mean() > abs(gap))) / (1 + samples)
        assert found[name].p_value == pytest.approx(p)
        assert 0.02 < p < 0.9  # neither the least nor the greatest value
        assert f"bs:{samples}|seed:12345|case:mixed" in found[name].signature
    lower = paired_bootstrap(FOUND, RIGHT, RIGHT, samples=5, lowercase=True)
    assert (
        lower["bleu"].score
        == translation_scores(FOUND, RIGHT, lowercase=True)["bleu"].score
    )
    assert "case:lc" in lower["bleu"].signature


def test_systems_without_a_difference_are_not_called_different():
    pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    found = paired_bootstrap(FOUND, [f" {line}" for line in FOUND], RIGHT)
    assert [one.p_value for one in found.values()] == [1.0, 1.0]


def test_refused_comparisons():
    with pytest.raises(
        ea.InputError, match="paired_bootstrap: 1 baseline and 2 refere"
    ):
        paired_bootstrap(FOUND, RIGHT[:1], RIGHT)
    with pytest.raises(ea.InputError, match="3 hypotheses and 2 references"):
        paired_bootstrap([*FOUND, ""], RIGHT, RIGHT)
    with pytest.raises(ea.InputError, match="and at least one"):
        paired_bootstrap([], [], [])
    with pytest.raises(ea.ConfigError, match="samples=0, expected 1 or more"):
        paired_bootstrap(FOUND, RIGHT, RIGHT, samples=0)


def test_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ea.InputError, match="2 hypotheses and 1 references"):
        translation_scores(FOUND, RIGHT[:1])

    def without(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ea.MissingExtraError, match=r"evolving-attention\[seq2seq\]"):
        translation_scores(FOUND, RIGHT)


def test_a_text_in_place_of_a_list_is_refused():
    for given in (("ab", FOUND), (FOUND, "ab")):
        with pytest.raises(ea.InputError, match=r"translation_scores: \w+ is a str"):
            translation_scores(*given)
    with pytest.raises(ea.InputError, match=r"paired_bootstrap: baseline is a str"):
        paired_bootstrap(FOUND, "ab", RIGHT)
