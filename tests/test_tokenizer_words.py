"""Words, windows and targets of tokenizer calls, as transformers makes them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spiece_data import PIECES, model_of

import evolving_attention as ea
from evolving_attention.text import AutoTokenizer, train_byte_bpe, train_wordpiece

WORDS = [["The", "flight", "lands.", "Soon"], [], ["a", "[MASK]", "lost-flight", "été"]]
TEXTS = [" ".join(row) for row in WORDS]
LONG = "the flight lands soon and the lost flight starts " * 3
LOOKS = ("tokens", "word_ids", "sequence_ids")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wordpiece")
    tokenizer = train_wordpiece([*TEXTS, LONG, "a lost question"], 120)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def pair(folder: Path) -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder), theirs


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "words": ((WORDS,), {"is_split_into_words": True}),
    "words of one text": ((WORDS[0],), {"is_split_into_words": True}),
    "words of pairs": ((WORDS, WORDS[::-1]), {"is_split_into_words": True}),
    "words, padded": (
        (WORDS,),
        {"is_split_into_words": True, "padding": True, "return_tensors": "np"},
    ),
    "words, cut": (
        (WORDS,),
        {"is_split_into_words": True, "truncation": True, "max_length": 7},
    ),
    "texts": ((TEXTS,), {"padding": "max_length", "max_length": 40}),
    "a text": ((TEXTS[0],), {}),
    "special tokens": ((TEXTS,), {"return_special_tokens_mask": True, "padding": True}),
    "windows": (
        (["a lost question", "a"], [LONG, "soon"]),
        {
            "truncation": "only_second",
            "max_length": 24,
            "stride": 5,
            "return_overflowing_tokens": True,
            "return_offsets_mapping": True,
            "padding": "max_length",
        },
    ),
    "windows of one text": (
        (LONG,),
        {
            "truncation": True,
            "max_length": 9,
            "stride": 2,
            "return_overflowing_tokens": True,
        },
    ),
    "windows of words": (
        (WORDS,),
        {
            "truncation": True,
            "max_length": 6,
            "return_overflowing_tokens": True,
            "is_split_into_words": True,
        },
    ),
    "nothing is cut": ((TEXTS,), {"return_overflowing_tokens": True}),
    "targets": ((TEXTS[:1],), {"text_target": [LONG], "truncation": True}),
    "targets alone": ((), {"text_target": TEXTS, "padding": True}),
}


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_calls_give_what_transformers_gives(pair, name, side):
    given, options = CALLS[name]
    found = []
    assert pair[0].is_fast
    for tokenizer in map(copy.copy, pair):
        tokenizer.padding_side = side
        encoded = tokenizer(*given, **options)
        rows = range(len(encoded.encodings))
        looks = [[getattr(encoded, look)(i) for i in rows] for look in LOOKS]
        columns = {key: np.asarray(encoded[key], object).tolist() for key in encoded}
        found.append((columns, looks))
    assert found[0] == found[1]


def test_labels_of_words_train_a_tagger(folder):
    """The loop of a port: a word's first token has its label."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(WORDS, is_split_into_words=True, padding=True)
    labels = []
    for i, words in enumerate(WORDS):
        ids, tags = encoded.word_ids(i), [len(word) % 3 for word in words]
        first = [w is not None and w not in ids[:j] for j, w in enumerate(ids)]
        labels.append([tags[w] if f else -100 for w, f in zip(ids, first, strict=True)])
    assert sum(label != -100 for row in labels for label in row) == 8
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 24}
    config = ea.BertConfig(
        vocab_size=len(tokenizer), num_hidden_layers=1, num_labels=3, **sizes
    )
    loss = ea.BertForTokenClassification(config)(**encoded, labels=labels).loss
    assert np.isfinite(loss.item())


def test_an_encoding_is_copied_and_pickled(folder):
    encoded = AutoTokenizer.from_pretrained(folder)(WORDS, is_split_into_words=True)
    for other in (pickle.loads(pickle.dumps(encoded)), copy.deepcopy(encoded)):
        assert other == encoded
        assert other.word_ids(2) == encoded.word_ids(2)


def test_only_calls_that_need_places_keep_them(folder):
    """A data set's texts take less time and memory without."""
    encoded = AutoTokenizer.from_pretrained(folder)(TEXTS)
    kept = pickle.loads(pickle.dumps(encoded))
    assert kept == encoded
    with pytest.raises(ea.InputError, match="pickles of a call without words"):
        kept.word_ids(0)
    assert len(encoded.word_ids(0)) == len(encoded["input_ids"][0])


def test_a_copy_has_its_own_truncation(folder):
    first = AutoTokenizer.from_pretrained(folder)
    second = copy.copy(first)
    first(LONG, truncation=True, max_length=4)
    assert len(second(LONG).input_ids) > 20
    second.pad_token = "[SEP]"
    assert first.pad_token == "[PAD]"


