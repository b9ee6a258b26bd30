"""Warning for predictions with an untrained head: given once."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea


@pytest.fixture
def base_folder(tmp_path):
    """Returns a checkpoint folder of an encoder without a task head."""
    tiny("BertModel").save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def new_classifier(folder, **options):
    options = {"num_labels": 3, **options}
    return ea.AutoModelForSequenceClassification.from_pretrained(folder, **options)


def told(caplog):
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


UNTRAINED = (
    "BertForSequenceClassification predicts with an untrained head: "
    "classifier.weight, classifier.bias are new and random; fine-tune the model "
    "(Trainer.train, --do_train) or load a checkpoint that has them"
)
IDS = {"input_ids": [[2, 5, 6]]}
LABELS = {"labels": [1]}


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_prediction_of_an_untrained_head_is_said_once(base_folder, caplog, dtype):
    model = new_classifier(base_folder)
    if dtype:
        model.to(dtype)
    copy = model.copy()
    assert told(caplog) == []
    for one in (model, copy, model):
        one(**IDS)
    with ea.no_grad():
        model(**IDS, **LABELS)
    assert told(caplog) == [UNTRAINED]


def test_the_trainer_says_it_once(base_folder, caplog, tmp_path):
    rows = [{"input_ids": [2, i, 6], "label": i % 3} for i in range(7)]
    args = ea.TrainingArguments(
        str(tmp_path / "out"), max_steps=2, save_strategy="no", learning_rate=1e-3
    )
    trainer = ea.Trainer(new_classifier(base_folder), args, train_dataset=rows)
    trainer.evaluate(rows)
    trainer.predict(rows)
    assert told(caplog) == [UNTRAINED]
    trained = ea.Trainer(new_classifier(base_folder), args, train_dataset=rows)
    trained.train()
    trained.predict(rows)
    assert told(caplog) == []


def test_training_by_hand_and_a_trained_head_say_nothing(base_folder, caplog, tmp_path):
    model = new_classifier(base_folder)
    optimizer = ea.optim.AdamW(model.parameters(), lr=5e-5)
    model(**IDS, **LABELS).loss.backward()  # in evaluation mode, thus without dropout
    optimizer.step()
    model(**IDS)
    model.save_pretrained(tmp_path / "trained")
    new_classifier(tmp_path / "trained")(**IDS)
    loaded = new_classifier(base_folder)
    loaded.load_state_dict(model.state_dict())
    loaded(**IDS)
    tiny()(**IDS)  # fully random, as the caller knows
    ea.BertModel.from_pretrained(base_folder)(**IDS)
    assert told(caplog) == []


def test_a_new_head_for_time_series_is_told_too(caplog, tmp_path):
    config = ea.EADCTransformerConfig(channels=2, max_length=5, hidden_size=32)
    ea.EADCTransformerForPretraining(config).save_pretrained(tmp_path)
    load = ea.EADCTransformerForClassification.from_pretrained
    load(tmp_path, num_labels=2)(np.zeros((1, 5, 2), "f4"))
    (line,) = told(caplog)
    assert line.startswith(
        "EADCTransformerForClassification predicts with an untrained"
    )
