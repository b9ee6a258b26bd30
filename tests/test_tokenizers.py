"""Tokenizers: published ids, parity with transformers, mistakes in calls."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.text import AutoTokenizer

TEXTS = [
    "Our friends won't buy this analysis, let alone the next one we propose.",
    "Ça coûte 5 €, naïve façade — “quoted”… 我爱北京 😀 e\u0301 \t x\u200by",
    "a",
    "",
    "unaffable ANTIDISESTABLISHMENTARIANISM " + "z" * 150,
    "a [MASK] in <mask> the [SEP] middle </s>",
]


@pytest.fixture(scope="module")
def vocab_dir(data_dir: Path) -> Path:
    folder = data_dir / "vocab"
    if not folder.is_dir():
        pytest.skip(f"no vocabularies at {folder}")
    return folder


@pytest.fixture(scope="module")
def bert_dir(vocab_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    shutil.copy(vocab_dir / "bert_base_uncased_vocab.txt", folder / "vocab.txt")
    config = {"model_type": "bert", "max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def roberta_dir(vocab_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roberta")
    shutil.copy(vocab_dir / "roberta" / "vocab.json", folder / "vocab.json")
    shutil.copy(vocab_dir / "gpt2_bpe_vocab.bpe", folder / "merges.txt")
    config = {"model_type": "roberta", "max_position_embeddings": 514}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "time", "fly", "##s", "an", "."]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Writes a folder with a ten-word BERT vocabulary."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder


# --- published ids -----------------------------------------------------------------


def goldens(vocab_dir: Path, model: str) -> list[tuple[list[str], dict]]:
    root = vocab_dir / "goldens_mtdnn"
    rows = []
    for task in ("cola", "mnli", "stsb"):
        expected = root / "expected" / "prepro_std" / model / f"{task}_train.json"
        texts = root / "input" / "prepro_std" / f"{task}_train.tsv"
        lines = texts.read_bytes().decode().rstrip("\n").split("\n")
        answers = expected.read_text().rstrip("\n").split("\n")
        for line, answer in zip(lines, answers, strict=True):
            rows.append((line.split("\t")[2:], json.loads(answer)))
    return rows


def test_bert_goldens(vocab_dir, bert_dir):
    tok = AutoTokenizer.from_pretrained(bert_dir)
    rows = goldens(vocab_dir, "bert_base_uncased_lower")
    assert len(rows) == 15
    for texts, expected in rows:
        out = tok(*texts)
        assert out.input_ids == expected["token_id"]
        assert out.token_type_ids == expected["type_id"]


def test_roberta_goldens(vocab_dir, roberta_dir):
    tok = AutoTokenizer.from_pretrained(roberta_dir)
    rows = goldens(vocab_dir, "roberta_base_cased")
    wrong = [texts for texts, e in rows if tok(*texts).input_ids != e["token_id"]]
    # one text ends with a space, which the publisher stripped before making the ids
    assert [texts[1][-1] for texts in wrong] == [" "]
    assert tok(*(text.strip() for text in wrong[0])).input_ids in [
        expected["token_id"] for _, expected in rows
    ]


# --- parity with transformers ------------------------------------------------------

CALLS = {
    "plain": {},
    "truncated": {"truncation": True, "max_length": 9},
    "padded": {"padding": True},
    "fixed": {"padding": "max_length", "truncation": True, "max_length": 16},
    "first": {"truncation": "only_first", "max_length": 14},
    "multiple": {"padding": True, "pad_to_multiple_of": 8},
    "bare": {"add_special_tokens": False},
    "array": {"padding": True, "return_tensors": "np"},
}


def same(ours, theirs) -> None:
    assert set(ours) == set(theirs)
    for name in ours:
        np.testing.assert_array_equal(
            np.asarray(ours[name], dtype=object), np.asarray(theirs[name], dtype=object)
        )


@pytest.fixture(scope="module")
def minilm_pair(minilm):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(minilm)
    return AutoTokenizer.from_pretrained(minilm), theirs


@pytest.mark.parametrize("name", sorted(CALLS))
def test_parity_on_minilm(minilm_pair, name):
    ours, theirs = minilm_pair
    options = CALLS[name]
    if "truncation" not in options or options["truncation"] is True:
        same(ours(TEXTS, **options), theirs(TEXTS, **options))
    texts = [text for text in TEXTS if len(text) > 1]
    pairs = ["a pair .", "", "of texts", "again"]
    if name == "first":
        pairs = ["x"] * 4
    same(ours(texts, pairs, **options), theirs(texts, pairs, **options))
    same(ours(texts[0], **options), theirs(texts[0], **options))
    same(ours(texts[0], "b", **options), theirs(texts[0], "b", **options))


def test_what_a_tokenizer_has_not(minilm_pair):
    ours, _ = minilm_pair
    assert not hasattr(ours, "mask")


PADDINGS = {
    "longest": {"padding": True},
    "fixed": {"padding": "max_length", "max_length": 12},
    "multiple": {"padding": True, "pad_to_multiple_of": 8},
    "arrays": {"padding": True, "return_tensors": "np"},
}


@pytest.mark.parametrize("name", sorted(PADDINGS))
def test_padding_of_rows_is_that_of_transformers(tiny, name):
    transformers = pytest.importorskip("transformers")
    ours = AutoTokenizer.from_pretrained(tiny)
    theirs = transformers.BertTokenizerFast(str(tiny / "vocab.txt"))
    texts = ["time fly an", "time", "fly time . an"]
    rows = [{**ours(text), "label": i} for i, text in enumerate(texts)]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    ids = [{"input_ids": row["input_ids"]} for row in rows]  # gets attention_mask
    for given in (rows, columns, ids):
        same(ours.pad(given, **PADDINGS[name]), theirs.pad(given, **PADDINGS[name]))
    assert rows[1]["input_ids"] == ours("time").input_ids  # the input is not modified


def test_the_collator_of_transformers_takes_our_tokenizer(tiny):
    transformers = pytest.importorskip("transformers")
    ours = AutoTokenizer.from_pretrained(tiny)
    rows = [{**ours("time fly"), "label": 1}, {**ours("time"), "label": 0}]
    batch = transformers.DataCollatorWithPadding(ours, return_tensors="np")(rows)
    assert batch["input_ids"].shape == (2, 4)
    assert batch["labels"].tolist() == [1, 0]
    with pytest.raises(ConfigError, match="return_tensors='pt' is not known; use None"):
        transformers.DataCollatorWithPadding(ours)(rows)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "no row with input_ids; expected one or more"),
        ([{"label": 1}], "no row with input_ids"),
        ([3], r"encoded_inputs\[0\] is int; expected a row as a call"),
        ({"input_ids": [2, 3]}, "is one row; expected a list of rows"),
        ([{"input_ids": [2]}, {"ids": [2]}], r"\[1\] has the keys \['ids'\]; expected"),
        (
            [{"input_ids": [2, 3], "attention_mask": [1]}],
            "attention_mask has other len",
        ),
        ([{"input_ids": [2], "text": "time"}], "text: the rows make no array of numb"),
    ],
)
def test_rows_that_cannot_be_padded(tiny, rows, text):
    with pytest.raises(InputError, match=text):
        AutoTokenizer.from_pretrained(tiny).pad(rows, return_tensors="np")


def test_parity_of_attributes(minilm_pair):
    ours, theirs = minilm_pair
    for name in ("vocab_size", "model_max_length", "pad_token", "pad_token_id"):
        assert getattr(ours, name) == getattr(theirs, name)
    for role in ("unk", "sep", "cls", "mask"):
        assert getattr(ours, f"{role}_token_id") == getattr(theirs, f"{role}_token_id")
    assert len(ours) == len(theirs)
    assert ours.all_special_ids == sorted(theirs.all_special_ids)
    assert ours.get_vocab() == theirs.get_vocab()
    ids = ours(TEXTS[0]).input_ids
    assert ours.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)
    assert ours.tokenize(TEXTS[0]) == theirs.tokenize(TEXTS[0])
    for skip in (False, True):
        assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_parity_from_vocabulary_files(kind, bert_dir, roberta_dir):
    transformers = pytest.importorskip("transformers")
    folder = bert_dir if kind == "bert" else roberta_dir
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = AutoTokenizer.from_pretrained(folder)
    # transformers' <mask> made from bare files keeps the space before it; the published
    # tokenizer.json (and ours) removes it
    texts = [text.replace(" <mask>", "<mask>") for text in TEXTS if text]
    same(ours(texts), {k: v for k, v in theirs(texts).items() if k in ours("a")})
    same(ours("a", "b"), {k: v for k, v in theirs("a", "b").items() if k in ours("a")})


@pytest.mark.parametrize("kind", ["bert", "roberta", "minilm"])
def test_saved_folder_loads_here_and_there(request, kind, tmp_path):
    folder = request.getfixturevalue("minilm" if kind == "minilm" else f"{kind}_dir")
    tok = AutoTokenizer.from_pretrained(folder)
    tok(TEXTS, truncation=True, max_length=5)  # must not affect the saved files
    written = tok.save_pretrained(tmp_path)
    names = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(Path(path).name for path in written) == names
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.model_max_length == tok.model_max_length == 512
    assert again.tokenizer_class == tok.tokenizer_class
    same(again(TEXTS, TEXTS), tok(TEXTS, TEXTS))
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXTS)["input_ids"] == tok(TEXTS)["input_ids"]
    assert theirs.model_max_length == 512
    assert theirs.mask_token_id == tok.mask_token_id


# --- behaviour -----------------------------------------------------------------------


def test_call_forms(tiny):
    tok = AutoTokenizer.from_pretrained(tiny)
    single = tok("time flys", "an .")
    assert single.input_ids == [2, 5, 6, 7, 3, 8, 9, 3]
    assert single["token_type_ids"] == [0] * 5 + [1] * 3
    assert single.attention_mask == [1] * 8
    batch = tok(["time", "an fly ."], padding="max_length", max_length=6)
    assert batch.input_ids == [[2, 5, 3, 0, 0, 0], [2, 8, 6, 9, 3, 0]]
    assert batch.attention_mask == [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]]
    arrays = tok(["time", "an fly ."], padding=True, return_tensors="np")
    assert arrays.input_ids.shape == (2, 5)
    assert arrays.input_ids.dtype == np.int64
    assert tok("time", return_tensors="np").input_ids.shape == (1, 3)
    assert tok([], return_tensors="np").input_ids.shape == (0, 0)
    assert tok(["time"], return_token_type_ids=False).keys() == {
        "input_ids",
        "attention_mask",
    }
    with pytest.raises(AttributeError, match="no field 'labels'"):
        _ = single.labels


def test_left_padding(tiny):
    tok = AutoTokenizer.from_pretrained(tiny, padding_side="left")
    assert tok("time", padding="max_length", max_length=5).input_ids == [0, 0, 2, 5, 3]


def test_special_tokens_can_be_set(tiny, tmp_path):
    tok = AutoTokenizer.from_pretrained(tiny)
    before = tok.fingerprint()
    tok.pad_token = "[UNK]"
    assert (tok.pad_token, tok.pad_token_id) == ("[UNK]", 1)
    assert tok("time", padding="max_length", max_length=4).input_ids == [2, 5, 3, 1]
    assert tok.fingerprint() != before
    tok.mask_token_id = np.int64(5)
    assert (tok.mask_token, tok.mask_token_id) == ("time", 5)
    tok.sep_token = None
    assert tok.special_tokens_map["mask_token"] == "time"
    assert tok.all_special_ids == [1, 2, 5]
    tok.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.special_tokens_map == tok.special_tokens_map
    assert pickle.loads(pickle.dumps(tok)).pad_token_id == 1


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "pad_token",
            "[P]",
            r"pad_token='\[P\]' is not in the vocabulary of 10 tokens, ",
        ),
        ("pad_token", "[P]", "use one, or train a vocabulary with it"),
        ("mask_token", 4, "mask_token=4 is not in the vocabulary"),
        ("pad_token_id", 10, "pad_token_id=10 is not in the vocabulary of 10 tokens"),
        ("pad_token_id", "x", "pad_token_id='x', expected a whole number"),
    ],
)
def test_special_tokens_that_cannot_be_set(tiny, name, value, text):
    tok = AutoTokenizer.from_pretrained(tiny)
    with pytest.raises(InputError, match=text):
        setattr(tok, name, value)
    assert tok.pad_token_id == 0


def test_sides_are_saved_and_checked(tiny, tmp_path):
    tok = AutoTokenizer.from_pretrained(tiny)
    right = tok.fingerprint()
    tok.padding_side = tok.truncation_side = "left"
    assert tok.fingerprint() != right
    cut = tok("time fly an", truncation=True, max_length=4)
    assert cut.input_ids == [2, 6, 8, 3]
    assert cut.truncated == [True]
    tok.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert (again.padding_side, again.truncation_side) == ("left", "left")
    again.padding_side = again.truncation_side = "right"
    again.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).truncation_side == "right"
    with pytest.raises(ConfigError, match="truncation_side='top' is not known; use"):
        tok.truncation_side = "top"
    with pytest.raises(ConfigError, match="padding_side=3 is not known; use left or"):
        AutoTokenizer.from_pretrained(tiny, padding_side=3)


@pytest.mark.parametrize("strategy", [True, "only_first", "only_second"])
def test_truncation_on_the_left_is_that_of_transformers(minilm_pair, minilm, strategy):
    theirs = copy.deepcopy(minilm_pair[1])
    theirs.truncation_side = "left"
    ours = AutoTokenizer.from_pretrained(minilm, truncation_side="left")
    options = {"truncation": strategy, "max_length": 12}
    pair = ("time flies like an arrow", "fruit flies like a banana")
    same(ours(*pair, **options), theirs(*pair, **options))
    if strategy is not True:
        return
    same(ours(TEXTS, **options), theirs(TEXTS, **options))
    ours.truncation_side = theirs.truncation_side = "right"
    same(ours(TEXTS, **options), theirs(TEXTS, **options))


def test_case_follows_settings_else_the_vocabulary(tiny):
    assert AutoTokenizer.from_pretrained(tiny).tokenize("TIME") == ["time"]
    kept = AutoTokenizer.from_pretrained(tiny, do_lower_case=False)
    assert kept.tokenize("TIME") == ["[UNK]"]
    (tiny / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert AutoTokenizer.from_pretrained(tiny).tokenize("TIME") == ["[UNK]"]
    (tiny / "tokenizer_config.json").unlink()
    with (tiny / "vocab.txt").open("a") as handle:
        handle.write("Time\n")
    assert AutoTokenizer.from_pretrained(tiny).tokenize("Time") == ["Time"]


def test_accents(tiny):
    assert AutoTokenizer.from_pretrained(tiny).tokenize("tïme") == ["time"]
    kept = AutoTokenizer.from_pretrained(tiny, strip_accents=False)
    assert kept.tokenize("tïme") == ["[UNK]"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"token": "hf_SECRET"}, "token is not supported, .*; set the .* HF_TOKEN"),
        ({"revision": "v2"}, "revision is not .*; download that revision and give"),
        ({"subfolder": "a"}, "subfolder is not .*; give the path of that folder"),
        ({"cache_dir": Path("a")}, "cache_dir is not .*; set the .* HF_HUB_CACHE"),
        (
            {"trunaction_side": "left"},
            "unknown option 'trunaction_side', expected one ",
        ),
        ({"trunaction_side": "left"}, "did you mean 'truncation_side'"),
        ({"quux": 1}, "unknown option 'quux', .*; leave it out"),
    ],
)
def test_options_that_cannot_be_given_while_loading(tiny, options, text):
    with pytest.raises(ConfigError, match=text) as caught:
        AutoTokenizer.from_pretrained(tiny, **options)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"mask_token": "[M]"},
        {"additional_special_tokens": ["fly", "[M]"]},
        {"extra_special_tokens": {"mark": "[M]"}},
    ],
)
def test_special_tokens_that_the_vocabulary_lacks(tiny, options):
    text = (
        rf"{next(iter(options))} has '\[M\]', expected a token of the vocabulary of 10"
    )
    with pytest.raises(ConfigError, match=text):
        AutoTokenizer.from_pretrained(tiny, **options)


@pytest.mark.parametrize("name", ["mask_token", "additional_special_tokens"])
def test_special_tokens_of_the_vocabulary_are_not_split(tiny, tmp_path, name):
    tokenizers = pytest.importorskip("tokenizers")
    with (tiny / "vocab.txt").open("a") as handle:
        handle.write("[M]\n")
    given = tokenizers.AddedToken("[M]")
    options = {name: given if name == "mask_token" else [given]}
    tok = AutoTokenizer.from_pretrained(tiny, **options)
    assert tok("time [M] fly").input_ids == [2, 5, 10, 6, 3]
    assert len(tok) == 11
    tok.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("time [M] fly").input_ids == [2, 5, 10, 6, 3]
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert settings[name] in ("[M]", ["[M]"])


def test_the_mask_of_roberta_keeps_its_space(roberta_dir):
    usual = AutoTokenizer.from_pretrained(roberta_dir)
    named = AutoTokenizer.from_pretrained(roberta_dir, mask_token="<mask>")
    assert named.fingerprint() == usual.fingerprint()


def test_options_of_loading_are_not_saved(tiny, tmp_path):
    (tiny / "tokenizer_config.json").write_text('{"token": "hf_SECRET", "mine": 1}')
    harmless = {"revision": "main", "token": None, "trust_remote_code": False}
    tok = AutoTokenizer.from_pretrained(tiny, mine=2, **harmless)
    tok.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert saved["mine"] == 2
    assert not {*harmless, "token"} & saved.keys()


def test_windows_vocabulary(tiny):
    text = "\r\n".join(WORDS) + "\r\n"
    (tiny / "vocab.txt").write_bytes(text.encode())
    assert AutoTokenizer.from_pretrained(tiny)("time").input_ids == [2, 5, 3]


def test_pairs_as_tuples_and_lists(tiny):
    tok = AutoTokenizer.from_pretrained(tiny)
    apart = tok(["time", "an fly"], ["fly", "time"], padding=True)
    assert dict(tok([("time", "fly"), ("an fly", "time")], padding=True)) == dict(apart)
    assert dict(tok([["time", "fly"], ["an fly", "time"]], padding=True)) == dict(apart)
    assert tok(("time", "fly")).input_ids == tok(["time", "fly"]).input_ids
    with pytest.raises(InputError, match=r"text\[0\] is tuple \('time', 'fly'\); exp"):
        tok([("time", "fly"), "time"])
    with pytest.raises(InputError, match=r"text\[0\] is tuple .*; expected text"):
        tok([("time", "fly")], ["time"])


def test_threads_with_different_truncation(tiny):
    tok = AutoTokenizer.from_pretrained(tiny)
    wrong = []

    def work(length: int) -> None:
        for _ in range(100):
            out = tok(["time " * 20] * 4, truncation=True, max_length=length)
            wrong.extend(row for row in out.input_ids if len(row) != length)

    threads = [threading.Thread(target=work, args=(n,)) for n in (5, 9, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


MISTAKES = {
    "too long": (
        lambda tok: tok("time " * 598, max_length=512),
        InputError,
        r"sequence length 600 > max_length 512; pass truncation=True",
    ),
    "too long in a batch": (
        lambda tok: tok(["time", "time " * 4], max_length=4),
        InputError,
        r"sequence length 6 > max_length 4 \(text 1\)",
    ),
    "None in a batch": (
        lambda tok: tok(["time", None]),
        InputError,
        r"text\[1\] is NoneType None; expected text",
    ),
    "a number": (lambda tok: tok(5), InputError, "text is int; expected text or a l"),
    "bytes": (lambda tok: tok(b"time"), InputError, "text is bytes; expected text"),
    "lengths differ": (
        lambda tok: tok(["a", "b"], ["c"]),
        InputError,
        "text has 2 rows but text_pair has 1",
    ),
    "pair of another form": (
        lambda tok: tok("a", ["b"]),
        InputError,
        "text is one str but text_pair is not",
    ),
    "half a surrogate": (
        lambda tok: tok("ab\ud800"),
        InputError,
        "half a surrogate pair at character 2",
    ),
    "huge text": (
        lambda tok: tok("a" * 1_000_001),
        InputError,
        "1000001 characters; at most 1000000",
    ),
    "ragged array": (
        lambda tok: tok(["time", "time an"], return_tensors="np"),
        InputError,
        "rows of lengths 3 to 4 make no array; pass padding=True",
    ),
    "torch": (
        lambda tok: tok("a", return_tensors="pt"),
        ConfigError,
        "return_tensors='pt' is not known",
    ),
    "truncation": (
        lambda tok: tok("a", truncation="left"),
        ConfigError,
        "truncation='left' is not known; use one of",
    ),
    "padding": (lambda tok: tok("a", padding="all"), ConfigError, "padding='all'"),
    "no length": (
        lambda tok: tok("a", padding="max_length"),
        ConfigError,
        "needs max_length",
    ),
    "length 0": (lambda tok: tok("a", max_length=0), ConfigError, "expected a whole"),
    "a length in words": (
        lambda tok: tok("a", max_length="long"),
        ConfigError,
        "max_length='long', expected a whole number, 1 or more",
    ),
    "no room": (
        lambda tok: tok("a", "b", max_length=3, truncation=True),
        ConfigError,
        "max_length=3 leaves no room for text next to 3 special tokens",
    ),
    "second too long": (
        lambda tok: tok("a", "time " * 9, max_length=6, truncation="only_first"),
        InputError,
        "cannot be tokenised",
    ),
    "unknown id": (
        lambda tok: tok.convert_ids_to_tokens([5, 99]),
        InputError,
        r"ids\[1\]=99 is not in the vocabulary of 10 tokens",
    ),
    "negative id": (lambda tok: tok.decode([-1]), InputError, r"token_ids\[0\]=-1"),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_mistakes_in_calls(tiny, name):
    call, kind, message = MISTAKES[name]
    tok = AutoTokenizer.from_pretrained(tiny)
    with pytest.raises(kind, match=message):
        call(tok)