def test_words_of_bytes_need_a_space_before_each(tmp_path):
    train_byte_bpe([*TEXTS, LONG], 300).save_pretrained(tmp_path)
    words = {"is_split_into_words": True}
    plain = AutoTokenizer.from_pretrained(tmp_path)
    with pytest.raises(ea.ConfigError, match="load it with add_prefix_space=True"):
        plain(WORDS[0], **words)
    spaced = AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    assert spaced(WORDS[0], **words).input_ids == plain(" " + TEXTS[0]).input_ids
    assert spaced(TEXTS[0]).input_ids == plain(" " + TEXTS[0]).input_ids
    assert plain(TEXTS[0]).input_ids != spaced(TEXTS[0]).input_ids
    spaced.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(WORDS[0], **words)
    back = AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=False)
    assert back(TEXTS[0]).input_ids == plain(TEXTS[0]).input_ids


@pytest.mark.parametrize("value", [True, "yes"])
def test_a_space_that_no_tokenizer_reads_is_refused(folder, value):
    says = f"add_prefix_space={value!r}, expected .* a tokenizer of bytes"
    with pytest.raises(ea.ConfigError, match=says):
        AutoTokenizer.from_pretrained(folder, add_prefix_space=value)


def test_a_spiece_model_has_rows_and_no_words(tmp_path):
    pytest.importorskip("sentencepiece", reason="no extra t5")
    (tmp_path / "spiece.model").write_bytes(model_of(*PIECES))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, pad_token="</s>")
    options = {"padding": "max_length", "return_special_tokens_mask": True}
    encoded = tokenizer(["the", ""], ["", "the"], max_length=9, **options)
    assert encoded.special_tokens_mask[0][-7:] == [1] * 7
    assert encoded.tokens(1) == tokenizer.convert_ids_to_tokens(encoded.input_ids[1])
    assert not tokenizer.is_fast
    ids = encoded.sequence_ids(0)
    assert len(ids) == 9
    assert set(ids) == {0, None}
    assert encoded.attention_mask[0] == [int(i < ids.count(0) + 2) for i in range(9)]
    with pytest.raises(ea.InputError, match=r"word_ids: .* a spiece.model"):
        encoded.word_ids()
    more = AutoTokenizer.from_pretrained(tmp_path, pad_token="</s>", extra_ids=3)
    assert tokenizer.fingerprint() == copy.deepcopy(tokenizer).fingerprint()
    assert tokenizer.fingerprint() != more.fingerprint()
    for option in ("is_split_into_words", "return_overflowing_tokens"):
        with pytest.raises(ea.ConfigError, match=f"{option}=True, expected False"):
            tokenizer(["the"], **{option: True})


OVER = {"return_overflowing_tokens": True, "truncation": True}
MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "a text for words": (
        lambda tok: tok("a text", is_split_into_words=True),
        ea.InputError,
        "text is str 'a text'; expected a list of words",
    ),
    "texts among words": (
        lambda tok: tok([["a"], "text"], is_split_into_words=True),
        ea.InputError,
        r"text\[1\] is str 'text'; expected a list of words",
    ),
    "a word that is none": (
        lambda tok: tok([["a", None]], is_split_into_words=True),
        ea.InputError,
        r"text\[0\]\[1\] is NoneType None; expected text",
    ),
    "tokens of a batch": (
        lambda tok: tok.tokenize(TEXTS),
        ea.InputError,
        r"text is list .*; expected text \(str\)",
    ),
    "a stride alone": (
        lambda tok: tok(LONG, truncation=True, stride=2),
        ea.ConfigError,
        "stride=2, expected 0 without return_overflowing_tokens=True",
    ),
    "a negative stride": (
        lambda tok: tok(LONG, stride=-1, **OVER),
        ea.ConfigError,
        "stride=-1, expected a whole number, 0 or more",
    ),
    "a long stride": (
        lambda tok: tok(LONG, stride=7, max_length=9, **OVER),
        ea.ConfigError,
        "stride=7, expected less than the 7 tokens of text that max_length=9 leaves",
    ),
    "a stride beyond the second text": (
        lambda tok: tok(
            *("a lost flight", LONG),
            truncation="only_second",
            max_length=14,
            stride=9,
            return_overflowing_tokens=True,
        ),
        ea.InputError,
        r"cannot be tokenised with stride=9 \(lower it\)",
    ),
    "a row that is not there": (
        lambda tok: tok(TEXTS).word_ids(3),
        ea.InputError,
        "batch_index=3, expected one of the 3 rows",
    ),
    "a row that is a word": (
        lambda tok: tok(TEXTS).word_ids("a"),
        ea.InputError,
        "batch_index='a', expected one of the 3 rows",
    ),
    "a row that is no whole number": (
        lambda tok: tok(TEXTS).tokens(1.0),
        ea.InputError,
        "batch_index=1.0, expected one of the 3 rows",
    ),
    "words after pad()": (
        lambda tok: tok.pad([tok("a")]).word_ids(),
        ea.InputError,
        "rows that pad",
    ),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_mistakes_of_words_and_windows(folder, name):
    call, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        call(AutoTokenizer.from_pretrained(folder))
