"""The GLUE tasks as one table: files, columns, labels, metrics, leaderboard names.

Columns are those of the official download (gluebenchmark.com) and, for JSON files,
those of the Hub's data set; rows always carry the Hub's names. Test sizes are the
leaderboard's, from the official test files.
"""

from __future__ import annotations

from dataclasses import dataclass

from evolving_attention.data.labels import Labelled
from evolving_attention.errors import ConfigError

SPLITS = (
    "train",
    "dev",
    "dev_matched",
    "dev_mismatched",
    "test",
    "test_matched",
    "test_mismatched",
)


@dataclass(frozen=True)
class GlueTask(Labelled):
    """The properties of one task.

    Attributes:
        name: the task's name on the command line.
        folder: its folder in the official download.
        text: the Hub's names of the text fields, in the order a model reads them.
        tsv_text: the same fields' names in the official files.
        label_names: class names by id, as on the Hub; None for regression.
        tsv_labels: spelling of the classes in all official files, by id.
        metrics: metric keys, as Hugging Face names them.
        test_sizes: leaderboard file name to number of test rows.
        tsv_label: label column of the official training and dev files.
        header: columns of the training and dev files, if they have no header line.
        extra: further columns kept from training and dev files.
    """

    name: str
    folder: str
    text: tuple[str, ...]
    tsv_text: tuple[str, ...]
    label_names: tuple[str, ...] | None
    tsv_labels: tuple[str, ...]
    metrics: tuple[str, ...]
    test_sizes: dict[str, int]
    tsv_label: str = "label"
    header: tuple[str, ...] | None = None
    extra: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


_DIGITS = ("0", "1")
_NLI = ("entailment", "not_entailment")
_MNLI = ("entailment", "neutral", "contradiction")
_PAIR = ("sentence1", "sentence2")

_ALL = (
    GlueTask(
        name="cola",
        folder="CoLA",
        text=("sentence",),
        tsv_text=("sentence",),
        label_names=("unacceptable", "acceptable"),
        tsv_labels=_DIGITS,
        metrics=("matthews_correlation",),
        test_sizes={"CoLA": 1063},
        header=("source", "label", "mark", "sentence"),
        extra=("source",),
    ),
    GlueTask(
        name="sst2",
        folder="SST-2",
        text=("sentence",),
        tsv_text=("sentence",),
        label_names=("negative", "positive"),
        tsv_labels=_DIGITS,
        metrics=("accuracy",),
        test_sizes={"SST-2": 1821},
    ),
    GlueTask(
        name="mrpc",
        folder="MRPC",
        text=_PAIR,
        tsv_text=("#1 String", "#2 String"),
        tsv_label="Quality",
        label_names=("not_equivalent", "equivalent"),
        tsv_labels=_DIGITS,
        metrics=("accuracy", "f1"),
        test_sizes={"MRPC": 1725},
    ),
    GlueTask(
        name="stsb",
        folder="STS-B",
        text=_PAIR,
        tsv_text=_PAIR,
        tsv_label="score",
        label_names=None,
        tsv_labels=(),
        metrics=("pearson", "spearmanr"),
        test_sizes={"STS-B": 1379},
    ),
    GlueTask(
        name="qqp",
        folder="QQP",
        text=("question1", "question2"),
        tsv_text=("question1", "question2"),
        tsv_label="is_duplicate",
        label_names=("not_duplicate", "duplicate"),
        tsv_labels=_DIGITS,
        metrics=("accuracy", "f1"),
        test_sizes={"QQP": 390_965},
    ),
    GlueTask(
        name="mnli",
        folder="MNLI",
        text=("premise", "hypothesis"),
        tsv_text=_PAIR,
        tsv_label="gold_label",
        label_names=_MNLI,
        tsv_labels=_MNLI,
        metrics=("accuracy",),
        test_sizes={"MNLI-m": 9796, "MNLI-mm": 9847},
    ),
    GlueTask(
        name="qnli",
        folder="QNLI",
        text=("question", "sentence"),
        tsv_text=("question", "sentence"),
        label_names=_NLI,
        tsv_labels=_NLI,
        metrics=("accuracy",),
        test_sizes={"QNLI": 5463},
        folders=("QNLIv2",),
    ),
    GlueTask(
        name="rte",
        folder="RTE",
        text=_PAIR,
        tsv_text=_PAIR,
        label_names=_NLI,
        tsv_labels=_NLI,
        metrics=("accuracy",),
        test_sizes={"RTE": 3000},
    ),
    GlueTask(
        name="wnli",
        folder="WNLI",
        text=_PAIR,
        tsv_text=_PAIR,
        label_names=("not_entailment", "entailment"),
        tsv_labels=_DIGITS,
        metrics=("accuracy",),
        test_sizes={"WNLI": 146},
    ),
    GlueTask(
        name="ax",
        folder="AX",
        text=("premise", "hypothesis"),
        tsv_text=_PAIR,
        label_names=_MNLI,
        tsv_labels=_MNLI,
        metrics=("matthews_correlation",),
        test_sizes={"AX": 1104},
        folders=("diagnostic",),
    ),
)

#: The nine tasks and ``ax``, the diagnostic set that an MNLI model predicts.
TASKS: dict[str, GlueTask] = {task.name: task for task in _ALL}


def get_task(name: str) -> GlueTask:
    """Returns the task by name; ignores case, ``-`` and ``_`` (``STS-B``, ``stsb``).

    Raises:
        ConfigError: no GLUE task has this name.
    """
    key = str(name).lower().replace("-", "").replace("_", "")
    try:
        return TASKS[key]
    except KeyError:
        raise ConfigError(
            f"task {name!r} is not known; expected one of {', '.join(TASKS)}"
        ) from None
