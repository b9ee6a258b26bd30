"""Mistakes in what a model is called with."""

from __future__ import annotations

import numpy as np

import evolving_attention as ea
from mistakes.row import IDS, Row, model

FAR = np.full((2, 5), -1e4)
EMPTY_ROW = [[1] * 5, [0] * 5]


ROWS = {
    "id beyond the vocabulary": Row(
        lambda _: model()([[1, 99]]),
        ea.InputError,
        r"= 99",
        r"input_ids\[0, 1\]",
        r"0 to 39 \(vocab_size is 40",
    ),
    "negative id": Row(
        lambda _: model()([[1, 2], [1, -3]]),
        ea.InputError,
        r"= -3",
        r"input_ids\[1, 1\]",
        r"expected 0 to 39",
    ),
    "id beyond the vocabulary, packed": Row(
        lambda _: model()([1, 2, 77], sequence_offsets=[0, 1, 3]),
        ea.InputError,
        r"= 77",
        r"input_ids\[2\]",
        r"vocab_size is 40",
    ),
    "too long": Row(
        lambda _: model()(np.ones((1, 60), np.int64)),
        ea.InputError,
        r"more than 40 tokens",
        r"sequence",
        r"truncation=True",
    ),
    "ragged lists": Row(
        lambda _: model()([[1, 2], [3]]),
        ea.ShapeError,
        r"differ in length",
        r"input_ids",
        r"pad them .*sequence_offset",
    ),
    "no ids": Row(
        lambda _: model()(),
        ea.InputError,
        r"missing",
        r"input_ids",
        r"pass the output of the tokenizer",
    ),
    "a text for ids": Row(
        lambda _: model()(**{"input_ids": "text"}),
        ea.DTypeError,
        r"a str 'text'",
        r"input_ids",
        r"must be integers",
    ),
    "the tokenizer's dict for ids": Row(
        lambda _: model()({"input_ids": IDS}),
        ea.DTypeError,
        r"a dict",
        r"input_ids",
        r"must be integers",
    ),
    "float ids": Row(
        lambda _: model()(np.ones((2, 3))),
        ea.DTypeError,
        r"got float64",
        r"input_ids",
        r"must be integers",
    ),
    "one sequence without batch": Row(
        lambda _: model()([1, 2, 3]),
        ea.ShapeError,
        r"shape \(3,\)",
        r"input_ids",
        r"expected \(batch, length\)",
    ),
    "a row without tokens": Row(
        lambda _: model()(IDS, EMPTY_ROW),
        ea.InputError,
        r"attention_mask is all 0",
        r"row 1",
        r"leave the row out",
    ),
    "an additive mask": Row(
        lambda _: model()(IDS, FAR.astype(np.int64)),
        ea.InputError,
        r"= -10000",
        r"attention_mask\[0, 0\]",
        r"expected 1 for a tok",
    ),
    "an additive float mask": Row(
        lambda _: model()(IDS, FAR),
        ea.DTypeError,
        r"got float64",
        r"attention_mask",
        r"must be integers",
    ),
    "a mask of another shape": Row(
        lambda _: model()(IDS, np.ones((2, 4), np.int64)),
        ea.ShapeError,
        r"shape \(2, 4\)",
        r"attention_mask",
        r"must be equal",
    ),
    "a third segment": Row(
        lambda _: model()(IDS, token_type_ids=np.full((2, 5), 7)),
        ea.InputError,
        r"= 7",
        r"token_type_ids\[0, 0\]",
        r"type_vocab_size is 2",
    ),
    "a position too far": Row(
        lambda _: model()(IDS, position_ids=np.full((2, 5), 77)),
        ea.InputError,
        r"= 77",
        r"position_ids\[0, 0\]",
        r"expected 0 to 39",
    ),
    "a third class": Row(
        lambda _: model()(IDS, labels=[0, 2]),
        ea.InputError,
        r"= 2 is not one of 2",
        r"labels\[1\]",
        r"expected 0 to 1",
    ),
    "float labels of classes": Row(
        lambda _: model()(IDS, labels=[0.5, 1.0]),
        ea.DTypeError,
        r"got float32",
        r"labels",
        r"set num_labels=1",
    ),
    "too few labels": Row(
        lambda _: model()(IDS, labels=[1]),
        ea.ShapeError,
        r"shape \(1,\)",
        r"labels",
        r"one for each of 2 sequences",
    ),
    "labels in words": Row(
        lambda _: model()(IDS, labels=["good", "bad"]),
        ea.DTypeError,
        r"got a list \['good'",
        r"labels",
        r"class numbers",
    ),
    "labels for a model without a task": Row(
        lambda _: model("BertModel")(IDS, labels=[0, 1]),
        ea.InputError,
        r"no loss",
        r"BertModel: labels",
        r"use a class with a task",
    ),
    "a masked word beyond the vocabulary": Row(
        lambda _: model("BertForMaskedLM")(IDS, labels=np.full((2, 5), 50)),
        ea.InputError,
        r"= 50",
        r"labels\[0, 0\]",
        r"expected 0 to 39",
    ),
    "a label per sentence for a language model": Row(
        lambda _: model("BertForMaskedLM")(IDS, labels=[1, 2]),
        ea.ShapeError,
        r"shape \(2,\)",
        r"labels",
        r"one for each of 10 input_ids",
    ),
    "next sentence label 5": Row(
        lambda _: model("BertForPreTraining")(IDS, next_sentence_label=[0, 5]),
        ea.InputError,
        r"= 5",
        r"next_sentence_label\[1\]",
        r"expected 0 .* or 1",
    ),
    "next sentence label for a classifier": Row(
        lambda _: model()(IDS, next_sentence_label=[0, 1]),
        ea.InputError,
        r"is given",
        r"next_sentence_label",
        r"AutoModelForPreTraining",
    ),
    "label smoothing of 1.5": Row(
        lambda _: model()(IDS, labels=[0, 1], label_smoothing=1.5),
        ea.ConfigError,
        r"1\.5 is outside",
        r"label_smoothing",
        r"\[0, 1\)",
    ),
    "label smoothing in words": Row(
        lambda _: model()(IDS, labels=[0, 1], label_smoothing="some"),
        ea.ConfigError,
        r"'some'",
        r"label_smoothing",
        r"a number in \[0, 1\)",
    ),
    "maps of a layer that is not there": Row(
        lambda _: model()(IDS, output_attentions=[9]),
        ea.InputError,
        r"index 9 is outside",
        r"output_attentions",
        r"0 to 1",
    ),
    "one layer without a list": Row(
        lambda _: model()(IDS, output_attentions=1 + 2),
        ea.InputError,
        r"=3",
        r"output_attentions",
        r"True or a list .*\[3\]",
    ),
    "offsets that end early": Row(
        lambda _: model()([1, 2, 3], sequence_offsets=[0, 2]),
        ea.ShapeError,
        r"run from 0 to 2",
        r"sequence_offsets",
        r"expected 0 to 3",
    ),
    "offsets that fall": Row(
        lambda _: model()([1, 2, 3], sequence_offsets=[0, 2, 1, 3]),
        ea.InputError,
        r"sequence 1 has no",
        r"sequence_offsets\[2\]",
        r"not above 2",
    ),
    "empty offsets": Row(
        lambda _: model()([1, 2, 3], sequence_offsets=[]),
        ea.ShapeError,
        r"shape \(0,\)",
        r"sequence_offsets",
        r"\(sequences \+ 1,\)",
    ),
    "packed and a mask": Row(
        lambda _: model()([1, 2, 3], [1, 1, 1], sequence_offsets=[0, 3]),
        ea.ShapeError,
        r"no padding to mask",
        r"attention_mask beside seq",
        r"leave one",
    ),
    "train('yes')": Row(
        lambda _: model().train("yes"),
        ea.ConfigError,
        r"'yes'",
        r"train: mode",
        r"True or False",
    ),
    "a state with NaN": Row(
        lambda _: (m := model()).load_state_dict(
            {**m.state_dict(), "classifier.weight": np.full((2, 24), np.nan)}
        ),
        ea.CheckpointError,
        r"NaN",
        r"classifier\.weight",
        r"damaged|diverged",
    ),
    "a state of another shape": Row(
        lambda _: (m := model()).load_state_dict(
            {**m.state_dict(), "classifier.weight": np.ones((9, 9))}
        ),
        ea.CheckpointError,
        r"\(9, 9\)",
        r"classifier\.weight",
        r"expected .*\(2, 24",
    ),
    "a list as a state": Row(
        lambda _: model().load_state_dict([1]),
        ea.InputError,
        r"a list",
        r"load_state_dict: state",
        r"state_dict\(\) returns",
    ),
}
