"""``evolving-attention pretrain``: from text files to a folder that loads."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import bert
from helpers_pretraining import SIZES, documents, write

import evolving_attention as ea
from evolving_attention.cli import pretrain
from evolving_attention.cli.main import app

OPTIONS = json.dumps(SIZES)
SMALL = [
    *("--model_options", OPTIONS, "--vocab_size", 120, "--max_seq_length", 24),
    *("--per_device_train_batch_size", 4, "--learning_rate", "3e-3"),
    *("--logging_steps", 2, "--disable_tqdm"),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run(capfd: Any) -> Any:
    """Runs ``pretrain``; returns (exit code, stdout, stderr)."""

    def command(*words: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            app(["pretrain", *map(str, words)], prog_name="evolving-attention")
        out, told = capfd.readouterr()
        return int(left.value.code or 0), out, told

    return command


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with two files, one of them gzip."""
    root = tmp_path / "corpus"
    root.mkdir()
    write(root / "one.txt", documents(15))
    more = write(tmp_path / "two", documents(15, seed=1)).read_bytes()
    (root / "two.txt.gz").write_bytes(gzip.compress(more))
    return root


def weights(folder: Path) -> dict[str, np.ndarray]:
    model = ea.AutoModelForMaskedLM.from_pretrained(folder)
    return {name: np.array(value) for name, value in model.state_dict().items()}


def test_from_text_to_a_folder_that_loads(run: Any, corpus: Path, tmp_path: Path):
    out = tmp_path / "out"
    words = ["--train_file", corpus, "--model_name", "ea_bert_base", *SMALL]
    words += ["--output_dir", out, "--json", "--num_train_epochs", 12]
    code, shown, told = run(*words)
    assert code == 0, told
    results = json.loads(shown)
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [line["eval_loss"] for line in log if "eval_loss" in line]
    assert results["eval_loss"] == losses[-1] < losses[0]
    assert results["eval_masked_lm_loss"] == results["eval_loss"]
    assert 0 < results["eval_masked_accuracy"] < 1
    assert results["eval_perplexity"] == pytest.approx(np.exp(losses[-1]))
    assert all(line["tokens_per_s"] > 0 for line in log if "loss" in line)
    arguments = json.loads((out / "training_args.json").read_text())
    for name, value in {
        "weight_decay": 0.01,
        "warmup_steps": 0.01,
        "adam_epsilon": 1e-6,
        "train_sampling_strategy": "random",
        "lr_scheduler_type": "linear",
    }.items():
        assert arguments[name] == value
    model = ea.AutoModelForMaskedLM.from_pretrained(out)
    tokenizer = ea.AutoTokenizer.from_pretrained(out)
    assert model.config.attention.to_dict()["kind"] == "evolving"
    assert model.config.vocab_size == len(tokenizer) == 120
    assert tokenizer.model_max_length == 40
    logits = model(**tokenizer("The cat [MASK] a dog.", return_tensors="np")).logits
    assert logits.shape[-1] == 120
    for auto in (ea.AutoModel, ea.AutoModelForSequenceClassification):
        auto.from_pretrained(out)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_reported_scores_are_those_of_the_model(
    run: Any, corpus: Path, tmp_path: Path, pairs: bool
):
    """Recomputes the scores from all logits of the held-out rows."""
    out = tmp_path / "out"
    words = ["--train_file", corpus, "--model_name", "bert_base", *SMALL]
    words += ["--output_dir", out, "--json", "--max_steps", 8]
    words += ["--validation_split_percentage", 20, "--per_device_eval_batch_size", 3]
    code, shown, told = run(*words, *(["--next_sentence"] if pairs else []))
    assert code == 0, told
    results = json.loads(shown)
    rows = ea.pretraining.PretrainingDataset.from_files(
        corpus,
        ea.AutoTokenizer.from_pretrained(out),
        max_seq_length=24,
        next_sentence=pairs,
        seed=42,
    )
    _, held_out = rows.split(0.2)
    auto = ea.AutoModelForPreTraining if pairs else ea.AutoModelForMaskedLM
    model = auto.from_pretrained(out, dtype="float64")
    batch = held_out.gather(np.arange(len(held_out)))
    given = {k: v for k, v in batch.items() if k != "row_ids"}
    output = model(**given)
    logits, labels = np.asarray(output.logits), batch["labels"]
    kept = labels != -100
    right = (logits.argmax(-1) == labels)[kept].mean()
    assert results["eval_masked_accuracy"] == pytest.approx(right)
    loss = output.loss.item()
    assert results["eval_loss"] == pytest.approx(loss, rel=1e-4)
    assert ("eval_next_sentence_accuracy" in results) == pairs
    if pairs:
        labels = batch["next_sentence_label"]
        found = np.asarray(output.seq_relationship_logits).argmax(-1) == labels
        assert results["eval_next_sentence_accuracy"] == pytest.approx(found.mean())


