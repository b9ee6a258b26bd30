"""Tiny text nets of every kind, and ragged batches of single texts and pairs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import evolving_attention as ea

SIZES: dict[str, Any] = {
    "vocab_size": 30,
    "embedding_size": 10,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 14,
    "num_labels": 4,
}
QUIET = {
    "embedding_dropout_prob": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
CLASSES = {"TextNetForSequenceClassification": ea.TextNetForSequenceClassification}
Predictive = ea.attention.Predictive
BOTH: dict[str, Any] = {"attention_ratio": 0.5}
VARIANTS: dict[str, dict[str, Any]] = {
    "Transformer": {},
    "PA-Transformer": {"attention": Predictive(0.3)},
    "PA-Transformer of pairs": {"attention": Predictive(0.4), "type_vocab_size": 2},
    "Conv-Transformer": BOTH,
    "PA-Conv-Transformer": {"attention": Predictive(0.3, 2), **BOTH},
    "CNN": {"attention_ratio": 0.0, "kernel_size": 5},
    "not dense": {
        "dense_connections": False,
        "relative": "none",
        "attention": Predictive(0.3, 0),
    },
}


def tiny(
    variant: str = "PA-Transformer",
    dtype: str = "float32",
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random net in training mode; no bias is 0, no norm weight is 1."""
    ea.manual_seed(seed)
    config = ea.TextNetConfig(**{**SIZES, **VARIANTS[variant], **options})
    model = ea.TextNetForSequenceClassification(config, dtype)
    rng = np.random.default_rng(seed)
    for name, tensor in model.named_parameters():
        if name.endswith(("bias", "LayerNorm.weight")):
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


@dataclasses.dataclass(frozen=True)
class Batch:
    """Texts of different lengths with a label each, passed packed or padded."""

    ids: list[np.ndarray]
    types: list[np.ndarray]
    labels: np.ndarray

    def packed(self) -> dict[str, np.ndarray]:
        """Returns one row of all tokens, with offsets."""
        return {
            "input_ids": np.concatenate(self.ids),
            "token_type_ids": np.concatenate(self.types),
            "sequence_offsets": np.cumsum([0, *map(len, self.ids)]),
            "labels": self.labels,
        }

    def padded(self, extra: int = 0, left: bool = False) -> dict[str, np.ndarray]:
        """Returns [B, T] arrays with a mask; ``left`` puts the padding in front."""
        width = max(map(len, self.ids)) + extra
        ids, types, mask = np.zeros((3, len(self.ids), width), np.int64)
        for row, (text, kinds) in enumerate(zip(self.ids, self.types, strict=True)):
            place = slice(width - len(text), None) if left else slice(len(text))
            ids[row, place], types[row, place], mask[row, place] = text, kinds, 1
        names = ("input_ids", "token_type_ids", "attention_mask")
        return {
            **dict(zip(names, (ids, types, mask), strict=True)),
            "labels": self.labels,
        }


def draw(model: Any, lengths: tuple[int, ...] = (5, 11, 1, 6), seed: int = 0) -> Batch:
    """Returns random words and labels; nets for pairs get two texts in each row."""
    rng = np.random.default_rng(seed)
    config = model.config
    ids = [rng.integers(1, config.vocab_size, n) for n in lengths]
    pairs = config.type_vocab_size > 1
    types = [np.arange(n) * pairs // max(1, (n + 1) // 2) for n in lengths]
    return Batch(ids, types, rng.integers(0, config.num_labels, len(lengths)))
