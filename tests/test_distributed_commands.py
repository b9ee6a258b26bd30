"""The launchers as users call them: mpirun with the GLUE command, and torchrun."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import helpers_commands
import helpers_squad
import pytest
from helpers_distributed import by_mpi, by_ranks, environment, needs_mpi
from helpers_models import tiny
from helpers_pretraining import SIZES, documents, write
from helpers_translation import sentences, write_files
from typer.testing import CliRunner

from evolving_attention.cli.main import app

BESIDE = Path(sys.executable).with_name("torchrun")
TORCHRUN = str(BESIDE) if BESIDE.exists() else shutil.which("torchrun")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a film good bad was it the not very ."


def glue_folders(root: Path) -> list[str]:
    """Saves a tiny model and a few rows of CoLA; returns a command that uses both."""
    tiny(vocab_size=len(WORDS.split())).save_pretrained(root / "model")
    (root / "model" / "vocab.txt").write_text("\n".join(WORDS.split()))
    (root / "GLUE" / "CoLA").mkdir(parents=True)
    for split, count in (("train", 21), ("dev", 7)):
        lines = [f"x\t{i % 2}\t\t{'a good film ' * (1 + i % 4)}" for i in range(count)]
        path = root / "GLUE" / "CoLA" / f"{split}.tsv"
        path.write_text("\n".join(lines) + "\n")
    text = "index\tsentence\n" + "".join(f"{i}\ta bad film\n" for i in range(5))
    (root / "GLUE" / "CoLA" / "test.tsv").write_text(text)
    return [
        "glue",
        *("--model_name_or_path", str(root / "model"), "--task_name", "cola"),
        *("--data_dir", str(root / "GLUE"), "--do_train", "--do_eval", "--do_predict"),
        *("--num_train_epochs", "2", "--per_device_train_batch_size", "3"),
        *("--attention", "evolving", "--learning_rate", "1e-3", "--json"),
    ]


def two_and_one(root: Path, words: list[str], *files: str) -> str:
    """Runs a command in two processes and in one; compares the bits of these files.

    Returns:
        The output of the run in two processes.
    """
    code, text = by_mpi(2, *words, "--output_dir", str(root / "two"))
    assert code == 0, text
    one = [*words, "--gradient_accumulation_steps", "2"]
    done = CliRunner().invoke(app, [*one[2:], "--output_dir", str(root / "one")])
    assert done.exit_code == 0, done.output
    for name in files:
        two, alone = (root / folder / name for folder in ("two", "one"))
        assert two.read_bytes() == alone.read_bytes(), name
    return text


@needs_mpi
def test_the_glue_command_over_seeds(tmp_path: Path) -> None:
    """Two processes train each seed together; both keep the seeds already trained."""
    pytest.importorskip("sklearn")
    words = ["-m", "evolving_attention", *glue_folders(tmp_path), "--seeds", "1", "2"]
    names = "evolving_model.safetensors", "predict_results_cola.txt"
    files = [f"seed-{seed}/{name}" for seed in (1, 2) for name in names]
    text = two_and_one(tmp_path, words, *files)
    assert text.count('"summary"') == text.count("seed 2: ") == 1, text
    results = [
        json.loads((tmp_path / folder / "results.json").read_text())
        for folder in ("two", "one")
    ]
    for mine, its in zip(*(one["runs"] for one in results), strict=True):
        assert mine.keys() == its.keys()
        for name in ("train_loss", "eval_loss", "eval_matthews_correlation"):
            assert mine[name] == its[name]
    (tmp_path / "two" / "results.json").unlink()
    code, text = by_mpi(2, *words, "--output_dir", str(tmp_path / "two"))
    assert code == 0, text
    assert text.count(" (kept): ") == 2, text
    assert json.loads((tmp_path / "two" / "results.json").read_text()) == results[0]


@needs_mpi
def test_the_squad_command(tmp_path: Path) -> None:
    """Answers have the same bits when two processes share the windows."""
    helpers_squad.folder_of(tmp_path / "base")
    files = {"train": (16, 0), "validation": (5, 1)}
    words = ["-m", "evolving_attention", "squad", "train", "--max_seq_length", "24"]
    for name, (count, seed) in files.items():
        path = helpers_squad.write(
            tmp_path / f"{name}.json", helpers_squad.document(count, seed)
        )
        words += [f"--{name}_file", str(path)]
    words += ["--model_name_or_path", str(tmp_path / "base"), "--doc_stride", "6"]
    words += ["--per_device_train_batch_size", "4", "--per_device_eval_batch_size", "3"]
    two_and_one(tmp_path, words, "model.safetensors", "eval_nbest_predictions.json")


@pytest.mark.skipif(TORCHRUN is None, reason="needs torch's torchrun")
def test_torchrun(tmp_path: Path) -> None:
    program = tmp_path / "meet.py"
    program.write_text(
        "import evolving_attention as ea\n"
        "world = ea.distributed.world()\n"
        "import os\n"
        "os.write(1, f'ranks {world.values(world.rank)}\\n'.encode())\n"
    )
    done = subprocess.run(
        [str(TORCHRUN), "--nproc-per-node", "2", str(program)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ranks [0, 1]") == 2


@needs_mpi
def test_the_translate_command(tmp_path: Path) -> None:
    source, target = write_files(tmp_path, "train", sentences(40))
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32}
    words = [
        *("-m", "evolving_attention", "translate", "train"),
        *("--source_file", str(source), "--target_file", str(target)),
        *("--eval_source_file", str(source), "--eval_target_file", str(target)),
        *("--model", "ea_transformer_lite", "--model_options", json.dumps(sizes)),
        *("--vocab_size", "290", "--per_device_train_batch_tokens", "60"),
        *("--num_train_epochs", "2", "--json"),
    ]
    text = two_and_one(tmp_path, words, "model.safetensors")
    assert text.count('"best_eval_loss"') == 1, text
    assert text.count("40 pairs to train on") == 1, text


@needs_mpi
def test_the_pretrain_command(tmp_path: Path) -> None:
    """Masks and pairs do not depend on which process makes a batch."""
    write(tmp_path / "corpus.txt", documents(30))
    words = [
        *("-m", "evolving_attention", "pretrain"),
        *("--train_file", str(tmp_path / "corpus.txt"), "--next_sentence"),
        *("--model_name", "ea_bert_base", "--model_options", json.dumps(SIZES)),
        *("--vocab_size", "120", "--max_seq_length", "24", "--max_steps", "9"),
        *("--per_device_train_batch_size", "3", "--per_device_eval_batch_size", "2"),
        *("--validation_split_percentage", "20", "--json"),
        *("--cache_dir", str(tmp_path / "cache")),
    ]
    text = two_and_one(tmp_path, words, "evolving_model.safetensors")
    assert text.count('"eval_next_sentence_accuracy"') == 1, text
    scores = [
        json.loads((tmp_path / folder / "eval_results.json").read_text())
        for folder in ("two", "one")
    ]
    for name in ("eval_loss", "eval_masked_accuracy", "eval_next_sentence_accuracy"):
        assert scores[0][name] == scores[1][name]


def in_own_folders(root: Path, *lines: list[Any]) -> tuple[list[int], str]:
    """Runs commands in two processes, each in a folder of its own: "0" and "1".

    The first command writes into the folder "out-0", and so on.
    """
    for rank in range(2):
        (root / str(rank)).mkdir()
    program = (
        "import json, os, sys; os.chdir(os.environ['OWN_FOLDER'])\n"
        "from evolving_attention.cli.main import app\n"
        "for number, words in enumerate(json.loads(sys.argv[1])):\n"
        "    try:\n"
        "        app([*words, '--output_dir', f'out-{number}'])\n"
        "    except SystemExit as left:\n"
        "        if left.code: raise\n"
    )
    text = json.dumps([list(map(str, words)) for words in lines])
    return by_ranks(
        2,
        *("-c", program, text),
        variables=lambda rank: {"OWN_FOLDER": str(root / str(rank))},
    )


def test_only_the_first_process_writes_an_estimator(tmp_path: Path) -> None:
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    lines = [
        helpers_commands.image(tmp_path),
        helpers_commands.series(tmp_path, "train"),
        helpers_commands.series(tmp_path, "pretrain"),
    ]
    more = ["--seeds", 1, 2, "--json"]
    codes, text = in_own_folders(tmp_path, *([*words, *more] for words in lines))
    assert codes == [0, 0], text
    assert text.count('"summary"') == len(lines), text
    for number in range(len(lines)):
        file = tmp_path / "0" / f"out-{number}" / "results.json"
        runs = json.loads(file.read_text())["runs"]
        assert [run["seed"] for run in runs] == [1, 2]
    written = [path for path in (tmp_path / "1").rglob("*") if path.is_file()]
    assert written == []


def test_a_graph_is_trained_on_in_one_process(tmp_path: Path) -> None:
    codes, text = in_own_folders(tmp_path, helpers_commands.graph(tmp_path))
    assert codes == [2, 2], text
    assert "expected one process" in text
    assert not any((tmp_path / str(rank) / "out-0").exists() for rank in range(2))


@pytest.mark.parametrize(
    "command",
    [
        *("timeseries evaluate", "timeseries predict", "image evaluate"),
        *("image predict", "graph evaluate", "graph predict", "textnet evaluate"),
        *("textnet predict", "translate generate", "translate score"),
        "translate average",
    ],
)
def test_a_command_that_does_not_train_runs_in_one_process(
    command: str, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = {"RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "here", "MASTER_PORT": 2}
    for name, value in launched.items():
        monkeypatch.setenv(name, str(value))
    code, _, told = helpers_commands.runner(capfd, monkeypatch)(*command.split())
    assert (code, "expected one process" in told) == (2, True), told
