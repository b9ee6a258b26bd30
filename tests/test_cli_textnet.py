"""``evolving-attention textnet``: train, evaluate and predict, from files to files."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import TINY_NET, WORDS, bert, own_rows, runner

import evolving_attention as ea
from evolving_attention.cli import textnet
from evolving_attention.cli.textnet_arguments import TextNetTrainingArguments
from evolving_attention.training.fingerprint import compare

SMALL: list[Any] = [
    *("--model_options", json.dumps({**TINY_NET, "num_hidden_layers": 2})),
    *("--per_device_train_batch_size", 8, "--num_train_epochs", 4),
    *("--learning_rate", "1e-2", "--dropout", 0, "--embedding_dropout", 0),
]


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``textnet``; returns (exit code, stdout, stderr)."""
    command = runner(capfd, monkeypatch)
    return lambda *words: command("textnet", *words)


def vectors(folder: Path) -> Path:
    """Writes a file of word vectors for all words but one."""
    random = np.random.default_rng(0)
    file = folder / "vectors.txt"
    with file.open("w") as handle:
        for word in WORDS:
            numbers = " ".join(f"{x:.4f}" for x in random.normal(size=6))
            if word != "the":
                handle.write(f"{word} {numbers}\n")
    return file


def pairs(folder: Path, count: int, seed: int) -> Path:
    """Writes a tsv file of pairs, labelled by whether the word is the same."""
    random = np.random.default_rng(seed)
    lines = ["text\ttext_pair\tlabel"]
    for i in range(count):
        one, other = random.choice(WORDS[:6], 2, replace=False)
        second = one if i % 2 else other
        lines.append(f"the {one}\tA {second}.\t{('other', 'same')[i % 2]}")
    file = folder / f"pairs-{seed}.tsv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_run_that_saves_nothing_needs_no_best_weights(run: Any, tmp_path: Path):
    out, file = tmp_path / "out", own_rows(tmp_path, 64, 0)
    words = ["--train_file", file, "--validation_file", file, *SMALL, "--max_steps", 2]
    words += ["--output_dir", out, "--save_strategy", "no"]
    code, _, told = run("train", *words, "--load_best_model_at_end", "True")
    assert code == 2
    assert "--load_best_model_at_end" in told
    code, _, told = run("train", *words)
    assert code == 0, told
    assert not list(out.glob("checkpoint-*"))


def test_train_evaluate_and_predict(run: Any, tmp_path: Path) -> None:
    out, file = tmp_path / "out", own_rows(tmp_path, 64, 0)
    dev, test = own_rows(tmp_path, 16, 1), own_rows(tmp_path, 12, 2)
    files = ("--train_file", file, "--validation_file", dev, "--test_file", test)
    more = ("--word_vectors", vectors(tmp_path), "--attention", "predictive")
    code, shown, told = run(
        *("train", *files, *more, *SMALL, "--output_dir", out, "--json"),
        *("--predictive_layers", 2, "--max_seq_length", 12),
    )
    assert code == 0, told
    assert "5 of 6 words have a vector of 6 numbers" in told
    found = json.loads(shown)
    assert found["test_accuracy"] == found["eval_accuracy"] == 1.0
    assert (found["test_samples"], found["eval_samples"]) == (12, 16)
    net = ea.AutoModelForSequenceClassification.from_pretrained(out)
    assert net.config.attention == ea.attention.Predictive(0.1, num_layers=2)
    assert net.config.max_position_embeddings == 12
    assert net.config.fixed_words
    table = ea.text.read_word_vectors(vectors(tmp_path))
    tokenizer = ea.AutoTokenizer.from_pretrained(out)
    kept = np.asarray(net.state_dict()["text_net.embeddings.word_embeddings.weight"])
    row = tokenizer.convert_tokens_to_ids("good")
    np.testing.assert_array_equal(kept[row], table["good"])

    code, shown, told = run(
        "evaluate", "--model_dir", out, "--test_file", test, "--json"
    )
    assert code == 0, told
    again = json.loads(shown)
    assert (again["accuracy"], again["samples"]) == (1.0, 12)
    assert again["loss"] == pytest.approx(found["test_loss"], rel=1e-4)

    for name in ("train_file", "validation_file"):
        code, _, told = run(
            *("evaluate", "--model_dir", out, "--test_file", test),
            *(f"--{name}", tmp_path / "x.csv"),
        )
        assert (code, "the file to evaluate on as --test_file" in told) == (2, True)

    unlabelled = tmp_path / "new.csv"
    lines = ["title,sentence", "x,bad the very good", 'x,""', "x,was it a film"]
    unlabelled.write_text("\n".join(lines))  # a net of sentences reads no titles
    answers = tmp_path / "answers" / "classes.tsv"
    code, shown, told = run(
        *("predict", "--model_dir", out, "--input_file", unlabelled),
        *("--output_file", answers),
    )
    assert code == 0, told
    assert "texts = 3" in shown
    with answers.open() as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))
    assert [row["index"] for row in rows] == ["0", "1", "2"]
    assert all(row["prediction"] in "01" for row in rows)
    for row in rows:
        assert float(row["0"]) + float(row["1"]) == pytest.approx(1)


