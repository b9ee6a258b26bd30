"""``evolving-attention glue`` and ``glue-submit``: from files to files.

The tiny model of helpers_fake_model replaces the real one: these tests check
what the command reads, decides and writes.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_fake_model import FakeModel

from evolving_attention.attention import Evolving
from evolving_attention.cli import glue, glue_results
from evolving_attention.cli import main as cli_main
from evolving_attention.data.glue_tasks import TASKS
from evolving_attention.errors import InputError, NonFiniteError

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

WORDS = ["a", "film", "good", "bad", "was", "it", "the", "not", "very", "."]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def model(tmp_path):
    """A folder with a config and a WordPiece vocabulary."""
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "bert", "num_hidden_layers": 12}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    return folder


@pytest.fixture
def built(monkeypatch):
    """The list of runs that were made, with a tiny model instead of the real one."""
    runs = []

    def fake_model(self):
        runs.append(self)
        return FakeModel(vocab=len(VOCAB), num_labels=self.data.num_labels)

    monkeypatch.setattr(glue.GlueRun, "_model", fake_model)
    return runs


@pytest.fixture
def run(model, built, capsys, tmp_path):
    """Runs the command; returns (exit code, stdout, stderr)."""

    def command(*words, **options):
        options = {
            "model_name_or_path": model,
            "output_dir": tmp_path / "out",
        } | options
        words = [*map(str, words)]
        for name, value in options.items():
            words += [f"--{name}", str(value)]
        with pytest.raises(SystemExit) as left:
            glue.main(words)
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return command


def sentences(count, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 5)) for _ in range(count)]


@pytest.fixture
def glue_dir(tmp_path):
    """CoLA, STS-B and MNLI in the official layout, a few rows each."""
    root = tmp_path / "GLUE"
    for name in ("CoLA", "STS-B", "MNLI"):
        (root / name).mkdir(parents=True)
    for split, rows in (("train", 24), ("dev", 8)):
        lines = [f"gj04\t{i % 2}\t\t{s}" for i, s in enumerate(sentences(rows))]
        (root / "CoLA" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    lines = [f"{i}\t{s}" for i, s in enumerate(sentences(6))]
    text = "index\tsentence\n" + "\n".join(lines) + "\n"
    (root / "CoLA" / "test.tsv").write_text(text)
    for split in ("train", "dev", "test"):
        head = "index\tsentence1\tsentence2"
        head += "" if split == "test" else "\tscore"
        lines = [head]
        for i, (a, b) in enumerate(zip(sentences(9), sentences(9, 1), strict=True)):
            lines.append(f"{i}\t{a}\t{b}" + ("" if split == "test" else f"\t{i / 2}"))
        (root / "STS-B" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    labels = ["entailment", "neutral", "contradiction"]
    splits = ["train", *(f"{s}_{m}" for s in ("dev", "test") for m in MATCHED)]
    for split in splits:
        labelled = not split.startswith("test")
        lines = ["index\tsentence1\tsentence2" + ("\tgold_label" if labelled else "")]
        for i, (a, b) in enumerate(zip(sentences(9), sentences(9, 1), strict=True)):
            lines.append(f"{i}\t{a}\t{b}" + (f"\t{labels[i % 3]}" if labelled else ""))
        (root / "MNLI" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return root


MATCHED = ("matched", "mismatched")
STEPS = ("--do_train", "--do_eval", "--do_predict")


def test_files_and_keys_are_those_of_run_glue(run, glue_dir, tmp_path):
    code, out, err = run(*STEPS, task_name="cola", data_dir=glue_dir, max_steps=3)
    assert code == 0, err
    folder = tmp_path / "out"
    found = {path.name for path in folder.iterdir()}
    assert found >= {
        "all_results.json",
        "train_results.json",
        "eval_results.json",
        "trainer_state.json",
        "predict_results_cola.txt",
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
    }
    results = json.loads((folder / "all_results.json").read_text())
    assert set(results) >= {
        "epoch",
        "train_loss",
        "train_runtime",
        "train_samples",
        "train_samples_per_second",
        "train_steps_per_second",
        "eval_loss",
        "eval_matthews_correlation",
        "eval_runtime",
        "eval_samples",
        "eval_samples_per_second",
        "eval_steps_per_second",
    }
    assert (results["train_samples"], results["eval_samples"]) == (24, 8)
    lines = (folder / "predict_results_cola.txt").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert len(lines) == 7
    assert {line.split("\t")[1] for line in lines[1:]} <= {"acceptable", "unacceptable"}
    assert "eval_matthews_correlation = " in out
    assert (out + err).count("eval_matthews_correlation") == 1
    card = (folder / "README.md").read_text()
    assert "eval_matthews_correlation" in card


def test_what_scoring_needs_is_missed_before_anything_is_trained(
    run, built, glue_dir, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    code, _, err = run(*STEPS, task_name="cola", data_dir=glue_dir, max_steps=3)
    assert code == 5
    assert 'pip install "evolving-attention[glue]"' in err
    assert not built
    assert not (tmp_path / "out").exists()
    code, _, err = run("--do_train", task_name="cola", data_dir=glue_dir, max_steps=3)
    assert code == 0, err  # only scores need the extra


def test_results_that_cannot_be_written_are_missed_before_anything_is_loaded(
    run, built, glue_dir, tmp_path
):
    (tmp_path / "file").write_text("mine")
    options = {"task_name": "cola", "data_dir": glue_dir}
    for words in (STEPS, ["--do_eval"]):
        code, _, err = run(*words, output_dir=tmp_path / "file" / "out", **options)
        assert code == 2
        assert "file is a file, expected a folder to write" in err
    assert not built


def test_a_failing_metric_leaves_the_trained_model_and_says_where(
    run, glue_dir, tmp_path, monkeypatch
):
    def fails(self):
        return lambda pair: "half"

    monkeypatch.setattr(glue.GlueRun, "_metrics", fails)
    code, _, err = run(*STEPS, task_name="cola", data_dir=glue_dir, max_steps=3)
    assert code == 2
    assert f"the trained model is saved in {tmp_path / 'out'}" in err
    assert "compute_metrics returned 'half', a str" in err
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_json_is_all_there_is_on_stdout(run, glue_dir):
    _, out, _ = run("--do_eval", "--json", task_name="cola", data_dir=glue_dir)
    assert json.loads(out)["eval_samples"] == 8


def test_mnli_evaluates_and_predicts_both_halves(run, glue_dir, tmp_path):
    code, _, err = run(*STEPS, task_name="mnli", data_dir=glue_dir, max_steps=2)
    assert code == 0, err
    results = json.loads((tmp_path / "out" / "eval_results.json").read_text())
    for key in ("eval_accuracy", "eval_accuracy_mm", "eval_samples_mm"):
        assert key in results
    for name in ("mnli", "mnli-mm"):
        assert (tmp_path / "out" / f"predict_results_{name}.txt").is_file()
    assert not (tmp_path / "out" / "predict_results_ax.txt").exists()


def test_mnli_without_mismatched_says_so(run, glue_dir):
    (glue_dir / "MNLI" / "dev_mismatched.tsv").unlink()
    code, out, err = run("--do_eval", task_name="mnli", data_dir=glue_dir)
    assert code == 0, err
    assert "mnli-mm is left out" in err
    assert "_mm" not in out


def test_ax_is_predicted_where_it_is(run, glue_dir, tmp_path):
    (glue_dir / "AX").mkdir()
    source = glue_dir / "MNLI" / "test_matched.tsv"
    shutil.copy(source, glue_dir / "AX" / "test.tsv")
    code, _, err = run("--do_predict", task_name="mnli", data_dir=glue_dir)
    assert code == 0, err
    assert (tmp_path / "out" / "predict_results_ax.txt").is_file()


def test_regression_has_scores_and_a_combined_score(run, glue_dir, tmp_path):
    code, out, err = run(*STEPS, task_name="stsb", data_dir=glue_dir, max_steps=2)
    assert code == 0, err
    for key in ("eval_pearson", "eval_spearmanr", "eval_combined_score"):
        assert key in out
    lines = (tmp_path / "out" / "predict_results_stsb.txt").read_text().splitlines()
    assert all(len(line.split(".")[1]) == 3 for line in lines[1:])


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_files_of_ones_own(run, tmp_path, kind):
    for name in ("train", "dev", "test"):
        rows = [
            {"sentence1": s, "label": ["no", "yes"][i % 2]}
            for i, s in enumerate(sentences(12))
        ]
        if kind == "csv":
            text = "sentence1,label\n"
            text += "".join(f'"{r["sentence1"]}",{r["label"]}\n' for r in rows)
        else:
            text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.{kind}").write_text(text)
    code, out, err = run(
        *STEPS,
        train_file=tmp_path / f"train.{kind}",
        validation_file=tmp_path / f"dev.{kind}",
        test_file=tmp_path / f"test.{kind}",
        max_steps=2,
    )
    assert code == 0, err
    assert "eval_accuracy" in out
    assert not list((tmp_path / "out").glob("*None*"))
    lines = (tmp_path / "out" / "predict_results.txt").read_text().splitlines()
    assert {line.split("\t")[1] for line in lines[1:]} <= {"no", "yes"}


def test_float_labels_mean_regression(run, tmp_path):
    for name in ("train", "dev"):
        rows = [{"sentence": s, "label": i / 7} for i, s in enumerate(sentences(9))]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.json").write_text(text)
    code, out, err = run(
        "--do_train",
        "--do_eval",
        train_file=tmp_path / "train.json",
        validation_file=tmp_path / "dev.json",
        max_steps=2,
    )
    assert code == 0, err
    assert "eval_mse" in out


def own_file(tmp_path, name, header="id,text,stars,label"):
    lines = [f"{i},{s},{i % 5},{i % 2}" for i, s in enumerate(sentences(12))]
    (tmp_path / name).write_text("\n".join([header, *lines]) + "\n")
    return tmp_path / name


def test_what_is_guessed_is_said_once(run, tmp_path):
    files = {
        "train_file": own_file(tmp_path, "train.csv"),
        "validation_file": own_file(tmp_path, "dev.csv"),
        "test_file": own_file(tmp_path, "test.csv"),
        "max_steps": 1,
        "max_seq_length": 5,
    }
    code, _, err = run(*STEPS, **files)
    assert code == 0, err
    says = [
        "train.csv: text 'text', label 'label', not used 'id', 'stars'; text_columns= "
        "and label_column= choose others (--text_column_names, --label_column_name)\n",
        "train.csv: classification, 2 labels: 0, 1; regression=True makes them scores "
        "(--do_regression)\n",
        *(
            f"{name}.csv: 12 of 12 texts were truncated to 5 tokens; raise "
            "tokenize_dataset(…, max_length=…) (--max_seq_length) to keep more\n"
            for name in ("train", "dev", "test")
        ),
    ]
    assert [err.count(line) for line in says] == [1] * 5, err
    assert (err.count("text_column_names"), err.count("were truncated to")) == (1, 3)
    code, _, err = run(*STEPS, "--overwrite_output_dir", log_level="error", **files)
    assert code == 0, err
    assert "train.csv" not in err


@pytest.mark.parametrize("regression", [True, False])
def test_columns_are_named_on_the_command_line(run, built, tmp_path, regression):
    code, out, err = run(
        *STEPS,
        "--do_regression" if regression else "--no_do_regression",
        train_file=own_file(tmp_path, "train.csv", "a,b,grade,c"),
        validation_file=own_file(tmp_path, "dev.csv", "a,b,grade,c"),
        test_file=own_file(tmp_path, "test.csv", "a,b,other,c"),
        text_column_names="b, c",
        label_column_name="grade",
        max_steps=1,
    )
    assert code == 0, err
    assert "text_column_names" not in err
    data = built[0].data
    assert data.train.text_columns == ("b", "c")
    assert data.label_names == (None if regression else tuple("01234"))
    assert ("eval_mse" if regression else "eval_accuracy") in out
    assert not data.prediction["custom"].has_labels


class Hub(list):
    """A split of a Hub data set."""

    def __init__(self, rows, **dtypes):
        super().__init__(rows)
        self.column_names = list(rows[0])
        self.features = {n: SimpleNamespace(**dtypes) for n in self.column_names}

    def __getitem__(self, key):
        return (
            [row[key] for row in self]
            if isinstance(key, str)
            else list.__getitem__(self, key)
        )


def test_a_data_set_of_the_hub(run, built, monkeypatch):
    rows = [
        {"uid": i, "review": s, "stars": 1 + i % 3} for i, s in enumerate(sentences(9))
    ]
    found = {name: Hub(rows, dtype="int64") for name in ("train", "validation")}
    fake = SimpleNamespace(load_dataset=lambda name, config: found)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    options = {"dataset_name": "me/reviews", "max_steps": 1}
    code, _, err = run("--do_train", **options)
    assert code == 3
    assert "no column 'label', only uid, review, stars; name the labels'" in err
    options["label_column_name"] = "stars"
    code, _, err = run("--do_train", "--do_eval", **options)
    assert code == 0, err
    for says in (
        "me/reviews: text 'review', label 'stars', not used 'uid'; text_columns= and",
        "me/reviews: classification, 3 labels: 1, 2, 3; regression=True",
    ):
        assert err.count(says) == 1, err
    assert built[0].data.train.column("label") == [0, 1, 2] * 3
    assert err.count("me/reviews:") == 2
    options["output_dir"] = built[0].args.output_dir + "2"
    found["validation"] = Hub([*rows, {**rows[0], "stars": 9}], dtype="int64")
    code, _, err = run("--do_train", "--do_eval", **options)
    assert code == 3
    assert (
        "me/reviews: row 9 of the validation split has the label '9', expected one of "
        "the training split (1, 2, 3); correct it or leave the row out" in err
    )
    found["test"] = Hub([{**row, "stars": -1} for row in rows], dtype="int64")
    code, _, err = run("--do_train", "--do_predict", **options)
    assert code == 0, err  # a test split may hide its labels
    assert not built[1].data.prediction["custom"].has_labels
    options["output_dir"] += "3"
    code, out, err = run("--do_train", "--do_eval", "--do_regression", **options)
    assert code == 0, err
    assert "eval_mse" in out
    assert built[2].data.train.column("label") == [1.0, 2.0, 3.0] * 3


# --- habits ---------------------------------------------------------------------------


def test_a_folder_with_other_files_is_refused(run, glue_dir, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("do not lose me")
    code, _, err = run("--do_train", task_name="cola", data_dir=glue_dir)
    assert code == 2
    assert "is not empty" in err
    assert "--overwrite_output_dir" in err
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_run_goes_on_from_its_checkpoint_and_ends_the_same(run, glue_dir, tmp_path):
    options = {"task_name": "cola", "data_dir": glue_dir, "max_steps": 4}
    options["save_steps"] = 2
    code, _, err = run("--do_train", **options)
    assert code == 0, err
    assert "resuming from" not in err
    weights = (tmp_path / "out" / "model.safetensors").read_bytes()
    shutil.rmtree(tmp_path / "out" / "checkpoint-4")
    (tmp_path / "out" / "model.safetensors").unlink()
    code, _, err = run("--do_train", **options)
    assert code == 0, err
    assert "resuming from" in err
    assert "checkpoint-2" in err
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == weights


def test_overwriting_starts_afresh(run, glue_dir):
    options = {"task_name": "cola", "data_dir": glue_dir, "max_steps": 2}
    assert run("--do_train", save_steps=1, **options)[0] == 0
    code, _, err = run("--do_train", "--overwrite_output_dir", **options)
    assert code == 0, err
    assert "resuming from" not in err


@pytest.mark.parametrize(
    ("label2id", "swapped", "warned"),
    [
        ({"acceptable": 0, "unacceptable": 1}, True, False),
        ({"Acceptable": 0, "Unacceptable": 1}, True, False),
        ({"unacceptable": 0, "acceptable": 1}, False, False),
        ({"LABEL_0": 0, "LABEL_1": 1}, False, False),
        ({"yes": 0, "no": 1}, False, True),
        (None, False, False),
    ],
)
def test_classes_are_numbered_as_the_checkpoint_does(
    run, model, built, glue_dir, label2id, swapped, warned
):
    config = {"model_type": "bert", "label2id": label2id}
    (model / "config.json").write_text(json.dumps(config))
    code, _, err = run("--do_eval", task_name="cola", data_dir=glue_dir)
    assert code == 0, err
    data = built[0].data
    assert data.evaluation["cola"].column("label") == [int(swapped), 1 - swapped] * 4
    names = ["unacceptable", "acceptable"]
    assert list(data.label_names) == (names[::-1] if swapped else names)
    assert ("names are ignored" in err) == warned


def test_samples_are_limited(run, glue_dir):
    limits = {f"max_{name}_samples": 3 for name in ("train", "eval", "predict")}
    _, out, _ = run(*STEPS, task_name="cola", data_dir=glue_dir, max_steps=1, **limits)
    assert "train_samples = 3" in out
    assert "eval_samples = 3" in out


def test_settings_of_the_paper_and_who_has_the_last_word(run, built, glue_dir):
    code, _, err = run(
        "--do_train",
        "--paper_settings",
        task_name="cola",
        data_dir=glue_dir,
        max_steps=1,
        alpha=0.4,
        per_device_train_batch_size=4,
        classifier_hidden_size=50,
    )
    assert code == 0, err
    made = built[0]
    assert made.attention == Evolving(alpha=0.4, beta=0.1)
    assert made.changes["classifier_hidden_size"] == 50
    assert (made.args.learning_rate, made.args.num_train_epochs) == (2e-5, 3.0)
    assert made.args.per_device_train_batch_size == 4
    assert made.changes["hidden_dropout_prob"] == 0.1


def test_tokenising_is_done_in_the_background(run, glue_dir, monkeypatch):
    from evolving_attention.data import features

    real, seen = features.tokenize_dataset, []

    def watched(*args, **options):
        seen.append(threading.current_thread().name)
        return real(*args, **options)

    monkeypatch.setattr(features, "tokenize_dataset", watched)
    options = {"task_name": "cola", "data_dir": glue_dir, "max_steps": 1}
    assert run(*STEPS, **options)[0] == 0
    assert len(seen) == 3
    assert all(name.startswith("ea-tokenise") for name in seen)

    def broken(*args, **options):
        raise InputError("row 3: 'sentence' is int; expected text")

    monkeypatch.setattr(features, "tokenize_dataset", broken)
    code, _, err = run("--do_eval", **options)
    assert code != 0
    assert "row 3: 'sentence' is int" in err
    names = [t.name for t in threading.enumerate()]
    assert not any(name.startswith("ea-") for name in names), names


# --- mistakes -------------------------------------------------------------------------


def test_a_bad_row_has_a_place_and_can_be_skipped(run, glue_dir):
    path = glue_dir / "CoLA" / "train.tsv"
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace("\t0\t", "\tmaybe\t")
    path.write_text("\n".join(lines) + "\n")
    options = {"task_name": "cola", "data_dir": glue_dir, "max_steps": 1}
    code, _, err = run("--do_train", **options)
    assert code == 3
    assert "train.tsv:5:6: label 'maybe' is not known" in err
    code, out, err = run("--do_train", bad_rows="report", **options)
    assert code == 0, err
    assert "train_samples = 23" in out
    assert "24 rows = 23 used + 1 rejected" in err


@pytest.mark.parametrize(
    ("words", "options", "code", "says"),
    [
        ((), {}, 2, "--do_train, --do_eval, --do_predict"),
        (("--do_eval",), {"task_name": "ax"}, 2, "cola, mnli"),
        (("--do_eval",), {"task_name": "squad"}, 2, "'squad' is not known"),
        (("--do_eval",), {"data_dir": "nowhere"}, 3, "nowhere: no such folder"),
        (("--do_eval",), {"learning_rate": -1}, 2, "learning_rate"),
        (("--do_eval", "--fp16"), {}, 2, "no float16 kernels; use --bf16"),
        (("--do_eval",), {"text_column_names": "a"}, 2, "of cola are known: leave it"),
        (("--do_eval",), {"attention": "linear"}, 2, "--attention linear"),
        (("--do_eval",), {"paper_settings": "gpt"}, 2, "bert-base, bert-large"),
        (("--do_eval",), {"model_name_or_path": "package:nope/x"}, 4, "not installed"),
    ],
)
def test_mistakes(run, glue_dir, words, options, code, says):
    options = {"task_name": "cola", "data_dir": glue_dir} | options
    got, out, err = run(*words, **options)
    assert got == code
    assert says in err
    assert out == ""
    assert "Traceback" not in err


def test_steps_need_their_files(run, tmp_path):
    code, _, err = run("--do_train", "--do_eval", train_file=tmp_path / "a.csv")
    assert code == 2
    assert "--do_eval: expected --validation_file" in err


def test_predictions_that_are_not_finite_are_not_written(tmp_path):
    logits = np.array([[0.0, 1.0], [np.nan, 0.0]])
    with pytest.raises(NonFiniteError, match="1 rows are not finite, first row 1"):
        glue_results.write_predictions(tmp_path / "p.txt", logits, ["a", "b"])
    assert not (tmp_path / "p.txt").exists()


# --- the leaderboard's archive --------------------------------------------------------


def submit(capsys, *words):
    with pytest.raises(SystemExit) as left:
        cli_main.app(["glue-submit", *map(str, words)])
    shown = capsys.readouterr()
    return left.value.code or 0, shown.out, shown.err


def test_glue_submit_collects_the_runs(tmp_path, capsys):
    folders = []
    for task in TASKS.values():
        for name, rows in task.test_sizes.items():
            if name == "AX":
                continue
            folder = tmp_path / task.name
            folder.mkdir(exist_ok=True)
            folders.append(folder)
            word = "2.5" if task.is_regression else task.label_names[0]
            text = "".join(f"{i}\t{word}\n" for i in range(rows))
            suffix = "-mm" if name == "MNLI-mm" else ""
            path = folder / f"predict_results_{task.name}{suffix}.txt"
            path.write_text("index\tprediction\n" + text)
    archive = tmp_path / "submission.zip"
    folders = list(dict.fromkeys(folders))
    code, out, err = submit(capsys, *folders, "-o", archive, "--json")
    assert code == 0, err
    assert json.loads(out)["missing"] == ["AX"]
    with zipfile.ZipFile(archive) as opened:
        assert len(opened.namelist()) == 10
    code, _, err = submit(capsys, *folders[1:], "-o", archive)
    assert code == 3
    assert "no predictions for CoLA" in err
    code, out, _ = submit(capsys, *folders[1:], "-o", archive, "--allow_missing")
    assert code == 0
    assert "CoLA.tsv  missing" in out
