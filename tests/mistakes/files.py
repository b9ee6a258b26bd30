"""Mistakes with checkpoints, tokenizers, data files and submissions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch_files as tf

import evolving_attention as ea
from evolving_attention import errors
from mistakes.row import Row, changed, saved, with_tensor

load = ea.AutoModelForSequenceClassification.from_pretrained
tokenizer = ea.AutoTokenizer.from_pretrained
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "time", "fly", "##s"]
COLA = "gj04\t1\t\tTime flies.\n"


def write(file: Path, content: str | bytes) -> Path:
    """Writes the file and returns its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    file.write_bytes(data)
    return file.parent


def without(folder: Path, name: str) -> Path:
    (root := saved(folder)).joinpath(name).unlink()
    return root


def truncated(folder: Path) -> Path:
    file = saved(folder) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return file.parent


def malicious(folder: Path) -> Path:
    """Returns a model whose .bin calls os.system."""
    root = without(folder, "model.safetensors")
    body = tf.PROTO + b"cos\nsystem\n" + tf.tuple_of(tf.text("true"))
    (root / "pytorch_model.bin").write_bytes(tf.zip_file(body + tf.REDUCE + tf.STOP))
    return root


def words(folder: Path) -> Any:
    return tokenizer(write(folder / "vocab.txt", "\n".join(VOCAB)))


def cola(folder: Path, line: str | bytes, **options: Any) -> Any:
    """Loads a CoLA folder whose training file has ``line`` as its second line."""
    data = line.encode() if isinstance(line, str) else line
    write(folder / "train.tsv", COLA.encode() + data + COLA.encode())
    return ea.glue.load("cola", folder, splits=("train",), **options)


def without_library(name: str) -> Any:
    """Requires a library that is not installed."""
    held = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        return errors.require(name, extra="glue", why="for the metrics of GLUE")
    finally:
        del sys.modules[name]
        if held is not None:
            sys.modules[name] = held


def offline(_: Path) -> Any:
    return load("nobody/nothing", local_files_only=True)


def a_file(folder: Path) -> Path:
    (path := folder / "afile").write_text("x")
    return path


