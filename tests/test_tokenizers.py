"""Tokenizers: published ids, parity with transformers, hostile files, mistakes."""

from __future__ import annotations

import copy
import json
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.text import AutoTokenizer
from evolving_attention.text.build import guard
from evolving_attention.text.validate_parts import check_pattern

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
    """A folder with a ten-word BERT vocabulary."""
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
    # one row ends with a space, which the publisher of the ids strips
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
    # made from bare files, transformers' mask does not swallow the space before it, as
    # it does in the published tokenizer.json (and here)
    texts = [text.replace(" <mask>", "<mask>") for text in TEXTS if text]
    same(ours(texts), {k: v for k, v in theirs(texts).items() if k in ours("a")})
    same(ours("a", "b"), {k: v for k, v in theirs("a", "b").items() if k in ours("a")})


@pytest.mark.parametrize("kind", ["bert", "roberta", "minilm"])
def test_saved_folder_loads_here_and_there(request, kind, tmp_path):
    folder = request.getfixturevalue("minilm" if kind == "minilm" else f"{kind}_dir")
    tok = AutoTokenizer.from_pretrained(folder)
    tok(TEXTS, truncation=True, max_length=5)  # must leave no trace in the files
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


def test_windows_vocabulary(tiny):
    text = "\r\n".join(WORDS) + "\r\n"
    (tiny / "vocab.txt").write_bytes(text.encode())
    assert AutoTokenizer.from_pretrained(tiny)("time").input_ids == [2, 5, 3]


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
    "length 0": (lambda tok: tok("a", max_length=0), ConfigError, "expected a number"),
    "no room": (
        lambda tok: tok("a", "b", max_length=3, truncation=True),
        ConfigError,
        "max_length=3 leaves no room for text beside 3 special tokens",
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


# --- damaged and hostile folders ---------------------------------------------------


def test_folder_without_tokenizer(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"expected tokenizer\.json, or vocab\.txt"
    ):
        AutoTokenizer.from_pretrained(tmp_path)


FILES = {
    "token twice": ("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\na\na\n", ":5: token 'a' is al"),
    "no special tokens": ("vocab.txt", b"a\nb\n", r"\[UNK\], \[SEP\], \[CLS\] is not"),
    "not UTF-8": ("vocab.txt", b"[UNK]\n\xff\n", "not UTF-8 at byte 6"),
    "empty": ("vocab.txt", b"", "expected a non-empty object"),
    "not JSON": ("tokenizer.json", b'{"a": }', r"tokenizer.json:1:7: not JSON"),
    "deep": ("tokenizer.json", b"[" * 100_000, "not usable JSON"),
    "a list": ("tokenizer.json", b"[]", "top level: expected an object"),
    "settings": ("tokenizer_config.json", b"[]", "expected a JSON object"),
    "merges alone": ("vocab.json", b'{"<s>": 0, "</s>": 1}', "merges.txt: no such"),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_damaged_files(tmp_path, name):
    file, content, message = FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        AutoTokenizer.from_pretrained(tmp_path)


def test_merges_must_resolve(tmp_path):
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    assert AutoTokenizer.from_pretrained(tmp_path)("ab").input_ids == [0, 5, 2]
    for merges in ("a c\n", "b a\n", "a\n", "a b c\n"):
        (tmp_path / "merges.txt").write_text(merges)
        with pytest.raises(CheckpointError, match=r"merges\[0\]"):
            AutoTokenizer.from_pretrained(tmp_path)


@pytest.fixture(scope="module")
def good_json(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("good")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder / "saved")
    value = json.loads((folder / "saved" / "tokenizer.json").read_text())
    value["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
    }
    return value


def nested(depth: int) -> dict:
    part = {"type": "Lowercase"}
    for _ in range(depth):
        part = {"type": "Sequence", "normalizers": [part]}
    return part


REGEX = {"type": "Replace", "content": ""}
# path in tokenizer.json, new value, part of the message
HOSTILE = {
    "huge id": (["model", "vocab", "time"], 4_000_000_000, "an id from 0 to 10000000"),
    "negative id": (["model", "vocab", "time"], -1, "an id from 0"),
    "float id": (["model", "vocab", "time"], 5.0, "an id from 0"),
    "bool id": (["model", "vocab", "time"], True, "an id from 0"),
    "same id": (["model", "vocab", "time"], 6, "ids that differ"),
    "no vocab": (["model", "vocab"], {}, "non-empty"),
    "unknown model": (["model", "type"], "Neural", "WordPiece, BPE"),
    "model is text": (["model"], "BPE", "model: expected an object"),
    "unk unknown": (["model", "unk_token"], "?", "a token of vocab"),
    "unk a list": (["model", "unk_token"], [], "a token"),
    "long words": (["model", "max_input_chars_per_word"], 10**9, "from 1 to 10000"),
    "added id": (["added_tokens", 0, "id"], 2**32 - 1, "an id from 0 to 10000000"),
    "added empty": (["added_tokens", 0, "content"], "", "a non-empty token"),
    "added object": (["added_tokens"], {}, "a list"),
    "normalizer": (["normalizer"], {"type": "Shell"}, "normalizer.type = 'Shell'"),
    "normalizer list": (["normalizer"], [], "normalizer: expected an object"),
    "deep sequence": (["normalizer"], nested(40), "at most 16 levels"),
    "nested quantifier": (
        ["normalizer"],
        {**REGEX, "pattern": {"Regex": "(a+)+$"}},
        "no repeated group",
    ),
    "long regex": (
        ["normalizer"],
        {**REGEX, "pattern": {"Regex": "a" * 5000}},
        "at most 1024 characters of regular expression",
    ),
    "empty pattern": (
        ["normalizer"],
        {**REGEX, "pattern": {"String": ""}},
        "a non-empty text",
    ),
    "long content": (
        ["normalizer"],
        {"type": "Prepend", "prepend": "x" * 10**5},
        "at most 1024",
    ),
    "template token": (
        ["post_processor", "single", 0, "SpecialToken", "id"],
        "[NONE]",
        "a name among special_tokens",
    ),
    "template sequence": (
        ["post_processor", "single", 1, "Sequence", "id"],
        "C",
        "or sequence A or B",
    ),
    "template id": (
        ["post_processor", "special_tokens", "[CLS]", "ids"],
        [7],
        "token and id as in the vocabulary",
    ),
    "template lengths": (
        ["post_processor", "special_tokens", "[CLS]", "ids"],
        [2, 2],
        "ids and tokens of one length",
    ),
    "template empty": (["post_processor", "pair"], [], "1 to 100 pieces"),
    "bert processing": (
        ["post_processor"],
        {"type": "BertProcessing", "sep": ["[SEP]", 99], "cls": ["[CLS]", 2]},
        "token and id as in the vocabulary",
    ),
    "decoder": (["decoder"], {"type": "Exec"}, "decoder.type = 'Exec'"),
    "merges unknown": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]},
        r"merges\[0\] = 'a b'",
    ),
    "merges not pairs": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a"]]},
        r"merges\[0\]",
    ),
    "random merges": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5},
        "it is random",
    ),
    "unigram id": (
        ["model"],
        {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 1},
        "an index into vocab",
    ),
    "unigram empty": (["model"], {"type": "Unigram", "vocab": []}, "non-empty list"),
    "library": (["pre_tokenizer"], {"type": "Metaspace"}, "tokenizer.json: "),
}


