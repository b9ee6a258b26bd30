"""The tokenizer of translation: byte-level BPE, trained and saved."""

from __future__ import annotations

from pathlib import Path

import pytest

import evolving_attention as ea
from evolving_attention.text import train_bpe

TEXTS = ["A house by the sea.", "Ein Haus am Meer.", "Die Häuser, das Meer!"] * 3


def test_text_comes_back_and_every_character_has_tokens(tmp_path: Path):
    tokenizer = train_bpe(TEXTS, 290)
    assert len(tokenizer) == 290
    assert [tokenizer.pad_token_id, tokenizer.bos_token_id] == [0, 1]
    tokenizer.save_pretrained(tmp_path)
    loaded = ea.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("Das Haus am Meer.", "żółw 家 🐢", "", "a  b"):
        ids = tokenizer(text).input_ids
        assert ids[-1] == tokenizer.eos_token_id == 2
        assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text
        assert loaded(text).input_ids == ids
        assert loaded.decode(ids) == tokenizer.decode(ids)
    assert len(tokenizer(" Haus").input_ids) < len(tokenizer(" Zyx").input_ids)


def test_training_gives_the_same_tokens_every_time():
    first, second = (train_bpe(iter(TEXTS), 300).get_vocab() for _ in range(2))
    assert first == second


def test_lower_case():
    tokenizer = train_bpe(TEXTS, 280, lowercase=True)
    assert tokenizer("HAUS").input_ids == tokenizer("haus").input_ids


def test_refused():
    with pytest.raises(ea.ConfigError, match=r"vocab_size=258.*259 or more"):
        train_bpe(TEXTS, 258)
    with pytest.raises(ea.InputError, match="hold no word"):
        train_bpe(["", ""], 300)
