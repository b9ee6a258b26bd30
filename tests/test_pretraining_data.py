"""A corpus on disk: files, rows, text pairs and cache."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_pretraining import dataset, documents, tokenizer, write

import evolving_attention as ea
from evolving_attention import durable
from evolving_attention.data import token_store
from evolving_attention.data.corpus import corpus_files, corpus_lines
from evolving_attention.data.packed import PackedDataset
from evolving_attention.errors import CheckpointError
from evolving_attention.text import train_byte_bpe
from evolving_attention.training.loaders import Loaders

DATA = ea.pretraining.PretrainingDataset


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def without_masks(rows: Any, epoch: int) -> Any:
    """Returns the rows of an epoch with a masker that hides nothing."""
    view = rows.of_epoch(epoch)
    view.masker = lambda ids, offsets, words: (ids, np.full(len(ids), -100))
    return view


def plain(rows: Any) -> list[list[int]]:
    """Returns all rows without masks."""
    rows = without_masks(rows, 0)
    batch = rows.gather(np.arange(len(rows)))
    parts = np.split(batch["input_ids"], batch["sequence_offsets"][1:-1])
    return [part.tolist() for part in parts]


# ----------------------------------------------------------------------------- files


def test_lines_and_documents(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").write_text("no\n")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf\n\n one \ntwo\n \n\t\nthree\n\n")
    with gzip.open(tmp_path / "b" / "c.gz", "wt") as file:
        file.write("four\nfive")
    (tmp_path / "b" / "empty").write_text("")
    files = corpus_files(tmp_path)
    assert [file.name for file in files] == ["a.txt", "c.gz", "empty"]
    found = list(corpus_lines(files))
    assert found == ["one", "two", None, "three", None, "four", "five", None]
    assert corpus_files([files[1], files[0]]) == [files[1], files[0]]


# ---------------------------------------------------------------------- running text


@pytest.mark.parametrize("length", [8, 24, 39])
def test_rows_are_full_and_hold_the_corpus_in_order(tmp_path: Path, length: int):
    texts = documents(9)
    rows, words = dataset(tmp_path, texts=texts, max_seq_length=length)
    assert isinstance(rows, PackedDataset)
    stream: list[int] = []
    for lines in texts:
        stream += [*words(" ".join(lines), add_special_tokens=False).input_ids, 3]
    stream.pop()
    width = length - 2
    expected = [[2, *stream[i : i + width], 3] for i in range(0, len(stream), width)]
    assert plain(rows) == expected
    assert rows.lengths.tolist() == [len(row) for row in expected]
    assert rows.store.about["documents"] == 9
    assert rows.store.about["sentences"] == sum(map(len, texts))
    assert len(rows) == len(expected)


def test_batches_are_masked_by_row_and_epoch(tmp_path: Path):
    rows, _ = dataset(tmp_path)
    together, backwards = rows.gather([0, 1, 2]), rows.gather([2, 1, 0])
    assert together["row_ids"].tolist() == [0, 1, 2]
    parts = [
        np.split(batch["labels"], batch["sequence_offsets"][1:-1])
        for batch in (together, backwards)
    ]
    for one, two in zip(parts[0], reversed(parts[1]), strict=True):
        assert np.array_equal(one, two)
    next_one = rows.of_epoch(1)
    assert not np.array_equal(next_one.gather([0])["labels"], parts[0][0])
    assert np.array_equal(rows.of_epoch(0)[1]["labels"], parts[0][1])
    assert next_one.fingerprint() == rows.fingerprint()
    ids = next_one.gather([0])
    hidden = ids["labels"] != -100
    assert np.array_equal(
        np.where(hidden, ids["labels"], ids["input_ids"]), plain(rows)[0]
    )


def test_the_trainer_asks_for_the_masks_of_the_epoch(tmp_path: Path):
    rows, _ = dataset(tmp_path)
    args = ea.TrainingArguments(
        str(tmp_path / "out"),
        train_sampling_strategy="sequential",
        per_device_train_batch_size=len(rows),
    )
    for epoch in (0, 1):
        (batch,) = Loaders(args).training(rows, None, epoch)
        expected = rows.of_epoch(epoch).gather(np.arange(len(rows)))
        assert np.array_equal(batch["labels"], expected["labels"])
    (held_out,) = Loaders(args).evaluation(rows.split(0.1)[1], None)
    assert held_out["row_ids"].tolist() == list(range(len(held_out["row_ids"])))


def test_split(tmp_path: Path):
    rows, _ = dataset(tmp_path)
    train, held_out = rows.split(0.25)
    assert len(train) + len(held_out) == len(rows)
    assert len(held_out) == round(len(rows) / 4)
    assert plain(train) + plain(held_out) == plain(rows)
    last = len(rows) - 1
    assert np.array_equal(held_out[-1]["input_ids"], rows[last]["input_ids"])
    assert train.lengths.tolist() + held_out.lengths.tolist() == rows.lengths.tolist()
    assert len({part.fingerprint() for part in (rows, train, held_out)}) == 3


def test_bytes_keep_their_spaces(tmp_path: Path):
    lines = ["The cat sees.", "My house follows."]
    words = train_byte_bpe([line for t in documents(30) for line in t], 300)
    file = write(tmp_path / "c.txt", [lines])
    rows = DATA.from_files(file, words, max_seq_length=60, cache_dir=tmp_path / "x")
    text = words.decode(plain(rows)[0], skip_special_tokens=True)
    assert text == " ".join(lines)


# ----------------------------------------------------------------------------- pairs


def sentences_of(texts: list[list[str]], words: Any, most: int) -> list[list[tuple]]:
    """Returns the pieces of each document's sentences."""
    found = []
    for lines in texts:
        pieces = []
        for number, line in enumerate(lines):
            text = f" {line}" if number else line
            ids = words(text, add_special_tokens=False).input_ids
            pieces += [tuple(ids[i : i + most]) for i in range(0, len(ids), most)]
        found.append(pieces)
    return found


