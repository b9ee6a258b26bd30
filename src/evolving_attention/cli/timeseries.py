"""``evolving-attention timeseries``: train, evaluate, predict and pre-train."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evolving_attention import distributed, durable
from evolving_attention.cli import timeseries_arguments as arguments
from evolving_attention.cli.attention_arguments import refuse_input
from evolving_attention.cli.commands import of_groups
from evolving_attention.cli.common import fit, interrupted
from evolving_attention.cli.contents import content_hashes, other_contents
from evolving_attention.cli.repeat import agreed, locked_folder
from evolving_attention.cli.repeat_results import (
    RESULTS,
    RUN,
    check_comparable,
    collected,
    number_of,
    read_record,
    read_run,
)
from evolving_attention.cli.timeseries_results import (
    align,
    check_scorable,
    content_hash,
    one_line,
    predicted,
    prediction_rows,
    run_record,
    scores,
    table,
    write_csv,
)
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import ConfigError, DataError, Interrupted
from evolving_attention.training.interrupts import InterruptGuard

_LOGGER = logging.getLogger("evolving_attention")

_MODEL = [
    (arguments.SeriesModelArguments, "Model"),
    (arguments.SeriesAttentionArguments, "Attention"),
]
_DATA = (arguments.SeriesDataArguments, "Data")
_TABLES = (arguments.TableArguments, "Tables")
_TRAINING = (arguments.SeriesTrainingArguments, "Training")
_Learned = tuple[Callable[[Path], None], Any, Any]  # what saves, result, model
_RECORDED = ("seed", "best_epoch", "epochs", "fit_seconds")  # numbers of a run's record


# ------------------------------------------------------------------------------- data


def _parts(
    data: Any,
    tables: Any,
    *,
    needs: str,
    labelled: bool = True,
    regression: bool | None = None,
) -> tuple[Any, Any]:
    """Returns (training part, test part); a part that is not needed may be None.

    Args:
        data, tables: options.
        needs: the part that is required.
        labelled: whether a file without targets is an error.
        regression: whether targets of tables are values; None: the first file decides.

    Raises:
        ConfigError: the required part is missing.
    """
    from evolving_attention import timeseries

    if data.dataset:
        found = timeseries.load(data.dataset, data.data_dir)
        return found.train, found.test
    files = {"train": data.train_file, "test": data.test_file}
    if not files[needs]:
        raise ConfigError(
            f"no data: expected --dataset NAME, or --{needs}_file FILE.ts or FILE.csv; "
            "choose one"
        )
    parts: list[Any] = []
    for file in files.values():
        part = tables.read(file, labelled, regression) if file else None
        if part is not None and part.y is not None:
            regression = part.is_regression
        parts.append(part)
    if all(part is not None for part in parts):
        timeseries.check_parts(parts[0], parts[1])
    return parts[0], parts[1]


def _longest(train: Any, test: Any) -> int:
    """Returns the longest length in both parts, which max_length must cover."""
    return max(int(part.longest) for part in (train, test) if part is not None)


# ------------------------------------------------------------------------------ train


def _train(
    data: Any, tables: Any, model: Any, attention: Any, training: Any
) -> dict[str, Any] | None:
    import evolving_attention as ea
    from evolving_attention.estimators import files

    if training.compare is not None:
        check_comparable(training.compare, training.seeds)
    train_part, test_part = _parts(data, tables, needs="train")
    longest = _longest(train_part, test_part)
    options = _options(model, attention, training, longest)
    _LOGGER.info(
        "%d series to train on, %s to test on; %d channels, up to %d time steps",
        len(train_part),
        "none" if test_part is None else len(test_part),
        train_part.channels,
        longest,
    )
    kind = (
        ea.TimeSeriesRegressor if train_part.is_regression else ea.TimeSeriesClassifier
    )
    if test_part is not None:
        held = options["pretrained"]
        limit = options["max_length"] or files.pretraining_config(held).max_length
        check_scorable(
            train_part, test_part, limit, options["missing"], options["longer"]
        )
    content: dict[str, Any] = {
        "train": content_hash(train_part),
        **content_hashes({"pretrained": training.pretrained}),
    }

    def learned(seed: int) -> _Learned:
        estimator: Any = kind(**options, random_state=seed)
        fit(estimator, train_part, train_part.y)
        return estimator.save, estimator.result_, estimator.model_

    return _runs(training, learned, options, content, test=test_part)


def _runs(
    training: Any,
    learned: Callable[[int], _Learned],
    options: dict[str, Any],
    content: dict[str, Any],
    *,
    test: Any = None,
    several: bool = True,
) -> dict[str, Any] | None:
    """Trains a model with each seed that the folder lacks; returns all results.

    Args:
        training: the options of the group Training.
        learned: trains with a seed.
        options, content: what the record of a run keeps, to compare with the next call.
        test: the series to score a model on, if any.
        several: whether each seed has a folder of its own.

    Raises:
        Interrupted: a signal came; the best epoch so far is saved.
    """
    from evolving_attention.durable import plain

    root, runs = Path(training.output_dir), []
    with locked_folder(root):
        for seed in training.seeds:
            folder, record = root, None
            if several:
                folder = root / f"seed-{seed}"
                wanted = {**options, "random_state": seed}
                record = agreed(_kept(folder, wanted, content, training))
            if record is None:
                save, result, model = learned(seed)
                record = run_record(result, model, seed, options)
                record["content"] = dict(content)
                _save(save, folder, root, record, options["n_epochs"])
            if test is not None and distributed.is_first():
                _score(folder, record, test, options["device"])
            runs.append(record)
            _LOGGER.info("seed %d: %s, saved in %s", seed, one_line(record), folder)
        if not distributed.is_first():
            return None
        results = collected(runs, table(runs), training.compare)
        if several:
            durable.write_json(root / RESULTS, plain(results))
        return results


TRAIN = of_groups(
    [_DATA, _TABLES, *_MODEL, _TRAINING],
    _train,
    """Train on labelled time series, once per seed, and test if there is a
    test set.

    A seed that is already in the folder with the same options is not trained again.
    Ctrl-C ends training and saves the best epoch so far.

    Example: evolving-attention timeseries train --dataset JapaneseVowels --seeds 1 2 3
    --output_dir out/vowels
    """,
)


def _options(model: Any, attention: Any, training: Any, longest: int) -> dict[str, Any]:
    """Returns the options of the estimator.

    By default it takes series as long as the ``longest``, or as the pre-trained model.
    """
    options = {
        **model.estimator_options(),
        "attention": attention.config() or _default_attention(training.pretrained),
        **training.estimator_options(),
    }
    default = None if training.pretrained else longest
    return {**options, "max_length": options["max_length"] or default}


def _default_attention(pretrained: str | None) -> Any:
    """Returns the attention where no option chooses it."""
    from evolving_attention.estimators import architecture, files

    held = files.pretraining_config(pretrained) if pretrained else None
    return architecture.held_attention(held)


def _score(folder: Path, record: dict[str, Any], part: Any, device: str) -> None:
    """Score a saved run on the test part, unless its record has these scores."""
    content = content_hash(part)
    contents = record.setdefault("content", {})
    if "test" in record and contents.get("test", content) == content:
        return
    record["test"] = scores(load_estimator(folder, device), part)
    contents["test"] = content
    durable.write_json(folder / RUN, record)


def _kept(
    folder: Path, options: dict[str, Any], content: dict[str, Any], training: Any
) -> Any:
    """Returns the record of an earlier complete run with equal options; None: train.

    Args:
        folder: the folder of one seed.
        options: the estimator's options.
        content: hashes of the training part, and of the files of --pretrained.
        training: options.

    Raises:
        ConfigError: the folder holds a run with other options, training data or
            pre-training.
        DataError: the record is damaged.
    """
    from evolving_attention.attention import from_config
    from evolving_attention.durable import plain

    file = folder / RUN
    seed = options["random_state"]
    record = None if training.overwrite_output_dir else _read_run(file, seed)
    if record is None:
        return None
    mine = plain({k: v for k, v in options.items() if k != "verbose"})
    theirs = {"device": "cpu", "longer": "error", **record.get("options", {})}
    theirs["attention"] = plain(from_config(theirs.get("attention")))  # all options
    theirs.pop("verbose", None)
    if mine != theirs:
        changed = sorted(k for k in mine if mine[k] != theirs.get(k))
        raise ConfigError(
            f"{file}: a run with other options ({', '.join(changed)}), expected the "
            "same; choose another --output_dir or add --overwrite_output_dir"
        )
    what = {
        "train": "on other training data",
        "pretrained": f"with other content of --pretrained {training.pretrained}",
    }
    for name in other_contents(record.get("content", {}), content):
        raise ConfigError(
            f"{file}: a run {what[name]}, expected the same; choose another "
            "--output_dir or add --overwrite_output_dir"
        )
    return None if record.get("interrupted") else record


def _read_run(file: Path, seed: int) -> dict[str, Any] | None:
    """Returns the record of the run with this seed; None if there is none.

    Raises:
        DataError: the record is damaged.
    """
    record = read_run(file, seed)
    if record is None:
        return None
    parts = [record.get(name, {}) for name in ("validation", "test")]
    objects = [record.get("options"), record.get("content", {}), *parts]
    whole = all(isinstance(one, dict) for one in objects)
    numbers = [record.get(name) for name in _RECORDED]
    numbers += [value for part in parts if whole for value in part.values()]
    if not whole or None in map(number_of, numbers):
        raise DataError(
            "is not the record of a run, expected options, numbers of the parts, "
            f"{', '.join(_RECORDED)}; remove the file to run again",
            str(file),
        )
    return record


def _save(
    save: Callable[[Path], None],
    folder: Path,
    root: Path,
    record: dict[str, Any],
    n_epochs: int,
) -> None:
    """Save a model and its record, after removing the results of an earlier one.

    Of several processes, only the first one writes. A signal is handled afterwards.

    Raises:
        Interrupted: a signal came during this call or during training.
    """
    with InterruptGuard() as guard:
        if distributed.is_first():
            for stale in (folder / RUN, root / RESULTS):
                stale.unlink(missing_ok=True)
            save(folder)
            durable.write_json(folder / RUN, record)
    if record["interrupted"]:
        done, best = record["epochs"], record["best_epoch"]
        raise interrupted(record["interrupted"], folder, done, n_epochs, best)
    if guard.received:
        raise Interrupted(
            f"{guard.name} after training: the model is saved in {folder}; the same "
            "command continues from there",
            guard.received,
        )


# --------------------------------------------------------------------------- evaluate


def _evaluate(model: Any, data: Any, tables: Any) -> dict[str, Any]:
    refuse_input("predictions", model.predictions, test_file=data.test_file)
    estimator, is_regression = _fitted(model)
    part = _parts(data, tables, needs="test", regression=is_regression)[1]
    results: dict[str, Any] = {"model": model.model_dir, "data": part.source}
    if model.predictions:
        Path(model.predictions).parent.mkdir(parents=True, exist_ok=True)
    results["test"] = scores(estimator, part)
    if model.predictions:
        names, rows = prediction_rows(estimator, part)
        lines = [[*row[:2], target] for row, target in zip(rows, part.y, strict=True)]
        write_csv(Path(model.predictions), [[*names[:2], "target"], *lines])
    results["table"] = align([[k, f"{v:.6g}"] for k, v in results["test"].items()])
    return results


EVALUATE = of_groups(
    [(arguments.EvaluateArguments, "Model"), _DATA, _TABLES],
    _evaluate,
    """Test a fitted estimator on a .ts or table file, or on a data set's test
    part.

    Example: evolving-attention timeseries evaluate --model_dir out/vowels/seed-1
    --dataset JapaneseVowels
    """,
)


def load_estimator(folder: Path, device: str = "cpu") -> Any:
    """Returns the classifier or regressor saved in a folder."""
    import evolving_attention as ea
    from evolving_attention.estimators.files import read_record

    resolve_device(device)
    regresses = read_record(folder).get("estimator") == "TimeSeriesRegressor"
    kind = ea.TimeSeriesRegressor if regresses else ea.TimeSeriesClassifier
    return kind.load(folder, device)


def _fitted(model: Any) -> tuple[Any, bool]:
    """Returns the saved estimator with the command's options; whether it regresses."""
    estimator = load_estimator(Path(model.model_dir), model.device)
    if model.longer is not None:
        estimator.set_params(longer=model.longer)
    return estimator, not hasattr(estimator, "classes_")


