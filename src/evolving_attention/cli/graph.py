"""``evolving-attention graph``: train, evaluate and predict classes of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.cli import graph_arguments as arguments
from evolving_attention.cli.attention_arguments import refuse_input
from evolving_attention.cli.commands import of_groups, refuse_several
from evolving_attention.cli.common import fit, save_fitted
from evolving_attention.cli.repeat import Once, claim_folder
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.repeat_results import RESULTS
from evolving_attention.cli.timeseries_results import worst_confusions, write_csv
from evolving_attention.errors import ConfigError, DataError, InputError
from evolving_attention.interop.json_file import read_object
from evolving_attention.interop.paths import present

READING = "reading.json"  # how the graph was read; stored with the classifier
_DATA = (arguments.GraphFittedDataArguments, "Data")
_FITTED = ("data_file", "model_dir")  # most used with a fitted classifier
_HIDDEN = {"model": ""}  # the earlier name of --model_dir
_MOST_USED = ("data_file", "output_dir", "undirected", "attention", "num_layers")


def _load(data: Any) -> Any:
    from evolving_attention.data.graph_files import load_npz

    return load_npz(data.data_file, **_reading(data))


def _reading(data: Any) -> dict[str, bool]:
    """Returns the options that determine how a file is read."""
    return {"undirected": data.undirected, "normalize": data.normalize}


def _load_as_trained(data: Any, folder: str) -> Any:
    """Loads the graph with the reading options of training, which may be omitted.

    Raises:
        ConfigError: a given option differs from training.
    """
    kept = {
        "undirected": bool(data.undirected),
        "normalize": data.normalize is not False,
    }
    if present(Path(folder), READING):  # earlier versions did not write it
        kept.update(read_object(Path(folder), READING, 1 << 16))
    for name, value in _reading(data).items():
        if value not in (None, kept[name]):
            raise ConfigError(
                f"--{'' if value else 'no_'}{name}: {folder} was trained with "
                f"--{'' if kept[name] else 'no_'}{name}, expected the same; leave it "
                "out"
            )
        setattr(data, name, kept[name])
    return _load(data)


@contextmanager
def _in_file(data: Any) -> Iterator[None]:
    """Adds the file of the graph to errors that do not name it."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise DataError(str(error), str(data.data_file)) from error


def _labels(found: Any, data: Any) -> Any:
    if found.y is None:
        raise DataError(
            "has no array y, expected the class of each node", str(data.data_file)
        )
    return found.y


def _table(results: dict[str, Any]) -> dict[str, Any]:
    """Returns the results with a readable line for each."""
    lines = [
        f"{key} = {value:.4f}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in results.items()
    ]
    return {**results, "table": "\n".join(lines)}


def _train(
    data: Any, model: Any, attention: Any, training: Any, once: Once
) -> dict[str, Any]:
    from evolving_attention.estimators import GraphNodeClassifier

    refuse_several("the whole graph is one batch, which they cannot share")
    found = once("graph", lambda: _load(data))
    y = _labels(found, data)
    folder = Path(training.output_dir)
    folder.mkdir(parents=True, exist_ok=True)  # fail before any work
    with _in_file(data):
        train_mask = _training_nodes(found, y, str(data.data_file))
    classifier = GraphNodeClassifier(
        attention=attention.config(),
        **vars(model),
        n_epochs=training.n_epochs,
        learning_rate=training.learning_rate,
        weight_decay=training.weight_decay,
        patience=training.patience,
        random_state=training.seed,
        device=training.device,
        verbose=training.verbose,
    )
    with claim_folder(once, data, model, attention, training):
        with _in_file(data):
            fit(
                classifier,
                found.x,
                y,
                graph=found.graph,
                train_mask=train_mask,
                validation_mask=found.parts.get("validation"),
            )
        durable.write_json(folder / READING, _reading(data))
        save_fitted(classifier, folder)
        best = classifier.history_[classifier.best_epoch_ - 1]
        results: dict[str, Any] = {
            "model": str(folder),
            "epochs": len(classifier.history_),
            "best_epoch": classifier.best_epoch_,
            "seconds": round(classifier.fit_seconds_, 3),
            **{key: value for key, value in best.items() if key != "epoch"},
        }
        if "test" in found.parts:
            results["test_accuracy"] = classifier.score(
                found.x, y, found.graph, found.parts["test"]
            )
        durable.write_json(folder / RESULTS, results)
        return _table(results)


TRAIN = of_groups(
    [
        (arguments.GraphDataArguments, "Data"),
        (arguments.GraphModelArguments, "Model"),
        (arguments.GraphAttentionArguments, "Attention"),
        (RepeatArguments, "Training"),
        (arguments.GraphTrainingArguments, "Training"),
    ],
    _train,
    """Train a graph attention network on the labelled nodes of a graph.

    With test nodes in the file it is tested afterwards; without train nodes it
    learns from those that are in neither the test nor the validation part. Three
    layers and --attention evolving make an EA-GAT.

    Example: evolving-attention graph train --data_file cora.npz --undirected
    --output_dir out/cora
    """,
    _MOST_USED,
)