def joined(pieces: list[tuple]) -> tuple:
    return tuple(one for piece in pieces for one in piece)


@pytest.mark.parametrize("length", [12, 24])
def test_pairs(tmp_path: Path, length: int):
    texts = documents(40, sentences=9)
    rows, words = dataset(
        tmp_path, texts=texts, max_seq_length=length, next_sentence=True
    )
    pieces = sentences_of(texts, words, (length - 3) // 2)
    assert rows.store.about["sentences"] == sum(map(len, pieces))
    own: dict[tuple, set[int]] = {}
    runs: dict[tuple, set[tuple[int, int]]] = {}  # text: {(document, first, last + 1)}
    for number, each in enumerate(pieces):
        for i in range(len(each)):
            for j in range(i + 1, len(each) + 1):
                runs.setdefault(joined(each[i:j]), set()).add((number, i, j))
    labels = []
    for epoch in range(3):
        view = without_masks(rows, epoch)
        for index in range(len(view)):
            row = view[index]
            ids, types = row["input_ids"].tolist(), row["token_type_ids"]
            assert len(ids) <= length
            ends = [i for i, one in enumerate(ids) if one == 3]
            assert (ids[0], len(ends), ends[1]) == (2, 2, len(ids) - 1)
            assert types.tolist() == [int(i > ends[0]) for i in range(len(ids))]
            first, second = tuple(ids[1 : ends[0]]), tuple(ids[ends[0] + 1 : -1])
            assert first in runs
            label = row["next_sentence_label"]
            labels.append(label)
            if label == 0:
                follows = {(d, j) for d, _, j in runs[first]} & {
                    (d, i) for d, i, _ in runs[second]
                }
                assert follows
            else:  # the text begins some run of sentences
                own.setdefault(second, set())
                assert any(run[: len(second)] == second for run in runs)
    assert 0.35 < np.mean(labels) < 0.75
    assert len(own) > len(rows) / 3


def test_the_other_document_is_another_one(tmp_path: Path):
    texts = [[f"{name} sees."] * 12 for name in ("The cat", "A dog", "My house")]
    rows, words = dataset(tmp_path, texts=texts, next_sentence=True, max_seq_length=16)
    names = [
        set(words.tokenize(lines[0])) - set(words.tokenize("sees.")) for lines in texts
    ]
    train, _ = rows.split(0.5)
    for view in (rows, train):
        view = without_masks(view, 3)
        seen = set()
        for row in view:
            tokens = words.convert_ids_to_tokens(row["input_ids"].tolist())
            cut = int(np.argmax(row["token_type_ids"]))
            who = [
                next(i for i, name in enumerate(names) if name & set(part))
                for part in (tokens[:cut], tokens[cut:])
            ]
            assert (who[0] != who[1]) == row["next_sentence_label"]
            seen.add(tuple(who))
        assert len(seen) > 2


# ----------------------------------------------------------------------------- cache


def test_tokens_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows, words = dataset(tmp_path)
    file, options = tmp_path / "corpus.txt", {"cache_dir": tmp_path / "cache"}
    made = []
    encoded = token_store._encoded

    def counted(*given: Any) -> Any:
        made.append(given)
        return encoded(*given)

    monkeypatch.setattr(token_store, "_encoded", counted)
    again = DATA.from_files(file, words, max_seq_length=24, **options)
    other = DATA.from_files(file, words, max_seq_length=30, **options)
    assert (plain(again), made) == (plain(rows), [])
    assert len(other) < len(rows)
    DATA.from_files(file, words, max_seq_length=30, next_sentence=True, **options)
    assert len(made) == 1
    DATA.from_files(file, tokenizer(documents(12), 110), max_seq_length=30, **options)
    assert len(made) == 2
    file.write_text(file.read_text() + "One more line of text.\n")
    longer = DATA.from_files(file, words, max_seq_length=24, **options)
    assert len(made) == 3
    assert longer.fingerprint() != rows.fingerprint()
    assert plain(again) == plain(rows)  # the old tokens still exist


READ_ALL = """
import sys
import numpy as np
import evolving_attention as ea

file, words, cache = sys.argv[1:]
rows = ea.pretraining.PretrainingDataset.from_files(
    file, ea.AutoTokenizer.from_pretrained(words), max_seq_length=64, cache_dir=cache
)
for start in range(0, len(rows), 64):
    rows.gather(np.arange(start, min(start + 64, len(rows))))
status = open("/proc/self/status").read()
print(len(rows.store.tokens), status.split("VmHWM:")[1].split()[0])
"""


def test_a_corpus_may_be_larger_than_memory(tmp_path: Path):
    """Preparing and reading eight times the text needs no more memory."""
    texts = documents(40)
    tokenizer(texts).save_pretrained(tmp_path / "words")
    text = write(tmp_path / "one", texts).read_text() + "\n"
    times = 500_000 // len(text)
    tokens, peaks = [], []
    for count in (times, 8 * times):
        (tmp_path / "corpus.txt").write_text(text * count)
        words = [str(tmp_path / name) for name in ("corpus.txt", "words", "cache")]
        done = subprocess.run(
            [sys.executable, "-c", READ_ALL, *words],
            capture_output=True,
            text=True,
            check=True,
        )
        for found, number in zip((tokens, peaks), done.stdout.split(), strict=True):
            found.append(int(number))
    assert tokens[1] > 7 * tokens[0] > 8e5
    # KiB; the text grew by 3.5 MB, its tokens by 1.6 MB.
    assert peaks[1] - peaks[0] < 1_000


def test_a_damaged_cache_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    rows, words = dataset(tmp_path)
    expected = plain(rows)
    tokens = rows.store.folder / "tokens.bin"
    tokens.write_bytes(tokens.read_bytes()[:-2] + b"\0\0")
    again = DATA.from_files(
        tmp_path / "corpus.txt", words, max_seq_length=24, cache_dir=tmp_path / "cache"
    )
    assert "is made again" in caplog.text
    assert plain(again) == expected


def test_the_first_of_several_processes_makes_the_cache(tmp_path: Path):
    folder, others = tmp_path / "cache" / "tokens-1", tmp_path / "others"

    def fill(text: str, into: Path) -> None:
        (into / "file").write_text(text)
        if others.is_dir():  # another process is faster
            others.rename(folder)

    durable.commit_directory(others, partial(fill, "first"), step=0)
    manifest = durable.verify_directory(others)
    assert token_store.cached_folder(folder, partial(fill, "second")) == manifest
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]
    assert (folder / "file").read_text() == "first"