def test_other_word_vectors_do_not_resume(run: Any, tmp_path: Path) -> None:
    file, first = own_rows(tmp_path, 16, 0), vectors(tmp_path)
    other, same = tmp_path / "other.txt", tmp_path / "same.txt"
    same.write_text(first.read_text())
    other.write_text(first.read_text().replace(" 0.", " 1."))
    words = ["--train_file", file, *SMALL, "--output_dir", tmp_path / "out"]
    words += ["--train_words", "--embedding_size", 6, "--num_train_epochs"]
    code, _, told = run("train", *words, 1, "--word_vectors", first)
    assert code == 0, told
    for more in (["--word_vectors", other], []):
        code, _, told = run("train", *words, 2, *more)
        assert code != 0
        assert "cannot resume, the saved run used other --word_vectors; restore" in told
    code, _, told = run("train", *words, 2, "--word_vectors", same)
    assert code == 0, told
    code, _, told = run("train", *words, 3, "--word_vectors", other, "--force_resume")
    assert code == 0, told
    # earlier versions did not record the vectors
    compare({}, {"word_vectors": "1f"}, str(tmp_path), False)


def test_seeds_refuse_other_word_vectors(run: Any, tmp_path: Path) -> None:
    file, table = own_rows(tmp_path, 16, 0), vectors(tmp_path)
    words = ["--train_file", file, *SMALL, "--max_steps", 1, "--seeds", 1]
    words += ["--output_dir", tmp_path / "out", "--word_vectors", table]
    code, _, told = run("train", *words)
    assert code == 0, told
    table.write_text(table.read_text().replace(" 0.", " 1."))
    code, _, told = run("train", *words)
    assert (code, "(content of --word_vectors), expected" in told) == (2, True), told


def test_pairs_from_a_checkpoints_words(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, shown, told = run(
        *("train", "--train_file", pairs(tmp_path, 32, 0), *SMALL, "--train_words"),
        *("--word_vectors", bert(tmp_path / "bert"), "--output_dir", out, "--json"),
        *("--model", "conv_transformer", "--num_train_epochs", 1),
    )
    assert code == 0, told
    assert "eval_accuracy" not in json.loads(shown)
    net = ea.AutoModelForSequenceClassification.from_pretrained(out)
    config: Any = net.config
    assert (config.type_vocab_size, config.embedding_size) == (2, 16)
    assert (config.attention_ratio, config.fixed_words) == (0.5, False)
    assert config.id2label == {0: "other", 1: "same"}
    tokenizer = ea.AutoTokenizer.from_pretrained(out)
    best = net.predict([("the a", "A a.")], tokenizer)[0]["label"]
    file = pairs(tmp_path, 8, 1)
    code, shown, told = run(
        "evaluate", "--model_dir", out, "--test_file", file, "--json"
    )
    assert code == 0, told
    assert best in ("other", "same")
    assert 0 <= json.loads(shown)["accuracy"] <= 1
    code, _, told = run(
        "evaluate", "--model_dir", out, "--test_file", own_rows(tmp_path, 4, 3)
    )
    assert code == 3, told
    code, _, told = run(
        *("predict", "--model_dir", out, "--input_file", own_rows(tmp_path, 4, 3)),
        *("--output_file", tmp_path / "x.tsv", "--bad_rows", "skip"),
    )
    assert code != 0
    assert "single texts, expected pairs of texts" in told or "is not known" in told


def test_scores_are_learnt_by_a_cnn(run: Any, tmp_path: Path) -> None:
    rows = [f"{'good ' * (i % 3)}film,{0.5 * (i % 3)}" for i in range(24)]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["sentence,label", *rows]) + "\n")
    out = tmp_path / "out"
    code, shown, told = run(
        *("train", "--train_file", file, "--validation_file", file, *SMALL),
        *("--model", "cnn", "--embedding_size", 8, "--output_dir", out, "--json"),
        *("--num_train_epochs", 20),
    )
    assert code == 0, told
    assert json.loads(shown)["eval_mse"] < 0.2
    code, shown, _ = run("evaluate", "--model_dir", out, "--test_file", file, "--json")
    assert code == 0
    assert json.loads(shown)["mse"] < 0.2


