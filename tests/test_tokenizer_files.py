"""Damaged and hostile tokenizer files: rejected at once by our errors, no panic."""

from __future__ import annotations

import copy
import json
import time

import pytest

from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.text import AutoTokenizer, time_limit
from evolving_attention.text.build import guard

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
    "empty": ("vocab.txt", b"", r"\[CLS\] is not in the vocabulary of 0 tokens"),
    "not JSON": (
        "tokenizer.json",
        b'{"a": }',
        "tokenizer.json: expected .* at line 1 column",
    ),
    "deep": ("tokenizer.json", b"[" * 100_000, "tokenizer.json: invalid type"),
    "a list": ("tokenizer.json", b"[]", "tokenizer.json: "),
    "settings": ("tokenizer_config.json", b"[]", "expected a JSON object"),
    "half settings": (
        "tokenizer_config.json",
        rb'{"unk_token": "\ud800"}',
        r"a text holds '\\ud800', half",
    ),
    "deep settings": ("tokenizer_config.json", b"[" * 100_000, "not usable JSON"),
    "bad settings": ("tokenizer_config.json", b"{", r":1:2: not JSON"),
    "ids alone": ("vocab.json", b"[1]", "expected a JSON object"),
    "merges alone": (
        "vocab.json",
        b'{"<s>": 0, "</s>": 1}',
        "merges.txt: cannot be opened: .*No such file",
    ),
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
        with pytest.raises(CheckpointError, match=r"merges\.txt with vocab\.json: "):
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
# path in tokenizer.json, new value, expected error text
HOSTILE = {
    "huge id": (["model", "vocab", "time"], 4_000_000_000, "an id from 0 to 10000000"),
    "negative id": (["model", "vocab", "time"], -1, "integer `-1`"),
    "float id": (["model", "vocab", "time"], 5.0, "floating point"),
    "bool id": (["model", "vocab", "time"], True, "boolean"),
    "same id": (["model", "vocab", "time"], 6, "one id each"),
    "no vocab": (["model", "vocab"], {}, "there are no tokens"),
    "unknown model": (["model", "type"], "Neural", "ModelUntagged"),
    "model is text": (["model"], "BPE", "ModelUntagged"),
    "unk unknown": (["model", "unk_token"], "?", "a token of the vocabulary"),
    "unk a list": (["model", "unk_token"], [], "expected a string"),
    "added object": (["added_tokens"], {}, "expected a sequence"),
    "normalizer": (["normalizer"], {"type": "Shell"}, "NormalizerUntagged"),
    "normalizer list": (["normalizer"], [], "NormalizerUntagged"),
    "too deep": (["normalizer"], nested(400), "recursion limit|NormalizerUntagged"),
    "template token": (
        ["post_processor", "single", 0, "SpecialToken", "id"],
        "[NONE]",
        r"library failed \(no entry",
    ),
    "template sequence": (
        ["post_processor", "single", 1, "Sequence", "id"],
        "C",
        "PostProcessorWrapper",
    ),
    "template id": (
        ["post_processor", "special_tokens", "[CLS]", "ids"],
        [7],
        r"the ids \[7, 0\], expected \[2, 0\]",
    ),
    "template lengths": (
        ["post_processor", "special_tokens", "[CLS]", "ids"],
        [2, 2],
        "as in vocab",
    ),
    "template empty": (
        ["post_processor", "pair"],
        [],
        "a pair of 2 tokens has 0 of them",
    ),
    "bert processing": (
        ["post_processor"],
        {"type": "BertProcessing", "sep": ["[SEP]", 99], "cls": ["[CLS]", 2]},
        "as in vocab",
    ),
    "decoder": (["decoder"], {"type": "Exec"}, "DecoderWrapper"),
    "merges unknown": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]},
        "library failed|out of vocabulary",
    ),
    "merges not pairs": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a"]]},
        "MergeType",
    ),
    "random merges": (
        ["model"],
        {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5},
        "it is random",
    ),
    "unigram id": (
        ["model"],
        {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 1},
        "UnkIdNotInVocabulary",
    ),
    "unigram empty": (
        ["model"],
        {"type": "Unigram", "vocab": []},
        "there are no tokens",
    ),
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
    value["truncation"] = {
        "max_length": 1,
        "stride": 5,
        "strategy": "LongestFirst",
        "direction": "Right",
    }
    value["padding"] = {
        "strategy": {"Fixed": 10**9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    assert AutoTokenizer.from_pretrained(tmp_path)("time an").input_ids == [2, 5, 8]


JUNK = [None, True, -1, 2**63, 1e308, "", "x", [], {}, [[]], {"type": "Sequence"}]


def test_every_node_replaced_by_junk(good_json, tmp_path):
    """Any single wrong value loads or raises CheckpointError; no panic."""
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


# path in tokenizer.json and new value: unusual, but valid
ODD = {
    "nested quantifier": (["normalizer"], {**REGEX, "pattern": {"Regex": "(a+)+$"}}),
    "long regex": (["normalizer"], {**REGEX, "pattern": {"Regex": "a" * 5000}}),
    "empty pattern": (["normalizer"], {**REGEX, "pattern": {"String": ""}}),
    "long content": (["normalizer"], {"type": "Prepend", "prepend": "x" * 10**5}),
    "deep sequence": (["normalizer"], nested(40)),
    "long words": (["model", "max_input_chars_per_word"], 10**9),
    "added id": (["added_tokens", 0, "id"], 2**32 - 1),
    "added empty": (["added_tokens", 0, "content"], ""),
}


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_tokenizers_work_or_say_that_they_gave_up(good_json, tmp_path, name):
    text = json.dumps(replaced(good_json, *ODD[name]))
    (tmp_path / "tokenizer.json").write_text(text)
    tok = AutoTokenizer.from_pretrained(tmp_path)
    if name == "nested quantifier":  # the library aborts the search itself
        with pytest.raises(InputError, match="library failed"):
            tok("a" * 40 + "!")
    assert tok("time").input_ids[0] == 2


# n characters take n^4 / 24 steps; no single search reaches the library's limit.
SLOW = {"Regex": "[a-z]*[a-z]*[a-z]*[^a-z ]"}


def slow_parts() -> dict[str, dict]:
    split = {"type": "Split", "pattern": SLOW, "behavior": "Isolated", "invert": False}
    replace = {"type": "Replace", "pattern": SLOW, "content": "x"}
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]},
        "normalizer": {"type": "Sequence", "normalizers": [replace]},
        "decoder": replace,
    }


