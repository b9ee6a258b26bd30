"""Tiny models, ragged batches and attention settings for the contract tests."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core, modeling
from evolving_attention.device_names import host_array

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,  # maps that are not uniform
}
PAD = {"bert": 0, "roberta": 1}
MODELS = {
    name: cls
    for name, cls in vars(modeling).items()
    if isinstance(cls, type)
    and issubclass(cls, modeling.TextModel)
    and hasattr(cls, "head")
    and cls.config_class.model_type in PAD
}
"""Every task class of BERT's families by name: a new head is tested by existing.

Time series have helpers_series.SERIES, text nets helpers_text_nets.CLASSES.
"""
BODIES = [
    name
    for name, cls in MODELS.items()
    if cls.head in ("base", "sequence_classification", "masked_lm", "pretraining")
]
"""The classes for products of settings: all ways in which a task reads its encoder."""

SPAN = ("start_positions", "end_positions")
NOWHERE = -1e30  # the logit of padding

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tiny(
    name: str = "BertForSequenceClassification",
    attention: Any = None,
    dtype: str = "float32",
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random model of class ``name`` in training mode; no bias is zero."""
    cls = MODELS[name]
    config = cls.config_class(attention=attention, **{**SIZES, **options})
    ea.manual_seed(seed)
    model = cls(config, dtype)
    rng = np.random.default_rng(seed)
    for parameter, tensor in model.named_parameters():
        if parameter.endswith(("bias", "LayerNorm.weight", "layer_norm.weight")):
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


@dataclasses.dataclass(frozen=True)
class Batch:
    """Sequences of different lengths, passed packed or padded."""

    ids: list[np.ndarray]
    types: list[np.ndarray]
    pad: int

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.ids]

    def packed(self) -> dict[str, np.ndarray]:
        """Returns one row of all tokens, with offsets."""
        return {
            "input_ids": np.concatenate(self.ids),
            "token_type_ids": np.concatenate(self.types),
            "sequence_offsets": np.cumsum([0, *self.lengths]),
        }

    def padded(self, extra: int = 0, left: bool = False) -> dict[str, np.ndarray]:
        """Returns [B, T] arrays with a mask; ``left`` puts the padding in front.

        Positions are counted from the first token, so they are given where the
        architecture would count columns.
        """
        width = max(self.lengths) + extra
        out = {
            "input_ids": np.full((len(self.ids), width), self.pad),
            "attention_mask": np.zeros((len(self.ids), width), np.int64),
            "token_type_ids": np.zeros((len(self.ids), width), np.int64),
        }
        positions = np.zeros((len(self.ids), width), np.int64)
        for row, (ids, types) in enumerate(zip(self.ids, self.types, strict=True)):
            start = width - len(ids) if left else 0
            place = slice(start, start + len(ids))
            out["input_ids"][row, place] = ids
            out["attention_mask"][row, place] = 1
            out["token_type_ids"][row, place] = types
            positions[row, place] = np.arange(len(ids))
        if left and self.pad == PAD["bert"]:
            out["position_ids"] = positions
        return out

    def valid(self, extra: int = 0, left: bool = False) -> np.ndarray:
        """Returns bool [B, T]: the positions of tokens in :meth:`padded`."""
        return self.padded(extra, left)["attention_mask"].astype(bool)


def draw(
    lengths: tuple[int, ...] = (5, 9, 1, 6),
    architecture: str = "bert",
    seed: int = 0,
    types: int | None = None,
) -> Batch:
    """Returns random sequences without padding ids."""
    rng = np.random.default_rng(seed)
    kinds = types or (2 if architecture == "bert" else 1)
    ids = [rng.integers(3, SIZES["vocab_size"], n) for n in lengths]
    return Batch(ids, [rng.integers(0, kinds, n) for n in lengths], PAD[architecture])


def labels_for(model: Any, batch: Batch, seed: int = 0) -> np.ndarray | None:
    """Returns labels for the head: None, one per sequence, or one per packed token.

    Multiple choice has one label: the sequences are the choices of one question.
    """
    rng = np.random.default_rng(seed)
    if model.head in ("base", "question_answering"):
        return None
    if model.head == "multiple_choice":
        return rng.integers(0, len(batch.ids), 1)
    if model.head == "sequence_classification":
        if model.config.num_labels == 1:
            return rng.normal(size=len(batch.ids)).astype(np.float32)
        return rng.integers(0, model.config.num_labels, len(batch.ids))
    token = model.head == "token_classification"
    classes = model.config.num_labels if token else SIZES["vocab_size"]
    labels = rng.integers(0, classes, sum(batch.lengths))
    return np.where(rng.random(len(labels)) < 0.5, labels, -100)


