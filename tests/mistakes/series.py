"""Mistakes with models of time series, their settings and their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import evolving_attention as ea
from mistakes.row import Row

CLASSIFIER = "EADCTransformerForClassification"
REGRESSOR = "EADCTransformerForRegression"
PRETRAINING = "EADCTransformerForPretraining"
VALUES = np.ones((2, 6, 3), np.float32)


def config(**options: Any) -> ea.EADCTransformerConfig:
    """A tiny EA-DC-Transformer's config."""
    sizes = {
        "channels": 3,
        "max_length": 8,
        "hidden_size": 16,
        "num_blocks": 1,
        "num_attention_heads": 2,
        "attention_ratio": 0.5,
        "intermediate_size": 20,
    }
    return ea.EADCTransformerConfig(**{**sizes, **options})


def call(
    values: Any = VALUES,
    lengths: Any = None,
    labels: Any = None,
    name: str = CLASSIFIER,
    settings: dict[str, Any] | None = None,
    **inputs: Any,
) -> Any:
    """Runs a tiny model, with some inputs or settings changed."""
    model = getattr(ea, name)(config(**(settings or {})))
    return model(values, lengths, labels, **inputs)


def with_value(value: float) -> np.ndarray:
    values = VALUES.copy()
    values[1, 2, 0] = value
    return values


def cut_short(folder: Path) -> Path:
    """Saves a model and truncates its weights."""
    ea.EADCTransformerForClassification(config()).save_pretrained(folder / "saved")
    file = folder / "saved" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return folder / "saved"


def saved(folder: Path, **options: Any) -> Path:
    ea.EADCTransformerForClassification(config(**options)).save_pretrained(folder)
    return folder


