"""Word vectors from files and checkpoints, and whole-word vocabularies."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from helpers_commands import bert

import evolving_attention as ea
from evolving_attention.text import (
    WordVectors,
    checkpoint_word_vectors,
    read_word_vectors,
    train_word_level,
)

ROWS = "the 0.5 -1.25 2\nfilm 1e-3 0.25 -0.5\n. . . 0.1 0.2 0.3\nFilms 1.0 1.0 1.0\n"
TEXTS = ["The film, the film.", "a film?", "The end, of the film."]


def write(folder: Path, text: str | bytes, name: str = "vectors.txt") -> Path:
    """Writes a file with this content."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("form", ["glove", "word2vec", "gzip", "windows"])
def test_the_words_of_a_vocabulary_are_kept(form: str, tmp_path: Path) -> None:
    text = ROWS.encode()
    if form == "word2vec":
        text = b"4 3\n" + text.replace(b"\n", b" \n")
    elif form == "gzip":
        text = gzip.compress(text)
    elif form == "windows":
        text = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    file = write(tmp_path, text)
    found = read_word_vectors(file, ["film", "The", "other"])
    assert sorted(found.words) == ["film", "the"]
    assert (len(found), found.width) == (2, 3)
    np.testing.assert_array_equal(found["film"], np.float32([1e-3, 0.25, -0.5]))
    np.testing.assert_array_equal(found["The"], np.float32([0.5, -1.25, 2]))
    assert "other" not in found
    assert read_word_vectors(file).words == ["the", "film", ". . .", "Films"]