def _training_nodes(found: Any, y: Any, file: str) -> Any:
    """Returns the nodes to learn from, and refuses unusable test nodes before any work.

    Returns:
        The train part; without one, but with a test part, the numbers of the nodes that
        are in neither the test nor the validation part; without both None.

    Raises:
        DataError: two parts share nodes, or no node is left to learn from.
        InputError, ShapeError: a part has no such nodes, or a test node has a class
            that no other node has.
    """
    from evolving_attention.estimators.graph_nodes import node_numbers
    from evolving_attention.estimators.targets import NODES, class_numbers

    count = found.graph.num_nodes
    parts = {n: node_numbers(m, count, f"{n}_mask") for n, m in found.parts.items()}
    for name, other in combinations(reversed(parts), 2):
        if both := np.intersect1d(parts[name], parts[other]).tolist():
            raise DataError(
                f"the {name} part and the {other} part share {len(both)} node(s), the "
                f"first is {both[0]}; expected none: the {name} would not be of unseen "
                "nodes; take them out of one of the two",
                file,
            )
    if "test" not in parts:
        return found.parts.get("train")
    tested = parts.pop("test")
    if "train" not in parts:
        held = np.concatenate([tested, *parts.values()])
        parts["train"] = np.setdiff1d(np.arange(count), held)
        if not len(parts["train"]):
            raise DataError(
                f"all {count} nodes are in the test or validation part, expected some "
                "to learn from; take some out of both, or add train_idx or train_mask",
                file,
            )
    if y.shape == (count,):
        known = np.unique(y[np.concatenate(list(parts.values()))])
        class_numbers(y[tested], known, kind=NODES, rows=tested)
    return found.parts.get("train", parts["train"])


def _fitted(options: Any) -> Any:
    from evolving_attention.estimators import GraphNodeClassifier

    return GraphNodeClassifier.load(options.model_dir, options.device)


def _evaluate(data: Any, options: Any) -> dict[str, Any]:
    from evolving_attention.estimators.graph_nodes import scored_nodes
    from evolving_attention.metrics import confusion_matrix, top_k

    classifier = _fitted(options)
    found = _load_as_trained(data, options.model_dir)
    y = _labels(found, data)
    mask = np.arange(found.graph.num_nodes)
    if options.part != "all":
        if options.part not in found.parts:
            raise DataError(
                f"has no {options.part} nodes, expected "
                f"{options.part[:3] if options.part == 'validation' else options.part}"
                "_idx or …_mask; add them, or score --part all",
                str(data.data_file),
            )
        mask = found.parts[options.part]
    with _in_file(data):
        odds = classifier.predict_proba(found.x, found.graph)
        nodes, numbers = scored_nodes(classifier, y, len(odds), mask)
    names = [str(one) for one in classifier.classes_.tolist()]
    odds = odds[nodes]
    best = odds.argmax(axis=1)
    matrix = confusion_matrix(best, numbers, len(names))
    results: dict[str, Any] = {
        "part": options.part,
        "accuracy": float(np.mean(best == numbers)),
        "top5": top_k(odds, numbers, 5),
    }
    table = _table(results | worst_confusions(matrix, names))["table"]
    results |= {"classes": names, "confusion": matrix.tolist(), "table": table}
    return results


EVALUATE = of_groups(
    [_DATA, (arguments.GraphEvaluateArguments, "Model")],
    _evaluate,
    """Test a trained classifier: accuracy, top-5, and which classes it confuses.

    Example: evolving-attention graph evaluate --model_dir out/cora --data_file cora.npz
    """,
    _FITTED,
    texts=_HIDDEN,
)


def _predict(data: Any, options: Any) -> dict[str, Any]:
    refuse_input("output_file", options.output_file, data_file=data.data_file)
    classifier = _fitted(options)
    found = _load_as_trained(data, options.model_dir)
    with _in_file(data):
        odds = classifier.predict_proba(found.x, found.graph)
    labels = classifier.classes_[odds.argmax(axis=1)]
    rows = [
        [node, label, *(f"{value:.6f}" for value in row)]
        for node, (label, row) in enumerate(zip(labels.tolist(), odds, strict=True))
    ]
    path = Path(options.output_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path, [["node", "prediction", *classifier.classes_.tolist()], *rows])
    counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
    return _table(
        {
            "file": str(path),
            "nodes": len(labels),
            **{f"nodes of {label}": int(count) for label, count in counts.items()},
        }
    )


PREDICT = of_groups(
    [_DATA, (arguments.GraphPredictArguments, "Model")],
    _predict,
    """Predict the class of every node, into a .csv file.

    Example: evolving-attention graph predict --model_dir out/cora --data_file
    cora.npz --output_file classes.csv
    """,
    _FITTED,
    texts=_HIDDEN,
)
