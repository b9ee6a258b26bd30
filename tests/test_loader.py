"""Features, collation and the packed loader: exact, reproducible, resumable."""

from __future__ import annotations

import hashlib
import threading
import time
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolving_attention.data.collate import collate_packed, collate_padded, pad_batch
from evolving_attention.data.features import Features, tokenize_dataset
from evolving_attention.data.loader import (
    MEGA_BATCH,
    PackedLoader,
    epoch_batches,
    token_batches,
)
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError, InputError, ShapeError


class WordTokenizer:
    """Ids are word lengths; a pair is joined by 0 and has types 0 and 1."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text, text_pair=None, *, max_length, truncation, **_):
        self.calls += 1
        assert truncation
        rows, types = [], []
        for index, first in enumerate(text):
            ids = [len(word) for word in first.split()]
            kinds = [0] * len(ids)
            if text_pair is not None:
                second = [0] + [len(word) for word in text_pair[index].split()]
                ids, kinds = ids + second, kinds + [1] * len(second)
            rows.append(ids[:max_length])
            types.append(kinds[:max_length])
        return {"input_ids": rows, "token_type_ids": types}


def make_rows(count: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [
        {
            "input_ids": rng.integers(0, 99, rng.integers(1, 40)).tolist(),
            "labels": int(rng.integers(0, 2)),
        }
        for _ in range(count)
    ]


def make_features(count: int, seed: int = 0) -> Features:
    rows = make_rows(count, seed)
    flat = collate_packed(rows)
    return Features(flat["input_ids"], flat["sequence_offsets"], labels=flat["labels"])


def same_batches(first, second) -> bool:
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)
        for a, b in zip(first, second, strict=True)
    )


# --- features ------------------------------------------------------------------------

DATA = [
    {"premise": "aa b ccc", "hypothesis": "d ee", "label": 1, "idx": 0},
    {"premise": "a", "hypothesis": "bb", "label": 0, "idx": 1},
    {"premise": "five words are in here", "hypothesis": "x", "label": 2, "idx": 2},
]


class ArrowLike:
    """An imitation of datasets.Dataset: column names, dicts of lists for slices."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows, self.column_names = rows, list(rows[0])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key):
        if isinstance(key, str):
            return [row[key] for row in self.rows]
        if isinstance(key, slice):
            return {k: [row[k] for row in self.rows[key]] for k in self.column_names}
        return self.rows[key]


def as_table(rows: list[dict]) -> TableDataset:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return TableDataset(
        columns, text_columns=("premise", "hypothesis"), label_names=("a", "b", "c")
    )


