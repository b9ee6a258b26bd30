"""generation_config.json: the defaults of ``generate`` that a folder brings."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import runner
from helpers_generation import padded, sources
from helpers_t5 import trained, word_t5

import evolving_attention as ea
from evolving_attention.cli.translate_arguments import SearchArguments
from evolving_attention.modeling.generation_options import OPTIONS

FILE = "generation_config.json"


def loaded(folder: Path, **values: Any) -> Any:
    """Saves a tiny T5 with a generation_config.json of these values and loads it."""
    trained("v1.0").save_pretrained(folder)
    (folder / FILE).write_text(json.dumps(values))
    return ea.AutoModelForSeq2SeqLM.from_pretrained(folder)


def same(model: Any, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Asserts that ``given`` acts like ``expected`` on a model without the file."""
    plain = trained("v1.0")
    batch, scored = padded(sources()), {"return_dict_in_generate": True}
    found = model.generate(**batch, **scored, **given)
    wanted = plain.generate(**batch, **scored, **{"max_new_tokens": 6, **expected})
    assert np.array_equal(found.sequences, wanted.sequences)
    assert np.array_equal(found.sequences_scores, wanted.sequences_scores)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"num_beams": 4, "length_penalty": 0.3}),
        ({"num_beams": 1}, {"length_penalty": 0.3}),
        ({"length_penalty": 2.0}, {"num_beams": 4, "length_penalty": 2.0}),
        (
            {"max_length": 4},
            {"num_beams": 4, "length_penalty": 0.3, "max_new_tokens": 3},
        ),
        (
            {"do_sample": True, "seed": 3, "num_beams": 1},
            {
                **{"do_sample": True, "seed": 3, "length_penalty": 0.3},
                **{"temperature": 0.4, "top_k": 3},
            },
        ),
    ],
)
def test_its_values_are_the_defaults(
    tmp_path: Path, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    values = {"num_beams": 4, "length_penalty": 0.3, "max_new_tokens": 6}
    values |= {"temperature": 0.4, "top_k": 3, "max_length": 30, "use_cache": True}
    same(loaded(tmp_path, **values), given, expected)


def test_tokens_are_those_of_the_file_and_of_the_caller(tmp_path: Path) -> None:
    model = loaded(tmp_path, eos_token_id=[5], pad_token_id=9, max_new_tokens=6)
    found = model.generate(**padded(sources()))
    tokens = {"eos_token_id": 5, "pad_token_id": 9}
    wanted = trained("v1.0").generate(**padded(sources()), max_new_tokens=6, **tokens)
    assert np.array_equal(found, wanted)
    assert 5 in found
    own = ea.T5ForConditionalGeneration.from_pretrained(tmp_path, eos_token_id=7)
    found = own.generate(**padded(sources()), max_new_tokens=6, pad_token_id=0)
    wanted = trained("v1.0").generate(
        **padded(sources()), max_new_tokens=6, eos_token_id=7
    )
    assert np.array_equal(found, wanted)


def test_it_is_saved_with_the_model(tmp_path: Path) -> None:
    trained("v1.0").save_pretrained(tmp_path / "plain")
    assert not (tmp_path / "plain" / FILE).exists()
    model = loaded(tmp_path / "first", num_beams=4, guidance_scale=0)
    for one in (model, model.copy(), copy.deepcopy(model), model.to("float64")):
        assert one.generation_config == {"num_beams": 4, "guidance_scale": 0}
    model = pickle.loads(pickle.dumps(model))
    model.generation_config["max_new_tokens"] = 3
    model.save_pretrained(tmp_path / "second")
    saved = json.loads((tmp_path / "second" / FILE).read_text())
    tokens = {"decoder_start_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    own = {"num_beams": 4, "max_new_tokens": 3, "guidance_scale": 0}
    assert saved == {**tokens, **own}
    trained("v1.0").save_pretrained(tmp_path / "second")
    assert not (tmp_path / "second" / FILE).exists()


def test_what_is_not_followed_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = {
        **{"transformers_version": "5.0", "_from_model_config": True},
        **{"bos_token_id": 3, "repetition_penalty": 1.0, "bad_words_ids": None},
        **{"diversity_penalty": 0.0, "output_scores": False, "num_beam_groups": 1},
    }
    with caplog.at_level(logging.WARNING):
        loaded(tmp_path, **values)
        assert caplog.messages == []
        values |= {"repetition_penalty": 1.3, "eos_token_id": [2, 5]}
        model = loaded(tmp_path, **values)
        model.generate(**padded(sources()), min_new_tokens=1)
    told = [text for text in caplog.messages if FILE in text]
    assert told == [
        f"{tmp_path / FILE}: repetition_penalty=1.3, eos_token_id=[2, 5]: expected "
        "options of generate() here, and one id of a token; these are ignored, so "
        "targets may differ from transformers'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"num_beams": "4"}', r"num_beams='4', expected a whole number"),
        ('{"do_sample": "yes"}', r"do_sample='yes', expected True or False"),
        ('{"temperature": "hot"}', r"temperature='hot', expected a number"),
        ("[]", r"expected .*object"),
        ("{", r"JSON"),
    ],
)
def test_a_damaged_file(tmp_path: Path, text: str, message: str) -> None:
    loaded(tmp_path)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ea.ConfigError, match=rf"{FILE}: .*{message}"):
        ea.T5ForConditionalGeneration.from_pretrained(tmp_path)


def test_translators_follow_it(tmp_path: Path) -> None:
    texts = ["one two", "three"]
    word_t5(tmp_path, ["one", "two", "three"])
    plain = ea.Translator.from_pretrained(tmp_path)
    values = {"num_return_sequences": 2, "max_new_tokens": 4, "length_penalty": 2.0}
    (tmp_path / FILE).write_text(json.dumps({"num_beams": 3, **values}))
    own = ea.Translator.from_pretrained(tmp_path)
    wanted = plain.candidates(texts, beam=3, **values)
    assert own.candidates(texts) == wanted
    assert own.translate(texts) == [each[0].text for each in wanted]
    greedy = plain.translate(texts, beam=1, max_new_tokens=2)
    assert own.translate(texts, beam=1, max_new_tokens=2) == greedy


def test_the_command_passes_what_is_given_alone(tmp_path: Path) -> None:
    word_t5(tmp_path, ["one"])
    (tmp_path / FILE).write_text(json.dumps({"do_sample": True, "top_k": 9}))
    search = SearchArguments(model_dir=str(tmp_path), top_k=50, batch_size=4)
    translator = search.translator()
    options = {"top_k": 50, "batch_size": 4, "seed": 0}  # sampling uses a seed
    assert search.search_options(translator) == options
    search = SearchArguments(model_dir=str(tmp_path), do_sample=False)
    assert search.search_options(translator) == {"do_sample": False}


@pytest.mark.parametrize("command", ["generate", "score"])
def test_the_help_names_the_defaults_of_the_model(
    capfd: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    code, shown, _ = runner(capfd, monkeypatch)("translate", command, "--help")
    assert code == 0
    flat = " ".join(shown.replace("│", " ").split())
    parts = re.split(r" --(\w+) (?:INT|FLOAT|TEXT|BOOL) ", flat)[1:]
    lines = dict(zip(parts[::2], parts[1::2], strict=True))
    texts = {"beam": "5", "max_new_tokens": "those of its source + 50", "seed": "0"}
    for field in dataclasses.fields(SearchArguments):
        line = lines[field.name]
        default = texts.get(field.name, str(field.default))
        of_model = {"beam": "num_beams"}.get(field.name, field.name) in OPTIONS
        assert (f"efault: the model's, else {default}" in line) == of_model, line