def test_an_interrupted_run_goes_on_to_the_same_bits(
    run: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(
        self: Any, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        if state.global_step == 7:
            signal.raise_signal(signal.SIGINT)

    def train(out: Path) -> tuple[int, str]:
        code, _, told = run(*words, "--output_dir", out)
        return code, told

    words = ["--train_file", corpus, "--model_name", "realformer_small", *SMALL]
    words += ["--next_sentence", "--max_steps", 30, "--whole_word_mask"]
    assert train(tmp_path / "whole")[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(pretrain.TokensPerSecond, "on_step_end", interrupt)
        code, told = train(tmp_path / "parts")
    assert code == 128 + signal.SIGINT
    assert "or run the same command again" in told
    code, told = train(tmp_path / "parts")
    assert code == 0, told
    assert "training a tokenizer" not in told
    first, second = (weights(tmp_path / name) for name in ("whole", "parts"))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    changed = corpus / "one.txt"
    changed.write_text(changed.read_text() + "The cat sees.\n")
    words += ["--tokenizer", str(tmp_path / "parts"), "--num_train_epochs", 9]
    code, told = train(tmp_path / "parts")
    assert (code, "other training data" in told) == (4, True), told


def test_a_killed_run_goes_on_to_the_same_bits(run: Any, corpus: Path, tmp_path: Path):
    """SIGKILL arrives in the second pass over the corpus, at an arbitrary moment."""
    words = ["--train_file", corpus, "--model_name", "ea_bert_base", *SMALL]
    words += ["--num_train_epochs", 15, "--save_steps", 3, "--save_total_limit", 2]
    code, _, told = run(*words, "--output_dir", tmp_path / "whole")
    assert code == 0, told
    steps = ea.training.TrainerState.load_from_json(
        tmp_path / "whole" / "trainer_state.json"
    ).max_steps
    cut = tmp_path / "cut"
    every = ["pretrain", *map(str, words), "--output_dir", str(cut)]
    process = subprocess.Popen(
        [sys.executable, "-m", "evolving_attention", *every],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    first = steps // 15 + 1
    while not any(
        int(path.name.rpartition("-")[2]) > first for path in cut.glob("checkpoint-*")
    ):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (cut / "config.json").exists()  # the run had not ended
    code, _, told = run(*words, "--output_dir", cut)
    assert code == 0, told
    name = "evolving_model.safetensors"
    assert (cut / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_going_on_from_a_checkpoint_with_new_convolutions(
    run: Any, corpus: Path, tmp_path: Path
):
    words = ["--train_file", corpus, *SMALL[2:], "--max_steps", 6]
    base = [*words, "--model_name", "bert_base", "--model_options", OPTIONS]
    assert run(*base, "--output_dir", tmp_path / "base")[0] == 0
    more = [*words, "--model_name_or_path", tmp_path / "base"]
    more += ["--attention", "evolving", "--alpha", 0.2, "--output_dir", tmp_path / "ea"]
    code, _, told = run(*more, "--learning_rate", 0)
    assert code == 0, told
    before, after = weights(tmp_path / "base"), weights(tmp_path / "ea")
    assert {name for name in after if name not in before}
    assert all(np.array_equal(before[name], after[name]) for name in before)
    config = ea.AutoConfig.from_pretrained(tmp_path / "ea")
    assert config.attention == ea.attention.Evolving(alpha=0.2, beta=0.1)


@pytest.mark.parametrize("pairs", [False, True])
def test_an_encoder_without_the_tasks_head_gets_a_new_one(
    run: Any, corpus: Path, tmp_path: Path, pairs: bool
):
    words = ["--train_file", corpus, "--model_name_or_path", bert(tmp_path / "base")]
    words += ["--max_seq_length", 12, "--max_steps", 2, "--output_dir", tmp_path / "o"]
    code, _, told = run(*words, *(["--next_sentence"] if pairs else []))
    assert code == 0, told
    new = re.findall(r"new +(\S+) +newly initialised", told)
    assert "cls.predictions.transform.dense.weight" in new
    assert ("cls.seq_relationship.weight" in new) == pairs
    assert all(name.startswith("cls.") for name in new)
    words[3] = tmp_path / "o"  # trained, unlike that of the run in this folder
    code, _, told = run(*words, *(["--next_sentence"] if pairs else []))
    assert code != 0
    assert "the saved run used other --model_name_or_path; restore it" in told


@pytest.mark.parametrize(
    ("kind", "options"),
    [("bert", {"norm_first": True}), ("roberta", {}), ("roberta", {"vocab_size": 400})],
)
def test_by_a_config(
    run: Any, corpus: Path, tmp_path: Path, kind: str, options: dict[str, Any]
):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": kind, **SIZES}))
    words = ["--train_file", corpus, "--config", file, *SMALL[2:]]
    words += ["--vocab_size", 300, "--model_options", json.dumps(options)]
    words += ["--tokenizer", "bpe", "--validation_split_percentage", 0]
    code, _, told = run(*words, "--max_steps", 3, "--output_dir", tmp_path / "out")
    assert code == 0, told
    model = ea.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    assert model.config.model_type == kind
    assert model.config.pad_token_id == 1
    assert model.config.vocab_size == options.get("vocab_size", 300)
    assert model.config.norm_first == options.get("norm_first", False)
    tokenizer = ea.AutoTokenizer.from_pretrained(tmp_path / "out")
    model(**tokenizer("The cat <mask>.", return_tensors="np"))


def test_pairs_of_a_small_corpus_are_told_what_to_raise(run: Any, tmp_path: Path):
    corpus = write(tmp_path / "small.txt", documents(20))
    words = ["--train_file", corpus, "--model_name", "bert_base", *SMALL]
    words += ["--next_sentence", "--max_steps", 1, "--output_dir", tmp_path / "out"]
    code, _, told = run(*words)
    assert code == 3, told
    assert re.search(
        r"of one of the 20 documents, expected at least two documents .* raise the "
        r"share of evaluation \(--validation_split_percentage\)",
        " ".join(told.split()),
    ), told
    code, _, told = run(*words, "--validation_split_percentage", 30)
    assert code == 0, told


def test_its_own_validation_files(run: Any, corpus: Path, tmp_path: Path):
    words = ["--train_file", corpus / "one.txt", corpus / "two.txt.gz", *SMALL]
    words += ["--validation_file", corpus / "one.txt", "--model_name", "bert_base"]
    words += ["--max_steps", 2, "--output_dir", tmp_path / "out", "--json"]
    code, shown, told = run(*words, "--cache_dir", tmp_path / "other")
    assert code == 0, told
    assert "eval_masked_accuracy" in json.loads(shown)
    assert len(list((tmp_path / "other").glob("tokens-*"))) == 2
    (file,) = (tmp_path / "other").glob("tokenizer-*/tokenizer.json")
    whole = file.read_bytes()
    file.write_bytes(whole[:9])
    words[-2:-1] = [tmp_path / "again"]
    code, again, told = run(*words, "--cache_dir", tmp_path / "other")
    assert code == 0, told
    assert f"{file.parent} cannot be used and is made again" in told
    assert file.read_bytes() == whole
    name = "eval_masked_accuracy"
    assert json.loads(again)[name] == json.loads(shown)[name]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "--train_file is missing"),
        (["--train_file", "x"], 2, "--model_name is missing"),
        (
            ["--train_file", "x", "--model_name", "bert_huge"],
            2,
            "--model_name bert_huge: expected one of .*realformer_small",
        ),
        (
            ["--train_file", "x", "--model_name", "bert_base", "--config", "y"],
            2,
            "--model_name bert_base: expected no --config with it",
        ),
        (
            ["--train_file", "x", "--model_name", "roberta_base", "--next_sentence"],
            2,
            "expected a BERT, and this model is 'roberta'",
        ),
        (["--train_file", "x", "--config", "y.json"], 2, "y.json: cannot be read"),
        (["--train_file", "x", "--do_eval", "no"], 2, "--do_eval False: expected True"),
        (
            ["--train_file", "x", "--model_name", "bert_base"],
            3,
            "x: no such file or folder",
        ),
        (
            ["--train_file", "CORPUS", "--model_name", "bert_base", "--vocab_size", 9],
            2,
            "--vocab_size 9: expected a whole number, 100 or more",
        ),
        (
            [
                "--train_file",
                "CORPUS",
                "--model_name",
                "bert_base",
                "--model_options",
                '{"name": "bert_large"}',
            ],
            2,
            "--model_options: 'name' is 'bert_large', expected no such key, which the "
            "command sets; give --model_name",
        ),
        (
            [
                "--train_file",
                "CORPUS",
                "--model_name",
                "bert_base",
                "--vocab_size",
                120,
                "--max_seq_length",
                600,
                "--model_options",
                OPTIONS,
            ],
            2,
            "--max_seq_length 600: expected at most 40, the model's positions",
        ),
        (
            [
                "--train_file",
                "CORPUS",
                "--model_name",
                "bert_base",
                "--mlm_probability",
                1.5,
                "--vocab_size",
                120,
            ],
            2,
            r"--mlm_probability 1.5: expected a number in \(0, 1\)",
        ),
        (
            ["--train_file", "EMPTY", "--model_name", "bert_base"],
            3,
            "hold no word that could become a token",
        ),
    ],
)
def test_refused(
    run: Any, corpus: Path, tmp_path: Path, words: Any, code: int, message: str
):
    (tmp_path / "empty.txt").write_text("\n\n")
    places = {"CORPUS": corpus, "EMPTY": tmp_path / "empty.txt"}
    given = [places.get(word, word) for word in words]
    found, _, told = run(*given, "--output_dir", tmp_path / "out", "--disable_tqdm")
    assert found == code, told
    assert re.search(message, told), told


@pytest.mark.parametrize("form", ["model_name", "config"])
def test_a_config_is_checked_before_the_corpus_is_read(
    run: Any, corpus: Path, tmp_path: Path, form: str
) -> None:
    given = "bert_base"
    if form == "config":
        given = str(tmp_path / "config.json")
        Path(given).write_text('{"model_type": "bert"}')
    words = ["--train_file", corpus, f"--{form}", given, "--vocab_size", 120]
    words += ["--output_dir", tmp_path / "out"]
    code, _, told = run(*words, "--model_options", '{"hidden_siz": 3}')
    assert code == 2
    assert "unknown option 'hidden_siz', expected one of" in told
    assert ", vocab_size," in told  # the config's option, not --vocab_size
    assert "training a tokenizer" not in told
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hidden_size": 8', r"is not valid JSON \(.*line 1 column 18"),
        ("[8]", r"holds a JSON list, expected an object"),
        ('{"hidden_size": 8, "hidden_size": 9}', r"has the key 'hidden_size' twice"),
        ('{"hidden_size": "8"}', r"hidden_size is '8', expected"),
        ('{"hiden_size": 8}', r"has the key 'hiden_size', .*mean 'hidden_size'\?"),
        ('{"hidden_size": 9, "num_attention_heads": 2}', r"hidden_size"),
    ],
)
def test_a_wrong_config_names_its_file(
    run: Any, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "own.json"
    file.write_text(text)
    words = ["--train_file", "x", "--config", file, "--output_dir", tmp_path / "out"]
    code, _, told = run(*words)
    assert code == 2, told
    assert re.search(rf"--config \S*own.json: {message}", " ".join(told.split())), told


def test_keys_of_other_libraries_in_a_config_are_kept() -> None:
    written = {"pooler_type": "first", "use_cache": True, "eos_token_id": 2}
    written["pad_token_id"] = 0
    pretrain._refuse_misspelt(ea.BertConfig, written, "config.json")