@pytest.mark.parametrize("kind", [list, ArrowLike, as_table])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_tokenize_any_kind_of_data_set(kind, batch_size):
    tok = WordTokenizer()
    features = tokenize_dataset(kind(DATA), tok, max_length=6, batch_size=batch_size)
    assert tok.calls == -(-len(DATA) // batch_size)
    assert [row["input_ids"].tolist() for row in features] == [
        [2, 1, 3, 0, 1, 2],
        [1, 0, 2],
        [4, 5, 3, 2, 4, 0],
    ]
    assert features[0]["token_type_ids"].tolist() == [0, 0, 0, 1, 1, 1]
    assert [row["labels"] for row in features] == [1, 0, 2]
    assert features.lengths.tolist() == [6, 3, 6]
    assert features[1:][0]["input_ids"].tolist() == [1, 0, 2]


def test_labels_of_features():
    rows = [{"text": "a", "label": 0.5}, {"text": "b", "label": 1}]
    assert tokenize_dataset(rows, WordTokenizer()).labels.dtype == np.float32
    rows = [{"text": "a", "label": -1}, {"text": "b", "label": -1}]
    assert tokenize_dataset(rows, WordTokenizer()).labels is None
    assert tokenize_dataset([{"text": "a"}], WordTokenizer()).labels is None
    rows = [{"text": "a", "label": float("nan")}]
    with pytest.raises(InputError, match="row 0: label nan is not a finite number"):
        tokenize_dataset(rows, WordTokenizer())
    with pytest.raises(InputError, match="labels are <U1; expected int"):
        tokenize_dataset([{"text": "a", "label": "x"}], WordTokenizer())


def told(caplog):
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def test_columns_of_rows_are_said(caplog):
    rows = [{"uid": i, "text": t, "labels": i % 2} for i, t in enumerate("ab")]
    for kind in (list, ArrowLike):
        features = tokenize_dataset(kind(rows), WordTokenizer())
        assert features.labels.tolist() == [0, 1]
        assert told(caplog) == [
            "tokenize_dataset: text 'text', label 'labels', not used 'uid'; "
            "text_columns= and label_column= choose others (--text_column_names, "
            "--label_column_name)"
        ]
    tokenize_dataset([{"text": "a"}], WordTokenizer())
    assert told(caplog)[0].startswith(
        "tokenize_dataset: text 'text', no label; text_columns="
    )
    tokenize_dataset(rows, WordTokenizer(), text_columns="text")
    tokenize_dataset(as_table(DATA), WordTokenizer())
    assert told(caplog) == []
    said = set()
    for _ in range(2):
        tokenize_dataset(rows, WordTokenizer(), said=said)
    assert len(told(caplog)) == 1


def test_rows_without_text():
    rows = [{"id": "x", "stars": 3, "label": 1}]
    with pytest.raises(InputError, match=r"text columns \(none\).*--text_column_names"):
        tokenize_dataset(rows, WordTokenizer())


class TheirEncoding(dict):
    """An imitation of the result of transformers' fast tokenizers, with encodings."""

    @property
    def encodings(self):
        return [SimpleNamespace(overflowing=[1] * more) for more in (1, 0, 2, 0)]


@pytest.mark.parametrize("whose", ["ours", "transformers"])
def test_truncation_is_said(minilm, caplog, whose):
    from evolving_attention.text import AutoTokenizer

    ours = AutoTokenizer.from_pretrained(minilm)

    def tok(*texts, max_length, **options):
        found = ours(*texts, max_length=max_length, **options)
        return (
            TheirEncoding(found)
            if (whose, max_length) == ("transformers", 5)
            else found
        )

    texts = ["a b c d", "a b c", "a b c d e", "a"]  # plus [CLS] and [SEP]
    rows = [{"text": text} for text in texts]
    features = tokenize_dataset(rows, tok, text_columns="text", max_length=5)
    assert features.lengths.tolist() == [5, 5, 5, 3]
    assert told(caplog) == [
        "2 of 4 texts were truncated to 5 tokens; raise tokenize_dataset(…, "
        "max_length=…) (--max_seq_length) to keep more"
    ]
    tokenize_dataset(rows, tok, text_columns="text", max_length=7)
    assert told(caplog) == []


def test_mistakes_in_tokenize():
    with pytest.raises(InputError, match="row 1: 'text' is NoneType; expected text"):
        tokenize_dataset([{"text": "a"}, {"text": None}], WordTokenizer())
    with pytest.raises(InputError, match="text columns body: expected one or two"):
        tokenize_dataset([{"text": "a"}], WordTokenizer(), text_columns=("body",))
    with pytest.raises(InputError, match="row 0 is str; expected a data set"):
        tokenize_dataset(["a"], WordTokenizer())
    with pytest.raises(ConfigError, match="batch_size=0"):
        tokenize_dataset(DATA, WordTokenizer(), batch_size=0)
    with pytest.raises(ShapeError, match="2 labels for 1 rows"):
        Features([1, 2], [0, 2], labels=np.zeros(2))


# --- collation -----------------------------------------------------------------------


def test_packed_batch():
    rows = [
        {"input_ids": [5, 6, 7], "token_type_ids": [0, 0, 1], "label": 1},
        {"input_ids": np.array([8]), "token_type_ids": [0], "label": 0},
    ]
    batch = collate_packed(rows, [7, 3])
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input_ids": [5, 6, 7, 8],
        "sequence_offsets": [0, 3, 4],
        "token_type_ids": [0, 0, 1, 0],
        "labels": [1, 0],
        "row_ids": [7, 3],
    }
    assert {str(array.dtype) for array in batch.values()} == {"int64"}