ROWS = {
    # --- settings
    "no channels": Row(
        lambda _: ea.EADCTransformerConfig(max_length=9),
        ea.ConfigError,
        "channels is missing",
        "EADCTransformerConfig",
        r"expected an integer: .*channels=12",
    ),
    "length that is no integer": Row(
        lambda _: config(max_length=8.5),
        ea.ConfigError,
        r"8\.5",
        "max_length",
        "an integer from 1",
    ),
    "ratio above one": Row(
        lambda _: config(attention_ratio=1.5),
        ea.ConfigError,
        r"1\.5",
        "attention_ratio",
        "from 0 to 1",
    ),
    "ratio that does not divide": Row(
        lambda _: call(settings={"attention_ratio": 0.3}),
        ea.ConfigError,
        r"width of 4\.8",
        r"attention_ratio 0\.3 of hidden_size 16",
        "a multiple of num_attention_heads 2",
    ),
    "causal that is a string": Row(
        lambda _: config(causal="yes"),
        ea.ConfigError,
        "'yes'",
        "causal",
        "true or false",
    ),
    "unknown pooling": Row(
        lambda _: call(settings={"pooling": "max"}),
        ea.ConfigError,
        "'max'",
        "pooling",
        "expected flatten or mean",
    ),
    "unknown norm": Row(
        lambda _: call(settings={"norm": "group"}),
        ea.ConfigError,
        "'group'",
        "norm",
        "expected batch or layer",
    ),
    "unknown activation of series": Row(
        lambda _: call(settings={"hidden_act": "swish"}),
        ea.ConfigError,
        "'swish'",
        "hidden_act",
        "leaky_relu or tanh",
    ),
    "even centred kernel": Row(
        lambda _: call(settings={"kernel_size": 4, "causal": False}),
        ea.ConfigError,
        "kernel_size = 4",
        "causal = False",
        "expected an odd number",
    ),
    "dilation beyond every series": Row(
        lambda _: call(settings={"num_blocks": 70, "dilation_base": 64}),
        ea.ConfigError,
        "block 6 would have a dilation above 1073741824",
        "num_blocks = 70 with dilation_base = 64",
        "fewer blocks or a smaller base",
    ),
    "released residual attention": Row(
        lambda _: config(released_behaviour=True, attention=ea.attention.Residual()),
        ea.ConfigError,
        "Residual",
        "released_behaviour",
        "expected Evolving or Vanilla",
    ),
    "one class": Row(
        lambda _: call(settings={"num_labels": 1}),
        ea.ConfigError,
        "num_labels = 1",
        "classification",
        "2 or more; for values use the model for regression",
    ),
    "config of another family": Row(
        lambda _: ea.EADCTransformerForClassification(ea.BertConfig()),
        ea.ConfigError,
        "BertConfig",
        CLASSIFIER,
        "expected evolving_attention.EADCTransformerConfig",
    ),
    # --- values
    "no values": Row(
        lambda _: call(None),
        ea.InputError,
        "values is missing",
        CLASSIFIER,
        r"\(series, length, channels\)",
    ),
    "one series without its axis": Row(
        lambda _: call(VALUES[0]),
        ea.ShapeError,
        r"\(6, 3\)",
        "values",
        r"\(series, length, channels\), time before channels",
    ),
    "channels before time": Row(
        lambda _: call(VALUES.transpose(0, 2, 1)),
        ea.ShapeError,
        "6 channels",
        r"values has shape \(2, 3, 6\)",
        "this model takes 3 .time stands before channels",
    ),
    "list of unequal series": Row(
        lambda _: call([[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]] * 2]),
        ea.DTypeError,
        "a list",
        "values",
        "pad series of different lengths and pass lengths",
    ),
    "series of words": Row(
        lambda _: call([[["a", "b", "c"]]]),
        ea.DTypeError,
        "got a list",
        "values",
        "array of numbers",
    ),
    "missing value": Row(
        lambda _: call(with_value(np.nan)),
        ea.InputError,
        "is nan",
        r"values\[1, 2, 0\]",
        "fill in what is missing",
    ),
    "infinite value": Row(
        lambda _: call(with_value(-np.inf)),
        ea.InputError,
        "is -inf",
        r"values\[1, 2, 0\]",
        "expected finite numbers",
    ),
    "no series at all": Row(
        lambda _: call(VALUES[:0]),
        ea.InputError,
        "no series",
        "values",
        "at least one",
    ),
    "empty series": Row(
        lambda _: call(VALUES, [6, 0]),
        ea.InputError,
        "length 0",
        "series 1",
        "expected 1 to 6.*leave empty series out",
    ),
    "length beyond the array": Row(
        lambda _: call(VALUES, [6, 7]),
        ea.InputError,
        "length 7",
        "series 1",
        "expected 1 to 6",
    ),
    "lengths of too few series": Row(
        lambda _: call(VALUES, [6]),
        ea.ShapeError,
        r"\(1,\)",
        "lengths",
        r"expected \(2,\)",
    ),
    "lengths that are no integers": Row(
        lambda _: call(VALUES, [6.0, 5.5]),
        ea.DTypeError,
        "float",
        "lengths",
        "integers",
    ),
    "series longer than the model": Row(
        lambda _: call(np.ones((2, 9, 3))),
        ea.InputError,
        "9 steps",
        "series 0",
        r"the 8 this model takes \(max_length\)",
    ),
    "lengths of packed series": Row(
        lambda _: call(VALUES[0], [6], sequence_offsets=[0, 6]),
        ea.ShapeError,
        "lengths with sequence_offsets",
        "lengths",
        "leave one of the two out",
    ),
    "offsets that do not reach the end of series": Row(
        lambda _: call(VALUES[0], sequence_offsets=[0, 4]),
        ea.ShapeError,
        "0 to 4",
        "sequence_offsets",
        "expected 0 to 6",
    ),
    # --- labels
    "label that is no class of series": Row(
        lambda _: call(labels=[0, 2]),
        ea.InputError,
        "= 2 is not one of 2 classes",
        r"labels\[1\]",
        "expected 0 to 1",
    ),
    "labels of too few series": Row(
        lambda _: call(labels=[0]),
        ea.ShapeError,
        r"\(1,\)",
        "labels",
        r"expected \(2,\): one for each series",
    ),
    "classes that are no integers": Row(
        lambda _: call(labels=[0.0, 1.0]),
        ea.DTypeError,
        "float32",
        "labels",
        "expected the integers 0 to 1 of 2 classes; for values use",
    ),
    "targets of another number": Row(
        lambda _: call(labels=[1.0, 2.0], name=REGRESSOR, settings={"num_targets": 2}),
        ea.ShapeError,
        r"\(2,\)",
        "labels",
        r"expected \(2, 2\): num_targets",
    ),
    "smoothing of a regressor": Row(
        lambda _: call(labels=[1.0, 2.0], name=REGRESSOR, label_smoothing=0.1),
        ea.ConfigError,
        r"label_smoothing 0\.1",
        "regression",
        "is for classes, .* leave it out",
    ),
    "smoothing of pre-training": Row(
        lambda _: call(name=PRETRAINING, masked=VALUES > 0, label_smoothing=0.5),
        ea.ConfigError,
        r"label_smoothing 0\.5",
        "pre-training",
        "is for classes, .* leave it out",
    ),
    "missing target": Row(
        lambda _: call(labels=[0.0, np.nan], name=REGRESSOR),
        ea.InputError,
        "is nan",
        r"labels\[1\]",
        "expected finite values",
    ),
    "labels of pre-training": Row(
        lambda _: call(labels=[1, 0], name=PRETRAINING),
        ea.InputError,
        "labels is given",
        "forward",
        "pre-training predicts masked values; leave it out",
    ),
    "masks of a classifier": Row(
        lambda _: call(masked=VALUES > 0),
        ea.InputError,
        "masked is given",
        "forward",
        "only models for pre-training",
    ),
    "masks of another shape": Row(
        lambda _: call(name=PRETRAINING, masked=VALUES[0] > 0),
        ea.ShapeError,
        r"\(6, 3\)",
        "masked",
        "must be equal",
    ),
    "masks of numbers": Row(
        lambda _: call(name=PRETRAINING, masked=VALUES),
        ea.DTypeError,
        "float32",
        "masked",
        "expected booleans",
    ),
    "masks that hide nothing": Row(
        lambda _: call(name=PRETRAINING, masked=VALUES < 0),
        ea.InputError,
        "hides no cell",
        "masked",
        "draw another mask",
    ),
    "maps without attention": Row(
        lambda _: call(settings={"attention_ratio": 0.0}, output_attentions=True),
        ea.InputError,
        "attention_ratio 0",
        "attention maps",
        "leave output_attentions",
    ),
    # --- masks
    "ratio of masks": Row(
        lambda _: ea.mask_spans([5], 2, ratio=1.0),
        ea.ConfigError,
        r"1\.0",
        "ratio",
        r"in \(0, 1\)",
    ),
    "spans shorter than a step": Row(
        lambda _: ea.mask_spans([5], 2, mean_span=0.5),
        ea.ConfigError,
        r"0\.5",
        "mean_span",
        "1 or more",
    ),
    "short spans of a large ratio": Row(
        lambda _: ea.mask_spans([5], 2, ratio=0.9, mean_span=2),
        ea.ConfigError,
        r"ratio=0\.9",
        "mask_spans",
        "smaller ratio or longer spans",
    ),
    "masks of empty series": Row(
        lambda _: ea.mask_spans([5, 0], 2),
        ea.InputError,
        "= 0",
        r"lengths\[1\]",
        "leave empty series out",
    ),
    "masks of a negative seed": Row(
        lambda _: ea.mask_spans([5], 2, rng=-1),
        ea.ConfigError,
        "rng=-1",
        "mask_spans",
        "a generator of NumPy, or a seed from 0",
    ),
    "masks of no channels": Row(
        lambda _: ea.mask_spans([5], 0),
        ea.ConfigError,
        "=0",
        "channels",
        "1 or more",
    ),
    # --- files
    "weights cut short": Row(
        lambda folder: ea.EADCTransformerForClassification.from_pretrained(
            cut_short(folder)
        ),
        ea.CheckpointError,
        "model.safetensors",
        "saved",
        "",
    ),
    "head of another length": Row(
        lambda folder: ea.EADCTransformerForClassification.from_pretrained(
            saved(folder), max_length=9
        ),
        ea.CheckpointError,
        r"classifier\.weight",
        "of another shape",
        "Check the config",
    ),
}