# ---------------------------------------------------------------------------- predict


def _predict(model: Any, tables: Any) -> dict[str, Any]:
    estimator, is_regression = _fitted(model)
    part = tables.read(model.input_file, False, is_regression)
    Path(model.output_file).parent.mkdir(parents=True, exist_ok=True)
    header, rows = prediction_rows(estimator, part)
    write_csv(Path(model.output_file), [header, *rows])
    classes = [] if is_regression else estimator.classes_.tolist()
    return predicted(model, part.source, "series", [row[1] for row in rows], classes)


PREDICT = of_groups(
    [(arguments.PredictArguments, "Model"), _TABLES],
    _predict,
    """Predict series of a file, which needs no targets, and write a .csv file.

    Each line has the series' id, or its index from 0, the prediction, and for labels
    the probability of each.

    Example: evolving-attention timeseries predict --model_dir out/vowels/seed-1
    --input_file new.csv --output_file predictions.csv
    """,
)


# --------------------------------------------------------------------------- pretrain


def _is_whole(file: Path) -> bool:
    """Whether the folder has the record of a run that was not interrupted."""
    record = read_record(file)
    return record is not None and not record.get("interrupted")


def _pretrain(
    data: Any, tables: Any, model: Any, attention: Any, mask: Any, training: Any
) -> dict[str, Any] | None:
    import evolving_attention as ea
    from evolving_attention.estimators.pretraining import learn

    if training.pretrained:
        raise ConfigError(
            f"--pretrained {training.pretrained}: expected no other pre-training to "
            "start from; leave it out"
        )
    if training.compare is not None:
        check_comparable(training.compare, training.seeds)
    root, several = Path(training.output_dir), len(training.seeds) > 1
    if not several and not training.overwrite_output_dir and _is_whole(root / RUN):
        raise ConfigError(
            f"--output_dir {root}: holds a pre-training, expected another folder; "
            "choose one or add --overwrite_output_dir"
        )
    train_part, test_part = _parts(data, tables, needs="train", labelled=False)
    longest = _longest(train_part, test_part)
    options = _options(model, attention, training, longest)
    options.pop("pretrained")
    content = {"train": content_hash(train_part, targets=False)}

    def learned(seed: int) -> _Learned:
        estimator = ea.TimeSeriesRegressor(**options, random_state=seed)
        ratio, span = mask.mask_ratio, mask.mean_span
        fitted, result = learn(estimator, train_part.X, ratio=ratio, mean_span=span)
        return fitted.save_pretrained, result, fitted

    every = {**options, **vars(mask)}
    return _runs(training, learned, every, content, several=several)


PRETRAIN = of_groups(
    [_DATA, _TABLES, *_MODEL, (arguments.MaskArguments, "Masks"), _TRAINING],
    _pretrain,
    """Pre-train on series without their labels: hide spans, predict them.

    Pass the folder to `timeseries train` as --pretrained.

    Example: evolving-attention timeseries pretrain --dataset JapaneseVowels
    --output_dir out/vowels-pre
    """,
)