@pytest.mark.parametrize("part", sorted(slow_parts()))
def test_slow_regexes_end_in_time(good_json, tmp_path, monkeypatch, part):
    value = replaced(good_json, [part], slow_parts()[part])
    value["model"]["vocab"]["b" * 220] = len(value["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    tok = AutoTokenizer.from_pretrained(tmp_path)
    assert tok("time an") is not None
    monkeypatch.setattr(time_limit, "SECONDS", 0.1)
    call = tok if part != "decoder" else tok.decode
    given = "b" * 220 if part != "decoder" else [value["model"]["vocab"]["b" * 220]]
    with pytest.raises(InputError, match=r"takes longer than 0 s for .* characters"):
        call(given)
    with pytest.raises(InputError, match="still busy with an earlier text"):
        tok("time")
    assert copy.deepcopy(tok._time)._late is None


@pytest.mark.parametrize("escaped", [False, True])
def test_slow_regexes_while_a_tokenizer_is_built(
    good_json, tmp_path, monkeypatch, escaped
):
    """The library normalizes added tokens while it reads the file."""
    monkeypatch.setattr(time_limit, "SECONDS", 0.1)
    value = replaced(good_json, ["normalizer"], slow_parts()["normalizer"])
    token = {**value["added_tokens"][0], "content": "b" * 220, "id": 99}
    value["added_tokens"].append({**token, "normalized": True, "special": False})
    text = json.dumps(value)
    if escaped:
        text = text.replace('"Regex"', '"\\u0052egex"')
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"json: a regular .* takes longer than"):
        AutoTokenizer.from_pretrained(tmp_path)


def test_known_regexes_are_quick_enough(good_json, tmp_path):
    """The pattern of GPT-4 and Llama on a long text stays well within the limit."""
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = {"pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    value = replaced(good_json, ["pre_tokenizer"], {"type": "Split", **split})
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    tok = AutoTokenizer.from_pretrained(tmp_path)
    text = "time flys an. " * 2000
    began = time.perf_counter()
    ids = tok(text)["input_ids"]
    seconds = time.perf_counter() - began
    assert len(ids) > 8000
    assert seconds < len(text) / time_limit.CHARACTERS_PER_SECOND


def test_panics_become_our_errors():
    class PanicException(BaseException):
        """Has the name of the library's panic and, like it, is no Exception."""

    def panic():
        with guard(InputError, "the text"):
            raise PanicException("index out of bounds")

    with pytest.raises(InputError, match=r"library failed \(index out of bounds\)"):
        panic()

    def interrupt():
        with guard(InputError, "the text"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
