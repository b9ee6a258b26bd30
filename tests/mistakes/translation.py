"""Mistakes with parallel text, checkpoints and sentences to translate."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from helpers_translation import model, sentences, tokenizer

import evolving_attention as ea
from evolving_attention.cli.translate_arguments import (
    GenerateArguments,
    SearchArguments,
)
from evolving_attention.cli.translate_output import Output
from evolving_attention.data.parallel import ParallelDataset
from evolving_attention.data.parallel_files import read_parallel
from mistakes.row import Row


def text(folder: Path, source: bytes, target: bytes) -> Any:
    """Reads two parallel files with these contents."""
    files = folder / "train.en", folder / "train.de"
    for file, content in zip(files, (source, target), strict=True):
        file.write_bytes(content)
    return read_parallel(*files)


def lines_done(folder: Path, content: bytes, **options: Any) -> int:
    """Returns how many lines of a one-line input are in an output file."""
    out = folder / "out.de"
    out.write_bytes(content)
    files = GenerateArguments(input_file="in.en", output_file=str(out), **options)
    return Output(files, SearchArguments()).lines_done(1)


def translator(words: int = 279) -> Any:
    """Returns an untrained translator with a vocabulary of ``words`` tokens."""
    return ea.Translator(model(words), tokenizer())


def fit_rows(folder: Path) -> Any:
    """Trains on a row of pairs whose mask leaves out a token inside the source."""
    rows = [{"input_ids": [5, 6, 2], "attention_mask": [1, 0, 1], "labels": [7, 2]}]
    args = ea.TrainingArguments(str(folder), max_steps=1, disable_tqdm=True)
    return ea.Trainer(model(20), args, train_dataset=rows).train()


ROWS = {
    "parallel files of unequal length": Row(
        lambda folder: text(folder, b"One.\nTwo.\nThree.\n", b"Eins.\n"),
        ea.DataError,
        r"has no partner: .*train\.en has 3 lines and .*train\.de 1",
        r"train\.en:2:",
        r"expected as many",
    ),
    "a parallel file that is not UTF-8": Row(
        lambda folder: text(folder, b"One.\n", "Für.\n".encode("latin-1")),
        ea.DataError,
        r"byte 0xfc is not UTF-8 \(byte 2 of the line\)",
        r"train\.de:1:2:",
        r"convert the file to UTF-8",
    ),
    "a parallel file that was cut short": Row(
        lambda folder: text(folder, gzip.compress(b"One.\n")[:-4], b"Eins.\n"),
        ea.DataError,
        r"is a damaged gzip archive",
        r"train\.en",
        r"fetch the file again",
    ),
    "an empty parallel file": Row(
        lambda folder: text(folder, b"One.\n", b""),
        ea.DataError,
        r"the file is empty",
        r"train\.de",
        r"expected a sentence in each line",
    ),
    "a training pair above the position limit": Row(
        lambda _: ParallelDataset.from_text(sentences(), tokenizer(), 4),
        ea.DataError,
        r"has \d tokens",
        r"source:1: ",
        r"expected at most 4, the model's positions .*longer='cut'",
    ),
    "a text to translate above the position limit": Row(
        lambda _: translator().translate(["one", "one " * 60]),
        ea.DataError,
        r"has 62 tokens",
        r"texts:2: ",
        r"expected at most 40, the model's positions .*longer='cut'",
    ),
    "a vocabulary that does not fit the checkpoint": Row(
        lambda _: translator(words=200),
        ea.CheckpointError,
        r"the tokenizer has 279 tokens",
        r"Translator: ",
        r"at most the model's 200 .*take the tokenizer of the model's folder",
    ),
    "more beams than tokens, in a translator": Row(
        lambda _: translator().translate(["one"], beam=280),
        ea.ConfigError,
        r"num_beams = 280",
        r"generate",
        r"expected 1 to 279 \(the target's vocabulary\)",
    ),
    "several translations where one is returned": Row(
        lambda _: translator().translate(["one"], num_return_sequences=3),
        ea.ConfigError,
        r"num_return_sequences=3",
        r"Translator\.translate",
        r"expected 1: .*candidates\(\) returns all",
    ),
    "too few prefixes": Row(
        lambda _: translator().translate(["one", "two"], prefixes=["one"]),
        ea.InputError,
        r"1 prefixes for 2 texts",
        r"Translator\.translate",
        r"expected one each",
    ),
    "a number among texts to translate": Row(
        lambda _: translator().translate(["one", 2]),
        ea.InputError,
        r"is a int",
        r"texts\[1\]",
        r"expected a text; pass a list of str",
    ),
    "more sentences than translations": Row(
        lambda _: ea.translation.ParallelText(["One.", "Two."], ["Eins."]),
        ea.InputError,
        r"2 sources and 1 targets",
        r"ParallelText",
        r"expected as many of both",
    ),
    "more sentences than translations to score": Row(
        lambda _: translator().score(["one", "two"], ["one"]),
        ea.InputError,
        r"2 sources and 1 targets",
        r"ParallelText",
        r"expected as many of both",
    ),
    "one sentence where many are expected": Row(
        lambda _: ea.translation.ParallelText("One.", ["Eins."]),
        ea.InputError,
        r"is a str",
        r"ParallelText: source",
        r"expected a list of texts; pass \[text\]",
    ),
    "translations that are None": Row(
        lambda _: ea.translation.ParallelText(["One."], None),
        ea.InputError,
        r"is a NoneType",
        r"ParallelText: target",
        r"expected a list of texts",
    ),
    "a translation that is None": Row(
        lambda _: ea.translation.ParallelText(["One."], [None]),
        ea.InputError,
        r"is a NoneType",
        r"ParallelText: target\[0\]",
        r"expected a text; pass a list of str",
    ),
    "two lists where parallel text is expected": Row(
        lambda _: ParallelDataset.from_text((["one"], ["two"]), tokenizer(), 40),
        ea.InputError,
        r"text is a tuple",
        r"ParallelDataset\.from_text",
        r"expected a ParallelText",
    ),
    "no texts to translate": Row(
        lambda _: translator().translate(None),
        ea.InputError,
        r"is a NoneType",
        r"Translator: texts",
        r"expected a list of texts",
    ),
    "a vocabulary without room for bytes": Row(
        lambda _: ea.translation.train_bpe(["one"], 100),
        ea.ConfigError,
        r"vocab_size=100",
        r"train_bpe",
        r"a whole number, 259 or more",
    ),
    "an output file that is there": Row(
        lambda folder: lines_done(folder, b"Eins.\n"),
        ea.ConfigError,
        r"is there already",
        r"--output_file .*out\.de",
        r"expected a new file; .*--resume .*--overwrite",
    ),
    "an output file with too many lines": Row(
        lambda folder: lines_done(folder, b"Eins.\nZwei.\n", resume=True),
        ea.ConfigError,
        r"has 2 lines",
        r"--resume: .*out\.de",
        r"expected at most the 1 of .*is it the output of another file",
    ),
    "an output file that no record tells about": Row(
        lambda folder: lines_done(folder, b"Eins.", resume=True),
        ea.ConfigError,
        r"has no out\.de\.resume\.json next to it",
        r"--resume: .*out\.de",
        r"expected the options of an interrupted run; --overwrite replaces it",
    ),
    "an average of a run that is not there": Row(
        lambda folder: ea.training.last_checkpoints(folder / "nope", 2),
        ea.CheckpointError,
        r"no such folder",
        r"nope: ",
        r"expected the folder of a run",
    ),
    "a source whose mask leaves out tokens inside": Row(
        fit_rows,
        ea.InputError,
        r"attention_mask excludes tokens between others",
        r"row 0",
        r"leave those tokens out",
    ),
    "an average of too few checkpoints": Row(
        lambda folder: ea.training.last_checkpoints(folder, 10),
        ea.CheckpointError,
        r"has 0 checkpoints, expected 10",
        r"test_mistake",
        r"average fewer",
    ),
}
