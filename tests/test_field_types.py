"""Every option of every class that users fill in has its type checked."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import pkgutil
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention.attention import base as attention_base
from evolving_attention.cli import (
    demo,
    glue,
    glue_all,
    glue_arguments,
    graph_arguments,
    images_arguments,
    pretrain_arguments,
    repeat_arguments,
    squad_arguments,
    sweep_arguments,
    textnet_arguments,
    timeseries_arguments,
    translate_arguments,
)
from evolving_attention.cli.attention_arguments import AttentionOptions
from evolving_attention.cli.options import Fields, read_json_arguments
from evolving_attention.data import image_transforms
from evolving_attention.errors import ConfigError
from evolving_attention.estimators import rules
from evolving_attention.estimators.named import NamedOptions
from evolving_attention.field_types import PathText, check_type, check_whole, members
from evolving_attention.modeling.config import _COMMON, PretrainedConfig
from evolving_attention.training.arguments import TrainingArguments

# Options without a default, and options without which the others are refused.
NEEDED: dict[type, dict[str, Any]] = {
    TrainingArguments: {},
    AttentionOptions: {"attention": "evolving"},
    glue_arguments.ModelArguments: {"model_name_or_path": "folder"},
    glue_arguments.AttentionArguments: {},
    glue_arguments.DataTrainingArguments: {"task_name": "cola"},
    glue_arguments.TuningArguments: {},
    pretrain_arguments.CorpusArguments: {"train_file": ["corpus.txt"]},
    pretrain_arguments.NewModelArguments: {"model_name": "bert_base"},
    pretrain_arguments.PretrainingArguments: {},
    demo.DemoArguments: {},
    repeat_arguments.RepeatArguments: {},
    sweep_arguments.SweepArguments: {"output_dir": "out"},
    glue_all.GlueAllArguments: {},
    graph_arguments.GraphDataArguments: {"data_file": "cora.npz"},
    graph_arguments.GraphFittedDataArguments: {"data_file": "cora.npz"},
    graph_arguments.GraphModelArguments: {},
    graph_arguments.GraphAttentionArguments: {},
    graph_arguments.GraphTrainingArguments: {"output_dir": "out"},
    graph_arguments.GraphEvaluateArguments: {"model": "folder"},
    graph_arguments.GraphPredictArguments: {
        "model": "folder",
        "output_file": "classes.csv",
    },
    squad_arguments.QuestionArguments: {},
    squad_arguments.AnswerArguments: {},
    timeseries_arguments.SeriesDataArguments: {},
    timeseries_arguments.SeriesModelArguments: {},
    timeseries_arguments.SeriesAttentionArguments: {},
    timeseries_arguments.SeriesTrainingArguments: {"output_dir": "out"},
    timeseries_arguments.MaskArguments: {},
    timeseries_arguments.EvaluateArguments: {"model_dir": "folder"},
    timeseries_arguments.PredictArguments: {
        "model_dir": "folder",
        "input_file": "new.csv",
        "output_file": "predictions.csv",
    },
    timeseries_arguments.TableArguments: {},
    image_transforms.Resize: {"size": [4, 4]},
    image_transforms.CenterCrop: {"size": [4, 4]},
    image_transforms.RandomCrop: {"size": [4, 4]},
    image_transforms.RandomResizedCrop: {"size": [4, 4]},
    image_transforms.HorizontalFlip: {},
    image_transforms.Cutout: {"side": 2},
    image_transforms.Normalize: {"mean": [0.0], "deviation": [1.0]},
    images_arguments.ImageDataArguments: {"train_dir": "photos"},
    images_arguments.ImageModelArguments: {},
    images_arguments.ImageAttentionArguments: {},
    images_arguments.ImageTrainingArguments: {"output_dir": "out"},
    images_arguments.EvaluateImageArguments: {
        "model_dir": "folder",
        "test_dir": "photos",
    },
    images_arguments.PredictImageArguments: {
        "model_dir": "folder",
        "input_dir": "photos",
        "output_file": "predictions.csv",
    },
    textnet_arguments.TextDataArguments: {"dataset": "acceptability"},
    textnet_arguments.WordArguments: {},
    textnet_arguments.TextNetModelArguments: {},
    textnet_arguments.TextNetAttention: {},
    textnet_arguments.TextNetTrainingArguments: {},
    textnet_arguments.EvaluateArguments: {"model_dir": "folder"},
    textnet_arguments.PredictArguments: {
        "model_dir": "folder",
        "input_file": "in.csv",
        "output_file": "out.tsv",
    },
    translate_arguments.PairArguments: {"source_file": "en", "target_file": "de"},
    translate_arguments.TranslationModelArguments: {},
    translate_arguments.TranslationTrainingArguments: {},
    translate_arguments.SearchArguments: {"model_dir": "folder"},
    translate_arguments.GenerateArguments: {},
    translate_arguments.ScoreArguments: {"target_file": "de"},
    translate_arguments.AverageArguments: {"model_dir": "in", "output_dir": "out"},
    **{
        kind: {}
        for slot in ("score", "scope", "bias", "evolve")
        for kind in attention_base.kinds(slot).values()
        # without kinds that other tests of the process registered
        if kind.__module__.startswith("evolving_attention")
    },
    ea.attention.RelativePositions: {"max_distance": 4},
    ea.attention.RelativePositions2d: {"height": 2, "width": 3},
    ea.attention.Evolving: {"alpha": 0.5, "beta": 0.25},
    ea.attention.EvolvingCausal: {"alpha": 0.5, "beta": 0.25},
    ea.attention.Predictive: {"alpha": 0.5},
    attention_base.kinds()["evolving_released"]: {"alpha": 0.5, "beta": 0.25},
}
# Dataclasses that the package fills in itself: results, records, tables; Spec, whose
# fields are the slots (test_attention_slots); and ColumnNames, which subclasses check.
RECORDS = """
    Answers CheckpointFolder Choice ColumnNames Command Construction EvaluationResult
    FitResult FitSettings Given GlueTask GraphData ImageClassifierOutput KnownLabels
    Launch LoadReport Mismatch ModelOutput MultipleChoiceModelOutput NameTable Noun
    Option PaperSpace Parts Pictures Plan Probe Probes Profile Question
    QuestionAnsweringModelOutput Range Reading RowReport Rules RunData RunParts RunPlan
    SeriesDataset SeriesPart Side Site Spec StepContext StepOutcome StepSums Storage
    SubmissionReport Tie TokenClassifierOutput TrainerControl TrainerState
