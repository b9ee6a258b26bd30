"""Saves and pickles fitted estimators; loads the weights of a pre-trained model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evolving_attention import durable
from evolving_attention.attention import from_config
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.device_names import resolve_device
from evolving_attention.durable import plain
from evolving_attention.durable.files import digest, reported, usable_values
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.estimators import architecture
from evolving_attention.interop.evolving_mark import weights_stem
from evolving_attention.interop.json_file import read_object
from evolving_attention.interop.paths import advice_inside, present

FILE = "estimator.json"
FORMAT = 1
MAX_BYTES = 64 << 20  # limit of the record's size; its history grows with the epochs
_Class = TypeVar("_Class")


def write(folder: str | Path, model: Any, record: dict[str, Any]) -> None:
    """Writes an estimator's folder: the model's files, then the record, with digests.

    If this fails part way, the record that remains does not fit the model's files, and
    :func:`check_files` refuses the folder.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    root = Path(folder)
    with reported(f"cannot write {root}", "the estimator is not saved"):
        root.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(root)
        stem = weights_stem(model.config.to_saved())
        written = [root / "config.json", *sorted(root.glob(f"{stem}*.safetensors"))]
        digests = {path.name: digest(path)[1] for path in written}
        durable.write_json(root / FILE, plain({**record, "files": digests}))


def check_files(folder: Path, record: dict[str, Any]) -> None:
    """Refuses a folder whose model is not the one that its record belongs to.

    Call it after the model is loaded, which refuses links and files that are too large.
    Records that earlier versions wrote have no digests and are not checked.

    Raises:
        CheckpointError: a file of the model is missing or is another one.
    """
    digests = record.get("files", {})
    if not isinstance(digests, dict):
        raise misfit(folder, "files", digests, "an object of names and digests")
    for name, expected in digests.items():
        path = folder / Path(name).name
        with reported(f"cannot read {path}", "the estimator is not loaded"):
            found = digest(path)[1]
        if found != expected:
            raise CheckpointError(
                f"{path}: is not the file that {FILE} was saved with, expected the "
                "model and the record of one save(): a later save was interrupted, or "
                "the file was changed since; save the estimator again"
            )


def misfit(folder: Path, name: str, value: Any, expected: str) -> CheckpointError:
    """Returns the error for a value of a record that :func:`write` does not write."""
    return CheckpointError(
        f"{folder / FILE}: {name} is {value!r:.80}, expected {expected}, as save() "
        "writes; save the estimator again"
    )


def labels_of(folder: Path, record: dict[str, Any], model: Any) -> Any:
    """Returns the labels of a record as an array, one for each output of its model.

    Raises:
        CheckpointError: the model has another number of outputs, the labels are not
            sorted, each once, or they are of another type than recorded.
    """
    found, count = record["classes"], model.config.num_labels
    labels = np.array(found, np.dtype(record["kind"]))
    if labels.shape != (count,) or not np.array_equal(labels, np.unique(labels)):
        expected = f"a list of {count} labels, sorted, one for each output of the model"
        raise misfit(folder, "classes", found, expected)
    if plain(labels) != found:  # cut or rounded
        raise misfit(folder, "classes", found, f"labels of the type {labels.dtype}")
    return labels


def names_of(folder: Path, record: dict[str, Any], name: str, count: int) -> Any:
    """Returns the names of a model's ``count`` inputs, or None if they have none.

    Raises:
        CheckpointError: there is another number of names.
    """
    found = record.get(name)
    if found is not None and len(found) != count:
        raise misfit(folder, name, found, f"{count} names, as the model has inputs")
    return found


def read_model(model_class: Any, folder: Path, device: str) -> Any:
    """Loads a model; its first weights, drawn at random, disturb no other fit."""
    from evolving_attention.estimators.fitting import kept_randomness

    with kept_randomness():
        return model_class.from_pretrained(folder, device=device)


def save(estimator: Any, folder: Path) -> None:
    """Write the model and ``estimator.json`` (options, classes, scaling, history)."""
    weights = estimator.class_weight
    if isinstance(weights, Mapping):  # pairs keep the labels' types
        weights = list(weights.items())
    record = {
        **heading(estimator, class_weight=weights),
        "metadata": estimator.metadata_,
        "channel_names": vars(estimator).get("channel_names_"),
        "scaler": estimator.scaler_.to_dict(),
        "n_features": vars(estimator).get("n_features_in_"),
        "features": vars(estimator).get("feature_names_in_"),
        **estimator._own_state(),
    }
    write(folder, estimator.model_, record)


def heading(estimator: Any, **changed: Any) -> dict[str, Any]:
    """Returns the entries that all records have: format, class, options, and the fit's.

    The device is left out, since it is an argument of loading, and so is a random state
    that is not a number.

    Args:
        estimator: a fitted estimator.
        changed: values to save in place of its options.
    """
    options = {**estimator.get_params(deep=False), **changed}
    del options["device"]
    if not isinstance(options["random_state"], (int, np.integer)):
        options["random_state"] = None
    if options.get("pretrained") is not None:
        options["pretrained"] = str(options["pretrained"])
    return {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "options": options,
        "history": estimator.history_,
        "best_epoch": estimator.best_epoch_,
        "interrupted": vars(estimator).get("interrupted_"),
    }


def set_fit(estimator: Any, record: dict[str, Any]) -> None:
    """Sets the attributes that tell how the fit went, from an estimator's record."""
    estimator.history_ = list(record["history"])
    estimator.best_epoch_ = int(record["best_epoch"])
    estimator.interrupted_ = record.get("interrupted")


