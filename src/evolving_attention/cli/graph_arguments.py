"""Options of ``evolving-attention graph``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from evolving_attention.cli.attention_arguments import (
    KINDS,
    AttentionOptions,
    option,
    refuse,
    refuse_missing,
)
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields


@dataclass
class GraphDataArguments:
    """The file of the graph."""

    data_file: PathText | None = option(
        None,
        "A .npz file: edge_index or edges, x (or x_data, x_indices, x_indptr, "
        "x_shape), y, and train_idx, val_idx, test_idx or …_mask.",
    )
    undirected: bool = option(False, "Add the counterpart of every edge.")
    normalize: bool = option(
        True, "Scale each row of features so that its values add up to 1."
    )
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(self, data_file="a .npz file of a graph")


@dataclass
class GraphFittedDataArguments(GraphDataArguments):
    """The file of the graph, read as in training."""

    undirected: bool | None = option(  # type: ignore[assignment]
        None, "Add the counterpart of every edge; default: as in training."
    )
    normalize: bool | None = option(  # type: ignore[assignment]
        None, "Scale each row of features; default: as in training."
    )


@dataclass
class GraphModelArguments:
    """Sizes of the network."""

    hidden_size: int = option(64, "Width of a layer, all heads together.")
    num_layers: int = option(2, "Layers, the output layer included.")
    num_heads: int = option(8, "Heads of each layer but the output layer.")
    num_output_heads: int = option(1, "Heads of the output layer, averaged.")
    dropout: float = option(0.6, "Dropout of each layer's input.")
    attention_dropout: float = option(0.6, "Dropout of the attention probabilities.")
    add_self_loops: bool = option(True, "Add an edge from each node to itself.")

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass
class GraphAttentionArguments(AttentionOptions):
    """The evolution of the maps; kernels over edges have size 1."""

    defaults: ClassVar[dict[str, float]] = {
        "alpha": 0.1,
        "beta": 0.1,
        "kernel_size": 1,
    }

    attention: str | None = option(None, f"{KINDS}; default: vanilla.")
    kernel_size: int | None = option(None, "Odd kernel size (evolving); default: 1.")


@dataclass
class GraphTrainingArguments:
    """Training on all nodes at once."""

    output_dir: PathText | None = option(None, "Folder for the fitted classifier.")
    overwrite_output_dir: bool = option(
        False, "Replace a classifier that other options gave."
    )
    n_epochs: int = option(1000, "Maximum number of epochs, of one step each.")
    learning_rate: float = option(5e-3, "Adam's learning rate.")
    weight_decay: float = option(5e-4, "L2 penalty λ: λ/2 · Σ θ² is added to the loss.")
    patience: int | None = option(
        100,
        "Stop after this many epochs in which neither the validation loss nor the "
        "accuracy was as good as any before.",
    )
    seed: int = option(0, "Random seed.")
    device: str = option("cpu", "Where the model computes: cpu, auto, cuda.")
    num_threads: int | None = option(None, "Threads; default: all.")
    verbose: int | None = option(
        None,
        "Epochs between printed lines, 0: none; default: 50 where stderr is a "
        "terminal, else 0.",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        resolve_device(self.device)
        refuse_missing(self, output_dir="a folder for the classifier")
        if self.verbose is None:
            self.verbose = 50 if sys.stderr.isatty() else 0


@dataclass
class _Fitted:
    model_dir: PathText | None = option(None, "Folder that graph train wrote.")
    model: PathText | None = option(None, "Earlier name of --model_dir.")
    device: str = option("cpu", "Where the model computes: cpu, auto, cuda.")
    num_threads: int | None = option(None, "Threads; default: all.")

    def __post_init__(self) -> None:
        check_fields(self)
        resolve_device(self.device)
        if self.model is not None and self.model_dir not in (None, self.model):
            fix = "leave it out: it is the earlier name"
            raise refuse("model", self.model, "no --model_dir with it", fix)
        self.model_dir = self.model_dir or self.model
        refuse_missing(self, model_dir="the folder that graph train wrote")


@dataclass
class GraphEvaluateArguments(_Fitted):
    """The classifier to test."""

    part: str = option("test", "Nodes to score: train, validation, test or all.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part not in ("train", "validation", "test", "all"):
            raise ConfigError(
                f"--part {self.part}: expected train, validation, test or all"
            )


@dataclass
class GraphPredictArguments(_Fitted):
    """The classifier that predicts, and its file."""

    output_file: PathText | None = option(
        None, "The .csv file to write: node, prediction and the classes' probabilities."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_missing(self, output_file="the .csv file to write")
