"""Tiny T5 models of both versions, with attention variants."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from helpers_transformer import EVOLVING, Causal, Pairs

import evolving_attention as ea
from evolving_attention import modeling

SIZES: dict[str, Any] = {
    "vocab_size": 30,
    "d_model": 24,
    "d_kv": 5,  # 3 heads of 5, not of 24 / 3
    "d_ff": 20,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,  # the sequences below are longer
    "dropout_rate": 0.0,
    "eos_token_id": 2,
}
V1_1: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "v1.0": {},
    "v1.1": V1_1,
    "evolving": EVOLVING,
    "evolving v1.1": {**EVOLVING, **V1_1},
    "skips": {
        **EVOLVING,
        "decoder_attention": Causal(0.3, 0.4),
        "cross_attention": Causal(0.2, 0.5, shift="query"),
    },
    "predictive": {"attention": ea.attention.Predictive(0.3)},
}
END, START = 2, 0
CLASSES: dict[str, Any] = {
    name: cls
    for name, cls in vars(modeling).items()
    if getattr(cls, "config_class", None) is ea.T5Config and hasattr(cls, "head")
}
"""Every task class of T5 by name."""


def tiny(
    variant: str = "evolving",
    dtype: str = "float32",
    cls: Any = ea.T5ForConditionalGeneration,
    seed: int = 1,
    **options: Any,
) -> Any:
    """Returns a random model in training mode; no conv bias is 0, no norm is 1."""
    ea.manual_seed(seed)
    config = ea.T5Config(**{**SIZES, **VARIANTS[variant], **options})
    model, rng = cls(config, dtype), np.random.default_rng(seed)
    for name, tensor in model.named_parameters():
        if name.endswith(("conv.bias", "norm.weight")):
            shift = rng.normal(0.0, 0.1, tensor.shape)
            tensor.copy_(np.asarray(tensor).astype(np.float64) + shift)
        if name.endswith("relative_attention_bias.weight"):  # so that it has an effect
            tensor.copy_(rng.normal(0.0, 1.0, tensor.shape))
    return model


@functools.cache
def _trained(variant: str) -> Any:
    model = tiny(variant)
    optimizer = ea.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        rows = [rng.integers(3, 12, rng.integers(1, 9)) for _ in range(16)]
        pairs = Pairs(rows, [np.append(np.sort(row), END) for row in rows])
        model(**pairs.packed()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def trained(variant: str = "evolving", dtype: str = "float32") -> Any:
    """Returns a copy of a model that has begun to sort: targets end on their own."""
    return _trained(variant).copy(dtype).eval()


WORD_SIZES: dict[str, Any] = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_heads": 2,
    "num_layers": 2,
    "dropout_rate": 0.0,
}


def word_t5(folder: Path, words: list[str]) -> Path:
    """Writes a folder with a random T5 and a tokenizer that knows these words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    ids = {w: i for i, w in enumerate(["<pad>", "</s>", "<unk>", "<extra_id_0>"])}
    ids |= {w: i for i, w in enumerate([*words, ":"], len(ids))}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated")]
    made.pre_tokenizer = pre_tokenizers.Sequence(parts)
    made.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made.add_special_tokens(["<pad>", "</s>", "<extra_id_0>"])
    ea.manual_seed(0)
    config = ea.T5Config(vocab_size=len(ids), **WORD_SIZES)
    ea.T5ForConditionalGeneration(config).save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    return folder