def test_padded_batch():
    rows = [{"input_ids": [5, 6, 7], "labels": 1.5}, {"input_ids": [8], "labels": 2.0}]
    batch = collate_padded(rows, [0, 1], pad_token_id=9, pad_to_length=4)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 9], [8, 9, 9, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
    assert batch["labels"].dtype == np.float32
    assert pad_batch(collate_packed(rows))["input_ids"].shape == (2, 3)
    with pytest.raises(InputError, match="a row has 3 tokens > pad_to_length 2"):
        collate_padded(rows, pad_to_length=2)


def test_labels_per_token():
    rows = [
        {"input_ids": [5, 6, 7], "labels": [-100, 6, -100]},
        {"input_ids": [8], "labels": [8]},
    ]
    batch = collate_packed(rows)
    assert batch["labels"].tolist() == [-100, 6, -100, 8]
    padded = pad_batch(batch, pad_token_id=1)
    assert padded["labels"].tolist() == [[-100, 6, -100], [8, -100, -100]]


BAD_ROWS = {
    "no ids": ([{"text": "a"}], "row 0 of the batch has no 'input_ids', only text"),
    "empty": ([{"input_ids": []}], "expected a non-empty list of ints"),
    "choices": ([{"input_ids": [[2], [3]]}], "=ea.DataCollatorForMultipleChoice"),
    "floats": ([{"input_ids": [0.5]}], "input_ids is float64 of shape"),
    "nested": ([{"input_ids": [[1]]}], r"of shape \(1, 1\)"),
    "some labels": (
        [{"input_ids": [1], "label": 1}, {"input_ids": [1]}],
        "row 1 of the batch has no 'label' but others have",
    ),
    "types": (
        [{"input_ids": [1, 2], "token_type_ids": [0]}],
        "row 0 of the batch: 2 input_ids but 1 token_type_ids; expected one each",
    ),
    "labels": (
        [{"input_ids": [1], "labels": [1, 2]}],
        "row 0 of the batch: 1 input_ids but 2 labels; expected one each per token$",
    ),
    "label text": ([{"input_ids": [1], "label": "x"}], "labels are <U1"),
}


def masked_row(mask, **fields):
    return {"input_ids": [5, 6, 7, 8], "attention_mask": mask, **fields}


BAD_ROWS |= {
    "mask of zeros": (
        [{"input_ids": [1]}, masked_row([0, 0, 0, 0])],
        r"row 1 of the batch: attention_mask is int64 of shape \(4,\), \[0, 0, 0, 0\]; "
        "expected 4 integers or booleans, .* at least one token",
    ),
    "mask of another length": ([masked_row([1, 1])], r"attention_mask .* \(2,\)"),
    "mask of two": ([masked_row([2, 1, 1, 1])], r"attention_mask .* \[2, 1, 1, 1\]"),
    "mask of floats": ([masked_row([1.0, 1, 0, 0])], "attention_mask is float64"),
    "mask of text": ([masked_row(list("1100"))], "attention_mask is <U1"),
    "mask of a matrix": ([masked_row(np.eye(4, dtype=int))], r"of shape \(4, 4\)"),
    "labels that are not padded": (
        [masked_row([1, 1, 0, 0], labels=[5, 6])],
        "row 0 of the batch: 4 input_ids but 2 labels",
    ),
}


@pytest.mark.parametrize("name", sorted(BAD_ROWS))
def test_bad_rows_of_a_batch(name):
    rows, message = BAD_ROWS[name]
    with pytest.raises(InputError, match=message):
        collate_packed(rows)


# --- rows that come padded -----------------------------------------------------------


def padded_rows(rows, left=False, kind=list):
    """Returns rows as transformers' tokenizers pad them, with label -100 as padding."""
    width = max(len(row["input_ids"]) for row in rows) + 2
    padded = []
    for row in rows:
        row = {"attention_mask": [1] * len(row["input_ids"]), **row}
        for name, values in row.items():
            if np.ndim(values):
                fill = [-100 if name == "labels" else 0] * (width - len(values))
                row[name] = kind(fill + values if left else values + fill)
        padded.append(row)
    return padded


def kinds_of_arrays():
    torch = pytest.importorskip("torch")
    return [list, tuple, np.array, torch.tensor]


@pytest.mark.parametrize("left", [False, True])
def test_padding_of_rows_is_left_out(left):
    rows = [
        {
            "input_ids": list(range(3, 3 + n)),
            "token_type_ids": [0] * (n - 1) + [1],
            "labels": labels,
        }
        for n, labels in ((4, [-100, 3, 4, -100]), (1, [2]), (6, [-100] * 6))
    ]
    expected = collate_packed(rows, [0, 1, 2])
    for kind in kinds_of_arrays():
        padded = padded_rows(rows, left, kind)
        assert same_batches([collate_packed(padded, [0, 1, 2])], [expected])
        assert same_batches([collate_padded(padded)], [collate_padded(rows)])
        for row in padded:
            row["attention_mask"] = np.asarray(row["attention_mask"]) == 1
        assert same_batches([collate_packed(padded, [0, 1, 2])], [expected])


def test_padding_does_not_change_the_order():
    rows = make_rows(60)
    for options in ({}, {"shuffle": False, "longest_first": True}):
        expected = list(PackedLoader(rows, 4, **options))
        assert same_batches(
            list(PackedLoader(padded_rows(rows), 4, **options)), expected
        )


def test_a_mask_with_zeros_inside_keeps_its_columns():
    rows = [
        masked_row([0, 1, 0, 1], token_type_ids=[0, 0, 1, 1], labels=[1, 2, 3, 4]),
        {"input_ids": [9], "token_type_ids": [0], "labels": [9]},
    ]
    batch = collate_packed(rows, [4, 2])
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input_ids": [[6, 7, 8], [9, 0, 0]],
        "attention_mask": [[1, 0, 1], [1, 0, 0]],
        "token_type_ids": [[0, 1, 1], [0, 0, 0]],
        "labels": [[2, 3, 4], [9, -100, -100]],
        "row_ids": [4, 2],
    }
    wide = collate_padded(rows, pad_token_id=1, pad_to_length=5)
    assert wide["attention_mask"].tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert wide["input_ids"].tolist() == [[6, 7, 8, 1, 1], [9, 1, 1, 1, 1]]