def test_a_damaged_cache_is_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The damage is found by two processes; the other one is faster."""
    folder = tmp_path / "cache" / "tokens-1"

    def fill(text: str, into: Path) -> None:
        (into / "file").write_text(text)

    def found(folder: Path) -> Any:
        try:
            return verify(folder)
        except CheckpointError:
            monkeypatch.setattr(durable, "verify_directory", verify)
            token_store.cached_folder(folder, partial(fill, "first"))
            raise

    token_store.cached_folder(folder, partial(fill, "old"))
    (folder / "file").write_text("damaged")
    verify = durable.verify_directory
    monkeypatch.setattr(durable, "verify_directory", found)
    manifest = token_store.cached_folder(folder, partial(fill, "second"))
    assert manifest == verify(folder)
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]
    assert (folder / "file").read_text() == "first"


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path):
    rows, _ = dataset(tmp_path)
    with (rows.store.folder / "tokens.bin").open("r+b") as file:
        file.truncate(44)
    assert len(rows[0]["input_ids"]) == 24
    with pytest.raises(ea.InputError, match=r"tokens\.bin: ends at byte 44, expected"):
        rows.gather([1])


def test_large_vocabularies_and_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows, words = dataset(tmp_path)
    assert rows.store.tokens.kind == np.uint16
    monkeypatch.setattr(type(words), "__len__", lambda self: 70_000)
    wide, _ = dataset(tmp_path, cache_dir=tmp_path / "wide")
    assert wide.store.tokens.kind == np.uint32
    assert plain(wide) == plain(rows)
    assert plain(pickle.loads(pickle.dumps(rows))) == plain(rows)


def test_an_interrupted_preparation_leaves_nothing(tmp_path: Path):
    texts = documents(4)
    words = tokenizer(texts)
    file = write(tmp_path / "corpus.txt", texts)
    file.write_bytes(file.read_bytes() + b"caf\xe9\n")
    with pytest.raises(
        ea.DataError, match=r"corpus\.txt:\d+:4: byte 0xe9 is not UTF-8"
    ):
        DATA.from_files(file, words, max_seq_length=24, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
