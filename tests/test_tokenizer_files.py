"""Damaged and hostile tokenizer files: refused at once, by our errors, no panic."""

from __future__ import annotations

import copy
import json
import time

import pytest

from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.text import AutoTokenizer
from evolving_attention.text.build import guard
from evolving_attention.text.validate_parts import check_pattern

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "time", "fly", "##s", "an", "."]


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
    assert time.perf_counter() - started < 5.0


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
