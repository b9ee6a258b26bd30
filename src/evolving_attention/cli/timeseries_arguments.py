"""Options of ``evolving-attention timeseries``: data, model, attention, training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from evolving_attention.cli.attention_arguments import (
    DEVICE,
    KINDS,
    AttentionOptions,
    option,
    refuse,
    refuse_input,
    refuse_missing,
    refuse_unknown,
)
from evolving_attention.cli.repeat_arguments import COMPARE, seed_numbers
from evolving_attention.data.series_lengths import LONGER
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields

_FITTED = "the folder of a fitted estimator, such as out/series/seed-1"
_LONGER = (
    "Series above --max_length: error, cut (the first steps are kept) or resample "
    "(linearly, to --max_length steps)."
)


@dataclass
class TableArguments:
    """How tables are read; .ts files need none of these."""

    label_column_name: str | None = option(
        None, "Column of labels or values; default: label, target, class or y."
    )
    id_column_name: str | None = option(
        None, "Column that names the series; default: id, case, …_id."
    )
    time_column_name: str | None = option(
        None,
        "Column of the time, in tables with a row per time step; default: time, t, "
        "step, date.",
    )
    delimiter: str | None = option(
        None, "Field separator; default: the most frequent one in the header."
    )
    do_regression: bool | None = option(
        None, "Targets are values; default: if one is not an integer."
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def read(self, file: str, labelled: bool, regression: bool | None) -> Any:
        """Reads a .ts file, or a table by its ending .csv, .tsv or .txt.

        Args:
            file: path of the file.
            labelled: whether a file without targets is an error.
            regression: whether targets are values; --do_regression overrides it.

        Raises:
            DataError: the file cannot be read.
            ConfigError: a table option is given for a .ts file.
        """
        from evolving_attention import timeseries

        if file.lower().endswith((".csv", ".tsv", ".txt")):
            return timeseries.read_csv(
                file,
                target=self.label_column_name,
                id=self.id_column_name,
                time=self.time_column_name,
                regression=regression
                if self.do_regression is None
                else self.do_regression,
                labelled=labelled,
                delimiter=self.delimiter,
            )
        for name, value in vars(self).items():
            if value is not None:
                raise refuse(
                    name, value, f"a table, not {file}", "leave it out for .ts files"
                )
        return timeseries.read_ts(file, labelled=labelled)


@dataclass
class SeriesDataArguments:
    """The series to use."""

    dataset: str | None = option(
        None,
        "Name of a data set, such as JapaneseVowels: from --data_dir, or of those that "
        "come with aeon.",
    )
    data_dir: PathText | None = option(
        None, "Folder with NAME_TRAIN.ts and NAME_TEST.ts, or with folders of them."
    )
    train_file: PathText | None = option(
        None, "A .ts, .csv or .tsv file to train on, instead of a name."
    )
    test_file: PathText | None = option(None, "A file to test on.")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.dataset and (self.train_file or self.test_file):
            raise refuse(
                "dataset",
                self.dataset,
                "either a name or files",
                "drop --dataset, or --train_file and --test_file",
            )
        if self.data_dir and not self.dataset:
            raise refuse(
                "data_dir", self.data_dir, "--dataset with it", "add --dataset NAME"
            )


@dataclass
class SeriesModelArguments:
    """The EA-DC-Transformer; omitted options have the model's defaults."""

    hidden_size: int = option(64, "Features of every time step; the paper: 64, 128.")
    num_blocks: int = option(3, "Blocks of two layers each; the paper: 2 to 5.")
    num_attention_heads: int | None = option(
        None, "Attention heads; default: the most, up to 8, that fit."
    )
    attention_ratio: float | None = option(
        None,
        "Share of features from attention, 0 to 1; 0 is the dilated convolution, "
        "1 the EA-Transformer; default: 0.25, or the nearest that the heads fit.",
    )
    dropout: float = option(0.1, "Dropout, 0 to below 1.")
    intermediate_size: int | None = option(
        None, "Width of the feed-forward; default: 256."
    )
    conv_kernel_size: int | None = option(
        None, "Taps of the dilated convolution; default: 3."
    )
    dilation_base: int | None = option(
        None, "Block b has the dilation dilation_base ** b; default: 2."
    )
    causal: bool | None = option(
        None, "The convolution sees only the past; default: true."
    )
    norm: str | None = option(None, "batch or layer; default: batch.")
    position: str | None = option(None, "learned or none; default: learned.")
    relative: str | None = option(
        None, "Relative positions: none or learned; default: none."
    )
    pooling: str | None = option(None, "flatten or mean; default: flatten.")
    classifier_hidden_size: int | None = option(
        None, "Width of a layer before the head's output; default: none."
    )
    released_behaviour: bool | None = option(
        None,
        "Compute as the authors' released program, not as the paper; default: false.",
    )
    max_length: int | None = option(
        None, "Longest series the model takes; default: the longest of the data."
    )
    longer: str = option("error", _LONGER)

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "longer", LONGER)

    def estimator_options(self) -> dict[str, Any]:
        """Returns these options as options of the estimators.

        Raises:
            ConfigError: the heads do not fit the width.
        """
        from evolving_attention.estimators.architecture import attention_width

        own = (
            "hidden_size",
            "num_blocks",
            "num_attention_heads",
            "attention_ratio",
            "dropout",
            "max_length",
            "longer",
        )
        given = {name: value for name, value in vars(self).items() if value is not None}
        options = {name: given.pop(name, None) for name in own}
        options["num_attention_heads"], options["attention_ratio"] = attention_width(
            self.hidden_size,
            self.num_attention_heads,
            self.attention_ratio,
            "timeseries",
        )
        if "conv_kernel_size" in given:  # --kernel_size is the attention's
            given["kernel_size"] = given.pop("conv_kernel_size")
        return {**options, "model_options": given or None}