def test_generated_sentences(run: Any, tmp_path: Path) -> None:
    code, shown, told = run(
        *("train", "--dataset", "acceptability", "--pairs", 40, *SMALL),
        *("--embedding_size", 8, "--num_train_epochs", 1, "--json"),
        *("--output_dir", tmp_path / "out", "--max_train_samples", 32),
    )
    assert code == 0, told
    found = json.loads(shown)
    assert (found["eval_samples"], found["test_samples"]) == (8, 8)
    assert found["train_samples"] == 32


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            '--model_options {"vocab_size":7}',
            "'vocab_size' is 7, expected no such key, which the command sets; give "
            "--vocab_size",
        ),
        ('--model_options {"task":"base"}', "'task' is 'base', expected no such key"),
        ('--model_options {"name":"x"}', "'name' is 'x', expected no such key"),
        (
            '--embedding_size 16 --model_options {"embedding_size":7}',
            "--embedding_size 16: expected one of the two, --model_options has",
        ),
        (
            '--dropout 0.3 --model_options {"hidden_dropout_prob":0.1}',
            "--dropout 0.3: expected one of the two, --model_options has",
        ),
        (
            '--attention vanilla --model_options {"attention":{"kind":"residual"}}',
            "--attention vanilla: expected one of the two, --model_options has",
        ),
        ("--max_seq_length 0", "expected 1 or more; 64 is usual"),
        ("--model rnn", "transformer, conv_transformer, cnn; choose one"),
    ],
)
def test_wrong_options_of_the_net(run: Any, words: str, message: str) -> None:
    code, _, told = run("train", "--train_file", "x.csv", *words.split())
    assert code == 2, told
    assert message in told


