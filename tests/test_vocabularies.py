"""WordPiece and byte-level BPE, trained on text, saved and loaded again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers_pretraining import documents

import evolving_attention as ea
from evolving_attention.text import (
    train_bpe,
    train_byte_bpe,
    train_word_level,
    train_wordpiece,
)

TEXTS = [line for lines in documents(30) for line in lines]
KINDS = {"wordpiece": (train_wordpiece, 150), "bpe": (train_byte_bpe, 340)}
SPECIAL = {
    "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "bpe": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_trained_saved_and_loaded(kind: str, tmp_path: Path):
    train, size = KINDS[kind]
    tokenizer = train(iter(TEXTS), size)
    assert 100 < len(tokenizer) <= size
    assert tokenizer.convert_ids_to_tokens(range(5)) == SPECIAL[kind]
    tokenizer.save_pretrained(tmp_path)
    loaded = ea.AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    mask = tokenizer.mask_token
    for text in ("The cat sees.", f"a {mask} dog", "Zyx, 家!", "", "a  b"):
        ids = tokenizer(text).input_ids
        assert ids[0] == tokenizer.cls_token_id
        assert ids[-1] == tokenizer.sep_token_id
        assert (tokenizer.mask_token_id in ids) == (mask in text)
        assert loaded(text).input_ids == ids
    known = tokenizer.tokenize("The cat remembers")
    assert len(known) < len("The cat remembers") * 2 / 3


MADE = {
    "wordpiece": lambda: train_wordpiece(TEXTS, 150),
    "byte_bpe": lambda: train_byte_bpe(TEXTS, 320),
    "lower_byte_bpe": lambda: train_byte_bpe(TEXTS, 320, lowercase=True),
    "bpe": lambda: train_bpe(TEXTS, 300),
    "word_level": lambda: train_word_level(TEXTS),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_round_trip_changes_nothing(kind: str, tmp_path: Path):
    made = MADE[kind]()
    made.save_pretrained(tmp_path / "one")
    loaded = ea.AutoTokenizer.from_pretrained(tmp_path / "one")
    loaded.save_pretrained(tmp_path / "two")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        one, two = (
            json.loads((tmp_path / i / name).read_text()) for i in ("one", "two")
        )
        assert one == two
    assert loaded.special_tokens_map == made.special_tokens_map
    assert loaded.model_input_names == made.model_input_names
    assert loaded.tokenizer_class == made.tokenizer_class
    assert dict(loaded("The cat", "a dog")) == dict(made("The cat", "a dog"))
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "one")
    assert dict(theirs("The cat", "a dog")) == dict(made("The cat", "a dog"))


def test_a_folder_of_an_earlier_version_loads(tmp_path: Path):
    made = train_bpe(TEXTS, 300)
    made.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    assert settings.pop("model_input_names") == ["input_ids", "attention_mask"]
    file.write_text(json.dumps(settings))
    loaded = ea.AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("The cat").input_ids == made("The cat").input_ids


def test_words_are_lower_cased_or_not():
    lower, cased = (train_wordpiece(TEXTS, 150, lowercase=x) for x in (True, False))
    assert lower.tokenize("THE Cat") == lower.tokenize("the cat") == ["the", "cat"]
    assert cased.tokenize("The cat") != cased.tokenize("the cat")
    bpe = train_byte_bpe(TEXTS, 320, lowercase=True)
    assert bpe.tokenize("THE CAT") == bpe.tokenize("the cat")
    text = "The cat, żółw 家."
    assert (
        train_byte_bpe(TEXTS, 320).decode(
            train_byte_bpe(TEXTS, 320)(text).input_ids, skip_special_tokens=True
        )
        == text
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_process_learns_the_same(kind: str):
    train, size = KINDS[kind]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_vocabularies as t\n"
        f"train, size = t.KINDS[{kind!r}]\n"
        "print(train(t.TEXTS, size).fingerprint())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == train(TEXTS, size).fingerprint()


def test_refused():
    with pytest.raises(ea.ConfigError, match=r"vocab_size=99.*100 or more"):
        train_wordpiece(TEXTS, 99)
    with pytest.raises(ea.ConfigError, match=r"vocab_size=260.*261 or more"):
        train_byte_bpe(TEXTS, 260)
    for train in (train_wordpiece, train_byte_bpe):
        with pytest.raises(ea.InputError, match="hold no word"):
            train(["", ""], 300)
        with pytest.raises(ea.DataError, match="a line"):
            train(_failing(), 300)


def _failing():
    yield "one line"
    raise ea.DataError("a line of it")
