"""Command lines of the pages that no other test runs, on small data.

Only the sizes and the checkpoint of a line are changed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import bert, graph
from helpers_pages import lines_of, with_sizes
from helpers_pretraining import SIZES as PRETRAINING
from helpers_pretraining import documents
from helpers_pretraining import write as write_corpus
from helpers_squad import document, folder_of, write
from helpers_t5 import word_t5
from image_data import folder_of as pictures_of
from typer.testing import CliRunner

from evolving_attention.cli.main import app

ELSEWHERE = {  # pages whose lines are run by other tests
    "README.md": "test_recorded_commands.py",
    "docs/glue.md": "test_recorded_commands.py",
    "docs/timeseries_results.md": "test_recorded_commands.py",
    "docs/text_nets.md": "test_cli_textnet.py",
    "docs/translation.md": "test_cli_translate.py",
    "docs/distributed.md": "an ellipsis stands for its options",
}
NET = {"hidden_sizes": [8, 8], "depths": [1, 2], "num_attention_heads": 2}
SMALL = {
    "graph train": "--n_epochs 3 --hidden_size 8 --num_heads 2",
    "image train": "--n_epochs 2 --batch_size 8 --verbose false",
    "pretrain": "--vocab_size 120 --max_seq_length 24 --max_steps 3 "
    f"--per_device_train_batch_size 8 --model_options '{json.dumps(PRETRAINING)}'",
    "squad train": "--max_seq_length 24 --doc_stride 6 --num_train_epochs 1",
    "squad evaluate": "--max_seq_length 24 --doc_stride 6",
    "squad predict": "--max_seq_length 24 --doc_stride 6",
    "glue": "--max_steps 2",
    "glue-all": "--max_steps 2 --tasks rte",
    "sweep": "--max_steps 2 --n_trials 1 --workers 1",
}
SIZES_OF = {  # options that shrink the networks a line names
    "pa_cifar_net": f"--model_options '{json.dumps(NET)}'",
    "out/vit": "--hidden_size 16 --num_hidden_layers 2 --num_attention_heads 2",
}


def a_graph() -> None:
    words = graph(Path())
    Path(words[words.index("--data_file") + 1]).rename("cora.npz")


def pictures() -> None:
    for name in ("cifar/train", "photos/train", "photos/test"):
        pictures_of(Path(name), 16, side=16)
    Path("photos/test/a").rename("new")
    pictures_of(Path("photos/test"), 16, side=16)


def a_corpus() -> None:
    write_corpus(Path("corpus.txt"), documents(12))
    Path("more_text").mkdir()
    write_corpus(Path("more_text", "more.txt"), documents(12, seed=1))


def questions() -> None:
    folder_of(Path("m"))
    names = ("train-v2.0.json", "dev-v2.0.json", "questions.json")
    for seed, name in enumerate(names):
        write(Path(name), document(6, seed=seed, unanswerable=True))


def tasks() -> None:
    """CoLA and RTE; the test set of RTE has its official length."""
    bert(Path("m"))
    random = np.random.default_rng(0)
    for folder, test in (("CoLA", 4), ("RTE", 3000)):
        Path("GLUE", folder).mkdir(parents=True)
        for split, count in (("train", 16), ("dev", 8), ("test", test)):
            texts = [
                " ".join(random.choice(["a", "film", "good"], 3)) for _ in "ab" * count
            ]
            lines = ["index\tsentence1\tsentence2\tlabel"]
            for i in range(count):
                label = ("entailment", "not_entailment")[i % 2]
                lines.append(f"{i}\t{texts[2 * i]}\t{texts[2 * i + 1]}\t{label}")
            if folder == "CoLA":
                lines = [f"x\t{i % 2}\t\t{text}" for i, text in enumerate(texts)]
            elif split == "test":
                lines = [line.rpartition("\t")[0] for line in lines]
            Path("GLUE", folder, f"{split}.tsv").write_text("\n".join(lines) + "\n")


def t5() -> None:
    tasks()
    word_t5(Path("t5-base"), ["rte", "sentence1", "sentence2", "a", "film", "good"])


PAGES: dict[str, Callable[[], None]] = {
    "docs/graphs.md": a_graph,
    "docs/images.md": pictures,
    "docs/pretraining.md": a_corpus,
    "docs/question_answering.md": questions,
    "docs/search.md": tasks,
    "docs/t5.md": t5,
}
WRITTEN = {
    "docs/graphs.md": ["out/cora", "out/ea-cora", "classes.csv"],
    "docs/images.md": ["out/net", "out/vit", "predictions.csv"],
    "docs/pretraining.md": ["out/bert/config.json"],
    "docs/question_answering.md": ["out/dev/eval_results.json", "out/answers"],
    "docs/search.md": ["out/glue/submission.zip", "out/sweep"],
    "docs/t5.md": ["out/rte/eval_results.json"],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that runs a command line in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda fd: None)

    def line(words: list[str]) -> None:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{words}\n{done.output}"

    return line


def small(words: list[str]) -> list[str]:
    """Returns the line with small sizes and a checkpoint that exists here."""
    words = ["m" if one.startswith("package:") else one for one in words]
    names = (words[0], " ".join(words[:2]))
    sizes = [SMALL[name] for name in names if name in SMALL]
    sizes += [found for name, found in SIZES_OF.items() if name in words[2:]]
    if "evaluate" in words or "predict" in words:
        sizes = [one for one in sizes if words[0] == "squad"]
    for one in sizes:
        words = with_sizes(words, one)
    return words


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page(run: Any, repo: Path, page: str) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    if page == "docs/images.md":
        pytest.importorskip("PIL", reason="needs Pillow (extra: image)")
    if page == "docs/search.md":
        pytest.importorskip("optuna", reason="no optuna (extra sweep)")
    PAGES[page]()
    lines = lines_of(repo / page)
    assert lines
    for line in lines:
        words = small(shlex.split(line)[1:])
        if "--compare" in words:  # first make the runs to compare with
            at, attention = words.index("--compare"), words.index("--attention")
            plain = [*words[:at], "--max_steps", "2", "--output_dir", words[at + 1]]
            plain[attention + 1] = "vanilla"
            run(plain)
        run(words)
    missing = [name for name in WRITTEN[page] if not Path(name).exists()]
    assert not missing


def test_every_page_with_commands_is_run(repo: Path) -> None:
    pages = [repo / "README.md", *sorted((repo / "docs").glob("*.md"))]
    shown = {str(page.relative_to(repo)) for page in pages if lines_of(page)}
    assert shown <= {*PAGES, *ELSEWHERE}
    for page, test in ELSEWHERE.items():
        if test.endswith(".py"):
            text = (repo / "tests" / test).read_text(encoding="utf-8")
            assert page in text or f'"{Path(page).name}"' in text