"""


def dataclasses_of_the_package() -> set[type]:
    found: set[type] = set()
    for module in pkgutil.walk_packages(ea.__path__, "evolving_attention."):
        if module.name.endswith(("__main__", "_core", "run_glue")):
            continue
        values = vars(importlib.import_module(module.name)).values()
        found |= {v for v in values if inspect.isclass(v)}
    return {
        v
        for v in found
        if dataclasses.is_dataclass(v)
        and v.__module__.startswith("evolving_attention")
        and not v.__name__.startswith("_")
        and not issubclass(v, NamedOptions)  # estimators: checked when a fit begins
    }


def test_every_dataclass_is_checked_or_filled_in_by_the_package() -> None:
    unknown = {
        cls.__name__
        for cls in dataclasses_of_the_package()
        if cls not in NEEDED and cls.__name__ not in RECORDS.split()
    }
    assert unknown == set(), "check its fields and add it to NEEDED"


OBJECT = object()


def wrong_values(hint: Any) -> list[Any]:
    """Returns values that look valid for this annotation but are not."""
    kinds = members(hint)
    plain = {kind for kind in kinds if isinstance(kind, type)}
    lists = [kind for kind in kinds if typing.get_origin(kind) is list]
    wrong: list[Any] = [OBJECT, b"bytes", {1}]
    if str not in plain and Any not in kinds:
        wrong += ["yes", "0", "False", "3", np.str_("3")]
    if bool not in plain:
        wrong += [True, np.True_]
    if not plain & {int, float}:
        wrong += [1, 0, np.int64(1)]
    if float in plain or int in plain:
        wrong += [float("nan"), float("inf"), np.float32("nan")]
    if float not in plain:
        wrong += [2.5]
    if type(None) not in plain:
        wrong += [None]
    if not lists:
        wrong += [[1]]
    else:
        wrong += [[OBJECT], [True]]
    return wrong


def fields_of(cls: type) -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("cls", NEEDED, ids=lambda cls: cls.__name__)
def test_a_wrong_type_is_refused_and_named(cls: type) -> None:
    for name, hint in fields_of(cls):
        for value in wrong_values(hint):
            with pytest.raises(ConfigError) as caught:
                cls(**{**NEEDED[cls], name: value})
            text = str(caught.value)
            start = f"{cls.__name__}: {name}={value!r}, expected "
            assert text.startswith(start), text
            assert "; " in text, text


@pytest.mark.parametrize("cls", NEEDED, ids=lambda cls: cls.__name__)
def test_numpy_scalars_and_paths_stand_for_plain_values(cls: type) -> None:
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    for name, hint in fields_of(cls):
        plain = getattr(cls(**NEEDED[cls]), name)
        if type(plain) in kinds:
            given = cls(**{**NEEDED[cls], name: kinds[type(plain)](plain)})
            assert type(getattr(given, name)) is type(plain)
            assert getattr(given, name) == plain
        if PathText in (hint, *typing.get_args(hint)) and isinstance(plain, str):
            given = cls(**{**NEEDED[cls], name: Path(plain)})
            assert getattr(given, name) == plain


class Words(enum.Enum):
    EPOCH = "epoch"


def test_integers_enums_and_tuples_are_taken() -> None:
    args = TrainingArguments(
        Path("a") / "b",
        learning_rate=1,
        eval_strategy=Words.EPOCH,
        bf16=np.bool_(True),
        weight_decay=np.float32(0.5),
        report_to=("tensorboard",),
        resume_from_checkpoint=True,
    )
    assert (args.output_dir, args.learning_rate) == (str(Path("a/b")), 1)
    assert (args.eval_strategy, args.bf16) == ("epoch", True)
    assert (args.weight_decay, args.report_to) == (0.5, ["tensorboard"])


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"bf16": "no"}, "write bf16=False, without quotes"),
        (
            {"overwrite_output_dir": "False"},
            "write overwrite_output_dir=False, without",
        ),
        ({"do_train": "yes"}, "write do_train=True, without quotes"),
        ({"do_eval": 1}, "write do_eval=True"),
        ({"do_eval": None}, "write do_eval=True or do_eval=False"),
        ({"group_by_length": "0"}, "write group_by_length=False, without quotes"),
        ({"logging_steps": True}, "write logging_steps=500, for example"),
        ({"num_train_epochs": "3"}, "write num_train_epochs=3, without quotes"),
        ({"max_steps": 10.0}, "write max_steps=10"),
        ({"max_steps": "10"}, "write max_steps=10, without quotes"),
        ({"save_total_limit": "none"}, "write save_total_limit=None, without quotes"),
        ({"learning_rate": float("inf")}, "give a finite number"),
        ({"learning_rate": 2 * 10**308}, "expected a number"),
        ({"eval_strategy": "epochs"}, "did you mean 'epoch'?"),
        ({"run_name": 3}, "write run_name='3', in quotes"),
        ({"seed": object}, "write seed=42, for example"),
        ({"num_threads": "many"}, "give one, or leave it out"),
    ],
    ids=str,
)
def test_the_message_says_what_to_write(given: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingArguments("out", **given)
    assert remedy in str(caught.value)


def test_an_annotation_that_cannot_be_checked_is_a_mistake_of_the_class() -> None:
    with pytest.raises(TypeError, match="options cannot have the annotation"):
        check_type(complex, 1j, "Class", "field")


# ----------------------------------------------------------- configs and estimators


def configs() -> list[type[PretrainedConfig]]:
    return [
        ea.BertConfig,
        ea.RobertaConfig,
        ea.EADCTransformerConfig,
        ea.ViTConfig,
        ea.ResNetConfig,
        ea.AAResNetConfig,
        ea.CifarNetConfig,
        ea.GATConfig,
    ]


@pytest.mark.parametrize("cls", configs(), ids=lambda cls: cls.__name__)
def test_every_option_of_a_config_is_checked(cls: Any) -> None:
    needed = {"channels": 2, "max_length": 9, "num_features": 5}
    needed = {name: value for name, value in needed.items() if name in cls.defaults}
    for name, default in {**_COMMON, **cls.defaults}.items():
        wrong: list[Any] = [object(), [1], float("nan")]
        if isinstance(default, tuple):  # a list of sizes
            wrong[1] = [0]
        wrong.append("no" if isinstance(default, bool) else True)
        for value in wrong:
            with pytest.raises(ConfigError, match=name):
                cls(**{**needed, name: value})
    known = [*cls.defaults, *_COMMON]
    size, heads, share = (
        next(n for n in known if n in names)
        for names in (
            {"hidden_size", "embedding_size", "num_feed_forwards"},
            {"num_attention_heads", "num_labels"},
            {"hidden_dropout_prob", "classifier_dropout"},
        )
    )
    sized = cls(**{**needed, size: np.int64(16), heads: np.int32(4)})
    assert type(getattr(sized, size)) is int
    plain = cls(**{**needed, share: np.float32(0.5)})
    assert json.dumps(plain.to_dict()[share]) == "0.5"
    integers = {
        name: np.int64(value)
        for name, value in {**cls.defaults, **needed}.items()
        if type(value) is int
    }
    made = cls(**integers)
    assert all(type(getattr(made, name)) is int for name in integers)


@pytest.mark.parametrize("cls", [ea.TimeSeriesClassifier, ea.TimeSeriesRegressor])
def test_every_option_of_an_estimator_is_checked(cls: Any) -> None:
    hints = typing.get_type_hints(cls.__init__)
    for name in inspect.signature(cls).parameters:
        if hints[name] is Any:  # checked where it is used
            continue
        for value in wrong_values(hints[name]):
            with pytest.raises(ConfigError, match=f"{cls.__name__}: {name}="):
                rules.check(cls(**{name: value}))
    rules.check(cls(n_epochs=np.int64(3), learning_rate=np.float32(0.1), verbose=True))


def test_every_option_of_the_classifier_of_pictures_is_checked() -> None:
    hints = typing.get_type_hints(ea.ImageClassifier.__init__)
    for name in inspect.signature(ea.ImageClassifier).parameters:
        if hints[name] is Any:  # checked where it is used
            continue
        for value in wrong_values(hints[name]):
            with pytest.raises(ConfigError, match=f"ImageClassifier: {name}="):
                ea.ImageClassifier(**{name: value}).check_options()


def test_every_option_of_the_classifier_of_nodes_is_checked() -> None:
    cls = ea.GraphNodeClassifier
    hints = typing.get_type_hints(cls.__init__)
    fit = {"X": np.eye(2), "y": [0, 1], "graph": [[0], [1]]}
    for name in inspect.signature(cls).parameters:
        for value in [] if hints[name] is Any else wrong_values(hints[name]):
            with pytest.raises(ConfigError, match=f"{cls.__name__}: {name}="):
                cls(**{name: value}).fit(**fit)


# -------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bf16": 1}, '"bf16": 1, expected true or false; write "bf16": true'),
        ({"seed": True}, '"seed": true, expected a whole number; write "seed": 42'),
        ({"seed": [3]}, '"seed": [3], expected a whole number'),
        ({"learning_rate": None}, '"learning_rate": null, expected a number'),
        ({"task_name": 3}, 'write "task_name": "3", in quotes'),
        ({"max_steps": "many"}, "option 'max_steps' is 'many', expected a whole"),
    ],
    ids=str,
)
def test_an_arguments_file_is_checked(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps(values))
    with pytest.raises(ConfigError) as caught:
        read_json_arguments(str(path), glue.fields())
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_words_of_the_command_line_become_typed_values() -> None:
    options = glue.fields().options
    assert options["resume_from_checkpoint"].parse("True") is True
    assert options["resume_from_checkpoint"].parse("out/checkpoint-3") == (
        "out/checkpoint-3"
    )
    assert options["eval_strategy"].parse("no") == "no"
    fields = Fields([(timeseries_arguments.SeriesTrainingArguments, "Training")])
    assert fields.options["seeds"].value("12", "file") == 12
    series = timeseries_arguments.SeriesTrainingArguments("out", seeds="12")
    assert series.seeds == [12]


def test_whole_numbers_are_checked_by_name() -> None:
    check_whole("tool", 0, count=0, size=np.int64(3))
    for value in (0, True, 1.0, "1", None, np.float64(2)):
        with pytest.raises(ConfigError) as caught:
            check_whole("tool", 1, "try 8", count=1, size=value)
        wanted = f"tool: size={value!r}, expected a whole number, 1 or more; try 8"
        assert str(caught.value) == wanted
