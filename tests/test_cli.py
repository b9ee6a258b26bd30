"""The command line: option grammar, exit codes, what errors say, speed of --help."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from evolving_attention import attention, errors
from evolving_attention.cli import commands, common, glue, paper_settings
from evolving_attention.cli.glue import fields
from evolving_attention.cli.glue_arguments import (
    AttentionArguments,
    DataTrainingArguments,
    ModelArguments,
)
from evolving_attention.cli.main import app
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.search_spaces import SPACES
from evolving_attention.training.arguments import TrainingArguments


@dataclasses.dataclass
class Sample:
    """One field for each kind of option."""

    name: str = "x"
    count: int = 3
    learning_rate: float = 5e-5
    do_train: bool = False
    keep_going: bool = True
    some_limit: int | None = None
    eval_steps: float | None = None
    report_to: str | list[str] | None = None
    disable_bar: bool | None = None
    paper: bool | str = False


def parsed(*words):
    """Returns the options that typer parsed; usage errors raise SystemExit(2)."""
    seen = {}
    main = build_app(Fields([(Sample, "Sample")]), seen.update, help="A test.")
    with pytest.raises(SystemExit) as left:
        main(words, "sample")
    if left.value.code:
        raise SystemExit(left.value.code)
    return seen


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("--learning_rate 2e-5", {"learning_rate": 2e-5}),
        ("--learning-rate 2e-5", {"learning_rate": 2e-5}),
        ("--learning-rate=2e-5", {"learning_rate": 2e-5}),
        ("--count -1", {"count": -1}),
        ("--do_train", {"do_train": True}),
        ("--do_train True --count 1", {"do_train": True, "count": 1}),
        ("--do-train false", {"do_train": False}),
        ("--do_train=0", {"do_train": False}),
        ("--do_train --keep_going", {"do_train": True, "keep_going": True}),
        ("--no_keep_going", {"keep_going": False}),
        ("--no-keep-going --count 2", {"keep_going": False, "count": 2}),
        ("--some_limit none", {"some_limit": None}),
        ("--some-limit 7", {"some_limit": 7}),
        ("--eval_steps 0.1", {"eval_steps": 0.1}),
        ("--report_to none", {"report_to": ["none"]}),
        ("--report_to a b --count 1", {"report_to": ["a", "b"], "count": 1}),
        ("--disable_bar", {"disable_bar": True}),
        ("--disable_bar None", {"disable_bar": None}),
        ("--paper", {"paper": True}),
        ("--paper bert-base", {"paper": "bert-base"}),
        ("--paper --do_train", {"paper": True, "do_train": True}),
        ("--name --do_train", {"name": "--do_train"}),
    ],
)
def test_grammar(words, expected):
    assert parsed(*words.split()) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--learning_rate fast", "'fast', expected a number"),
        ("--count 1.5", "'1.5', expected a whole number"),
        ("--do_train maybe", "maybe"),
        ("--some_limit x", "a whole number or none"),
        ("--learning_rat 1", "learning_rate"),
        ("--unknown", "No such option: --unknown"),
        ("--count", "requires an argument"),
        ("word", "word"),
    ],
)
def test_grammar_mistakes(words, says, capsys):
    with pytest.raises(SystemExit) as left:
        parsed(*words.split())
    assert left.value.code == 2
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().err)
    assert says in shown


def test_json_file_holds_all_arguments_and_options_have_the_last_word(tmp_path):
    path = tmp_path / "args.json"
    values = {"learning-rate": 3e-5, "count": 4.0, "do_train": "true", "name": "y"}
    path.write_text(json.dumps(values))
    expected = {"learning_rate": 3e-5, "count": 4, "do_train": True, "name": "y"}
    assert parsed(str(path)) == expected
    assert parsed(str(path), "--count", "9") == expected | {"count": 9}


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("{", 3, "args.json:1:2: not JSON"),
        ("[]", 3, "a JSON list; expected one object"),
        ("[" * 100_000, 3, "args.json: not usable JSON"),
        ('{"count": 1, "count": 2}', 3, "key 'count' appears twice; correct it"),
        ('{"learning_rat": 1}', 2, "did you mean 'learning_rate'?"),
        ('{"count": "x"}', 2, "'count' is 'x', expected a whole number"),
        (None, 3, "no such file; check the path"),
    ],
)
def test_json_file_mistakes(tmp_path, capsys, text, code, says):
    path = tmp_path / "args.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as left:
        parsed(str(path))
    assert left.value.code == code
    assert says in capsys.readouterr().err


def test_a_command_is_as_quiet_as_asked_before_it_begins(monkeypatch):
    levels = []
    monkeypatch.setattr(commands, "set_up_logging", levels.append)
    groups = [(TrainingArguments, "Training")]
    command = commands.of_groups(groups, lambda args: {"levels": levels[:]}, "A test.")
    assert command.results({"log_level": "error"}) == {"levels": ["error"]}
    assert command.results({})["levels"][-1] == "passive"


def test_every_field_is_an_option_once():
    names = [
        f.name
        for owner in (
            ModelArguments,
            AttentionArguments,
            DataTrainingArguments,
            TrainingArguments,
        )
        for f in dataclasses.fields(owner)
    ]
    assert len(names) == len(set(names))
    assert set(names) <= set(fields().options)
    undescribed = [n for n in names if not fields().options[n].help]
    assert undescribed == []


@pytest.mark.parity
def test_every_field_of_transformers_is_understood():
    transformers = pytest.importorskip("transformers")
    theirs = {f.name for f in dataclasses.fields(transformers.TrainingArguments)}
    assert theirs - set(fields().options) == set()


# Command lines as people write them for run_glue (test_recorded_commands runs them).
COMMANDS = Path(__file__).with_name("run_glue_commands.txt")


@pytest.mark.parametrize("line", COMMANDS.read_text().splitlines())
def test_command_lines_of_run_glue_parse(line):
    seen = {}
    with pytest.raises(SystemExit) as left:
        build_app(fields(), seen.update, help="x")(line.split(), "glue")
    assert left.value.code == 0
    assert seen["output_dir"] == "o"
    flags = {w.lstrip("-").replace("-", "_") for w in line.split() if w[:2] == "--"}
    assert set(seen) == flags


# --- the paper's settings -------------------------------------------------------------


def test_settings_of_the_paper_are_those_of_its_table(data_dir):
    path = data_dir.parent / "papers" / "evolving-attention-icml2021.txt"
    if not path.is_file():
        pytest.skip(f"no text of the paper at {path}")
    text = path.read_text()
    table = text[text.index("Dropout Rate α β") : text.index("Table 9.")]
    names = dict.fromkeys(paper_settings.FAMILIES)
    found = {}
    family = ""
    for line in table.splitlines():
        if line.strip().lower() in names:
            family = line.strip().lower()
        parts = line.split()
        if len(parts) == 8:
            task = parts[0].lower().replace("-", "")
            found[family, task] = (*map(float, parts[1:4]), *map(float, parts[6:]))
            assert parts[4:6] == ["1e-8", "0.1"]
    ours = {
        (family, task): tuple(map(float, row))
        for family, rows in paper_settings.FAMILIES.items()
        for task, row in rows.items()
    }
    assert found == ours
    assert len(ours) == 36


def test_settings_of_the_predictive_paper_are_those_of_its_table(data_dir):
    path = data_dir.parent / "papers" / "predictive-attention-transformer.txt"
    if not path.is_file():
        pytest.skip(f"no text of the paper at {path}")
    text = path.read_text()
    table = text[text.index("Adam Epsilon") : text.index("Table 7: Detailed")]
    found = {}
    for line in table.splitlines()[1:]:
        task, *numbers = line.split("\t")
        found[task.lower().replace("-", "")] = tuple(map(float, numbers))
    ours = {
        task: (*map(float, row[:3]), paper_settings.ADAM_EPSILON, 0.1, row.alpha)
        for task, row in paper_settings.PREDICTIVE.items()
    }
    assert found == ours
    assert {row.attention for row in paper_settings.PREDICTIVE.values()} == {
        "predictive"
    }


@pytest.mark.parametrize(
    ("given", "kind", "epochs"),
    [
        ({"paper_settings": True}, attention.Evolving(0.1, 0.1), 5.0),
        ({"paper_settings": "predictive"}, attention.Predictive(0.1), 5.0),
        (
            {"paper_settings": True, "attention": "predictive"},
            attention.Predictive(0.1),
            5.0,
        ),
        (
            {"paper_settings": "t5-base", "attention": "predictive", "alpha": 0.3},
            attention.Predictive(0.3),
            3.0,
        ),
    ],
)
def test_the_table_fits_the_attention(given, kind, epochs):
    options, training = AttentionArguments(**given), {"learning_rate": 1.0}
    data = DataTrainingArguments(task_name="sst2", data_dir="glue")
    rates = glue._apply_paper(options, data, training, {"model_type": "bert"})
    assert options.config() == kind
    assert (training["num_train_epochs"], training["learning_rate"]) == (epochs, 1.0)
    assert rates["hidden_dropout_prob"] == 0.1


def test_the_chosen_values_are_in_the_grids():
    grid = SPACES["icml-glue"].grid
    for rows in paper_settings.FAMILIES.values():
        for row in rows.values():
            assert row.learning_rate in grid["learning_rate"]
            assert row.batch_size in grid["per_device_train_batch_size"]
            assert row.epochs in grid["num_train_epochs"]
            assert row.alpha in grid["alpha"]
            assert row.beta in grid["beta"]
    grid = SPACES["predictive-glue"].grid
    for row in paper_settings.PREDICTIVE.values():
        assert row.learning_rate in grid["learning_rate"]
        assert row.batch_size in grid["per_device_train_batch_size"]
        assert row.epochs in grid["num_train_epochs"]
        assert row.alpha in grid["alpha"]


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "bert", "num_hidden_layers": 12}, "bert-base"),
        ({"model_type": "bert", "num_hidden_layers": 6}, "bert-base"),
        ({"model_type": "bert", "num_hidden_layers": 24}, "bert-large"),
        ({"model_type": "roberta", "num_hidden_layers": 24}, "roberta-large"),
    ],
)
def test_family_of_a_model(config, family):
    assert paper_settings.family_of(config) == family


# --- attention options ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"attention": "vanilla"}, attention.Vanilla()),
        ({"attention": "evolving"}, attention.Evolving(0.1, 0.1)),
        (
            {"attention": "evolving", "alpha": 0.2, "kernel_size": 5, "beta": 0.0},
            attention.Evolving(0.2, 0.0, kernel_size=5),
        ),
        (
            {"attention": "residual", "running_mean": False},
            attention.Residual(running_mean=False),
        ),
        (
            {"attention": "predictive", "predictive_layers": 2},
            attention.Predictive(alpha=0.1, num_layers=2),
        ),
        ({"attention": "evolving_released"}, attention.EvolvingReleased(0.1, 0.1)),
    ],
)
def test_attention_options(given, expected):
    assert AttentionArguments(**given).config() == expected


# --- mistakes -------------------------------------------------------------------------

MISTAKES = [
    (ModelArguments, {}, "--model_name_or_path is missing"),
    (ModelArguments, {"use_fast_tokenizer": False}, "only fast tokenizers"),
    (ModelArguments, {"model_revision": "v2"}, "download that revision"),
    (ModelArguments, {"trust_remote_code": True}, "never run"),
    (AttentionArguments, {"attention": "linear"}, "vanilla"),
    (AttentionArguments, {"attention": "evolvin"}, "did you mean 'evolving'?"),
    (AttentionArguments, {"attention": "evolving", "alpha": 2.0}, "alpha"),
    (AttentionArguments, {"predictive_layers": 2}, "add --attention predictive"),
    (AttentionArguments, {"alpha": 0.1}, "add --attention evolving"),
    (AttentionArguments, {"running_mean": True}, "add --attention residual"),
    (AttentionArguments, {"attention": "vanilla", "beta": 0.1}, "options are: none"),
    (AttentionArguments, {"attention": "residual", "alpha": 0.1}, "running_mean"),
    (DataTrainingArguments, {}, "--task_name cola"),
    (DataTrainingArguments, {"max_seq_length": 1}, "3 or more"),
    (DataTrainingArguments, {"max_train_samples": 0}, "leave it out"),
    (DataTrainingArguments, {"train_file": "a.csv"}, "exclude one another"),
    (DataTrainingArguments, {"task_name": None, "train_file": "a.tsv"}, "'.tsv'"),
    (
        DataTrainingArguments,
        {"task_name": None, "train_file": "a.csv", "validation_file": "b.json"},
        "csv and json mixed",
    ),
    (
        DataTrainingArguments,
        {"task_name": None, "train_file": "a.csv", "data_dir": "GLUE"},
        "--task_name with it",
    ),
]


@pytest.mark.parametrize(("owner", "given", "says"), MISTAKES)
def test_mistakes_in_options(owner, given, says):
    base = {
        ModelArguments: {"model_name_or_path": "m"} if given else {},
        AttentionArguments: {},
        DataTrainingArguments: {"task_name": "cola"} if given else {},
    }[owner]
    with pytest.raises(errors.ConfigError) as caught:
        AttentionArguments.config(owner(**base | given))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("m"), 2),
        (errors.DataError("m", "f", 3, 4), 3),
        (errors.InputError("m"), 3),
        (errors.CheckpointError("m"), 4),
        (errors.ConfigFileError("m"), 4),
        (errors.UnsafeCheckpointError("m"), 4),
        (errors.BackendUnavailable("m"), 5),
        (errors.MissingExtraError("m"), 5),
        (errors.KernelNotFound("m"), 5),
        (errors.NonFiniteError("m"), 1),
        (errors.OutOfMemory("m"), 1),
        (errors.Interrupted("m", 2), 130),
        (errors.Interrupted("m", 15), 143),
        (KeyboardInterrupt(), 130),
        (PermissionError(errno.EACCES, "Permission denied", "secret"), 3),
        (ImportError("cannot import name '_core' from 'evolving_attention'"), 5),
        (ZeroDivisionError("m"), 70),
    ],
)
def test_exit_codes(error, code, capsys):
    @common.guarded
    def command():
        raise error

    with pytest.raises(typer.Exit) as left:
        command()
    assert left.value.exit_code == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("Traceback" in shown.err) == (code == 70)
    assert shown.err.strip().splitlines()[-1]


def test_errors_are_told_as_json_too(capsys):
    with pytest.raises(typer.Exit), common.json_output(True):
        raise errors.DataError("bad label", "train.tsv", 3, 9)
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "error": "DataError",
        "message": "train.tsv:3:9: bad label",
        "exit_code": 3,
    }


# --- the process ----------------------------------------------------------------------


def run_cli(*words, module="evolving_attention", **variables):
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "100", **variables},
    )


def test_help_lists_the_commands_and_imports_little():
    code = (
        "import sys; sys.argv = ['x', '--help']\n"
        "from evolving_attention.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "heavy = {'numpy', 'matplotlib', 'sklearn', 'scipy', 'tokenizers', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    for command in ("demo", "glue", "glue-submit", "doctor"):
        assert command in done.stdout
    assert done.stderr.strip() == "[]"


def test_version():
    assert run_cli("--version").stdout.startswith("evolving-attention ")


def test_glue_help_groups_the_options():
    done = run_cli("glue", "--help")
    assert done.returncode == 0
    for word in ("Model", "Attention", "Data", "Training", "--kernel_size", "5e-05"):
        assert word in done.stdout
    assert "--fp16" not in done.stdout


@pytest.mark.parametrize(
    ("command", "default"),
    [("graph", "vanilla"), ("image", "evolving for vit"), ("timeseries", "evolving")],
)
def test_help_of_a_model_from_scratch_names_its_own_attention(command, default):
    done = run_cli(command, "train", "--help")
    words = " ".join(done.stdout.replace("│", " ").split())
    assert f"default: {default}" in words
    assert "what the checkpoint says" not in words


STEPS = ("do_train", "do_eval", "do_predict")


@pytest.mark.parametrize(
    ("command", "refused", "says"),
    [
        (
            "glue-all",
            ("task_name", "train_file", "validation_file", "problem_type"),
            ("--tasks", "Train each task; default: True.", "results.json; required."),
        ),
        ("translate train", STEPS, ("--per_device_train_batch_tokens none.",)),
        ("textnet train", STEPS, ("(regression: mse)",)),
        ("pretrain", STEPS, ("without --next_sentence, all but the last are full.",)),
        ("squad train", STEPS[:1], ("default: if there is a --validation_file.",)),
        (
            "squad evaluate",
            ("train_file", "test_file", "num_train_epochs", "learning_rate", "freeze"),
            ("--validation_file", "--per_device_eval_batch_size", "The trained model"),
        ),
        ("squad predict", ("validation_file", "max_steps"), ("--test_file",)),
        ("textnet evaluate", ("train_file", "validation_file"), ("labelled texts",)),
        ("bench", (), ("default: small, base.", "default: those of the CPU.")),
    ],
)
def test_help_shows_only_what_the_command_takes(command, refused, says):
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, [*command.split(), "--help"])
    words = " ".join(shown.output.replace("│", " ").split())
    assert [name for name in refused if f"--{name} " in words] == []
    assert [text for text in says if text not in words] == []


def test_an_option_that_help_does_not_show_is_refused_with_a_reason():
    done = CliRunner().invoke(app, ["glue-all", "--task_name", "rte"])
    assert done.exit_code == 2
    assert "no data with GLUE's tasks" in done.output


def test_run_glue_is_glue():
    words = ("--task_name", "cola", "--output_dir", "o", "--do_train")
    done = run_cli(*words, module="evolving_attention.run_glue")
    assert done.returncode == 2
    assert "--model_name_or_path is missing" in done.stderr
    assert run_cli("glue", *words).stderr == done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("glue-submit", 2, "Missing argument"),
        ("glue-submit nowhere", 3, "nowhere: no such folder"),
        ("glue-submit . -o a.tar", 2, "must end in .zip"),
        ("demo --alpha 2", 2, "--alpha 2 is outside [0, 1]"),
        ("demo --train_size 3", 2, "--train_size 3: expected 58 or more"),
        ("nothing", 2, "No such command"),
        ("glue nowhere.json", 3, "nowhere.json: no such file"),
    ],
)
def test_mistakes_in_the_process(words, code, says, tmp_path):
    done = run_cli(*words.split())
    assert done.returncode == code
    assert says in re.sub(r"[\s│]+", " ", done.stderr)
    assert "Traceback" not in done.stderr


def test_no_colour_without_a_terminal():
    done = run_cli("nothing", NO_COLOR="1")
    assert "\x1b[" not in done.stdout + done.stderr


def run_code(code, *words, **variables):
    """Runs Python code, and then the command line."""
    code += "\nfrom evolving_attention.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "100", **variables},
    )


def test_warnings_are_messages():
    code = (
        "import warnings\n"
        "from evolving_attention.cli import doctor\n"
        "def run(**_):\n"
        "    warnings.warn('a checkpoint is damaged')\n"
        "doctor.run = run"
    )
    done = run_code(code, "doctor")
    assert done.returncode == 0
    assert done.stderr.decode() == "warning: a checkpoint is damaged\n"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_encoding_that_lacks_characters(encoding):
    done = run_cli("glue", "--help", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--model_name_or_path" in done.stdout


@pytest.mark.parametrize("json_flag", ["--json", "--json true", "--json false", ""])
def test_usage_errors_are_told_as_json_too(json_flag):
    done = CliRunner().invoke(app, f"glue {json_flag} --nonsense 1".split())
    assert done.exit_code == 2
    assert "No such option: --nonsense" in done.stderr
    if json_flag in ("--json", "--json true"):
        told = json.loads(done.stdout)
        assert (told["error"], told["exit_code"]) == ("NoSuchOption", 2)
        assert "No such option: --nonsense" in told["message"]
    else:
        assert not done.stdout


def test_errors_in_a_file_of_options_are_told_as_json_too():
    done = CliRunner().invoke(app, ["glue", "nowhere.json", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["error"]) == (3, "DataError")


def test_json_keeps_what_the_encoding_lacks():
    code = (
        "from evolving_attention.cli import common, doctor\n"
        "doctor.run = lambda **_: common.print_json({'class': '\u00e9\u20ac'})"
    )
    done = run_code(code, "doctor", PYTHONIOENCODING="latin-1")
    assert json.loads(done.stdout) == {"class": "\u00e9\u20ac"}
    done = run_code(code, "doctor", PYTHONIOENCODING="utf-8")
    assert "\u00e9\u20ac" in done.stdout.decode("utf-8")