def targets_for(model: Any, batch: Batch, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns the targets of the head's loss, by name, for packed input."""
    labels = labels_for(model, batch, seed)
    found = {} if labels is None else {"labels": labels}
    if model.head == "pretraining":
        found["next_sentence_label"] = np.arange(len(batch.ids)) % 2
    if model.head == "question_answering":
        rng = np.random.default_rng(seed)
        places = [np.sort(rng.integers(0, n, 2)) for n in batch.lengths]
        found |= dict(zip(SPAN, np.stack(places, axis=1), strict=True))
    return found


def padded_targets(
    model: Any, batch: Batch, extra: int = 0, left: bool = False
) -> dict[str, np.ndarray]:
    """Returns the targets for :meth:`Batch.padded`."""
    found, valid = targets_for(model, batch), batch.valid(extra, left)
    if "labels" in found and len(found["labels"]) == sum(batch.lengths):
        found["labels"] = pad_labels(found["labels"], valid)
    first = valid.argmax(axis=1)
    return {n: v + first if n in SPAN else v for n, v in found.items()}


def architecture(name: str) -> str:
    """Returns the model_type of a class of ``MODELS``."""
    return MODELS[name].config_class.model_type


def batch_for(
    name: str, lengths: tuple[int, ...] = (5, 9, 1, 6), seed: int = 0
) -> Batch:
    """Returns a batch for the class ``name``."""
    return draw(lengths, architecture(name), seed)


def inputs_for(model: Any, batch: Batch) -> dict[str, Any]:
    """Returns packed inputs with the labels that the head takes."""
    return {**batch.packed(), **targets_for(model, batch)}


def pad_labels(labels: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns packed token labels as [B, T], -100 outside."""
    out = np.full(valid.shape, -100)
    out[valid] = labels
    return out


def arrays_of(out: Any) -> dict[str, Any]:
    """Returns an output's arrays by name; lists of layers become ``name.index``."""
    arrays = {}
    for name in out:
        value = out[name]
        if isinstance(value, tuple):  # one per layer; None if not requested
            kept = {i: v for i, v in enumerate(value) if v is not None}
            arrays |= {f"{name}.{i}": host_array(v) for i, v in kept.items()}
        else:
            arrays[name] = host_array(value)
    return arrays


def gradients(model: Any) -> dict[str, np.ndarray]:
    """Returns copies of the gradients by name, without parameters that have none."""
    return {
        name: np.array(host_array(tensor.grad))
        for name, tensor in model.named_parameters()
        if tensor.grad is not None
    }


def run(model: Any, **inputs: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Runs forward and backward; returns output arrays and parameter gradients."""
    model.zero_grad()
    out = model(**inputs)
    loss = out.loss
    if loss is None:
        base = next(
            name
            for name in ("pooler_output", "last_hidden_state", "logits", "start_logits")
            if name in out
        )
        whole = out[base]
        loss = (whole * whole).sum()
    loss.backward()
    return arrays_of(out), gradients(model)


def assert_gradients_are_slopes(
    model: Any, inputs: dict[str, Any], step: float = 1e-6, **bounds: float
) -> None:
    """Checks each parameter's gradient along a random direction by central differences.

    Running statistics may move: the training loss does not depend on them.
    """
    _, found = run(model, **inputs)
    rng = np.random.default_rng(5)
    for name, tensor in model.named_parameters():
        start = np.array(tensor)
        direction = rng.normal(size=start.shape)
        values = []
        with ea.no_grad():
            for sign in (1, -1):
                tensor.copy_(start + sign * step * direction)
                values.append(model(**inputs).loss.item())
        tensor.copy_(start)
        slope = (values[0] - values[1]) / (2 * step)
        expected = np.vdot(found[name], direction)
        assert slope == pytest.approx(expected, **bounds), name


def copy_parameters(source: Any, target: Any) -> None:
    """Overwrites the parameters of ``target`` that ``source`` has."""
    held = dict(source.named_parameters())
    for name, tensor in target.named_parameters():
        if name in held:
            tensor.copy_(held[name])


def assert_same_bits(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Checks that two dicts of arrays are equal in names, types and every bit."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        assert value.dtype == other.dtype, name
        assert value.shape == other.shape, name
        assert value.tobytes() == np.ascontiguousarray(other).tobytes(), name


def _values(option: dict[str, Any]) -> list[Any]:
    """Returns a few values of a declared option, the default first."""
    default, low, high = option["default"], option["low"], option["high"]
    if option["type"] == "float":
        values = [low + 0.3 * (high - low), high, low]
    elif option["type"] == "int":
        values = [int(low) + i for i in (0, 1, 2, 4)]
        values = [v for v in values if not option["odd"] or v % 2]
    elif option["type"] == "str":
        values = list(option["choices"])
    else:
        values = [True, False]
    if not option["required"]:
        values = [default, *(v for v in values if v != default)]
    return values


def settings(kind: str) -> Iterator[dict[str, Any]]:
    """Yields configs of a kind: the first values, then each option varied alone."""
    options = _core.attention_kinds()["evolve"][kind]["options"]
    first = {o["name"]: _values(o)[0] for o in options}
    yield {"kind": kind, **first}
    for option in options:
        for value in _values(option)[1:]:
            yield {"kind": kind, **first, option["name"]: value}


def all_settings() -> list[Any]:
    """Returns settings of every kind of the core, with readable test ids."""
    kinds = _core.attention_kinds()["evolve"]
    found = itertools.chain.from_iterable(settings(kind) for kind in kinds)
    return [pytest.param(s, id=setting_id(s)) for s in found]


def setting_id(setting: dict[str, Any]) -> str:
    """Returns an id such as ``evolving-alpha=0.3-…``."""
    rest = (f"{k}={v}" for k, v in setting.items() if k != "kind")
    return "-".join([setting["kind"], *rest])