@dataclass
class SeriesAttentionArguments(AttentionOptions):
    """The attention options, with the paper's best values on time series."""

    defaults: ClassVar[dict[str, float]] = {"alpha": 0.5, "beta": 0.3}

    attention: str | None = option(
        None, f"{KINDS}; default: evolving, or --pretrained's unless vanilla."
    )
    alpha: float | None = option(
        None, "Weight of the previous map, 0 to 1 (evolving, predictive); default: 0.5."
    )
    beta: float | None = option(
        None, "Weight of the convolution, 0 to 1 (evolving); default: 0.3."
    )

    def __post_init__(self) -> None:
        if self.attention is None and any(v is not None for v in vars(self).values()):
            self.attention = "evolving"
        super().__post_init__()


@dataclass
class SeriesTrainingArguments:
    """Training, and the folder for the results."""

    output_dir: PathText | None = option(None, "Folder for models and results.")
    overwrite_output_dir: bool = option(
        False, "Train again seeds that are already in the folder."
    )
    n_epochs: int = option(100, "Passes over the training part.")
    batch_size: int = option(16, "Series in a step.")
    learning_rate: float = option(1e-3, "Learning rate of RAdam.")
    lr_schedule: str = option("constant", "constant, linear, cosine, …")
    weight_decay: float = option(0.0, "Decoupled weight decay.")
    validation_fraction: float = option(
        0.2,
        "Share of the training set held out to choose the best epoch; 0: none. The "
        "test set is never used for this.",
    )
    patience: int | None = option(
        None, "Stop after this many epochs without a better one; default: never."
    )
    scale: str = option(
        "channel", "Scale to mean 0 and deviation 1 by channel, by series, or none."
    )
    missing: str = option("interpolate", "Missing values: interpolate or refuse.")
    pretrained: PathText | None = option(
        None, "Start from the model in this pre-training folder."
    )
    seeds: int | str | list[int | str] | None = option(
        None,
        "One run each, in --output_dir/seed-N: --seeds 1 2 3; default: 1. A single "
        "pre-training is in --output_dir itself.",
    )
    compare: PathText | None = option(None, COMPARE)
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    verbose: bool | None = option(
        None, "Show every epoch; default: where stderr is a terminal."
    )
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.output_dir:
            raise ConfigError(
                "--output_dir is missing: expected a folder for models and results; "
                "add --output_dir out/series"
            )
        self.seeds = [*seed_numbers(1 if self.seeds is None else self.seeds)]
        if self.verbose is None:
            self.verbose = sys.stderr.isatty()

    def estimator_options(self) -> dict[str, Any]:
        """Returns these options as options of the estimators.

        Raises:
            ConfigError, BackendUnavailable: the device does not exist.
        """
        command = {"output_dir", "overwrite_output_dir", "seeds", "num_threads", "json"}
        command.add("compare")
        options = {k: v for k, v in vars(self).items() if k not in command}
        return {**options, "device": resolve_device(self.device)}


@dataclass
class MaskArguments:
    """The values that pre-training hides."""

    mask_ratio: float = option(0.15, "Share of the values to hide.")
    mean_span: float = option(3.0, "Mean length of a hidden span, in time steps.")

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass
class PredictArguments:
    """The fitted model, the series to predict, and the file for the results."""

    model_dir: PathText | None = option(None, "Folder of a fitted estimator.")
    input_file: PathText | None = option(
        None, "A .ts, .csv or .tsv file of series; targets in it are not used."
    )
    output_file: PathText | None = option(
        None, "The .csv file to write: predictions, and the probability of each label."
    )
    longer: str | None = option(
        None,
        "Series above the model's length: error, cut or resample; default: as in "
        "training.",
    )
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "longer", LONGER)
        refuse_missing(
            self,
            model_dir=_FITTED,
            input_file="a .ts or .csv file of series",
            output_file="a .csv file to write",
        )
        refuse_input("output_file", self.output_file, input_file=self.input_file)


@dataclass
class EvaluateArguments:
    """The fitted model to evaluate."""

    model_dir: PathText | None = option(None, "Folder of a fitted estimator.")
    predictions: PathText | None = option(
        None, "Write the predictions to this .csv file."
    )
    longer: str | None = option(
        None,
        "Series above the model's length: error, cut or resample; default: as in "
        "training.",
    )
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_unknown(self, "longer", LONGER)
        refuse_missing(self, model_dir=_FITTED)
