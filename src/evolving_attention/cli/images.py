"""``evolving-attention image``: train, evaluate and predict classes of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import distributed, durable
from evolving_attention.cli import images_arguments as arguments
from evolving_attention.cli.commands import of_groups
from evolving_attention.cli.common import fit, save_fitted
from evolving_attention.cli.repeat import Once, claim_folder
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.repeat_results import RESULTS
from evolving_attention.cli.timeseries_results import (
    align,
    predicted,
    worst_confusions,
    write_csv,
)
from evolving_attention.errors import DataError, ShapeError


def _train(
    data: Any, model: Any, attention: Any, training: Any, once: Once
) -> dict[str, Any] | None:
    import evolving_attention as ea

    folder = Path(training.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    estimator = ea.ImageClassifier(
        **vars(model),
        attention=attention.config(),
        on_error=data.on_error,
        **training.estimator_options(),
    )
    given = once("train", lambda: _pictures(data.train_dir, data.on_error))
    tested = None
    if data.test_dir and (given[1] is not None or given[0].labels is not None):
        tested = once("test", lambda: _test_pictures(data, *given))
    with claim_folder(once, data, model, attention, training):
        fit(estimator, *given)
        save_fitted(estimator, folder)
        if not distributed.is_first():
            return None
        best = estimator.history_[estimator.best_epoch_ - 1]
        results: dict[str, Any] = {
            "model": str(folder),
            "parameters": estimator.model_.num_parameters(),
            "classes": estimator.classes_.tolist(),
            "epochs": len(estimator.history_),
            "best_epoch": estimator.best_epoch_,
            "skipped": [list(one) for one in estimator.skipped_],
            "validation": {
                key.removeprefix("validation_"): value
                for key, value in sorted(best.items())
                if key.startswith("validation_")
            },
            "history": estimator.history_,
        }
        lines = [["saved in", str(folder)], ["best epoch", str(estimator.best_epoch_)]]
        for key, value in results["validation"].items():
            lines.append([f"validation {key}", f"{value:.4g}"])
        if tested is not None:
            results["test"], shown = _scores(estimator, *tested)
            lines += shown
        durable.write_json(folder / RESULTS, results)
        return {**results, "table": align(lines)}


TRAIN = of_groups(
    [
        (arguments.ImageDataArguments, "Data"),
        (arguments.ImageModelArguments, "Model"),
        (arguments.ImageAttentionArguments, "Attention"),
        (RepeatArguments, "Training"),
        (arguments.ImageTrainingArguments, "Training"),
    ],
    _train,
    """Train a Vision Transformer, or another network of images, on folders of
    pictures, and test it if there are pictures to test on.

    Example: evolving-attention image train --train_dir photos/train --test_dir
    photos/test --output_dir out/vit
    """,
)


def _test_pictures(data: Any, train: Any, labels: Any) -> tuple[Any, Any]:
    """Reads the test set, and refuses an unusable one before training does any work.

    Args:
        data: options of the command.
        train, labels: pictures to train on, and labels not given by folders.

    Returns:
        As :func:`_pictures`.

    Raises:
        DataError, InputError, ShapeError: the path is neither a folder of classes nor a
            file with labels, has a class that training lacks, or pictures that cannot
            be read, or not by the trained model.
    """
    from evolving_attention.data.image_files import class_folders, loose
    from evolving_attention.data.images import scale_of
    from evolving_attention.estimators.targets import (
        PICTURES,
        class_numbers,
        one_dimensional,
    )

    path, name = str(data.test_dir), f"y of {data.test_dir}"
    known = np.unique(train.labels if labels is None else labels)
    root = Path(path)
    if root.suffix != ".npz":
        if root.is_dir() and loose(root):
            raise DataError(
                "has pictures and no folders, expected a folder of pictures for each "
                "class",
                path,
            )
        class_folders(root, known.astype(str).tolist())  # before all are decoded
    found, own = _pictures(path, data.on_error)
    if root.suffix == ".npz":
        if own is None:
            raise DataError("has no array y, expected the class of each picture", path)
        own = one_dimensional(own, found.total, name, PICTURES)
        known = known.astype(str) if own.dtype.kind == "U" else known
        class_numbers(own, known, name, PICTURES)
    if found.channels != train.channels:
        raise ShapeError(
            f"{found.names[0]}: {found.channels} channels, expected {train.channels} "
            f"as in {train.names[0]}; convert the pictures"
        )
    found.check_scale(train.in_bytes, scale_of(train.pixels))
    return found, own


def _pictures(path: str, on_error: str) -> tuple[Any, Any]:
    """Returns the pictures of a folder or file, and labels not given by folders."""
    from evolving_attention.data.images import labels_of_npz, read_pictures

    labels = labels_of_npz(path) if Path(path).suffix == ".npz" else None
    return read_pictures(path, skip=on_error == "skip"), labels


def _evaluate(model: Any) -> dict[str, Any]:
    import evolving_attention as ea

    estimator = ea.ImageClassifier.load(model.model_dir, model.device)
    if model.on_error is not None:
        estimator.set_params(on_error=model.on_error).check_options()
    found, lines = _scores(estimator, model.test_dir)
    results = {"model": model.model_dir, "data": model.test_dir, "test": found}
    return {**results, "table": align(lines)}


EVALUATE = of_groups(
    [(arguments.EvaluateImageArguments, "Model")],
    _evaluate,
    """Test a fitted classifier: top-1, top-5, and which classes it confuses.

    Example: evolving-attention image evaluate --model_dir out/vit --test_dir
    photos/test
    """,
)


def _scores(
    estimator: Any, data: Any, labels: Any = None
) -> tuple[dict[str, Any], list[list[str]]]:
    """Returns the scores for JSON, and table lines with the worst confusions."""
    found = estimator.evaluate(data, labels)
    matrix = found["confusion"]
    names = [str(one) for one in estimator.classes_.tolist()]
    lines = [[key, f"{found[key]:.4g}"] for key in ("top1", "top5", "loss")]
    lines += [[key, str(found[key])] for key in ("pictures", "skipped")]
    lines += [[pair, str(n)] for pair, n in worst_confusions(matrix, names).items()]
    return {**found, "classes": names, "confusion": matrix.tolist()}, lines


def _predict(model: Any) -> dict[str, Any]:
    import evolving_attention as ea

    estimator = ea.ImageClassifier.load(model.model_dir, model.device)
    estimator.set_params(on_error=model.on_error).check_options()
    Path(model.output_file).parent.mkdir(parents=True, exist_ok=True)
    given = estimator.read(model.input_dir, skip=model.on_error == "skip")
    odds = estimator.predict_proba(given)
    classes = [str(one) for one in estimator.classes_.tolist()]
    found = [str(one) for one in estimator.classes_of(odds).tolist()]
    rows = [
        [where, label, *(f"{value:.6g}" for value in row)]
        for where, label, row in zip(given.names, found, odds, strict=True)
    ]
    write_csv(Path(model.output_file), [["picture", "class", *classes], *rows])
    results = predicted(model, model.input_dir, "pictures", found, classes)
    return {**results, "skipped": [list(one) for one in given.skipped]}


PREDICT = of_groups(
    [(arguments.PredictImageArguments, "Model")],
    _predict,
    """Predict the classes of pictures, and write a .csv file.

    Each line has the picture's file, or its index from 0, the class, and the
    probability of each class. Skipped pictures have none.

    Example: evolving-attention image predict --model_dir out/vit --input_dir new
    --output_file predictions.csv
    """,
)
