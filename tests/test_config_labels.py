"""Names of classes in a config: id2label, label2id, both, and files that have them."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from mistakes.row import config, saved

import evolving_attention as ea
from evolving_attention.errors import ConfigError
from evolving_attention.training.fingerprint import run_fingerprint

NAMES = {0: "bad", 1: "so so", 2: "good"}
IDS = {name: i for i, name in NAMES.items()}


@pytest.mark.parametrize(
    "given",
    [
        {"id2label": NAMES},
        {"label2id": IDS},
        {"label2id": dict(reversed(IDS.items()))},
        {"id2label": NAMES, "label2id": IDS},
        {"num_labels": 3, "label2id": IDS},
        {"id2label": {str(i): name for i, name in NAMES.items()}, "label2id": IDS},
    ],
)
def test_either_names_the_classes(given: dict[str, Any]) -> None:
    made = config(**given)
    assert (made.num_labels, made.id2label, made.label2id) == (3, NAMES, IDS)
    assert list(made.id2label) == [0, 1, 2]
    assert ea.BertConfig.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"id2label": NAMES, "label2id": {**IDS, "bad": 1}}, "expected the same class"),
        ({"id2label": NAMES, "label2id": {"bad": 0}}, "expected the same classes in b"),
        ({"id2label": NAMES, "label2id": {**IDS, "x": 2}}, "leave label2id out"),
        ({"id2label": {1: "a", 2: "b"}}, r"class numbers \[1, 2\], expected 0 to 1"),
        ({"id2label": {0: "a", 2: "b"}}, r"id2label has the class numbers \[0, 2\]"),
        ({"label2id": {"a": 1, "b": 2}}, r"label2id has the class numbers \[1, 2\]"),
        ({"label2id": {"a": 0, "b": 0}}, "expected 0 to 1, each once; number the cl"),
        ({"label2id": {"a": "first"}}, "label2id is the other way round"),
        ({"label2id": {"a": None}}, "label2id is the other way round"),
        ({"id2label": {0: "a", 1: "a"}}, "one name for two classes, expected a name"),
        (
            {"label2id": IDS, "num_labels": 2},
            "num_labels = 2, but label2id names 3 labels",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        config(**given)


def edited(folder: Path, **values: Any) -> Path:
    """Saves a model and edits its config.json; None removes a key."""
    root = saved(folder, id2label=NAMES)
    file = root / "config.json"
    merged = json.loads(file.read_text()) | values
    kept = {name: value for name, value in merged.items() if value is not None}
    file.write_text(json.dumps(kept))
    return root


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, NAMES),
        ({"id2label": None}, NAMES),
        ({"label2id": None}, NAMES),
        ({"label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}}, NAMES),  # stale
        ({"id2label": {"0": "a", "1": "crane", "2": "crane"}}, {1: "crane"}),
    ],
)
def test_files_load_as_before(tmp_path: Path, values: Any, names: Any) -> None:
    root = edited(tmp_path, **values)
    auto = ea.AutoModelForSequenceClassification
    found = auto.from_pretrained(root).config
    assert {i: found.id2label[i] for i in names} == names
    found = auto.from_pretrained(root, label2id={"x": 1, "y": 0, "z": 2}).config
    assert found.id2label == {0: "y", 1: "x", 2: "z"}
    new = auto.from_pretrained(root, strict=False, id2label={0: "no", 1: "yes"})
    assert new.config.label2id == {"no": 0, "yes": 1}
    new = auto.from_pretrained(root, strict=False, num_labels=4)
    assert new.config.label2id["LABEL_3"] == 3


def test_the_columns_of_the_texts_are_those_of_the_last_training(
    tmp_path: Path,
) -> None:
    tokenizer = ea.text.train_word_level(["a film"])
    texts = [{"review": "a film", "label": i % 2} for i in range(8)]
    model = ea.BertForSequenceClassification(config(vocab_size=30))
    args = ea.TrainingArguments(str(tmp_path), max_steps=1, save_strategy="no")

    def columns_after(rows: Any) -> Any:
        options = {"train_dataset": rows, "processing_class": tokenizer}
        ea.Trainer(model, args, **options).train()
        return model.config.text_columns

    before = run_fingerprint(args, model, texts)
    assert columns_after(texts) == ["review"]
    assert run_fingerprint(args, model, texts) == before  # older checkpoints have none
    values = json.loads(json.dumps(model.config.to_dict()))
    assert ea.BertConfig.from_dict(values).text_columns == ["review"]
    assert ea.BertConfig.from_dict(values, num_labels=3).text_columns is None
    assert columns_after([{"input_ids": [1, 3], "label": 1}] * 8) is None
    for wrong in ("review", [1]):
        with pytest.raises(
            ConfigError, match=r"text_columns is .*, expected a list of"
        ):
            config(text_columns=wrong)


def test_classes_that_are_set_go_into_the_file(tmp_path: Path) -> None:
    sizes = {"vocab_size": 40, "hidden_size": 24, "num_attention_heads": 3}
    config = ea.BertConfig(**sizes, num_hidden_layers=1, intermediate_size=36)
    config.num_labels = 3
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    config.id2label = {"0": "a", "1": "b", "2": "c", "3": "d"}
    assert config.num_labels == 4
    assert config.label2id == {"a": 0, "b": 1, "c": 2, "d": 3}
    config.num_labels = 4
    ea.BertForSequenceClassification(config).save_pretrained(tmp_path)
    again = ea.BertForSequenceClassification.from_pretrained(tmp_path).config
    assert again.id2label == {0: "a", 1: "b", 2: "c", 3: "d"}
    again.label2id = {"d": 0, "c": 1, "b": 2, "a": 3}
    assert again.id2label == {0: "d", 1: "c", 2: "b", 3: "a"}
    for name, wrong in (("num_labels", 0), ("id2label", {0: "a", 1: "a"})):
        with pytest.raises(ea.ConfigError, match=name):
            setattr(config, name, wrong)
    assert config.num_labels == 4


def repickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("make", [lambda m: m, copy.copy, copy.deepcopy, repickled])
def test_the_config_of_a_model_describes_it(make: Any) -> None:
    given = config(num_labels=2)
    model = make(ea.BertForSequenceClassification(given))
    own, other = model.config, copy.copy(model.config)
    for name, value in {
        "num_labels": 3,
        "hidden_size": 48,
        "attention": "residual",
        "problem_type": "single_label_classification",
        "id2label": {0: "a", 1: "b", 2: "c"},
    }.items():
        says = rf"{name} is set to .*, expected .*; pass {name}=… to from_pretrained"
        with pytest.raises(ConfigError, match=says):
            setattr(own, name, value)
        setattr(own, name, getattr(own, name))
        setattr(other, name, value)  # it describes no model
    assert own == given
    own.attention = "vanilla"  # the same in another form
    for name, wrong in {"label2id": {"a": 0, "b": 1, "c": 2}, "id2label": 5}.items():
        with pytest.raises(ConfigError, match=name):
            setattr(own, name, wrong)
    own.id2label = {0: "no", 1: "yes"}
    own.label2id = {"no": 0, "yes": 1}
    assert own == config(id2label={0: "no", 1: "yes"})
    assert model.copy().config == own
