"""Mistakes with the command ``textnet``, its data and its word vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import evolving_attention as ea
from evolving_attention.cli import textnet
from evolving_attention.cli.textnet_arguments import (
    EvaluateArguments,
    PredictArguments,
    TextDataArguments,
    TextNetModelArguments,
    WordArguments,
)
from evolving_attention.data.text_sets import load_text_set
from evolving_attention.text import (
    checkpoint_word_vectors,
    read_word_vectors,
    train_word_level,
)
from mistakes.row import Row, model


def vectors(text: str) -> Callable[[Path], Any]:
    """Reads the word vectors of a file with this content."""

    def read(folder: Path) -> Any:
        (folder / "glove.txt").write_text(text)
        return read_word_vectors(folder / "glove.txt", ["film", "good"])

    return read


def train(**given: Any) -> Callable[[Path], Any]:
    """Runs ``textnet train`` on two rows."""

    def call(folder: Path) -> Any:
        (folder / "train.csv").write_text("text,label\na film,0\ngood,1\n")
        own = {"train_file": str(folder / "train.csv"), "model": "cnn"}
        out = {"output_dir": str(folder / "out"), "num_train_epochs": 1.0}
        return textnet.TRAIN.results({**own, **out, **given})

    return call


def other_model(folder: Path) -> Any:
    model().save_pretrained(folder / "bert")
    return textnet._load(EvaluateArguments(model_dir=str(folder / "bert")))


def without_words(folder: Path) -> Any:
    """Reads word vectors from a checkpoint without word embeddings."""
    config = ea.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    ea.ViTModel(config).save_pretrained(folder)
    train_word_level(["a film"]).save_pretrained(folder)
    return checkpoint_word_vectors(folder, ["film"])


def sst5(folder: Path) -> Any:
    (folder / "stsa.fine.train").write_text("3 good\nbad film\n")
    return load_text_set("sst5", folder)


ROWS = {
    "word vectors of two widths": Row(
        vectors("film 0.1 0.2\ngood 0.1 0.2 0.3\n"),
        ea.DataError,
        "more than 2 numbers",
        r"glove\.txt:2:1",
        "expected as many as in the first row",
    ),
    "word vectors cut off": Row(
        vectors("film 0.1 0.2\ngood 0.1"),
        ea.DataError,
        "1 numbers after 'good'",
        r"glove\.txt:2:1",
        "expected 2; is the row cut off",
    ),
    "a word vector of NaN": Row(
        vectors("film 0.1 nan\n"),
        ea.DataError,
        "number 2 is nan",
        r"glove\.txt:1:1: 'film'",
        "expected a finite float32; remove the row",
    ),
    "a word with two vectors": Row(
        vectors("film 0.1 0.2\nfilm 0.3 0.4\n"),
        ea.DataError,
        "'film' is already in line 1",
        r"glove\.txt:2:1",
        "expected each once; remove one",
    ),
    "word vectors of another language": Row(
        vectors("Haus 0.1 0.2\n"),
        ea.DataError,
        "none of its 1 words is among the 2",
        r"glove\.txt",
        "expected most of those; is it a file of another language",
    ),
    "a checkpoint without words": Row(
        without_words,
        ea.CheckpointError,
        "no table of word embeddings",
        "test_mistake",
        "expected a tensor.*give a BERT",
    ),
    "a vocabulary of no word": Row(
        lambda _: train_word_level(["a film"], 2),
        ea.ConfigError,
        "vocab_size=2",
        "train_word_level",
        "expected a whole number, 4 or more; 30000 is usual",
    ),
    "a row of SST-5 without a class": Row(
        sst5,
        ea.DataError,
        "label 'bad'",
        r"stsa\.fine\.train:2:1",
        "expected 0 to 4",
    ),
    "textnet without data": Row(
        lambda _: TextDataArguments(),
        ea.ConfigError,
        "no data",
        "--dataset sst5",
        "choose one",
    ),
    "textnet train without training": Row(
        train(do_train=False),
        ea.ConfigError,
        "False: expected True",
        "--do_train",
        "it is what this command does; leave it out",
    ),
    "textnet train with predictions": Row(
        train(do_predict=True),
        ea.ConfigError,
        "expected no such step",
        "--do_predict",
        "this command trains, and evaluates on the validation set; leave it out",
    ),
    "a data set without its folder": Row(
        lambda _: TextDataArguments(dataset="snli"),
        ea.ConfigError,
        "missing",
        "--data_dir",
        "expected the folder of snli's files; add it",
    ),
    "an unknown data set": Row(
        lambda _: TextDataArguments(dataset="sst"),
        ea.ConfigError,
        "sst",
        "--dataset",
        "expected one of sst5, snli, acceptability; choose",
    ),
    "a data set and files": Row(
        lambda _: TextDataArguments(dataset="acceptability", test_file="t.csv"),
        ea.ConfigError,
        r"t\.csv",
        "--test_file",
        "expected no --dataset with it; leave one out",
    ),
    "random words that are fixed": Row(
        lambda _: WordArguments(train_words=False),
        ea.ConfigError,
        "False",
        "--train_words",
        "expected --word_vectors with it.*add them",
    ),
    "an unknown text net": Row(
        lambda _: TextNetModelArguments(model="lstm"),
        ea.ConfigError,
        "lstm",
        "--model",
        "expected one of transformer, conv_transformer, cnn",
    ),
    "attention in a net without any": Row(
        train(attention="predictive"),
        ea.ConfigError,
        "predictive",
        "--attention",
        "expected no --model cnn with it; leave it out",
    ),
    "settings of no paper": Row(
        train(paper_settings="imdb"),
        ea.ConfigError,
        "imdb",
        "--paper_settings",
        "expected one of sst, yelp, snli; choose one",
    ),
    "textnet predict without a file": Row(
        lambda _: PredictArguments(model_dir="out"),
        ea.ConfigError,
        "missing",
        "--input_file",
        "expected a csv, tsv or json file of texts; add it",
    ),
    "textnet with another model": Row(
        other_model,
        ea.ConfigError,
        "this is a 'bert'",
        "--model_dir",
        "expected a net of textnet train.*give its --output_dir",
    ),
}
