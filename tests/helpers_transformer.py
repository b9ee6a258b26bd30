"""Tiny encoder-decoders, ragged pairs of sequences and attention variants."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention import modeling

SIZES = {
    "vocab_size": 30,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 40,
}
PAIRS = {
    name: cls
    for name, cls in vars(modeling).items()
    if isinstance(cls, type)
    and issubclass(cls, modeling.PreTrainedModel)
    and getattr(cls, "config_class", None) is ea.TransformerConfig
    and hasattr(cls, "head")
}
"""Every task class of encoder-decoders by name: a new head is tested by existing."""

Causal = ea.attention.EvolvingCausal
EVOLVING = {
    "attention": ea.attention.Evolving(0.3, 0.4),
    "decoder_attention": Causal(0.0, 0.4),
    "cross_attention": Causal(0.0, 0.4, shift="query"),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "vanilla": {},
    "evolving": EVOLVING,
    "encoder": {"attention": EVOLVING["attention"]},
    "decoder": {"decoder_attention": EVOLVING["decoder_attention"]},
    "cross": {"cross_attention": EVOLVING["cross_attention"]},
    "skips": {
        **EVOLVING,
        "decoder_attention": Causal(0.3, 0.4),
        "cross_attention": Causal(0.2, 0.5, shift="query"),
    },
    "by layer": {
        "attention": ea.attention.Evolving([0, 0.3, 0.1], [0, 0.4, 0.2]),
        "decoder_attention": Causal([0, 0.3], [0.4, 0.2]),
        "cross_attention": Causal(0.0, [0.0, 0.5], shift="query"),
    },
    "learned": {
        "attention": ea.attention.Evolving(0.3, 0.4, learnable=True),
        "decoder_attention": Causal(0.0, 0.4, learnable=True),
        "cross_attention": Causal(0.2, 0.5, shift="query", learnable=True),
    },
    "1 x 1": {
        "attention": ea.attention.Evolving(0.3, 0.4, 1),
        "decoder_attention": Causal(0.0, 0.4, 1),
        "cross_attention": Causal(0.0, 0.4, 1, "query"),
    },
    "5 x 5": {
        "attention": ea.attention.Evolving(0.3, 0.4, 5),
        "decoder_attention": Causal(0.0, 0.4, 5),
        "cross_attention": Causal(0.0, 0.4, 5, "query"),
    },
    "residual": {name: ea.attention.Residual() for name in EVOLVING},
    "predictive": {"attention": ea.attention.Predictive(0.3)},
    "windows": {
        "attention": [
            ea.attention.Spec(scope=ea.attention.Window(3, 3)),
            ea.attention.Spec(scope=ea.attention.Window(3)),
            "vanilla",
        ]
    },
    "pre-norm": {"norm_first": True, **EVOLVING},
    "separate": {
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": 26,
        "tie_word_embeddings": False,
        "scale_embedding": False,
    },
}


def tiny(
    variant: str = "evolving",
    name: str = "TransformerForConditionalGeneration",
    dtype: str = "float32",
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random model in training mode; no bias is zero."""
    cls = PAIRS[name]
    ea.manual_seed(seed)
    settings = {"dropout": 0.0, **SIZES, **VARIANTS[variant], **options}
    model = cls(ea.TransformerConfig(**settings), dtype)
    rng = np.random.default_rng(seed)
    for parameter, tensor in model.named_parameters():
        if parameter.endswith(("bias", "LayerNorm.weight")):
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
    return model


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Sources and labels of different lengths, passed packed or padded."""

    sources: list[np.ndarray]
    labels: list[np.ndarray]

    def packed(self) -> dict[str, np.ndarray]:
        """Returns one row of all source tokens and one of all labels, with offsets."""
        return {
            "input_ids": np.concatenate(self.sources),
            "sequence_offsets": np.cumsum([0, *map(len, self.sources)]),
            "labels": np.concatenate(self.labels),
            "decoder_sequence_offsets": np.cumsum([0, *map(len, self.labels)]),
        }

    def padded(self, extra: int = 0, left: bool = False) -> dict[str, np.ndarray]:
        """Returns [B, S] and [B, T]; ``left`` puts the source's padding in front."""
        ids, mask = _pad(self.sources, 0, extra, left)
        labels, _ = _pad(self.labels, -100, extra)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    def decoder(self, start: int = 1) -> list[np.ndarray]:
        """Returns the decoder's inputs: the labels, moved one position to the right."""
        return [np.concatenate([[start], row[:-1]]) for row in self.labels]

    def alone(self, row: int) -> dict[str, np.ndarray]:
        """Returns one pair as a batch of size 1."""
        return {
            "input_ids": self.sources[row][None],
            "labels": self.labels[row][None],
        }

    def valid(self, extra: int = 0) -> np.ndarray:
        """Returns bool [B, T]: the positions of labels in :meth:`padded`."""
        return self.padded(extra)["labels"] != -100


def _pad(rows: list[np.ndarray], value: int, extra: int, left: bool = False) -> Any:
    width = max(map(len, rows)) + extra
    out = np.full((len(rows), width), value)
    mask = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        start = width - len(row) if left else 0
        out[i, start : start + len(row)] = row
        mask[i, start : start + len(row)] = 1
    return out, mask


def draw(
    sources: tuple[int, ...] = (5, 9, 1, 6),
    targets: tuple[int, ...] = (7, 4, 3, 1),
    seed: int = 0,
) -> Pairs:
    """Returns random pairs; labels are in the smallest vocabulary of VARIANTS."""
    rng = np.random.default_rng(seed)
    return Pairs(
        [rng.integers(3, SIZES["vocab_size"], n) for n in sources],
        [rng.integers(3, 26, n) for n in targets],
    )


def inputs_for(model: Any, given: dict[str, np.ndarray]) -> dict[str, Any]:
    """Returns the inputs as the head takes them: base models have no labels."""
    if model.head != "base":
        return dict(given)
    inputs = dict(given)
    labels = inputs.pop("labels")
    inputs["decoder_input_ids"] = np.where(labels < 0, 0, labels)
    return inputs
