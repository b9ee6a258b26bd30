"""Command lines of glue that people try: separators, freezing, early stopping, -h."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import evolving_attention as ea
from evolving_attention.cli import glue
from evolving_attention.cli.glue_arguments import DataTrainingArguments
from evolving_attention.cli.main import app
from evolving_attention.cli.spelling import as_flags
from evolving_attention.errors import ConfigError
from evolving_attention.training.fingerprint import compare

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", ","]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a WordPiece vocabulary, saved."""
    folder = tmp_path_factory.mktemp("model")
    ea.manual_seed(0)
    config = ea.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
    )
    ea.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    return folder


@pytest.fixture
def run(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on its own files; returns (exit code, stdout, stderr)."""
    for name, count in (("train", 24), ("dev", 8)):
        lines = [f"a {('good', 'bad')[i % 2]} film, a;{i % 2}" for i in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text;label", *lines]) + "\n")

    def command(
        *words: str,
        steps: tuple[str, ...] = ("--do_train", "--do_eval"),
        **options: Any,
    ) -> tuple[int, str, str]:
        given = {
            "model_name_or_path": model,
            "output_dir": tmp_path / "out",
            "train_file": tmp_path / "train.csv",
            "validation_file": tmp_path / "dev.csv",
            "delimiter": ";",
            "max_steps": 3,
            **options,
        }
        flags = [w for n, v in given.items() if v is not None for w in (f"--{n}", v)]
        with pytest.raises(SystemExit) as left:
            glue.main([*steps, *words, *map(str, flags)])
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return command


def test_names_of_folders_that_are_not_utf8(
    run: Any, model: Path, tmp_path: Path
) -> None:
    base, out = tmp_path / "m\udce9", tmp_path / "u\udce9"
    shutil.copytree(model, base)
    code, _, err = run(model_name_or_path=base, output_dir=out, max_steps=1)
    assert code == 0, err
    assert (out / "README.md").read_text().count("m?") == 1


def weights(folder: Path) -> dict[str, bytes]:
    model = ea.AutoModelForSequenceClassification.from_pretrained(folder)
    return {name: np.asarray(p).tobytes() for name, p in model.named_parameters()}


def test_another_checkpoint_does_not_resume(
    run: Any, model: Path, tmp_path: Path
) -> None:
    code, _, err = run()
    assert code == 0, err
    same = shutil.copytree(model, tmp_path / "same")
    ea.BertModel(ea.BertConfig.from_pretrained(model)).save_pretrained(tmp_path / "new")
    shutil.copy(model / "vocab.txt", tmp_path / "new")
    code, _, err = run(model_name_or_path=tmp_path / "new", max_steps=4)
    assert code != 0
    assert "the saved run used other --model_name_or_path; restore it, start" in err
    code, _, err = run(model_name_or_path=same, max_steps=4)
    assert code == 0, err
    compare({}, {"model_name_or_path": "1f"}, str(tmp_path), False)  # an earlier run


def test_another_separator_is_seen_and_can_be_named(run: Any) -> None:
    code, _, err = run(delimiter=None)
    assert code == 3
    assert (
        "train.csv:1:1: no column 'label'; the only column is 'text;label': is the "
        "separator ';'? Use --delimiter ';'" in err
    )
    code, out, err = run()
    assert code == 0, err
    assert "eval_samples = 8" in out


def test_the_results_are_printed_once(run: Any) -> None:
    code, out, err = run("--json")
    assert code == 0, err
    assert json.loads(out)["eval_accuracy"] >= 0
    assert "eval_accuracy" not in err
    assert "loss" in err  # a short run logs it by default
    code, out, err = run("--overwrite_output_dir")
    assert (out + err).count("eval_accuracy") == 1
    assert "*****" not in err


@pytest.mark.parametrize(
    ("freeze", "kept"),
    [
        ("base", r"bert\."),
        ("embeddings, bert.encoder.layer.1", r"bert\.(embeddings|encoder\.layer\.1)\."),
        ("classifier.bias", r"classifier\.bias"),
    ],
)
def test_what_is_frozen_stays(
    run: Any, model: Path, tmp_path: Path, freeze: str, kept: str
) -> None:
    code, _, err = run(freeze=freeze, learning_rate=0.01, num_train_epochs=1)
    assert code == 0, err
    ended = weights(tmp_path / "out")
    code, _, err = run("--overwrite_output_dir", freeze=freeze, max_steps=1)
    assert code == 0, err
    begun = weights(tmp_path / "out")
    same = {name for name in ended if ended[name] == begun[name]}
    assert same == {name for name in ended if re.match(kept, name)}


def write(folder: Path, name: str, column: str, labels: list[Any]) -> Path:
    """Writes a JSON lines file of sentences with these values under ``column``."""
    words = ("good", "bad", "a good", "a bad")
    rows = [
        {"text": f"{words[i % 4]} film", column: value}
        for i, value in enumerate(labels)
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def predicted(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


ALONE: dict[str, Any] = {"train_file": None, "delimiter": None, "max_steps": None}


def test_a_trained_folder_predicts_without_training_data(
    run: Any, tmp_path: Path
) -> None:
    train = write(tmp_path, "train.json", "label", ["good", "bad"] * 12)
    dev = write(tmp_path, "dev.json", "label", ["good", "bad"] * 4)
    test = write(tmp_path, "test.json", "number", list(range(9)))
    both: dict[str, Any] = {"delimiter": None, "validation_file": dev}
    trained = run(train_file=train, test_file=test, **both, learning_rate=0.01)
    assert trained[0] == 0, trained[2]
    folder = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "new"}
    code, out, err = run(
        "--json",
        steps=("--do_eval", "--do_predict"),
        test_file=test,
        **{**ALONE, **folder, "validation_file": dev},
    )
    assert code == 0, err
    before = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    assert json.loads(out)["eval_loss"] == before["eval_loss"]
    assert "untrained head" not in err
    rows = predicted(tmp_path / "new" / "predict_results.txt")
    table = predicted(tmp_path / "new" / "predict_results_probabilities.tsv")
    assert rows[0] == ["index", "prediction"]
    assert table[0] == ["index", "prediction", "bad", "good"]
    assert [row[:2] for row in table[1:]] == rows[1:]
    texts = [json.loads(line)["text"] for line in test.read_text().splitlines()]
    expected = ea.pipeline(model=tmp_path / "out")(texts, top_k=None)
    assert len(rows) == 10
    for row, scores in zip(table[1:], expected, strict=True):
        assert row[1] == scores[0]["label"]
        by_name = {one["label"]: one["score"] for one in scores}
        np.testing.assert_allclose(
            np.array(row[2:], float), [by_name["bad"], by_name["good"]], rtol=1e-4
        )


def test_skipped_rows_keep_their_numbers(run: Any, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text;label\na film;0\nbad;1;2\na good film;1\n")
    steps = ("--do_train", "--do_predict")
    code, _, err = run(steps=steps, test_file=test, bad_rows="report", max_steps=1)
    assert code == 0, err
    for name in ("predict_results.txt", "predict_results_probabilities.tsv"):
        rows = predicted(tmp_path / "out" / name)
        assert [row[0] for row in rows] == ["index", "0", "2"]


def columns_file(folder: Path, columns: str) -> Path:
    """Writes a csv file of 8 rows: columns of texts, and a label."""
    texts = [f"a film {i}" for i in range(columns.count(",") + 1)]
    lines = [",".join([*texts, "ab"[i % 2]]) for i in range(8)]
    path = folder / f"{columns}.csv"
    path.write_text("\n".join([f"{columns},label", *lines]))
    return path


def trained_on(run: Any, folder: Path, columns: str) -> dict[str, Any]:
    """Trains on texts of these columns; returns options to use the model."""
    train, none = columns_file(folder, columns), {"validation_file": None}
    code, _, err = run(
        steps=("--do_train",), train_file=train, **none, delimiter=None, max_steps=1
    )
    assert code == 0, err
    config = json.loads((folder / "out" / "config.json").read_text())
    assert config["text_columns"] == columns.split(",")
    found = {"model_name_or_path": folder / "out", "output_dir": folder / "new"}
    return {**ALONE, **none, **found}


STEPS = [("--do_predict", "test_file"), ("--do_eval", "validation_file")]


@pytest.mark.parametrize(("step", "option"), STEPS)
def test_a_trained_folder_reads_the_columns_it_was_trained_on(
    run: Any, tmp_path: Path, step: str, option: str
) -> None:
    trained = trained_on(run, tmp_path, "review")
    for columns, chosen in (
        ("title,review", "text 'review', label 'label', not used 'title'"),
        ("comment", "text 'comment', label 'label'"),
    ):
        file = columns_file(tmp_path, columns)
        code, _, err = run(steps=(step,), **{**trained, option: file})
        assert code == 0, err
        assert f"{file}: {chosen}" in err
    file = columns_file(tmp_path, "title,comment")
    code, _, err = run(steps=(step,), **{**trained, option: file})
    assert code == 2
    assert (
        f"{file}: the columns title, comment are pairs of texts, expected single "
        "texts, which the model was trained on; name the columns by --text_column_names"
    ) in err
    options = {**trained, option: file, "text_column_names": "title"}
    code, _, err = run(steps=(step,), **options)
    assert code == 0, err


class HubSplit(list):  # type: ignore[type-arg]
    """A split of a Hub data set with two text columns."""

    column_names = ("title", "review", "label")
    features = dict.fromkeys(column_names)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self]
        return super().__getitem__(key)


def test_a_trained_folder_reads_its_columns_of_a_data_set_of_the_hub(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = {**trained_on(run, tmp_path, "review"), "dataset_name": "me/reviews"}
    rows = [{"title": "a", "review": "film", "label": "ab"[i % 2]} for i in range(4)]
    found = {name: HubSplit(rows) for name in ("train", "validation")}
    fake = types.SimpleNamespace(load_dataset=lambda name, config: found)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    code, _, err = run(steps=("--do_eval",), **trained)
    assert code == 0, err
    assert "me/reviews: text 'review', label 'label', not used 'title'" in err
    code, _, err = run(
        steps=("--do_eval",), **trained, text_column_names="title,review"
    )
    assert code == 2
    assert "me/reviews: the columns title, review are pairs of texts" in err


def test_a_model_of_pairs_refuses_single_texts(run: Any, tmp_path: Path) -> None:
    trained = trained_on(run, tmp_path, "one,two")
    file = columns_file(tmp_path, "one")
    code, _, err = run(steps=("--do_predict",), **trained, test_file=file)
    assert code == 2
    assert f"{file}: the columns one are single texts, expected pairs" in err


def test_classes_without_names_are_called_by_number(
    run: Any, model: Path, tmp_path: Path
) -> None:
    unnamed = tmp_path / "unnamed"
    ea.AutoModelForSequenceClassification.from_pretrained(
        model, num_labels=3
    ).save_pretrained(unnamed)
    (unnamed / "vocab.txt").write_text("\n".join(VOCAB))
    test = write(tmp_path, "test.json", "number", [1, 2])
    dev = write(tmp_path, "dev.json", "label", [0, 2, 1])
    code, _, err = run(
        steps=("--do_eval", "--do_predict"),
        **{**ALONE, "model_name_or_path": unnamed, "validation_file": dev},
        test_file=test,
    )
    assert code == 0, err
    table = predicted(tmp_path / "out" / "predict_results_probabilities.tsv")
    assert table[0] == ["index", "prediction", "0", "1", "2"]


def test_a_model_that_knows_no_classes_needs_training_data(
    run: Any, tmp_path: Path
) -> None:
    test = write(tmp_path, "test.json", "number", [1, 2])
    options = {**ALONE, "validation_file": None, "test_file": test}
    code, out, err = run(steps=("--do_predict",), **options)
    assert (code, out) == (2, "")
    assert (
        "--do_predict: the model's config.json names no classes (id2label), expected "
        "the folder of a trained model, or --train_file" in err
    )


TAGS = ("long", "old", "rare")


@pytest.mark.parametrize("form", ["names", "marks"])
def test_several_labels_per_text(run: Any, tmp_path: Path, form: str) -> None:
    marks = [[i >> bit & 1 for bit in range(3)] for i in range(24)]
    names = [[t for t, m in zip(TAGS, row, strict=True) if m] for row in marks]
    labels = names if form == "names" else marks
    train = write(tmp_path, "train.json", "labels", labels)
    dev = write(tmp_path, "dev.json", "labels", labels[:8])
    test = write(tmp_path, "test.json", "number", list(range(5)))
    files = {"delimiter": None, "validation_file": dev}
    code, out, err = run(
        train_file=train, **files, problem_type="multi_label_classification"
    )
    assert code == 0, err
    shown = TAGS if form == "names" else ("0", "1", "2")
    assert f"several labels per text, of 3: {', '.join(shown)}" in err
    assert "eval_f1 = " in out
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    assert list(config["id2label"].values()) == list(shown)
    folder = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "new"}
    code, again, err = run(
        steps=("--do_eval", "--do_predict"),
        test_file=test,
        **{**ALONE, **folder, "validation_file": dev},
    )
    assert code == 0, err
    same = [line for line in out.splitlines() if re.match("eval_(loss|f1|acc)", line)]
    assert len(same) == 3
    assert set(same) <= set(again.splitlines())
    table = predicted(tmp_path / "new" / "predict_results_probabilities.tsv")
    assert table[0] == ["index", "prediction", *shown]
    for row in table[1:]:
        likely = [n for n, p in zip(shown, row[2:], strict=True) if float(p) > 0.5]
        assert row[1] == ",".join(likely)
    assert len(predicted(tmp_path / "new" / "predict_results.txt")) == 6


def test_whole_numbers_as_scores(run: Any, tmp_path: Path) -> None:
    train = write(tmp_path, "train.json", "label", [i % 5 for i in range(24)])
    dev = write(tmp_path, "dev.json", "label", [1, 2, 3])
    code, out, err = run(
        train_file=train,
        validation_file=dev,
        delimiter=None,
        problem_type="regression",
    )
    assert code == 0, err
    assert "eval_mse = " in out


def test_rows_are_no_longer_than_the_models_positions(run: Any, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        lines = [f"{'a good film ' * 10};{i % 2}" for i in range(8)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text;label", *lines]) + "\n")
    code, _, err = run()
    assert code == 0, err
    assert "max_seq_length 128: the model takes 16" in err
    assert "8 of 8 texts were truncated to 16 tokens" in err
    code, _, err = run("--overwrite_output_dir", max_seq_length=17)
    assert code == 0, err
    assert "max_seq_length 17: the model takes 16" in err


def test_one_class_is_no_task(run: Any, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text;label\n" + "a good film;fine\n" * 8)
    code, out, err = run(validation_file=tmp_path / "train.csv")
    assert (code, out) == (3, "")
    assert "train.csv: 1 class (fine), expected at least 2; add rows of other" in err
    assert not (tmp_path / "out" / "config.json").exists()


def test_early_stopping(run: Any, tmp_path: Path) -> None:
    options = {"learning_rate": 0, "max_steps": 30, "eval_strategy": "epoch"}
    code, _, err = run(early_stopping_patience=2, **options)
    assert code == 0, err
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["global_step"] == 9  # the first of three epochs was the best
    assert state["stateful_callbacks"]["EarlyStoppingCallback"] == {"waited": 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"freeze": "layer.9"},
            "--freeze layer.9: no parameter of that name, expected",
        ),
        ({"freeze": "base,classifier"}, "base,classifier: no parameter is left to tra"),
        (
            {"class_weight": "balance"},
            "--class_weight balance: expected balanced, or a dict",
        ),
        ({"early_stopping_patience": 0}, "--early_stopping_patience 0"),
        ({"early_stopping_patience": 2}, "add --eval_strategy epoch"),
        (
            {"problem_type": "multi"},
            "--problem_type multi: expected single_label_classification, multi_label_c",
        ),
        (
            {"problem_type": "regression", "do_regression": False},
            "--do_regression False: expected True with --problem_type regression",
        ),
        ({"delimiter": ";;"}, "--delimiter ';;': expected one character"),
        (
            {"evaluation_strategy": "epoch"},
            "error: --evaluation_strategy epoch is not supported: it was renamed; use "
            "--eval_strategy",
        ),
        (
            {"fp16": True},
            "error: --fp16 is not supported: there are no float16 kernels; use --bf16",
        ),
    ],
)
def test_mistakes(run: Any, options: dict[str, Any], says: str) -> None:
    code, out, err = run(**options)
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"task_name": "cola", "dataset_config_name": "x"},
            "--dataset_config_name x: expected --dataset_name with it",
        ),
        (
            {"dataset_name": "imdb", "delimiter": ";"},
            "--delimiter ;: expected --train_file with it; data sets of the Hub",
        ),
        (
            {"dataset_name": "imdb", "bad_rows": "skip"},
            "--bad_rows skip: expected --data_dir or --train_file with it; rows of",
        ),
        (
            {"task_name": "cola", "bad_rows": "report"},
            "--bad_rows report: expected --data_dir or --train_file with it; rows",
        ),
        (
            {"task_name": "cola", "bad_rows": "some"},
            "--bad_rows some: expected raise or skip or report; skip and report",
        ),
    ],
)
def test_what_would_do_nothing_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        DataTrainingArguments(**options)


def help_of(*words: str) -> str:
    shown = CliRunner().invoke(app, [*words])
    assert shown.exit_code == 0, shown.output
    return shown.output


@pytest.mark.parametrize("words", ["", "glue", "glue-submit", "timeseries train"])
def test_h_is_help(words: str) -> None:
    short, long = (help_of(*words.split(), flag) for flag in ("-h", "--help"))
    assert short == long
    assert "Usage" in short


FLAGS = ("seed", "bf16", "output_dir", "eval_strategy", "save_strategy", "delimiter")


@pytest.mark.parametrize(
    ("python", "line"),
    [
        (
            "TrainingArguments: seed=-1, expected a whole number >= 0; give a larger",
            "--seed -1: expected a whole number >= 0; give a larger",
        ),
        ("ImageClassifier: random_state=-1, expected", "--seed -1: expected"),
        (
            "TrainingArguments: save_strategy has 'a'; ea.devices() lists",
            "--save_strategy has 'a'; evolving-attention doctor lists",
        ),
        ("x: needs bf16=True, not seed=1e-05", "x: needs --bf16, not --seed 1e-05"),
        ("Options: seed=-inf, expected 1", "--seed -inf: expected 1"),
        ("[evolving] seed = 1e+20 is outside", "[evolving] --seed 1e+20 is outside"),
        (
            "but eval_strategy='no'; set eval_strategy='epoch' or 'steps'",
            "but --eval_strategy no; set --eval_strategy epoch or steps",
        ),
        (
            "in another output_dir, or pass bf16=True (--bf16)",
            "in another --output_dir, or pass --bf16",
        ),
        ("use delimiter=';' (--delimiter ';')", "use --delimiter ';'"),
        (
            "name them by text_columns= (--text_column_names) or leave out seed",
            "name them by --text_column_names or leave out seed",
        ),
        (
            'leave it out with save_strategy="best"',
            "leave it out with --save_strategy best",
        ),
        (
            "a list needs several=True (--problem_type multi)",
            "a list needs --problem_type multi",
        ),
        ("[evolving] seed = 4 must be odd", "[evolving] --seed 4 must be odd"),
        (
            "C: unknown option 'x_y', expected one of delimiter, output_dir, z; see "
            "output_dir",
            "C: unknown option 'x_y', expected one of delimiter, output_dir, z; see "
            "--output_dir",
        ),
        # paths, columns, other options and ordinary words do not change
        ("/a/output_dir/b: the column 'output_dir'", None),
        ("the seed of ddp_seed=3, --output_dir x, output_dir.txt, bf16=yes", None),
    ],
)
def test_messages_name_options_as_flags(python: str, line: str | None) -> None:
    assert as_flags(python, FLAGS) == (line or python)


def test_help_shows_the_most_used_options_first() -> None:
    flags = re.findall(r"│ --(\w+)", help_of("glue", "-h"))
    assert flags[:11] == ["help", *glue._MOST_USED]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    "words", ["glue", "squad train", "translate generate", "pretrain"]
)
def test_help_is_wrapped_by_the_terminal_alone(words: str) -> None:
    shown = help_of(*words.split(), "-h").split("Example: ")[0].splitlines()
    lines = [line.strip() for line in shown if not line.strip().startswith("Usage")]
    for line, below in itertools.pairwise(lines):
        if line and below:  # the next word would not have fitted
            assert len(line) + 1 + len(below.split()[0]) > 78, (line, below)


@pytest.mark.skipif(len(ea.devices()) > 1, reason="there is a device here")
@pytest.mark.parametrize("words", ["", "glue", "timeseries train", "bench"])
def test_help_does_not_name_devices_that_are_not_here(words: str) -> None:
    assert not re.search("cuda|nvidia|nccl", help_of(*words.split(), "-h"), re.I)
