"""The Translator: from sentences to sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_translation import model, sentences, tokenizer, trained

import evolving_attention as ea
from evolving_attention.text import train_bpe


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return ea.Translator.from_pretrained(trained(tmp_path_factory.mktemp("trained")))


def test_it_knows_what_it_was_trained_on(translator: ea.Translator):
    text = sentences(40)
    for beam in (1, 3):
        found = translator.translate(text.source, beam=beam)
        right = [a == b for a, b in zip(found, text.target, strict=True)]
        assert np.mean(right) > 0.9
    known = translator.score(text.source, text.target)
    wrong = translator.score(text.source, text.source)
    assert known.loss < 0.2 < 1 < wrong.loss
    words = tokenizer()
    assert known.tokens == sum(len(row) for row in words(text.target).input_ids)


def test_a_text_alone_has_the_same_translation(translator: ea.Translator):
    texts = sentences(9, seed=5).source
    seen: list[tuple[int, int]] = []
    together = translator.translate(
        texts, beam=2, batch_size=4, on_batch=lambda *done: seen.append(done)
    )
    assert together == [translator.translate([text], beam=2)[0] for text in texts]
    assert [done for done, _ in seen] == [4, 8, 9]
    assert seen[-1][1] > 9


def test_candidates_have_scores_and_alignments(translator: ea.Translator):
    texts = [*sentences(5, seed=5).source, " ", "one"]
    found = translator.candidates(
        texts, beam=4, num_return_sequences=3, output_alignments=True, batch_size=2
    )
    assert [len(each) for each in found] == [3] * 7
    assert [each[0].text for each in found] == translator.translate(texts, beam=4)
    assert {one.text for one in found[5]} == {""}
    sources = translator.tokenizer(texts).input_ids
    for i, each in enumerate(found):
        if i == 5:
            continue
        assert len({one.text for one in each}) == 3
        assert each[0].score >= each[1].score >= each[2].score
        for one in each:
            assert one.ids[0] == 1
            mean = sum(one.token_scores) / (len(one.ids) - 1)
            assert one.score == pytest.approx(mean)
            assert one.alignment is not None
            assert one.alignment.shape == (len(one.ids) - 1, len(sources[i]))
    assert translator.candidates([], num_return_sequences=2) == []


def test_drawn_translations_belong_to_a_text_and_its_number(translator: ea.Translator):
    texts = [*sentences(6).source, "two two", "two two"]
    options: Any = {"do_sample": True, "temperature": 3.0, "seed": 4}
    found = translator.translate(texts, batch_size=3, **options)
    assert found[-1] != found[-2]
    assert found == translator.translate(texts, batch_size=8, **options)
    for i, text in enumerate(texts):
        assert translator.translate([text], first_line=i + 1, **options) == [found[i]]
        alone = translator.translate([text], sentence_numbers=[i], **options)
        assert alone == [found[i]]
    several = translator.candidates(texts, num_return_sequences=2, **options)
    assert [each[0].text for each in several] == found
    assert found != [each[1].text for each in several]


def test_prefixes(translator: ea.Translator):
    text = sentences(4)
    starts = ["six five", "", "one", text.target[3]]
    found = translator.translate(text.source, prefixes=starts, beam=2)
    assert all(f.startswith(p) for f, p in zip(found, starts, strict=True))
    assert found[1:2] == translator.translate(text.source[1:2], beam=2)


def test_a_model_may_have_more_tokens_than_its_tokenizer(translator: ea.Translator):
    words = translator.tokenizer
    wide = ea.Translator(model(len(words) + 30), words)
    assert len(wide.translate(["one two"], max_new_tokens=4)) == 1
    assert wide._text([1, 300, words.get_vocab()["o"], 290, 2]) == "o"


def test_blank_texts_stay_empty(translator: ea.Translator):
    assert translator.translate(["", "one two", "  "])[::2] == ["", ""]
    assert translator.translate([]) == []


def test_a_translation_is_one_line(translator: ea.Translator):
    words = translator.tokenizer
    ids = [words.get_vocab()[byte] for byte in "oĊĀč"]  # o, LF, NUL, CR as bytes
    assert translator._text([*ids, *ids, 2]) == "o   o"


def test_one_line_says_how_many_reach_the_limit(
    translator: ea.Translator, caplog: pytest.LogCaptureFixture
):
    texts = [text for text in sentences(20).source if " " in text]
    translator.translate(texts, max_new_tokens=1, batch_size=2)
    assert caplog.text.count("reach max_new_tokens (1) without an end") == 1
    assert f"{len(texts)} of {len(texts)} targets" in caplog.text


def test_refused(translator: ea.Translator):
    with pytest.raises(ea.InputError, match=r"texts\[1\] is a int"):
        translator.translate(["one", 2])
    with pytest.raises(ea.InputError, match=r"texts is a str.* pass \[text\]"):
        translator.translate("one")
    with pytest.raises(ea.DataError, match=r"texts:2: has 52 tokens, .*at most 40"):
        translator.translate(["one", "one " * 50])
    assert translator.translate(["one " * 50], longer="cut", beam=1) != [""]
    with pytest.raises(ea.ConfigError, match=r"num_beams = 999"):
        translator.translate(["one"], beam=999)
    with pytest.raises(ea.ConfigError, match=r"batch_size=0"):
        translator.translate(["one"], batch_size=0)
    with pytest.raises(ea.ConfigError, match=r"translate: first_line='a', expected"):
        translator.translate(["one"], first_line="a")
    for size in (0, -1, 2.0):
        with pytest.raises(
            ea.ConfigError, match=rf"score: batch_size={size}, expected"
        ):
            translator.score(["one"], ["two"], batch_size=size)
    words = translator.tokenizer
    with pytest.raises(ea.CheckpointError, match=r"has 279 tokens .* model's 31 and"):
        ea.Translator(model(31), words)
    with pytest.raises(ea.ConfigError, match="a Tokenizer, expected an encoder-dec"):
        ea.Translator(words, words)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0], "1 sentence_numbers for 2 texts, expected one each"),
        (np.arange(3), "3 sentence_numbers for 2 texts, expected one each"),
        (5, "sentence_numbers is 5, expected a list of whole numbers"),
        ([0.5, 1], r"sentence_numbers is \[0.5, 1\], expected a list"),
        ([[0], [1, 2]], r"sentence_numbers is \[\[0\], \[1, 2\]\], expected a list"),
    ],
)
def test_sentence_numbers_are_one_for_each_text(
    translator: ea.Translator, numbers: Any, message: str
):
    for call in (translator.translate, translator.candidates):
        with pytest.raises(ea.InputError, match=f"{call.__name__}: {message}"):
            call(["one", "two"], sentence_numbers=numbers)
    assert translator.translate([], sentence_numbers=[]) == []


def test_a_folder_with_another_tokenizer(translator: Any, tmp_path: Path):
    translator.model.save_pretrained(tmp_path)
    more = [*sentences().source, "some other words that the model has never seen"]
    train_bpe(more, 290).save_pretrained(tmp_path)
    with pytest.raises(ea.CheckpointError, match="take the tokenizer of the model's"):
        ea.Translator.from_pretrained(tmp_path)
