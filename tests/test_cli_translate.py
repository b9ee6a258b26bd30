"""``evolving-attention translate``: train, generate, score and average, on files."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers_translation import sentences, trained, write_files

import evolving_attention as ea
from evolving_attention.cli import translate, translate_generate
from evolving_attention.cli.main import app
from evolving_attention.cli.translate_output import Output
from evolving_attention.data.parallel_files import ParallelText

SIZES = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "d_model": 32,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "norm_first": True,
}
SMALL = [
    *("--model", "ea_transformer_lite", "--model_options", json.dumps(SIZES)),
    *("--vocab_size", 290, "--warmup_steps", 10, "--learning_rate", "3e-3"),
    *("--per_device_train_batch_tokens", 200, "--logging_steps", 2),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(capfdbinary: Any) -> Any:
    """Runs ``translate``; returns (exit code, stdout, stderr)."""

    def command(*words: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            app(["translate", *map(str, words)], prog_name="evolving-attention")
        out, told = (part.decode() for part in capfdbinary.readouterr())
        return int(left.value.code or 0), out, told

    return command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has memorised sentences(40)."""
    return trained(tmp_path_factory.mktemp("trained"))


def data(root: Path) -> list[Any]:
    """Writes training and validation files; returns the options that name them."""
    train = write_files(root, "train", sentences(60))
    held_out = write_files(root, "val", sentences(10, seed=3))
    names = "source_file", "target_file", "eval_source_file", "eval_target_file"
    flags = [f"--{name}" for name in names]
    return [w for pair in zip(flags, (*train, *held_out), strict=True) for w in pair]


def test_train_and_average(run: Any, tmp_path: Path):
    out = tmp_path / "out"
    words = ["train", *data(tmp_path), *SMALL, "--output_dir", out]
    code, shown, told = run(*words, "--num_train_epochs", 4, "--json")
    assert code == 0, told
    assert "60 pairs to train on, 10 to evaluate; 279 tokens of BPE" in told
    results = json.loads(shown)
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [line["eval_loss"] for line in log if "eval_loss" in line]
    assert results["best_eval_loss"] == min(losses) < losses[0]
    best = next(line for line in log if line.get("eval_loss") == min(losses))
    assert results["best_eval_token_loss"] == best["eval_token_loss"] < min(losses)
    assert all(line["tokens_per_s"] > 0 for line in log if "loss" in line)
    arguments = json.loads((out / "checkpoint-12" / "training_args.json").read_text())
    for name, value in {
        "label_smoothing_factor": 0.1,
        "lr_scheduler_type": "inverse_sqrt",
        "adam_beta2": 0.98,
        "max_grad_norm": 0.0,
        "prediction_loss_only": True,
    }.items():
        assert arguments[name] == value
    translator = ea.Translator.from_pretrained(out)
    assert len(translator.translate(["one two"], beam=2, max_new_tokens=5)) == 1
    config: Any = translator.model.config
    assert config.attention.to_dict()["kind"] == "evolving"

    mean = out / "average"
    average = ("average", "--model_dir", out, "--output_dir", mean, "--last")
    code, shown, told = run(*average, 3)
    assert code == 0, told
    assert "checkpoint-6, checkpoint-9, checkpoint-12" in shown
    ea.Translator.from_pretrained(mean)
    code, _, told = run(*average, 3)
    assert (code, "holds a model already" in told) == (2, True)
    code, _, told = run(*average, 9)
    assert (code, "has 4 checkpoints, expected 9" in told) == (4, True)


