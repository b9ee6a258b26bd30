"""Mistakes with T5, its files and its pre-training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evolving_attention as ea
from evolving_attention.text import AutoTokenizer
from mistakes.row import Row

TABLE = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def t5(cls: Any = ea.T5ForConditionalGeneration, **options: Any) -> Any:
    """A tiny model."""
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_heads": 2, "num_layers": 1}
    return cls(ea.T5Config(vocab_size=12, **{**sizes, **options}))


def without_table(folder: Path) -> Any:
    """Loads a checkpoint that lacks the encoder's positions."""
    from safetensors.numpy import load_file, save_file

    t5().save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors[TABLE]
    save_file(tensors, folder / "model.safetensors")
    return ea.AutoModelForSeq2SeqLM.from_pretrained(folder)


def cut_tokenizer(folder: Path) -> Any:
    """Loads a tokenizer from a truncated file."""
    (folder / "spiece.model").write_bytes(b"\x0a\x20\x0a\x05<pad>")
    return AutoTokenizer.from_pretrained(folder)


ROWS = {
    "a feed-forward that is not known": Row(
        lambda _: t5(feed_forward_proj="gated-swish"),
        ea.ConfigError,
        r"unknown activation 'swish'",
        r"feed_forward_proj",
        r"expected gelu, gelu_new",
    ),
    "buckets that two directions cannot share": Row(
        lambda _: t5(relative_attention_num_buckets=7),
        ea.ConfigError,
        r"num_buckets = 7 must be even",
        r"attention\.buckets",
        r"half of them are of later keys",
    ),
    "a distance that leaves nothing to grow": Row(
        lambda _: t5(relative_attention_max_distance=8),
        ea.ConfigError,
        r"max_distance = 8 with num_buckets = 32",
        r"attention\.buckets",
        r"expected more than the 8 distances",
    ),
    "a checkpoint without positions": Row(
        without_table,
        ea.CheckpointError,
        rf"missing: {TABLE}",
        r"does not fit the model",
        r"strict=False",
    ),
    "labels without a task": Row(
        lambda _: t5(ea.T5Model)([[4, 5]], labels=[[6]]),
        ea.InputError,
        r"labels are given",
        r"T5Model",
        r"use ea\.T5ForConditionalGeneration",
    ),
    "a tokenizer that is cut off": Row(
        cut_tokenizer,
        ea.CheckpointError,
        r"no SentencePiece model",
        r"spiece\.model",
        r"fetch the file again",
    ),
    "a number in place of texts": Row(
        lambda _: ea.corrupt_spans(5),
        ea.InputError,
        r"rows is a int",
        r"corrupt_spans",
        r"expected a list of token ids for each text",
    ),
    "sentinels in a text": Row(
        lambda _: ea.corrupt_spans([[5, 6, 7], [5, 32_050, 7]]),
        ea.InputError,
        r"= 32050 is a sentinel",
        r"rows\[1\]\[1\]",
        r"expected tokens of a text",
    ),
}