@given(st.integers(1, 30), st.lists(st.integers(0, 29), max_size=12))
def test_gather_equals_collate(count, picked):
    features = make_features(count)
    indices = [index % count for index in picked]
    expected = collate_packed([features[i] for i in indices], indices)
    gathered = features.gather(np.array(indices, dtype=np.int64))
    if not indices:
        expected["labels"] = np.zeros(0, dtype=np.int64)
    assert same_batches([expected], [gathered])


# --- the order -----------------------------------------------------------------------


@settings(deadline=None)
@given(
    count=st.integers(0, 400),
    batch=st.integers(1, 33),
    shuffle=st.booleans(),
    group=st.booleans(),
    drop=st.booleans(),
    seed=st.integers(0, 2**63),
)
def test_every_row_once(count, batch, shuffle, group, drop, seed):
    features = make_features(count) if count else Features([], [0])
    loader = PackedLoader(
        features,
        batch,
        seed=seed,
        shuffle=shuffle,
        group_by_length=group,
        drop_last=drop,
    )
    batches = loader.batches()
    assert len(batches) == len(loader)
    rows = np.concatenate(batches).tolist() if batches else []
    assert len(set(rows)) == len(rows) == (count - count % batch if drop else count)
    assert all(len(b) == batch for b in batches[: count // batch])
    if not shuffle:
        assert rows == list(range(len(rows)))


def test_order_is_a_function_of_seed_and_epoch():
    features = make_features(300)

    def order(**options):
        return np.concatenate(PackedLoader(features, 8, **options).batches()).tolist()

    assert order(seed=1, epoch=2) == order(seed=1, epoch=2)
    assert order(seed=1, epoch=2) != order(seed=1, epoch=3)
    assert order(seed=1, epoch=2) != order(seed=2, epoch=2)


def test_order_never_changes():
    """Pinned: a resumed run must see the order of the run it resumes."""
    batches = epoch_batches(np.arange(1000) % 37, 1000, 16, seed=42, epoch=3)
    text = ",".join(str(i) for i in np.concatenate(batches))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert digest == "c6344075487ebbe8"


def test_batches_are_grouped_by_length_with_the_longest_first():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 200, 16 * MEGA_BATCH * 2 + 5)
    batches = epoch_batches(lengths, len(lengths), 16, seed=0, epoch=0)
    full = batches[:-1]
    spread = np.mean([np.ptp(lengths[b]) for b in full])
    alone = epoch_batches(None, len(lengths), 16, seed=0, epoch=0)
    assert spread < 0.05 * np.mean([np.ptp(lengths[b]) for b in alone[:-1]])
    assert lengths[batches[0]].max() == max(lengths[b].max() for b in full)
    means = [lengths[b].mean() for b in full]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert len(batches[-1]) == 5


# --- resuming ----------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("stop", [0, 1, 7, 12, 13])
def test_resume_at_any_batch(prefetch, stop):
    features = make_features(101)
    whole = list(PackedLoader(features, 8, seed=5, epoch=1))
    first = PackedLoader(features, 8, seed=5, epoch=1, prefetch=prefetch)
    done = []
    if stop:
        for batch in first:
            done.append(batch)
            if len(done) == stop:
                break
    second = PackedLoader(features, 8, seed=5, epoch=1, prefetch=prefetch)
    second.skip(stop)
    rest = list(second)
    assert same_batches(done + rest, whole)
    assert same_batches(list(second), whole)  # the next iteration is complete


def test_more_than_an_epoch_cannot_be_skipped():
    with pytest.raises(ConfigError, match="cannot skip 6 batches; the epoch has 5"):
        PackedLoader(make_features(10), 2).skip(6)


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 0), ("batch_size", 1.5), ("prefetch", -1)]
)
def test_bad_arguments(name, value):
    with pytest.raises(ConfigError, match=f"{name}={value}, expected a whole number"):
        PackedLoader(make_features(3), **{"batch_size": 1, name: value})