def test_an_interrupted_run_goes_on_to_the_same_bits(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = data(tmp_path)

    def interrupt(
        self: Any, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        if state.global_step == 4:
            signal.raise_signal(signal.SIGINT)

    def train(out: Path) -> tuple[int, str]:
        code, _, told = run("train", *files, *SMALL, "--output_dir", out, *more)
        return code, told

    more = ["--num_train_epochs", 3]
    assert train(tmp_path / "whole")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(translate.TokensPerSecond, "on_step_end", interrupt)
        code, told = train(tmp_path / "parts")
    assert code == 128 + signal.SIGINT
    assert "or run the same command again" in told
    code, told = train(tmp_path / "parts")
    assert code == 0, told
    first, second = (
        (tmp_path / name / "model.safetensors").read_bytes()
        for name in ("whole", "parts")
    )
    assert first == second


@pytest.mark.parametrize(("patience", "epochs"), [(5, 6), (2, 3), ("none", 8)])
def test_it_stops_without_a_lower_loss(
    run: Any, tmp_path: Path, patience: Any, epochs: int
):
    words = ["train", *data(tmp_path), *SMALL, "--output_dir", tmp_path / "out"]
    words += ["--learning_rate", 0, "--num_train_epochs", 8, "--json"]
    code, shown, told = run(*words, "--early_stopping_patience", patience)
    assert code == 0, told
    assert json.loads(shown)["epoch"] == epochs


def test_without_a_validation_set(run: Any, tmp_path: Path):
    words = ["train", *data(tmp_path)[:4], *SMALL, "--max_steps", 3]
    code, _, told = run(*words, "--output_dir", tmp_path / "out", "--dropout", 0)
    assert code == 0, told
    assert "none to evaluate" in told
    ea.Translator.from_pretrained(tmp_path / "out")


@contextlib.contextmanager
def killed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Generation in this block ends before its clean-up, as if killed."""
    with monkeypatch.context() as patch:
        patch.setattr(Output, "__exit__", lambda self, *_: self._out.close())
        yield


@pytest.mark.parametrize(
    "more",
    [
        ["--save_strategy", "no"],
        ["--save_strategy", "steps", "--save_steps", 2],
        ["--eval_strategy", "steps", "--eval_steps", 1],
        ["--early_stopping_patience", "none", "--load_best_model_at_end", "False"],
    ],
)
def test_what_needs_no_validation_set(run: Any, tmp_path: Path, more: list[Any]):
    words = ["train", *data(tmp_path)[:4], *SMALL, "--max_steps", 2, *more]
    code, _, told = run(*words, "--output_dir", tmp_path / "out")
    assert code == 0, told
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_run_that_saves_nothing_needs_no_best_weights(run: Any, tmp_path: Path):
    words = ["train", *data(tmp_path), *SMALL, "--max_steps", 2]
    words += ["--output_dir", tmp_path / "out", "--save_strategy", "no"]
    code, _, told = run(*words, "--load_best_model_at_end", "True")
    assert code == 2
    assert "--load_best_model_at_end" in told
    for more in ([], ["--load_best_model_at_end", "False"]):
        code, _, told = run(*words, *more, "--overwrite_output_dir")
        assert code == 0, told
        assert not list((tmp_path / "out").glob("checkpoint-*"))


def test_lines_to_lines(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = sentences(40)
    lines = [*text.source[:20], "", *text.source[20:]]
    source, _ = write_files(tmp_path, "in", ParallelText(lines, lines))
    out = tmp_path / "out.de"
    words = ["generate", "--model_dir", folder, "--beam", 2, "--input_file", source]
    with killed(monkeypatch):
        code, shown, told = run(*words, "--output_file", out)
    assert (code, shown) == (0, ""), told
    assert "translated 41 of 41 lines" in told
    expected = [*text.target[:20], "", *text.target[20:]]
    found = out.read_text().split("\n")
    assert found.pop() == ""
    assert found[20] == ""
    right = [a == b for a, b in zip(found, expected, strict=True)]
    assert sum(right) > 36

    code, _, told = run(*words, "--output_file", out)
    assert (code, "is there already, expected a new file" in told) == (2, True)
    whole = out.read_bytes()
    part = whole[: whole.index(b"\n", 60) + 4]  # ends with three letters of a line
    out.write_bytes(part)
    code, _, told = run(*words, "--output_file", out, "--resume")
    assert code == 0, told
    assert out.read_bytes() == whole
    out.write_bytes(whole + b"more\n")
    code, _, told = run(*words, "--output_file", out, "--resume")
    assert (code, "has 42 lines, expected at most the 41" in told) == (2, True)
    code, _, told = run(*words, "--output_file", out, "--overwrite")
    assert (code, out.read_bytes()) == (0, whole)


def test_when_beams_stop(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given: list[Any] = []
    translate = ea.Translator.translate

    def noted(self: Any, texts: Any, **options: Any) -> Any:
        given.append(options["early_stopping"])
        return translate(self, texts, **options)

    monkeypatch.setattr(ea.Translator, "translate", noted)
    text = sentences(3, seed=6)
    source, _ = write_files(tmp_path, "in", text)
    words = ["generate", "--model_dir", folder, "--beam", 2, "--input_file", source]
    for word, value in (("never", "never"), ("True", True), ("False", False)):
        code, _, told = run(*words, "--early_stopping", word)
        assert (code, given.pop()) == (0, value), told
    code, _, told = run(*words, "--early_stopping", "always")
    assert (code, "--early_stopping always" in told) == (2, True)


def test_several_translations_of_each_line(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translate_generate, "CHUNK", 4)
    text = sentences(9, seed=5)
    lines = [*text.source[:6], "", *text.source[6:]]
    source, _ = write_files(tmp_path, "in", ParallelText(lines, lines))
    out = tmp_path / "out.de"
    words = ["generate", "--model_dir", folder, "--beam", 3, "--input_file", source]
    words += ["--output_file", out, "--num_return_sequences", 2]
    code, _, told = run(*words)
    assert code == 0, told
    plain = out.read_text().splitlines()
    several = ea.Translator.from_pretrained(folder).candidates(
        lines, beam=3, num_return_sequences=2
    )
    assert plain == [one.text for each in several for one in each]
    with killed(monkeypatch):
        code, _, told = run(*words, "--scores", "--overwrite")
    assert code == 0, told
    found = [line.split("\t") for line in out.read_text().splitlines()]
    assert [words for _, words in found] == plain
    scores = [one.score for each in several for one in each]
    assert [float(score) for score, _ in found] == pytest.approx(scores, abs=1e-6)
    assert all(a.score > b.score for a, b in several[:6])

    whole = out.read_bytes()
    third = len(b"".join(whole.splitlines(keepends=True)[:7]))
    out.write_bytes(whole[:third])  # all of three input lines, half of the fourth
    code, _, told = run(*words, "--scores", "--resume")
    assert code == 0, told
    assert out.read_bytes() == whole
    out.write_bytes(whole + b"more\n")
    code, _, told = run(*words, "--resume")
    assert (code, "has 21 lines, expected at most 2 for each of the 10" in told) == (
        2,
        True,
    )


def test_drawn_lines_depend_on_their_number_alone(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = ["two two", *sentences(7).source, "two two"]
    source, _ = write_files(tmp_path, "in", ParallelText(lines, lines))
    words = ["generate", "--model_dir", folder, "--input_file", source]
    words += ["--do_sample", "--temperature", 3, "--seed"]

    def drawn(name: str, seed: int, *more: Any) -> list[str]:
        code, _, told = run(*words, seed, "--output_file", tmp_path / name, *more)
        assert code == 0, told
        return (tmp_path / name).read_text().split("\n")[:-1]  # text is random

    with killed(monkeypatch):
        first = drawn("d", 1)
    assert first[0] != first[-1]
    monkeypatch.setattr(translate_generate, "CHUNK", 2)
    assert drawn("b", 1, "--batch_size", 3) == first
    assert drawn("c", 2) != first
    (tmp_path / "d").write_text("".join(f"{line}\n" for line in first[:3]))
    code, _, told = run(*words, 2, "--output_file", tmp_path / "d", "--resume")
    assert (code, "d was begun with --seed 1, expected the same" in told) == (2, True)
    assert drawn("d", 1, "--resume") == first


def test_prefixes_line_by_line(run: Any, folder: Path, tmp_path: Path):
    text = sentences(3)
    starts = ["six five", "", "one"]
    source, prefixes = write_files(tmp_path, "in", ParallelText(text.source, starts))
    words = ["generate", "--model_dir", folder, "--input_file", source]
    code, shown, told = run(*words, "--prefix_file", prefixes)
    assert code == 0, told
    found = shown.splitlines()
    assert [f.startswith(p) for f, p in zip(found, starts, strict=True)] == [True] * 3
    translator = ea.Translator.from_pretrained(folder)
    assert found[1:2] == translator.translate(text.source[1:2])
    prefixes.write_text("one\n")
    code, _, told = run(*words, "--prefix_file", prefixes)
    assert (code, "has 1 lines, expected one for each line of" in told) == (3, True)


def test_stdin_to_stdout(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch):
    text = sentences(7)
    given = "".join(f"{line}\n" for line in text.source).encode()
    stream = io.TextIOWrapper(io.BytesIO(given))
    monkeypatch.setattr(sys, "stdin", stream)
    monkeypatch.setattr(translate_generate, "CHUNK", 3)
    code, shown, told = run("generate", "--model_dir", folder, "--beam", 1)
    assert code == 0, told
    assert "translated 7 lines" in told
    translator = ea.Translator.from_pretrained(folder)
    assert shown.splitlines() == translator.translate(text.source, beam=1)


def test_long_lines_are_named_by_their_line(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = ["one"] * 8 + ["one " * 60, "two"]
    source, _ = write_files(tmp_path, "in", ParallelText(lines, lines))
    monkeypatch.setattr(translate_generate, "CHUNK", 3)
    words = ["generate", "--model_dir", folder, "--beam", 1, "--input_file", source]
    code, shown, told = run(*words)
    assert (code, len(shown.splitlines())) == (3, 6)
    assert f"{source}:9: has 62 tokens, expected at most 40" in told
    assert "or cut them with --longer cut" in told
    code, shown, told = run(*words, "--longer", "cut")
    assert (code, len(shown.splitlines())) == (0, 10), told


def test_ctrl_c_keeps_what_is_written(
    run: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, _ = write_files(tmp_path, "in", sentences(9))
    words = ["generate", "--model_dir", folder, "--beam", 1, "--input_file", source]
    assert run(*words, "--output_file", tmp_path / "whole")[0] == 0
    monkeypatch.setattr(translate_generate, "CHUNK", 4)
    work, calls = ea.Translator.translate, []

    def interrupted(self: Any, texts: Any, **options: Any) -> Any:
        calls.append(len(texts))
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return work(self, texts, **options)

    monkeypatch.setattr(ea.Translator, "translate", interrupted)
    out = tmp_path / "out"
    code, _, told = run(*words, "--output_file", out)
    assert code == 130
    assert "after 4 translated lines" in told
    assert "same command with --resume goes on" in told
    assert len(out.read_text().splitlines()) == 4
    assert run(*words, "--output_file", out, "--resume")[0] == 0
    assert calls == [4, 4, 4, 1]
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_scores(run: Any, folder: Path, tmp_path: Path):
    pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    text = sentences(40)
    source, target = write_files(tmp_path, "test", text)
    words = ["score", "--target_file", target, "--json"]
    code, shown, told = run(*words, "--hypothesis_file", target)
    assert code == 0, told
    found = json.loads(shown)
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)
    assert found["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|")
    assert "nc:6|nw:0" in found["chrf_signature"]
    model = ["--model_dir", folder, "--source_file", source, "--beam", 1]
    code, shown, told = run(*words, *model)
    assert code == 0, told
    found = json.loads(shown)
    assert found["bleu"] > 90
    known = ea.Translator.from_pretrained(folder).score(text.source, text.target)
    assert (found["loss"], found["tokens"]) == (known.loss, known.tokens)


def test_the_lines_of_the_page(
    run: Any, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    page = (repo / "docs" / "translation.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M)
    lines = block.replace("\\\n", " ").splitlines()
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 0), ("val", 3), ("test", 4)):
        for file in write_files(tmp_path, name, sentences(20, seed)):
            Path(f"{file}.gz").write_bytes(gzip.compress(file.read_bytes()))
    for line in lines:
        command, *words = line.split()[2:]
        if command == "train":
            words += [*SMALL, "--num_train_epochs", 11]
        code, _, told = run(command, *words)
        assert code == 0, told
    assert [line.split()[2] for line in lines] == [
        *("train", "generate", "score", "average"),
    ]
    assert len(Path("test.out.de").read_text().splitlines()) == 20
    ea.Translator.from_pretrained("out/en-de/average")


MISTAKES = {
    "an unknown model": (
        "train --source_file a --target_file b --model bert_base",
        2,
        "--model bert_base: expected one of ea_transformer_base, ea_transformer_lite",
    ),
    "no file": ("train", 2, "--source_file is missing: expected the sentences"),
    "half a validation set": (
        "train --source_file a --target_file b --eval_source_file c",
        2,
        "--eval_source_file c: expected --eval_target_file with it",
    ),
    "batches of pairs": (
        "train --source_file a --target_file b --per_device_train_batch_size 4",
        2,
        "--per_device_train_batch_size 4: expected tokens or sequences, "
        "--per_device_train_batch_tokens 8192 is set too",
    ),
    "no training": (
        "train --source_file a --target_file b --do_train False",
        2,
        "--do_train False: expected True: it is what this command does",
    ),
    "predictions": (
        "train --source_file a --target_file b --do_predict",
        2,
        "--do_predict True: expected no such step",
    ),
    "a missing file": (
        "train --source_file none.en --target_file b --output_dir out",
        3,
        "none.en: no such file",
    ),
    "no model": ("generate --input_file x", 3, "x: no such file"),
    "an unknown rule": (
        "generate --longer drop",
        2,
        "--longer drop: expected one of error, cut",
    ),
    "no translations of a line": (
        "generate --num_return_sequences 0",
        2,
        "--num_return_sequences 0: expected at least 1",
    ),
    "resume without a file": (
        "generate --resume",
        2,
        "--resume: expected --output_file with it",
    ),
    "nothing to score": (
        "score --target_file x",
        2,
        "--hypothesis_file is missing",
    ),
    "options that are no JSON": (
        "train --source_file a --target_file b --model_options {",
        2,
        "--model_options '{': expected a JSON object",
    ),
    "an option of the config that the command sets": (
        'train --source_file a --target_file b --model_options {"vocab_size":30}',
        2,
        "--model_options: 'vocab_size' is 30, expected no such key, which the command "
        "sets; give --vocab_size",
    ),
    "a task": (
        'train --source_file a --target_file b --model_options {"task":"base"}',
        2,
        "--model_options: 'task' is 'base', expected no such key, which the command",
    ),
    "a name": (
        'train --source_file a --target_file b --model_options {"name":"x"}',
        2,
        "--model_options: 'name' is 'x', expected no such key, which the command sets; "
        "give --model",
    ),
    "another end than the tokenizer's": (
        'train --source_file a --target_file b --model_options {"eos_token_id":7}',
        2,
        "'eos_token_id' is 7, expected no such key, which the command sets; leave it "
        "out: the tokenizer has its own",
    ),
    "two dropouts": (
        "train --source_file a --target_file b --dropout 0.1 "
        '--model_options {"dropout":0.5}',
        2,
        "--dropout 0.1: expected one of the two, --model_options has 'dropout' too",
    ),
    **{
        f"{words} without a validation set": (
            f"train --source_file a --target_file b --{words}",
            2,
            f"--{words}: expected --eval_source_file with it; add it and "
            "--eval_target_file, or leave this out",
        )
        for words in (
            "do_eval True",
            "eval_on_start True",
            "load_best_model_at_end True",
            "early_stopping_patience 2",
            "save_strategy best",
        )
    },
    **{
        f"{words} for translations that are there": (
            f"score --target_file a --hypothesis_file b --{words}",
            2,
            f"--{words}: expected no --hypothesis_file with it; leave one out",
        )
        for words in ("beam 3", "temperature 3.0", "batch_size 32")
    },
    "an order of its own": (
        "train --source_file a --target_file b --group_by_length False",
        2,
        "--group_by_length False: expected True with --per_device_train_batch_tokens",
    ),
    "an average of no run": (
        "average --model_dir nope --output_dir mean",
        4,
        "nope: no such folder, expected the folder of a run",
    ),
    "a list of options": (
        "train --source_file a --target_file b --model_options [1]",
        2,
        "--model_options [1]: expected a JSON object",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(
    name: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, code, message = MISTAKES[name]
    found, _, told = run(*words.split())
    assert message in told
    assert found == code