ROWS = {
    "a model saved to a file": Row(
        lambda folder: load(saved(folder)).save_pretrained(a_file(folder)),
        errors.CheckpointError,
        r"File exists",
        r"cannot make the folder .*afile",
        r"give another path: this one is a file",
    ),
    "a tokenizer saved below a file": Row(
        lambda folder: words(folder).save_pretrained(a_file(folder) / "x"),
        errors.CheckpointError,
        r"Not a directory",
        r"cannot make the folder .*afile/x",
        r"give another path: a part of this one is a file",
    ),
    "a folder without config": Row(
        lambda f: load(without(f, "config.json")),
        ea.CheckpointError,
        r"config\.json",
        r"saved",
        r"expected|no such|missing",
    ),
    "a folder without weights": Row(
        lambda f: load(without(f, "model.safetensors")),
        ea.CheckpointError,
        r"no (weights|model)",
        r"saved",
        r"model\.safetensors",
    ),
    "truncated weights": Row(
        lambda f: load(truncated(f)),
        ea.CheckpointError,
        r"bytes|truncated",
        r"model\.safetensors",
        r"again|expected",
    ),
    "a malicious .bin": Row(
        lambda f: load(malicious(f)),
        ea.UnsafeCheckpointError,
        r"system",
        r"pytorch_model\.bin",
        r"safetensors|expec",
    ),
    "another architecture": Row(
        lambda f: load(changed(f, model_type="t5")),
        ea.CheckpointError,
        r"'t5'",
        r"saved",
        r"expected one of bert, roberta",
    ),
    "RoBERTa from BERT's folder": Row(
        lambda f: ea.RobertaModel.from_pretrained(saved(f)),
        ea.CheckpointError,
        r"is a bert checkpoint",
        r"saved",
        r"use the Auto class",
    ),
    "a size the weights do not have": Row(
        lambda f: load(changed(f, intermediate_size=48)),
        ea.CheckpointError,
        r"of another shape",
        r"intermediate\.dense",
        r"Check the con",
    ),
    "a tensor that is missing": Row(
        lambda f: load(
            with_tensor(f, "bert.encoder.layer.0.output.dense.weight", None)
        ),
        ea.CheckpointError,
        r"missing|lacks",
        r"layer\.0\.output\.dense",
        r"Check|strict",
    ),
    "weights of NaN": Row(
        lambda f: load(with_tensor(f, "classifier.bias", np.full(2, np.nan, "f"))),
        ea.CheckpointError,
        r"NaN",
        r"saved.*classifier\.bias",
        r"damaged|diverged",
    ),
    "a config that is no JSON": Row(
        lambda f: load(write(saved(f) / "config.json", "{'a': 1}")),
        ea.ConfigFileError,
        r"not valid JSON",
        r"config\.json.*line 1 column 2",
        r"download or save it again",
    ),
    "a config with a bad value": Row(
        lambda f: load(changed(f, num_attention_heads=5)),
        ea.ConfigError,
        r"hidden_size is 24",
        r"config",
        r"a multiple of num_attention",
    ),
    "a config of a decoder": Row(
        lambda f: load(changed(f, is_decoder=True)),
        ea.ConfigError,
        r"not supported",
        r"is_decoder",
        r"expected one of",
    ),
    "a typing mistake in from_pretrained": Row(
        lambda f: load(saved(f), num_label=3),
        ea.ConfigError,
        r"unknown option",
        r"'num_label'",
        r"did you mean 'num_labels'",
    ),
    "an unknown name without network": Row(
        offline,
        ea.CheckpointError,
        r"nobody/nothing",
        r"cache|folder|looked",
        r"local_files_on",
    ),
    "a package that is not installed": Row(
        lambda _: load("package:no_such_package/model"),
        ea.CheckpointError,
        r"no_such_package",
        r"package",
        r"install",
    ),
    # --- tokenizers
    "a tokenizer without a name": Row(
        lambda _: tokenizer(None),
        ea.CheckpointError,
        r"is None, a NoneType",
        r"model name",
        r"expected a folder",
    ),
    "padding to a multiple of a fraction": Row(
        lambda f: words(f)("a", padding=True, pad_to_multiple_of=1.5),
        ea.ConfigError,
        r"=1\.5",
        r"pad_to_multiple_of",
        r"expected a whole number, 1 or more",
    ),
    "a folder without tokenizer": Row(
        lambda f: tokenizer(saved(f)),
        ea.CheckpointError,
        r"no tokenizer|tokenizer",
        r"saved",
        r"or vocab\.txt",
    ),
    "a vocabulary without special tokens": Row(
        lambda f: tokenizer(write(f / "vocab.txt", "a\nb\n")),
        ea.CheckpointError,
        r"is not",
        r"vocab\.txt",
        r"\[UNK\], \[SEP\], \[CLS\]",
    ),
    "a number for a text": Row(
        lambda f: words(f)(3),
        ea.InputError,
        r"int",
        r"text",
        r"expected",
    ),
    "a tensor type of others": Row(
        lambda f: words(f)("time", return_tensors="pt"),
        ea.ConfigError,
        r"'pt'",
        r"return_tensors",
        r"'np'",
    ),
    # --- data
    "an unknown task": Row(
        lambda f: ea.glue.load("colla", f),
        ea.ConfigError,
        r"'colla'",
        r"task",
        r"cola",
    ),
    "no data folder": Row(
        lambda f: ea.glue.load("cola", f / "nowhere"),
        ea.DataError,
        r"no |not ",
        r"nowhere",
        r"expected|train\.tsv",
    ),
    "a label of 7": Row(
        lambda f: cola(f, "gj04\t7\t\tTime.\n"),
        ea.DataError,
        r"'7'",
        r"train\.tsv:2:6",
        r"expected 0 or 1|bad_rows",
    ),
    "a missing field": Row(
        lambda f: cola(f, "gj04\t1\n"),
        ea.DataError,
        r"2 (fields|columns)",
        r"train\.tsv:2",
        r"expected 4|bad_rows",
    ),
    "a NUL byte": Row(
        lambda f: cola(f, "gj04\t1\t\tTi\0me.\n"),
        ea.DataError,
        r"NUL",
        r"train\.tsv:2",
        r"bad_rows|remove|expected",
    ),
    "bytes that are not UTF-8": Row(
        lambda f: cola(f, b"gj04\t1\t\tTi\xffme.\n"),
        ea.DataError,
        r"UTF-8",
        r"train\.tsv:2",
        r"bad_rows|save|convert|expected",
    ),
    "an empty file": Row(
        lambda f: ea.glue.load("cola", write(f / "train.tsv", ""), splits=("train",)),
        ea.DataError,
        r"empty|no rows",
        r"train\.tsv",
        r"expected|download",
    ),
    "bad_rows='ignore'": Row(
        lambda f: cola(f, "", bad_rows="ignore"),
        ea.ConfigError,
        r"'ignore'",
        r"bad_rows",
        r"raise.*skip.*report",
    ),
    "a submission without predictions": Row(
        lambda f: ea.glue.build_submission([f], f / "submission.zip"),
        ea.InputError,
        r"predict_results_",
        r"CoLA|cola",
        r"allow_missing",
    ),
    "an extra that is not installed": Row(
        lambda _: without_library("sklearn"),
        ea.MissingExtraError,
        r"sklearn is needed",
        r"metrics of GLUE",
        r'pip install "evolving-attention\[glue\]"',
    ),
    "a model without a name": Row(
        lambda _: load(None),
        ea.CheckpointError,
        r"None, a NoneType",
        r"model name",
        r"expected a folder",
    ),
    "another library's word for strict": Row(
        lambda f: load(saved(f), ignore_mismatched_sizes=True),
        ea.ConfigError,
        r"ignore_mismatched_sizes is not supported",
        r"AutoModelForSequenceClassification.from_pretrained",
        r"pass strict=False",
    ),
    "another library's word for dtype": Row(
        lambda f: load(saved(f), torch_dtype="auto"),
        ea.ConfigError,
        r"torch_dtype is not supported",
        r"AutoModelForSequenceClassification.from_pretrained",
        r"pass dtype='float32', 'bfloat16' or 'auto'",
    ),
    "another library's word for device": Row(
        lambda f: load(saved(f), device_map="auto"),
        ea.ConfigError,
        r"device_map is not supported",
        r"AutoModelForSequenceClassification.from_pretrained",
        r"pass device='cpu', 'cuda' or 'auto'",
    ),
}