def replaced(value: dict, path: list, new: object) -> dict:
    result = copy.deepcopy(value)
    part = result
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = new
    return result


def test_good_json_loads(good_json, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(good_json))
    assert AutoTokenizer.from_pretrained(tmp_path)("time").input_ids == [2, 5]


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_tokenizer_json(good_json, tmp_path, name):
    path, new, message = HOSTILE[name]
    text = json.dumps(replaced(good_json, path, new))
    (tmp_path / "tokenizer.json").write_text(text)
    started = time.perf_counter()
    with pytest.raises(CheckpointError, match=message):
        AutoTokenizer.from_pretrained(tmp_path)
    assert time.perf_counter() - started < 1.0


def test_truncation_and_padding_of_the_file_do_not_apply(good_json, tmp_path):
    value = copy.deepcopy(good_json)
    value["truncation"] = {"max_length": 1, "stride": 5, "strategy": "LongestFirst"}
    value["padding"] = {"strategy": {"Fixed": 10**9}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    assert AutoTokenizer.from_pretrained(tmp_path)("time an").input_ids == [2, 5, 8]


JUNK = [None, True, -1, 2**63, 1e308, "", "x", [], {}, [[]], {"type": "Sequence"}]


def test_every_node_replaced_by_junk(good_json, tmp_path):
    """Whatever single value is wrong: it loads, or is a CheckpointError; no panic."""
    paths: list[list] = []

    def walk(node: object, path: list) -> None:
        if path:
            paths.append(path)
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            if isinstance(value, (dict, list)):
                walk(value, [*path, key])
            else:
                paths.append([*path, key])

    walk(good_json, [])
    file = tmp_path / "tokenizer.json"
    refused = 0
    for path in paths:
        for junk in JUNK:
            file.write_text(json.dumps(replaced(good_json, path, junk)))
            try:
                tok = AutoTokenizer.from_pretrained(tmp_path)
                tok(["time flys", ""], ["an", "."])
            except (CheckpointError, InputError, ConfigError):
                refused += 1
    assert len(paths) > 60
    assert refused > len(paths) * 4


PATTERNS = {
    r"(a+)+": False,
    r"(?:a*b)*c": False,
    r"(a|aa)+": False,
    r"(\s+)*": False,
    r"((a{1,9}))+": False,
    r"([ab]+)+": False,
    r"(x(y+))*": False,
    r"'s|'t|'re| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": True,
    r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s*[\r\n]+": True,
    r"[()+*]+(ab)+": True,
    r"\(a+\)+": True,
    r"(a{3})+": True,
}


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_patterns(pattern):
    if PATTERNS[pattern]:
        check_pattern(pattern, "place", "file")
    else:
        with pytest.raises(CheckpointError, match="exponential time"):
            check_pattern(pattern, "place", "file")


def test_panics_become_our_errors():
    class PanicException(BaseException):
        """Named as the tokenizers library's, and like it no Exception."""

    def panic():
        with guard(InputError, "the text"):
            raise PanicException("index out of bounds")

    with pytest.raises(InputError, match=r"gave up \(index out of bounds\)"):
        panic()

    def interrupt():
        with guard(InputError, "the text"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
