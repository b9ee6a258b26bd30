"""Options of ``evolving-attention image``: data, model, attention, training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from evolving_attention.cli.attention_arguments import (
    DEVICE,
    KINDS,
    AttentionOptions,
    option,
    refuse_input,
    refuse_missing,
)
from evolving_attention.cli.model_options import json_object
from evolving_attention.device_names import resolve_device
from evolving_attention.field_types import PathText, check_fields

_DATA = (
    "A folder with a folder of pictures for each class, or an .npz file with X and y"
)
_COMMAND = ("output_dir", "overwrite_output_dir", "seed", "num_threads", "json")


def _read_objects(options: Any, *names: str) -> None:
    """Replace JSON texts by the dicts they contain."""
    for name in names:
        found = json_object(name, getattr(options, name), '{"num_cycles": 3}')
        setattr(options, name, found or None)


@dataclass
class ImageDataArguments:
    """The pictures for training and testing."""

    train_dir: PathText | None = option(None, f"{_DATA}, to train on.")
    test_dir: PathText | None = option(None, "Pictures to test on, in the same form.")
    on_error: str = option(
        "raise", "Pictures that cannot be used: raise, or skip and count them."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(self, train_dir="a folder of classes, such as photos/train")


@dataclass
class ImageModelArguments:
    """The Vision Transformer, or another image network."""

    architecture: str = option(
        "vit",
        "vit; resnet, aa_resnet (of 50 layers), or a name such as ea_aa_resnet34 or "
        "pa_cifar_net, which sets sizes and attention.",
    )
    model_options: dict[str, Any] | str | None = option(
        None,
        'Further options of the architecture as JSON: {"depths": [1, 1, 1, 1]}. The '
        "options below, except --image_size, apply to vit only.",
    )
    image_size: int | None = option(
        None, "Side of the input in pixels; default: that of the pictures, or 224."
    )
    patch_size: int | None = option(
        None,
        "Side of a patch in pixels; default: about 16, or an eighth of small pictures, "
        "so that it divides them.",
    )
    hidden_size: int = option(64, "Width.")
    num_hidden_layers: int = option(6, "Layers.")
    num_attention_heads: int = option(4, "Attention heads.")
    intermediate_size: int | None = option(
        None, "Width of the feed-forward; default: twice --hidden_size."
    )
    dropout: float = option(0.0, "Dropout, 0 to below 1.")
    pooling: str = option("token", "The classifier reads the class token or the mean.")
    pretrained: PathText | None = option(
        None, "Start from this checkpoint, which decides on the sizes above."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        _read_objects(self, "model_options")


@dataclass
class ImageAttentionArguments(AttentionOptions):
    """The attention options, with the paper's values for pictures."""

    defaults: ClassVar[dict[str, float]] = {"alpha": 0.1, "beta": 0.3}

    attention: str | None = option(
        None,
        f"{KINDS}; default: evolving for vit, or --pretrained's unless vanilla; "
        "for other networks as they are named.",
    )
    beta: float | None = option(
        None, "Weight of the convolution, 0 to 1 (evolving); default: 0.3."
    )

    def __post_init__(self) -> None:
        if self.attention is None and any(v is not None for v in vars(self).values()):
            self.attention = "evolving"
        super().__post_init__()


@dataclass
class ImageTrainingArguments:
    """Training, and the folder for the model."""

    output_dir: PathText | None = option(None, "Folder for the model and its scores.")
    overwrite_output_dir: bool = option(
        False, "Replace a model that other options gave."
    )
    n_epochs: int = option(30, "Passes over the training part.")
    batch_size: int = option(64, "Pictures in a step.")
    optimizer: str = option("radam", "radam, adamw or sgd.")
    optimizer_options: dict[str, Any] | str | None = option(
        None, "Options of the optimizer as JSON; sgd has a Nesterov momentum of 0.9."
    )
    learning_rate: float = option(1e-3, "Learning rate.")
    lr_schedule: str = option("cosine", "cosine, cosine_with_restarts, multistep, …")
    lr_schedule_options: dict[str, Any] | str | None = option(
        None, 'Options of the schedule as JSON: {"num_cycles": 3, "cycle_growth": 2}.'
    )
    weight_decay: float = option(0.0, "Weight decay: decoupled; L2 for sgd.")
    label_smoothing: float = option(
        0.0, "Label smoothing: share of a label spread over all classes."
    )
    validation_fraction: float = option(
        0.1, "Share of the pictures held out to choose the best epoch; 0: none."
    )
    patience: int | None = option(
        None, "Stop after this many epochs without a better one; default: never."
    )
    flip: bool = option(False, "Mirror pictures left to right with probability 1/2.")
    crop: int = option(0, "Shift pictures at random by up to this many pixels.")
    cutout: int = option(0, "Cutout: blank a random square with this side in pixels.")
    resized_crop: float | None = option(
        None,
        "Train on random parts with at least this share of a picture (ImageNet: 0.05), "
        "resized; test on the resized centre. Default: whole pictures, stretched.",
    )
    normalize: str = option("dataset", "Scale pixels: dataset, half, imagenet or none.")
    seed: int = option(
        1, "Seed of the split, the weights, the transforms and the order."
    )
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    verbose: bool | None = option(
        None, "Show every epoch; default: where stderr is a terminal."
    )
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        _read_objects(self, "optimizer_options", "lr_schedule_options")
        refuse_missing(self, output_dir="a folder for the model, such as out/vit")
        if self.verbose is None:
            self.verbose = sys.stderr.isatty()

    def estimator_options(self) -> dict[str, Any]:
        """Returns these options as options of ``ea.ImageClassifier``.

        Raises:
            ConfigError, BackendUnavailable: the device does not exist.
        """
        options = {k: v for k, v in vars(self).items() if k not in _COMMAND}
        device = resolve_device(self.device)
        return {**options, "device": device, "random_state": self.seed}


@dataclass
class EvaluateImageArguments:
    """The fitted model, and the pictures to test it on."""

    model_dir: PathText | None = option(None, "Folder of a fitted classifier.")
    test_dir: PathText | None = option(None, f"{_DATA}.")
    on_error: str | None = option(
        None, "Pictures that cannot be used: raise or skip; default: as in training."
    )
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(
            self,
            model_dir="the folder of a fitted classifier, such as out/vit",
            test_dir="a folder of classes, such as photos/test",
        )


@dataclass
class PredictImageArguments:
    """The fitted model, the pictures to predict, and the file for the results."""

    model_dir: PathText | None = option(None, "Folder of a fitted classifier.")
    input_dir: PathText | None = option(
        None, "A folder of pictures, or of folders of them, or an .npz file with X."
    )
    output_file: PathText | None = option(
        None, "The .csv file to write: classes, and the probability of each."
    )
    on_error: str = option(
        "raise", "Pictures that cannot be used: raise, or skip and count them."
    )
    device: str = option("cpu", DEVICE)
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_missing(
            self,
            model_dir="the folder of a fitted classifier, such as out/vit",
            input_dir="a folder of pictures",
            output_file="a .csv file to write",
        )
        refuse_input("output_file", self.output_file, input_dir=self.input_dir)