def read_record(folder: Path) -> dict[str, Any]:
    """Reads the record in the folder of a fitted estimator; follows no link.

    Raises:
        CheckpointError: the record is missing or damaged.
    """
    if not present(folder, FILE):
        advice = advice_inside(folder, FILE) or "make one by fit and save"
        raise CheckpointError(
            f"{folder}: has no {FILE}, expected the folder of a fitted estimator; "
            f"{advice}"
        )
    return read_object(folder, FILE, MAX_BYTES)


def read_own(estimator_class: type, folder: Path, device: str) -> dict[str, Any]:
    """Reads the record of an estimator of this class, to load it on ``device``.

    Raises:
        CheckpointError: the record is missing, damaged or another estimator's.
        ConfigError, BackendUnavailable: the device does not exist.
    """
    resolve_device(device)  # fail before a long read
    record, name = read_record(folder), estimator_class.__name__
    if (record.get("format"), record.get("estimator")) != (FORMAT, name):
        raise CheckpointError(
            f"{folder / FILE}: of a {record.get('estimator')!r} in format "
            f"{record.get('format')!r}, expected {name} in format {FORMAT}; load it "
            "with its own class"
        )
    return record


def usable(folder: Path) -> AbstractContextManager[None]:
    """Turns errors about the values of a record into a CheckpointError."""
    return usable_values(folder / FILE, "what save() wrote; save it again")


def load(estimator_class: type[_Class], folder: Path, device: str) -> _Class:
    """Load an estimator that :func:`save` wrote, on ``device``.

    Raises:
        CheckpointError: a file is missing, damaged or belongs to another estimator.
        ConfigError, BackendUnavailable: the device does not exist.
    """
    import evolving_attention as ea

    record = read_own(estimator_class, folder, device)
    make: Any = estimator_class
    model = read_model(getattr(ea, make._model_class), folder, device)
    check_files(folder, record)
    with usable(folder):
        options = _known_options(estimator_class, record)
        estimator = make(**options, device=device)
        estimator.model_ = model
        estimator.metadata_ = record["metadata"]
        channels = model.config.channels
        names = names_of(folder, record, "channel_names", channels)
        estimator.channel_names_ = None if names is None else tuple(names)
        estimator.scaler_ = SeriesScaler.from_dict(record["scaler"])
        _check_channels(folder, record, channels)
        set_fit(estimator, record)
        if record.get("n_features") is not None:
            estimator.n_features_in_ = int(record["n_features"])
        if record.get("features") is not None:
            estimator.feature_names_in_ = np.array(record["features"], dtype=object)
        estimator._set_own_state(folder, record)
    estimator.is_fitted = True
    fitted: _Class = estimator
    return fitted


def _check_channels(folder: Path, record: dict[str, Any], channels: int) -> None:
    """Refuses metadata or a scaling of other channels than the model's.

    Raises:
        CheckpointError: names the field.
    """
    metadata, mean = record["metadata"], record["scaler"]["mean"]
    found = metadata.get("n_channels") if isinstance(metadata, dict) else None
    if found != channels:
        expected = f"{channels}, as the model has"
        raise misfit(folder, "n_channels of metadata", found, expected)
    if mean is None or len(mean) != channels:
        expected = f"{channels} numbers, one for each channel of the model"
        raise misfit(folder, "the scaler's mean", mean, expected)


def _known_options(estimator_class: type, record: dict[str, Any]) -> dict[str, Any]:
    options = dict(record["options"])
    known = set(inspect.signature(estimator_class).parameters)
    if unknown := sorted(set(options) - known):
        raise KeyError(f"unknown options {', '.join(unknown)}")
    if isinstance(options.get("attention"), dict):
        options["attention"] = from_config(options["attention"])
    weights = options.get("class_weight")
    if isinstance(weights, list):
        options["class_weight"] = dict(weights)
    elif isinstance(weights, dict):  # of earlier versions: JSON made the labels text
        labels = {str(label): label for label in record["classes"]}
        options["class_weight"] = {labels.get(k, k): w for k, w in weights.items()}
    return options


def pretraining_config(folder: Any) -> Any:
    """Returns the config in the folder of a pre-trained model.

    Raises:
        CheckpointError: the folder cannot be used.
    """
    import evolving_attention as ea

    return ea.EADCTransformerConfig.from_pretrained(str(folder))


def from_pretraining(
    model_class: Any,
    folder: Any,
    channels: int,
    longest: int,
    options: dict[str, Any],
    estimator: Any,
) -> Any:
    """Builds a model with pre-trained weights and a new head.

    Raises:
        InputError, ConfigError: the series or the options do not fit the weights.
        CheckpointError: the folder cannot be used.
    """
    config = pretraining_config(folder)
    if config.channels != channels:
        raise InputError(
            f"X: {channels} channels, expected {config.channels} as in the "
            f"pre-training {folder}; pre-train on series with the same channels"
        )
    if longest > config.max_length:
        raise InputError(
            f"X: the longest series has {longest} time steps, expected at most "
            f"{config.max_length} as in the pre-training {folder}; pre-train with "
            f"max_length={longest}, or set longer='cut' or 'resample'"
        )
    if estimator.max_length not in (None, config.max_length):
        raise ConfigError(
            f"{type(estimator).__name__}: max_length={estimator.max_length}, expected "
            f"{config.max_length} as in the pre-training {folder}; leave it out"
        )
    options = {**options, **architecture.inherited(estimator, config)}
    return model_class.from_pretrained(str(folder), **options)
