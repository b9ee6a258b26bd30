"""T5's spiece.model: ids of sentencepiece, sentinels, files, damaged files."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from spiece_data import PIECES, model_of, piece

import evolving_attention as ea
from evolving_attention.text import AutoTokenizer

sentencepiece = pytest.importorskip("sentencepiece", reason="no extra t5")

TEXTS = [
    "The house is wonderful.",
    "  Two  spaces,\ttabs\nand lines ",
    "Ça coûte 5 €, naïve façade — “quoted”… 我爱北京 😀 e\u0301 x\u200by ﬁ",
    "translate English to German: That is good. </s> <pad>",
    "A <extra_id_0> dog <extra_id_1>.",
    "",
    "a" * 200,
]


def folder_of(tmp_path: Path, raw: bytes, **settings) -> Path:
    (tmp_path / "spiece.model").write_bytes(raw)
    if settings:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


@pytest.fixture(scope="module")
def published(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = data_dir / "vocab" / "t5_tokenizer_base.model"
    if not file.is_file():
        pytest.skip(f"no vocabulary at {file}")
    folder = tmp_path_factory.mktemp("t5")
    shutil.copy(file, folder / "spiece.model")
    return folder


@pytest.fixture(scope="module")
def tokenizer(published: Path):
    return AutoTokenizer.from_pretrained(published)


def test_the_published_vocabulary(tokenizer):
    assert len(tokenizer) == 32_100
    out = tokenizer("The house is wonderful.")
    assert list(out) == ["input_ids", "attention_mask"]
    assert out.input_ids == [37, 629, 19, 1627, 5, 1]
    pair = tokenizer("The house", "is wonderful.").input_ids
    assert pair == [37, 629, 1, 19, 1627, 5, 1]
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
    assert ids == (0, 1, 2)
    vocab = tokenizer.get_vocab()
    assert (vocab["<extra_id_0>"], vocab["<extra_id_99>"]) == (32_099, 32_000)
    assert tokenizer.decode([37, 629, 19, 1627, 5]) == "The house is wonderful."
    assert tokenizer.tokenizer_class == "T5Tokenizer"


IDS = {  # expected ids, from the library sentencepiece 0.2
    "  Two  spaces,\ttabs\nand lines ": [2759, 4856, 6, 3808, 7, 11, 2356],
    "Ça coûte 5 €, naïve façade — “quoted”… ﬁ ①½²": [
        *(3, 2, 9, 10608, 15, 305, 3416, 6, 3, 29, 9, 2, 162, 24369, 3),
        *(318, 105, 14460, 1054, 153, 233, 361, 850, 2, 2884),
    ],
    "我爱北京 😀 e\u0301 x\u200by": [3, 2, 3, 2, 3, 154, 3, 226, 3, 63],
    "Eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen.": [
        *(2820, 14182, 193, 16282, 29, 3, 26959, 19935, 22569, 219, 595, 2506, 11994),
        5,
    ],
    "": [],
    "a" * 40: [3, *[9] * 40],
}


@pytest.mark.parametrize("text", IDS)
def test_ids_are_those_of_sentencepiece(tokenizer, text):
    assert tokenizer(text).input_ids == [*IDS[text], 1]


def drawn(count: int) -> list[str]:
    """Returns texts with combining marks, wide forms, joiners and other alphabets."""
    rng = np.random.default_rng(0)
    letters = [
        chr(c) for c in (*range(97, 123), *range(0x300, 0x315), *range(0x3B1, 0x3C0))
    ]
    letters += [
        *"ﬁ①½²Ａｂ\u200b\u200d\u00a0\u3000가각ᄀ\u1161\u11a8ẛ̣क्षि😀ÅÅ",
        *" " * 12,
        "\t",
        "\n",
    ]
    return ["".join(rng.choice(letters, rng.integers(1, 40))) for _ in range(count)]


def test_random_strings_have_the_ids_of_sentencepiece(tokenizer, published):
    path = str(published / "spiece.model")
    library = sentencepiece.SentencePieceProcessor(model_file=path)
    texts = drawn(3000)
    expected = [[*library.encode(text), 1] for text in texts]
    assert tokenizer(texts).input_ids == expected
    with_places = tokenizer(texts, return_offsets_mapping=True)
    assert with_places.input_ids == expected
    for text, places in zip(texts, with_places.offset_mapping, strict=True):
        assert places.pop() == (0, 0)
        begins, ends = zip(*places, strict=True) if places else ((), ())
        assert all(a <= b <= len(text) for a, b in places)
        assert list(begins) == sorted(begins)
        assert list(ends) == sorted(ends)


def test_places_are_those_of_the_text(tokenizer):
    text = "Two dogs <extra_id_0> run; e\u0301t\u00e9."
    out = tokenizer(text, return_offsets_mapping=True)
    words = [text[a:b] for a, b in out.offset_mapping]
    assert "".join(words) == text.replace(" ", "")
    assert words[:3] == ["Two", "dogs", "<extra_id_0>"]
    assert out.offset_mapping[2] == (9, 21)


@pytest.mark.parametrize(
    ("strategy", "limit", "lengths"),
    [
        (True, 8, (3, 3)),
        (True, 5, (1, 2)),
        ("only_first", 8, (1, 5)),
        ("only_second", 8, (4, 2)),
    ],
)
def test_truncation_is_that_of_the_tokenizers_library(
    tokenizer, strategy, limit, lengths
):
    from tokenizers import Tokenizer, models
    from tokenizers.processors import TemplateProcessing

    theirs = Tokenizer(models.WordLevel({"a": 0, "b": 1, "</s>": 2}, unk_token="a"))
    theirs.post_processor = TemplateProcessing(
        pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    name = "longest_first" if strategy is True else strategy
    theirs.enable_truncation(limit, strategy=name)
    other = theirs.encode([*"aaaa"], [*"bbbbb"], is_pretokenized=True).ids
    assert (other.count(0), other.count(1)) == lengths
    first, second = "house dog man red", "one two three four five"
    whole = tokenizer(first, second).input_ids
    out = tokenizer(first, second, truncation=strategy, max_length=limit)
    a, b = lengths
    assert out.input_ids == [*whole[:a], 1, *whole[5 : 5 + b], 1]
    assert list(out.truncated) == [True]
    left = copy.deepcopy(tokenizer)
    left.truncation_side = "left"
    out = left(first, second, truncation=strategy, max_length=limit)
    one, two = whole[: whole.index(1)], whole[whole.index(1) + 1 : -1]
    assert out.input_ids == [*one[len(one) - a :], 1, *two[len(two) - b :], 1]
    assert list(out.truncated) == [True]


def test_a_text_that_cannot_be_truncated(tokenizer):
    with pytest.raises(ea.InputError, match=r"only_first.*that text has 1 tokens"):
        tokenizer("dog", "one two three", truncation="only_first", max_length=4)


def test_pieces_that_are_made_special(tmp_path):
    folder = folder_of(tmp_path, model_of(*PIECES), extra_ids=0)
    options = {"additional_special_tokens": ["ab"]}
    plain, tokenizer = (
        AutoTokenizer.from_pretrained(folder, **kept) for kept in ({}, options)
    )
    assert plain("a ab").input_ids != tokenizer("a ab").input_ids
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab").input_ids) == ["ab", "</s>"]
    tokenizer.save_pretrained(folder)
    again = AutoTokenizer.from_pretrained(folder)
    assert again("a ab").input_ids == tokenizer("a ab").input_ids
    with pytest.raises(ea.ConfigError, match="additional_special_tokens has 'c', exp"):
        AutoTokenizer.from_pretrained(folder, additional_special_tokens=["c"])


def test_decoding_sentinels(tokenizer):
    ids = tokenizer("A <extra_id_0> dog, <extra_id_1>").input_ids
    assert tokenizer.decode(ids) == "A<extra_id_0> dog,<extra_id_1></s>"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "A dog,"


def test_saved_copied_and_pickled(tokenizer, published, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")  # left by an older tokenizer
    written = {Path(path).name for path in tokenizer.save_pretrained(tmp_path)}
    assert "spiece.model" in written
    assert not (tmp_path / "tokenizer.json").exists()
    saved = (tmp_path / "spiece.model").read_bytes()
    assert saved == (published / "spiece.model").read_bytes()
    texts = drawn(40)
    expected = tokenizer(texts).input_ids
    again = pickle.loads(pickle.dumps(tokenizer))
    for other in (again, AutoTokenizer.from_pretrained(tmp_path)):
        assert other(texts).input_ids == expected
        assert other.special_tokens_map == tokenizer.special_tokens_map


def test_without_sentencepiece_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ea.MissingExtraError, match=r"evolving-attention\[t5\]"):
        AutoTokenizer.from_pretrained(folder_of(tmp_path, model_of(*PIECES)))


def test_transformers_reads_what_we_save(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    tokenizer.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        assert theirs(text)["input_ids"] == ids
        assert again(text).input_ids == ids


def test_pieces_are_chosen_by_their_scores(tmp_path):
    folder = folder_of(tmp_path, model_of(*PIECES), extra_ids=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == 9
    ids = {token: i for token, i in tokenizer.get_vocab().items()}
    assert ids["<extra_id_0>"] == 8
    # "▁a b" costs 4, "▁ ab" 3.5
    assert tokenizer("ab").input_ids == [ids["▁"], ids["ab"], ids["</s>"]]
    sentinel = tokenizer("a <extra_id_1> z").input_ids
    assert sentinel[:2] == [ids["▁a"], ids["<extra_id_1>"]]
    assert ids["<unk>"] in sentinel


def test_spans_of_a_text_train_a_t5(tokenizer):
    text = "Thank you for inviting me to your party last week."
    ids = tokenizer(text, add_special_tokens=False).input_ids
    (source,), (target,) = ea.corrupt_spans([ids], ratio=0.3, seed=1)
    assert source[-1] == target[-1] == tokenizer.eos_token_id
    assert target[0] == tokenizer.get_vocab()["<extra_id_0>"]
    assert np.count_nonzero(source >= 32_000) == np.count_nonzero(target >= 32_000)


def test_the_translator_takes_a_t5(tmp_path):
    """The embedding table may have more rows than the tokenizer has tokens."""
    folder = folder_of(tmp_path, model_of(*PIECES), extra_ids=2)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_heads": 2, "num_layers": 1}
    config = ea.T5Config(vocab_size=12, **sizes)
    ea.T5ForConditionalGeneration(config).save_pretrained(folder)
    translator = ea.Translator.from_pretrained(folder)
    lines = translator.translate(["ab a", "a"], beam=2, max_new_tokens=4)
    assert len(lines) == 2
    narrow = ea.T5ForConditionalGeneration(ea.T5Config(vocab_size=8, **sizes))
    with pytest.raises(ea.CheckpointError, match="the tokenizer has 9 tokens"):
        ea.Translator(narrow, translator.tokenizer)


@pytest.mark.parametrize(
    ("raw", "settings", "text"),
    [
        (b"", {}, "is no SentencePiece model"),
        (model_of(*PIECES)[:-3], {}, "is no SentencePiece model"),
        (b"\xff" * 40, {}, "is no SentencePiece model"),
        (b"not a model at all", {}, "is no SentencePiece model"),
        (model_of(piece("a"), piece("a")), {}, "is no SentencePiece model"),
        (
            model_of(*PIECES, piece("tree")).replace(b"tree", b"tre\xe8"),
            {},
            "is no SentencePiece model .*codec can't decode byte 0xe8",
        ),
        (model_of(*PIECES), {"eos_token": "<end>"}, "the end token '<end>'"),
        (
            model_of(*PIECES),
            {"extra_ids": -1},
            "extra_ids of tokenizer_config.json is -1",
        ),
    ],
)
def test_damaged_files(raw, settings, text, tmp_path):
    with pytest.raises(ea.CheckpointError, match=text):
        AutoTokenizer.from_pretrained(folder_of(tmp_path, raw, **settings))
