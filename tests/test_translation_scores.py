"""BLEU and chrF, with their signatures."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import evolving_attention as ea
from evolving_attention.metrics.translation import translation_scores

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


def test_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ea.InputError, match="2 hypotheses and 1 references"):
        translation_scores(FOUND, RIGHT[:1])

    def without(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ea.MissingExtraError, match=r"evolving-attention\[seq2seq\]"):
        translation_scores(FOUND, RIGHT)
