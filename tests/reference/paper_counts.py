"""Parameters and operations of the papers' models, counted on our models.

Models are built from shapes only: nothing is computed or allocated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import evolving_attention as ea

BERT = {
    "base": {"layers": 12, "width": 768, "inner": 3072, "heads": 12},
    "large": {"layers": 24, "width": 1024, "inner": 4096, "heads": 16},
}


@dataclass
class Built:
    """Config and parameter shapes of a model."""

    config: Any
    shapes: dict[str, tuple[int, ...]]

    def numbers(self) -> int:
        """Returns the total number of parameters."""
        return sum(map(math.prod, self.shapes.values()))


def built(make: Callable[[], object]) -> Built:
    """Returns config and parameter shapes of the model that ``make`` builds."""
    found = Built(None, {})

    def build(model, config, dtype="float32", *, device="cpu"):
        model._build(config, dtype)
        found.config = config
        found.shapes.update((n, tuple(t.shape)) for n, t in model.named_parameters())

    with mock.patch.object(ea.PreTrainedModel, "__init__", build):
        make()
    return found


def with_wide_head(name: str, width: int) -> Built:
    """Returns a classifier whose fully connected layer has this width."""
    task = "sequence_classification"
    return built(lambda: ea.create_model(name, task=task, classifier_hidden_size=width))


def bert_flops(size: str, kernel_size: int = 0, tokens: int = 128) -> float:
    """Returns one sequence's operations, counted as by ``evolving-attention bench``."""
    found = ea.profiling.matrix_flops([tokens], kernel_size=kernel_size, **BERT[size])
    return found["total"]


def text_net(name: str, tokens: int = 64) -> tuple[int, int]:
    """Returns parameters (without embeddings) and operations of a text net for SST.

    Every matrix and every convolution tap along the text applies to every token; each
    attention layer has two products of tokens² · its share of the width.
    """
    found = built(lambda: ea.create_model(name, num_labels=5))
    config = found.config
    own = {n: s for n, s in found.shapes.items() if "word_embeddings" not in n}
    weights = sum(
        math.prod(shape)
        for key, shape in own.items()
        if len(shape) in (2, 3) and not key.startswith("classifier")
        if "relative" not in key
    )
    width = config.num_hidden_layers * config.hidden_size * config.attention_ratio
    products = 4 * tokens**2 * round(width)
    return Built(config, own).numbers(), 2 * tokens * weights + products


def translation_flops(name: str, tokens: int = 30) -> float:
    """Returns operations of an encoder-decoder for ``tokens`` words per language.

    Besides the products, each bias element counts 1 per token. Embedding tables and the
    output matrix do not count, as in the papers.
    """
    model = built(lambda: ea.create_model(name, vocab_size=30))
    found = ea.profiling.encoder_decoder_flops(model.config, tokens, tokens)
    biases = sum(
        math.prod(shape)
        for key, shape in model.shapes.items()
        if key.endswith(".bias") and not re.search("norm|conv", key.lower())
    )
    return found["total"] - found["logits"] + tokens * biases


def series_sizes(channels: int, steps: int, outputs: int) -> dict[tuple[int, int], int]:
    """Returns {(width, blocks): parameters} of the released EA-DC-T's search space."""
    kind: Any = ea.EADCTransformerForRegression
    outputs_are = "num_targets"
    if outputs > 1:
        kind, outputs_are = ea.EADCTransformerForClassification, "num_labels"
    found = {}
    for width in (64, 128):
        for blocks in (2, 3, 4, 5):
            config = ea.EADCTransformerConfig(
                channels=channels,
                max_length=steps,
                hidden_size=width,
                num_blocks=blocks,
                attention=ea.attention.Evolving(0.3, 0.5),
                released_behaviour=True,
                **{outputs_are: outputs},
            )
            found[width, blocks] = built(lambda c=config: kind(c)).numbers()
    return found
