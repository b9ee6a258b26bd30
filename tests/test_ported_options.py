"""Options of transformers' models: honoured, or refused with what to write instead."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.interop.loading_options import LOADING_OPTIONS

IDS = np.arange(4, 16).reshape(2, 6)
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "intermediate_size": 36,
}
load = ea.AutoModelForSequenceClassification.from_pretrained


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base")
    config = ea.BertConfig(**SIZES, attention=ea.attention.Evolving(0.2, 0.3))
    ea.BertModel(config).save_pretrained(path, safe_serialization=True)
    return path


def test_a_config_takes_the_place_of_the_folders(folder, tmp_path):
    names = {0: "no", 1: "maybe", 2: "yes"}
    config = ea.AutoConfig.from_pretrained(
        folder, id2label=names, local_files_only=True
    )
    config.save_pretrained(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]
    again = ea.BertConfig.from_pretrained(tmp_path, local_files_only=True)
    assert again == config
    for auto in (ea.AutoModelForSequenceClassification, ea.BertModel):
        model = auto.from_pretrained(folder, config=again)
        assert model.config == again
        assert model.config is not again
        assert model.config.attention.alpha == 0.2
        report = model.load_report
        assert all(name.startswith("classifier") for name in report.new)
    assert load(folder, config=again).config.id2label == names


def test_a_config_with_its_options_is_refused(folder):
    config = ea.BertConfig.from_pretrained(folder)
    for options in (
        {"num_labels": 3},
        {"attention": "vanilla"},
        {"hidden_act": "gelu"},
    ):
        says = f"{next(iter(options))} is given with a config, expected one of the two"
        with pytest.raises(ea.ConfigError, match=says):
            load(folder, config=config, **options)
    with pytest.raises(
        ea.ConfigError, match=r"expected evolving_attention\.BertConfig"
    ):
        load(folder, config=ea.RobertaConfig(**SIZES))


def test_a_name_of_transformers_is_no_misspelt_option():
    config = ea.T5Config(num_layers=1)
    config.bos_token_id = 1  # near eos_token_id
    with pytest.raises(ea.ConfigError, match="did you mean 'eos_token_id'"):
        config.eos_tokens_id = 1


def test_the_element_type_of_the_checkpoint(folder, tmp_path):
    assert ea.BertModel.from_pretrained(folder, dtype="auto").dtype == "float32"
    ea.BertModel.from_pretrained(folder, dtype="bfloat16").save_pretrained(tmp_path)
    assert ea.BertModel.from_pretrained(tmp_path, dtype="auto").dtype == "bfloat16"
    assert ea.BertModel.from_pretrained(tmp_path).dtype == "float32"
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"dtype"', '"written_as"'))
    assert ea.BertModel.from_pretrained(tmp_path, dtype="auto").dtype == "bfloat16"
    for other in ("float16", ["float32"]):
        values = json.loads(config.read_text())
        config.write_text(json.dumps({**values, "dtype": other}))
        says = r"dtype='auto', and the checkpoint has .*; pass dtype='float32'"
        with pytest.raises(ea.ConfigError, match=says):
            ea.BertModel.from_pretrained(tmp_path, dtype="auto")
    with pytest.raises(ea.ConfigError, match="dtype='auto'; expected one of float32"):
        ea.BertModel(ea.BertConfig(**SIZES), "auto")


HARMLESS = {"revision": "main", "cache_dir": None, "trust_remote_code": False}


@pytest.mark.parametrize(
    ("name", "value"),
    [("cache_dir", "SECRET"), ("token", "SECRET"), ("revision", "v2")],
)
def test_options_of_loading_are_one_list(folder, name, value):
    makers: list[Any] = [
        load,
        ea.BertModel.from_pretrained,
        ea.BertConfig.from_pretrained,
        ea.AutoConfig.from_pretrained,
        ea.AutoTokenizer.from_pretrained,
        lambda _, **options: ea.BertConfig(**options),
    ]
    for make in makers:
        with pytest.raises(ea.ConfigError, match=f"{name} is not supported") as caught:
            make(folder, **{name: value})
        assert "SECRET" not in str(caught.value)
    for make in makers[:4]:
        assert make(folder, **HARMLESS, torch_dtype=None)


def test_the_first_of_several_options_of_loading_is_named(folder):
    names = sorted(LOADING_OPTIONS)
    for first, second in itertools.combinations(names, 2):
        with pytest.raises(ea.ConfigError, match=f": {first} is not supported"):
            ea.BertConfig(**{second: "x", first: "x"})


def test_other_formats_of_weights_are_refused(folder, tmp_path):
    model = ea.BertModel.from_pretrained(folder)
    with pytest.raises(ea.ConfigError, match="safe_serialization=False, expected True"):
        model.save_pretrained(tmp_path / "out", safe_serialization=False)
    assert not (tmp_path / "out").exists()


def test_all_parameters_are_frozen_and_trained_again(folder):
    model = ea.BertModel.from_pretrained(folder)
    assert model.requires_grad_(False) is model
    assert model.num_parameters(only_trainable=True) == 0
    assert model.requires_grad_().num_parameters(only_trainable=True) > 0


@pytest.mark.parametrize(
    "kind",
    [
        lambda mask: mask.astype(np.float32),
        lambda mask: mask.astype(np.float64),
        lambda mask: mask.astype(ml_dtypes.bfloat16),
        lambda mask: ea.Tensor(mask.astype(np.float32)),
        lambda mask: mask.astype(float).tolist(),
    ],
)
def test_masks_of_floats(folder, kind):
    model = ea.BertModel.from_pretrained(folder)
    expected = model(IDS, MASK).last_hidden_state.numpy()
    mask = kind(MASK)
    assert np.array_equal(model(IDS, mask).last_hidden_state.numpy(), expected)
    tiny = ea.create_model("transformer_lite", task="seq2seq_lm", vocab_size=40)
    want = tiny.generate(IDS, MASK, max_new_tokens=3)
    assert np.array_equal(tiny.generate(IDS, mask, max_new_tokens=3), want)


@pytest.mark.parametrize("wrong", [0.5, -10000.0, float("nan"), float("-inf")])
def test_masks_of_other_numbers_are_refused(folder, wrong):
    mask = np.where(MASK == 1, 1.0, wrong)
    says = f"attention_mask holds {wrong}, expected 1 for a token or 0 for padding"
    with pytest.raises(ea.InputError, match=says):
        ea.BertModel.from_pretrained(folder)(IDS, mask)
    with pytest.raises(ea.InputError, match=says):
        ea.BertModel.from_pretrained(folder)(IDS, mask.tolist())


def test_one_row_of_positions_is_that_of_all(folder):
    model = ea.BertModel.from_pretrained(folder)
    places = np.arange(6)[None, ::-1]
    every = np.repeat(places, 2, axis=0)
    other = model(IDS, MASK, position_ids=every).last_hidden_state.numpy()
    for one in (places, places[0], places.tolist(), places[0].tolist()):
        for ids in (IDS, IDS.tolist()):
            found = model(ids, MASK, position_ids=one).last_hidden_state.numpy()
            assert np.array_equal(found, other)
    assert not np.array_equal(found, model(IDS, MASK).last_hidden_state.numpy())
    with pytest.raises(ea.ShapeError, match="position_ids"):
        model(IDS, MASK, position_ids=places[:, :5])


def test_a_pipeline_on_a_device_by_number(folder, tmp_path):
    load(folder, num_labels=2).save_pretrained(tmp_path)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "film"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer = ea.AutoTokenizer.from_pretrained(tmp_path)
    classify = ea.pipeline("text-classification", str(tmp_path), device=-1)
    assert classify.model.device == "cpu"
    assert classify("a film") == ea.pipeline(model=tmp_path)("a film")
    with pytest.raises(ea.BackendUnavailable, match="cuda:99"):
        ea.pipeline(model=tmp_path, device=99)
    own = load(tmp_path)  # a model is moved, as in transformers
    made = ea.pipeline(model=own, tokenizer=tokenizer, device=-1, dtype="float64")
    assert made.model.dtype == "float64"
