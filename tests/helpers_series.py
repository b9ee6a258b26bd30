"""Tiny time-series models and ragged batches for the contract tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import modeling

SIZES = {
    "channels": 3,
    "max_length": 12,
    "hidden_size": 16,
    "num_blocks": 2,
    "num_attention_heads": 2,
    "attention_ratio": 0.5,
    "intermediate_size": 20,
}
LAYERS, HEADS, WIDTH = 4, 2, 16
EVOLVING = ea.attention.Evolving(0.3, 0.4)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LENGTHS = (5, 9, 1, 6)
SERIES = {
    name: cls
    for name, cls in vars(modeling).items()
    if isinstance(cls, type)
    and issubclass(cls, modeling.PreTrainedModel)
    and getattr(cls, "config_class", None) is ea.EADCTransformerConfig
    and hasattr(cls, "head")
}
"""Every task class of time series by name: a new head is tested by existing."""
VARIANTS = {
    "DC": {"attention": None},
    "EA-DC": {},
    "convolution": {"attention_ratio": 0.0, "attention": None},
    "EA": {"attention_ratio": 1.0},
    "centred": {"causal": False},
    "not dilated": {"dilation_base": 1},
    "mean": {"pooling": "mean"},
    "deep head": {"classifier_hidden_size": 7},
    "no positions": {"position": "none"},
    "relative": {"relative": "learned"},
    "layer norm": {"norm": "layer"},
    "residual": {"attention": ea.attention.Residual()},
    "predictive": {"attention": ea.attention.Predictive(0.3, num_layers=2)},
    "released": {"released_behaviour": True},
    "released DC": {"released_behaviour": True, "attention": None},
}


def tiny(
    name: str = "EADCTransformerForClassification",
    dtype: str = "float32",
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random model of class ``name`` in training mode; no bias is zero."""
    cls = SERIES[name]
    given = {"attention": EVOLVING, "num_labels": 3, "num_targets": 2}
    ea.manual_seed(seed)
    model = cls(cls.config_class(**{**SIZES, **given, **options}), dtype)
    rng = np.random.default_rng(seed)
    for parameter, tensor in model.named_parameters():
        if parameter.endswith(("bias", "norm.weight")):
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


@dataclasses.dataclass(frozen=True)
class Batch:
    """Series of different lengths, passed packed or padded."""

    rows: list[np.ndarray]

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def packed(self) -> dict[str, np.ndarray]:
        """Returns all steps, with offsets."""
        return {
            "values": np.concatenate(self.rows),
            "sequence_offsets": np.cumsum([0, *self.lengths]),
        }

    def padded(self, extra: int = 0, filler: float = np.nan) -> dict[str, np.ndarray]:
        """Returns [n, length, channels] with lengths; the padding is ``filler``."""
        width = max(self.lengths) + extra
        values = np.full((len(self.rows), width, SIZES["channels"]), filler)
        for i, row in enumerate(self.rows):
            values[i, : len(row)] = row
        return {"values": values, "lengths": np.array(self.lengths)}

    def valid(self, extra: int = 0) -> np.ndarray:
        """Returns bool [n, length]: the positions of steps in :meth:`padded`."""
        width = max(self.lengths) + extra
        return np.arange(width) < np.array(self.lengths)[:, None]


def draw(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> Batch:
    """Returns random series."""
    rng = np.random.default_rng(seed)
    return Batch([rng.normal(size=(n, SIZES["channels"])) for n in lengths])


def targets_for(model: Any, batch: Batch, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns the head's targets: labels, values, or masked cells (packed)."""
    rng = np.random.default_rng(seed)
    n = len(batch.rows)
    if model.head == "classification":
        return {"labels": rng.integers(0, model.config.num_labels, n)}
    if model.head == "regression":
        return {"labels": rng.normal(size=(n, model.config.num_targets))}
    if model.head == "pretraining":
        masked = ea.mask_spans(batch.lengths, SIZES["channels"], ratio=0.3, rng=seed)
        return {"masked": masked[batch.valid()]}
    return {}


def pad_masked(inputs: dict[str, Any], valid: np.ndarray) -> dict[str, Any]:
    """Converts packed ``masked`` for padded input; the padding is masked too."""
    if "masked" in inputs:
        masked = np.ones((*valid.shape, SIZES["channels"]), bool)
        masked[valid] = inputs["masked"]
        inputs = {**inputs, "masked": masked}
    return inputs