BAD = {
    "cut off": ("a 1.0 2.0\nb 1.0", r":2:1: 1 numbers after 'b', expected 2"),
    "too wide": ("a 1.0 2.0\nb 1.0 2.0 3.0", r":2:1: more than 2 numbers"),
    "no number": ("a 1.0 2.0\nb 1.0 x", r":2:1: 'b': .*'x'.*expected 2 numbers"),
    "two spaces": ("a 1.0 2.0\nb  1.0 2.0", r":2:1: more than one space"),
    "nan": ("a 1.0 2.0\nb 1.0 nan", r":2:1: 'b': number 2 is nan"),
    "too large": ("a 1.0 2.0\nb 1e39 0.0", r":2:1: 'b': number 1 is 1e39"),
    "twice": ("a 1.0 2.0\nb 0.1 0.2\na 3.0 4.0", r":3:1: .*'a'.* already in line 1"),
    "not UTF-8": (b"a 1.0 2.0\n\xff 1.0 2.0", r":2:1: the word is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_told_or_left_out(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    file = write(tmp_path, text)
    with pytest.raises(ea.DataError, match=rf"vectors\.txt{message}"):
        read_word_vectors(file)
    with pytest.warns(UserWarning, match="1 of . rows were left out"):
        found = read_word_vectors(file, bad_rows="skip")
    assert found.words == ["a", "b"] if name == "twice" else ["a"]
    np.testing.assert_array_equal(found["a"], [1, 2])


UNUSABLE = {
    "no file": (None, "no such file"),
    "empty": ("", "no word vectors"),
    "a long number of rows": (f"{'9' * 5000} 2\na 1 2\n", "is this a file of word ve"),
    "a long width": (f"1 {'9' * 20}\na 1 2\n", "is this a file of word vectors"),
    "blank lines": ("\n\n", "no word vectors"),
    "text": ("film\n", "0 numbers after the first word"),
    "fewer rows than it says": ("3 2\na 1.0 2.0\n", ":2:1: 1 rows, expected 3"),
    "nothing promised": ("0 2\n", "0 words of 2 numbers"),
    "none of the words": (ROWS, "none of its 4 words is among the 1 to keep"),
    "zip": (b"PK\x03\x04abcd", "is a zip archive"),
    "cut gzip": (gzip.compress(ROWS.encode())[:-12], "is a damaged gzip archive"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_file_is_refused(name: str, tmp_path: Path) -> None:
    text, message = UNUSABLE[name]
    file = tmp_path / "none.txt" if text is None else write(tmp_path, text)
    with pytest.raises(ea.DataError, match=message) as caught:
        read_word_vectors(file, ["house"])
    assert str(file) in str(caught.value)


def test_the_table_of_a_vocabulary() -> None:
    tokenizer = train_word_level(TEXTS)
    scale = np.float32([[3, 4], [-3, -4]])
    vectors = WordVectors(["film", "the"], scale)
    table = vectors.table(tokenizer)
    vocab = tokenizer.get_vocab()
    assert table.values.shape == (len(vocab), 2)
    assert table.values.dtype == np.float32
    assert {w for w, i in vocab.items() if table.known[i]} == {"film", "the"}
    np.testing.assert_array_equal(table.values[vocab["the"]], scale[1])
    assert not table.values[tokenizer.pad_token_id].any()
    drawn = table.values[~table.known][1:]
    assert np.all(np.abs(drawn).sum(axis=1) > 0)
    same, other = vectors.table(tokenizer), vectors.table(tokenizer, seed=1)
    np.testing.assert_array_equal(same.values, table.values)
    assert not np.array_equal(other.values, table.values)
    with pytest.raises(ea.InputError, match="none of the 1 words"):
        vectors.table({"house": 0})
    for words, shape in ((["a"], (2, 2)), (["a", "a"], (2, 2)), ([], (0, 2))):
        with pytest.raises(ea.ShapeError):
            WordVectors(words, np.zeros(shape))


def test_the_vectors_of_a_checkpoint(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert")
    state = ea.BertModel.from_pretrained(folder).state_dict()
    table = np.asarray(state["embeddings.word_embeddings.weight"])
    vocab = ea.AutoTokenizer.from_pretrained(folder).get_vocab()
    found = checkpoint_word_vectors(folder, ["film", "good.", "house", "film", " "])
    assert found.words == ["film", "good."]
    np.testing.assert_array_equal(found["film"], table[vocab["film"]])
    mean = (table[vocab["good"]] + table[vocab["."]]) / 2
    np.testing.assert_allclose(found["good."], mean, atol=1e-7)
    with pytest.raises(ea.InputError, match="none of the 1 words"):
        checkpoint_word_vectors(folder, ["house"])


def test_words_are_counted_saved_and_loaded(tmp_path: Path) -> None:
    tokenizer = train_word_level(iter(TEXTS), 7, model_max_length=6)
    words = ["[PAD]", "[UNK]", "[SEP]", "film", "the", ",", "."]
    assert tokenizer.convert_ids_to_tokens(range(7)) == words
    tokenizer.save_pretrained(tmp_path)
    loaded = ea.AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.model_max_length == 6
    for one in (tokenizer, loaded):
        pair = one("THE film", "a film.")
        assert pair.input_ids == [4, 3, 2, 1, 3, 6]
        assert pair.token_type_ids == [0, 0, 0, 1, 1, 1]
        assert one("the end").input_ids == [4, 1]
        assert one("").input_ids == []


def test_words_are_split_as_asked() -> None:
    text = "It wo n't end."
    split = train_word_level([text], split="space", lowercase=False)
    assert split.tokenize(text) == ["It", "wo", "n't", "end."]
    assert split.tokenize("it") == ["[UNK]"]
    assert train_word_level([text]).tokenize(text) == [
        *["it", "wo", "n", "'", "t", "end", "."]
    ]
    frequent = train_word_level(TEXTS, min_count=3)
    assert len(frequent) == 3 + len(["film", "the"])
    for options, message in (
        ({"vocab_size": 3}, "vocab_size=3.*4 or more"),
        ({"min_count": 0}, "min_count=0.*1 or more"),
        ({"split": "word"}, "split='word'.*punctuation or space"),
    ):
        with pytest.raises(ea.ConfigError, match=message):
            train_word_level(TEXTS, **options)
    with pytest.raises(ea.InputError, match="occurs 9 times"):
        train_word_level(TEXTS, min_count=9)