def test_one_class_is_no_task(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("text,label\n" + "a good film,fine\n" * 8)
    words = ("--train_file", file, *SMALL, "--output_dir", tmp_path / "out")
    code, _, told = run("train", *words)
    assert code == 3, told
    assert "train.csv: 1 class (fine), expected at least 2; add rows of other" in told


def test_the_settings_of_the_paper() -> None:
    sst = textnet._with_recipe({"dataset": "sst5"})
    assert sst["lr_scheduler_kwargs"] == {"min_lr": 1e-6}
    assert textnet._with_recipe({"paper_settings": "yelp"})["max_seq_length"] == 256
    given = {"dataset": "snli", "attention": "predictive", "num_train_epochs": 3.0}
    snli = textnet._with_recipe(given)
    assert (snli["alpha"], snli["num_train_epochs"]) == (0.5, 3.0)
    assert snli["lr_scheduler_type"] == "multistep"
    usual = textnet._with_recipe({"dataset": "snli"})
    assert "alpha" not in usual
    schedule, epochs = usual["lr_scheduler_kwargs"], usual["num_train_epochs"]
    assert (epochs, schedule["gamma"]) == (30, 0.1)
    assert [share * epochs for share in schedule["milestones"]] == [10, 20]
    other = textnet._with_recipe({"dataset": "snli", "lr_scheduler_type": "linear"})
    assert "lr_scheduler_kwargs" not in other
    args = TextNetTrainingArguments()
    assert (args.optim, args.weight_decay, args.learning_rate) == ("adam", 2e-6, 4e-4)
    assert (args.num_train_epochs, args.per_device_train_batch_size) == (10, 64)


def test_the_lines_of_the_page(
    run: Any, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (repo / "docs" / "text_nets.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", text, re.S | re.M)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    assert len(lines) == 7
    monkeypatch.chdir(tmp_path)
    Path("SST-5").mkdir()
    for part, count in (("train", 16), ("dev", 8)):
        rows = [f"{i % 5} the {WORDS[i % 9]} film ." for i in range(count)]
        Path("SST-5", f"stsa.fine.{part}").write_text("\n".join(rows) + "\n")
    Path("glove.txt.gz").write_bytes(gzip.compress(vectors(tmp_path).read_bytes()))
    Path("reviews.csv").write_text("text\ngood film\n")
    for seed, name in enumerate(("train.tsv", "dev.tsv")):
        pairs(tmp_path, 16, seed).rename(name)
    small = [*SMALL, "--num_train_epochs", 1]
    for line in lines:
        words = shlex.split(line)
        assert words[:2] == ["evolving-attention", "textnet"]
        own = words[2:]
        if own[0] == "train":
            own += small if "--word_vectors" in own else [*small, "--embedding_size", 6]
            own += ["--pairs", 40] if "acceptability" in own else []
        code, _, told = run(*own)
        assert code == 0, told
    assert len(Path("classes.tsv").read_text().splitlines()) == 2
    assert "comparison" in json.loads(Path("out/pa/results.json").read_text())


@pytest.mark.usefixtures("minilm")
def test_the_words_of_the_page(repo: Path) -> None:
    text = (repo / "docs" / "text_nets.md").read_text(encoding="utf-8")
    block = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)[1]
    names: dict[str, Any] = {}
    exec(compile(block, "docs/text_nets.md", "exec", dont_inherit=True), names)
    known = names["table"].known
    assert names["table"].values.shape == (len(names["tokenizer"]), 384)
    assert known[3:].all()  # the special tokens are first


def test_the_output_is_not_the_input(run: Any, tmp_path: Path) -> None:
    file = own_rows(tmp_path, 4, 0)
    data = file.read_bytes()
    words = ("predict", "--model_dir", "x", "--input_file", file)
    code, _, told = run(*words, "--output_file", file)
    assert (code, "expected another file than --input_file" in told) == (2, True)
    assert file.read_bytes() == data


def test_the_folder_of_several_seeds(run: Any, tmp_path: Path) -> None:
    (tmp_path / "seed-3").mkdir()
    (tmp_path / "seed-3" / "config.json").write_text("{}")
    words = ("evaluate", "--model_dir", tmp_path, "--test_file", "x.csv")
    code, _, told = run(*words)
    assert code == 4
    assert f"folders in it that have one: {tmp_path / 'seed-3'}\n" in told


@pytest.mark.parametrize("scores", [False, True])
def test_skipped_rows_keep_their_numbers(
    run: Any, tmp_path: Path, scores: bool
) -> None:
    out, file, answers = (tmp_path / n for n in ("out", "train.csv", "answers.tsv"))
    labels = ("0.5", "1.5") if scores else ("good", "bad")
    rows = [f"a {('good', 'bad')[i % 2]} film,{labels[i % 2]}" for i in range(8)]
    file.write_text("\n".join(["sentence,label", *rows]) + "\n")
    code, _, told = run(
        "train", "--train_file", file, *SMALL, "--max_steps", 1, "--output_dir", out
    )
    assert code == 0, told
    new = tmp_path / "new.csv"
    new.write_text("sentence\na good film\nbad,day\na bad film\n")
    code, shown, told = run(
        *("predict", "--model_dir", out, "--input_file", new, "--bad_rows", "report"),
        *("--output_file", answers),
    )
    assert code == 0, told
    assert "texts = 2" in shown
    lines = answers.read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["index", "0", "2"]