# --- prefetching -------------------------------------------------------------


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "ea-prefetch"]


def test_prefetch_gives_the_same_and_leaves_no_thread():
    rows = make_rows(50)
    plain = list(PackedLoader(rows, 4))
    assert same_batches(list(PackedLoader(rows, 4, prefetch=2)), plain)
    assert threads() == []
    iterator = iter(PackedLoader(rows, 4, prefetch=2))
    next(iterator)
    assert threads() == ["ea-prefetch"]
    iterator.close()
    assert threads() == []


def test_error_in_the_background_arrives():
    rows = [*make_rows(20), {"text": "x"}]
    loader = PackedLoader(rows, 1, shuffle=False, prefetch=2)
    with pytest.raises(InputError, match="no 'input_ids'"):
        list(loader)
    assert threads() == []


def test_prefetch_works_ahead_but_not_further():
    made = []

    def collate(rows, row_ids):
        made.append(row_ids)
        return collate_packed(rows, row_ids)

    iterator = iter(PackedLoader(make_rows(20), 1, collate=collate, prefetch=4))
    next(iterator)
    deadline = time.monotonic() + 30
    while len(made) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(made) == 6  # one consumed, four prefetched, one waiting for space
    iterator.close()


def test_padded_batches_from_the_loader():
    collate = partial(collate_padded, pad_token_id=7, pad_to_length=64)
    batch = next(iter(PackedLoader(make_features(9), 4, collate=collate)))
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (4, 64)
    assert (batch["input_ids"][batch["attention_mask"] == 0] == 7).all()


def test_real_tokenizer_on_real_text(minilm, data_dir):
    import evolving_attention.glue as glue
    from evolving_attention.text import AutoTokenizer

    tok = AutoTokenizer.from_pretrained(minilm)
    (dev,) = glue.load("rte", data_dir / "glue", "dev")
    features = tokenize_dataset(dev, tok, max_length=64)
    assert len(features) == 277
    assert features.lengths.max() == 64
    one = tok(dev[5]["sentence1"], dev[5]["sentence2"], truncation=True, max_length=64)
    assert features[5]["input_ids"].tolist() == one.input_ids
    assert features[5]["token_type_ids"].tolist() == one.token_type_ids


# --- batches of tokens ---------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=200),
    limit=st.integers(1, 90),
    seed=st.integers(0, 99),
)
def test_batches_of_tokens(lengths, limit, seed):
    lengths = np.array(lengths)
    epochs = [token_batches(lengths, limit, seed=seed, epoch=e) for e in range(3)]
    for batches in epochs:
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        assert all(len(b) == 1 or lengths[b].sum() <= limit for b in batches)
        assert lengths[batches[0]].max() == lengths.max()
    assert len({len(batches) for batches in epochs}) == 1  # a run's plan relies on it
    spans = [(-lengths[b].max(), -lengths[b].min(), -len(b)) for b in epochs[0]]
    ordered = [epochs[0][i] for _, i in sorted(zip(spans, count(), strict=False))]
    for before, after in pairwise(ordered):
        assert lengths[before].min() >= lengths[after].max()
        assert lengths[before].sum() + lengths[after].max() > limit


def test_a_loader_of_tokens_goes_on_where_it_was():
    features = make_features(150)
    options = {"batch_tokens": 200, "seed": 3, "epoch": 2}
    whole = list(PackedLoader(features, 8, **options))
    assert all(batch["sequence_offsets"][-1] <= 200 for batch in whole)
    rest = PackedLoader(features, 8, **options)
    assert len(rest) == len(whole) > 10
    rest.skip(7)
    assert same_batches(list(rest), whole[7:])
    shares = [PackedLoader(features, 8, share=(k, 2), **options) for k in range(2)]
    both = [a or b for a, b in zip(*shares, strict=True)]
    assert same_batches(both, whole)
    other = list(PackedLoader(features, 8, **{**options, "epoch": 3}))
    assert not same_batches(other, whole)
