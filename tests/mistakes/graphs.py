"""Mistakes with graphs, graph models and the node classifier."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import evolving_attention as ea
from evolving_attention import functional as F
from mistakes.row import Row

X = np.ones((4, 3), np.float32)
RING = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
CLASSES = np.array([0, 1, 0, 1])


def call(x: Any = X, graph: Any = RING, labels: Any = None, **options: Any) -> Any:
    """Runs a tiny model, with some inputs or settings changed."""
    sizes = {"num_features": 3, "hidden_size": 8, "num_attention_heads": 2}
    config = ea.GATConfig(**{**sizes, **options})
    return ea.GATForNodeClassification(config)(x, graph, labels)


def with_value(value: float) -> np.ndarray:
    x = X.copy()
    x[2, 1] = value
    return x


def classifier(**options: Any) -> ea.GraphNodeClassifier:
    return ea.GraphNodeClassifier(
        **{"n_epochs": 1, "hidden_size": 8, "validation_fraction": 0.0, **options}
    )


def fit(x: Any = X, y: Any = CLASSES, graph: Any = RING, **more: Any) -> Any:
    return classifier().fit(x, y, graph=graph, **more)


def other_folder(folder: Path) -> Any:
    fit().save(folder)
    record = folder / "estimator.json"
    record.write_text(record.read_text().replace("GraphNodeClassifier", "Other"))
    return ea.GraphNodeClassifier.load(folder)


def loaded_without_graph(folder: Path) -> Any:
    fit().save(folder)
    return ea.GraphNodeClassifier.load(folder).predict(X)


def file_in(folder: Path) -> Path:
    (folder / "afile").write_text("")
    return folder / "afile"


def frame(columns: str) -> Any:
    return pd.DataFrame(X, columns=[*columns])


ROWS = {
    "a typing mistake in an option": Row(
        lambda _: classifier(head=2),
        ea.ConfigError,
        r"unknown option 'head'",
        r"GraphNodeClassifier",
        r"did you mean 'num_heads'",
    ),
    # --- graphs
    "an edge to a node that does not exist": Row(
        lambda _: ea.Graph([0, 1], [1, 7], 4),
        ea.errors.InputError,
        r"7: the node does not exist",
        r"targets\[1\]",
        r"expected 0 to 3; correct the edge",
    ),
    "a negative node": Row(
        lambda _: ea.Graph.of([[0, -1], [1, 2], [2, 0]], 4),
        ea.errors.InputError,
        r"-1: the node is negative",
        r"targets\[0\]",
        r"expected 0 to 3",
    ),
    "a matrix that is not symmetric": Row(
        lambda _: ea.Graph.of(sparse.csr_array(np.eye(3, k=1)), symmetric=True),
        ea.errors.InputError,
        r"1 edge\(s\) from 0 to 1 and 0 back",
        r"graph",
        r"add what is missing \(A \+ A\.T\)",
    ),
    "a matrix that is not square": Row(
        lambda _: ea.Graph.of(sparse.csr_array(np.ones((2, 3)))),
        ea.errors.ShapeError,
        r"shape \(2, 3\)",
        r"graph",
        r"expected \(2, 2\)",
    ),
    "a matrix with NaN": Row(
        lambda _: ea.Graph.of(sparse.csr_array(np.diag([1.0, np.nan]))),
        ea.errors.InputError,
        r"is nan",
        r"entry \(1, 1\)",
        r"expected 0 \(no edge\)",
    ),
    "a dense matrix as a graph": Row(
        lambda _: ea.Graph.of(np.ones((4, 4))),
        ea.errors.ShapeError,
        r"shape \(4, 4\)",
        r"graph",
        r"scipy\.sparse\.csr_array",
    ),
    "sources and targets of other lengths": Row(
        lambda _: ea.Graph([0, 1], [1]),
        ea.errors.ShapeError,
        r"2 sources and 1 targets",
        r"graph",
        r"expected one of each",
    ),
    "nodes that are no integers": Row(
        lambda _: ea.Graph([0.0], [1.0]),
        ea.errors.DTypeError,
        r"float64",
        r"sources",
        r"expected integers",
    ),
    "a number of nodes that is none": Row(
        lambda _: ea.Graph([0], [1], -2),
        ea.errors.InputError,
        r"num_nodes=-2",
        r"graph",
        r"expected a whole number",
    ),
    "edges of the core from a node that does not exist": Row(
        lambda _: F.Edges([0, 1], [1]),
        ea.errors.InputError,
        r"there is no such node",
        r"edge 0 comes from 1",
        r"expected 0 to 0",
    ),
    "edges of the core in a table": Row(
        lambda _: F.Edges([0, 1], [[0]]),
        ea.errors.ShapeError,
        r"int64 \(1, 1\)",
        r"\[edges\] sources",
        r"expected int64 with one axis",
    ),
    "a negative number of sources": Row(
        lambda _: F.Edges([0], [], -1),
        ea.errors.InputError,
        r"num_sources = -1",
        r"\[edges\]",
        r"expected 0 or more",
    ),
    "edges of the core whose starts fall": Row(
        lambda _: F.Edges([0, 2, 1, 2], [0, 0]),
        ea.errors.ShapeError,
        r"is below",
        r"starts\[2\]",
        r"\[1\] = 2",
    ),
    "a packing with a graph of other nodes": Row(
        lambda _: F.Packing(1, [0, 3], edges=F.Edges([0, 1], [0])),
        ea.errors.ShapeError,
        r"the graph has edges from 1",
        r"\[packing\]",
        r"expected as many",
    ),
    "a packing with a graph and a causal limit": Row(
        lambda _: F.Packing(1, [0, 1], causal=True, edges=F.Edges([0, 1], [0])),
        ea.errors.ConfigError,
        r"causal or has a key mask",
        r"\[packing\]",
        r"expected neither with edges",
    ),
    "maps along edges where all keys are needed": Row(
        lambda _: F.Packing(1, [0, 1], edges=F.Edges([0, 1], [0])).pad([1.0]),
        ea.errors.ConfigError,
        r"those of the edges of a graph",
        r"\[packing\]",
        r"use the scope dense",
    ),
    "a kernel of size 3 over maps along edges": Row(
        lambda _: F.map_conv(
            np.ones(1, np.float32),
            np.ones((1, 1, 3, 3), np.float32),
            np.ones(1, np.float32),
            F.Packing(1, [0, 1], edges=F.Edges([0, 1], [0])),
        ),
        ea.errors.ConfigError,
        r"the kernel has size 3",
        r"\[map_conv\]",
        r"expected size 1",
    ),
    # --- models
    "a kernel of size 3 in a graph model": Row(
        lambda _: ea.GATConfig(
            num_features=3, attention=ea.attention.Evolving(0.1, 0.1)
        ),
        ea.errors.ConfigError,
        r"kernel of size 3",
        r"attention",
        r"use kernel_size=1",
    ),
    "a scope that does not see the graph": Row(
        lambda _: ea.GATConfig(
            num_features=3, attention=ea.attention.Spec(score="additive")
        ),
        ea.errors.ConfigError,
        r"does not see the graph",
        r"GATConfig",
        r"expected ea\.attention\.Edges\(\)",
    ),
    "edges in a model of texts": Row(
        lambda _: ea.BertConfig(
            vocab_size=9, attention=["vanilla", ea.attention.Spec(scope="edges")]
        ),
        ea.errors.ConfigError,
        r"needs a graph",
        r"BertConfig: attention has the scope edges",
        r"use a graph model such as GAT",
    ),
    "edges between two texts": Row(
        lambda _: ea.T5Config(
            vocab_size=9, cross_attention=ea.attention.Spec(scope="edges")
        ),
        ea.errors.ConfigError,
        r"needs a graph",
        r"T5Config: cross_attention has the scope edges",
        r"use a graph model such as GAT",
    ),
    "no number of features": Row(
        lambda _: ea.GATConfig(),
        ea.errors.ConfigError,
        r"num_features is missing",
        r"GATConfig",
        r"GATConfig\(num_features=1433\)",
    ),
    "a dropout that graph models have not": Row(
        lambda _: ea.GATConfig(num_features=3, classifier_dropout=0.1),
        ea.errors.ConfigError,
        r"classifier_dropout = 0\.1",
        r"GATConfig",
        r"hidden_dropout_prob",
    ),
    "features of another width than trained": Row(
        lambda _: call(np.ones((4, 5), np.float32)),
        ea.errors.ShapeError,
        r"5 columns",
        r"features",
        r"this model takes 3",
    ),
    "other rows than nodes": Row(
        lambda _: call(graph=ea.Graph.of(RING, 6)),
        ea.errors.ShapeError,
        r"4 rows for a graph with 6 nodes",
        r"features",
        r"expected one row",
    ),
    "NaN in the features": Row(
        lambda _: call(with_value(np.nan)),
        ea.errors.InputError,
        r"nan",
        r"features\[2, 1\]",
        r"fill in what is missing",
    ),
    "a feature that the model's type does not hold": Row(
        lambda _: call(with_value(1e300)),
        ea.errors.InputError,
        r"inf",
        r"features\[2, 1\]",
        r"expected finite numbers",
    ),
    "infinity in sparse features": Row(
        lambda _: call(sparse.csr_array(with_value(np.inf))),
        ea.errors.InputError,
        r"inf",
        r"features\[stored value 7\]",
        r"expected finite numbers",
    ),
    "no graph": Row(
        lambda _: call(graph=None),
        ea.errors.InputError,
        r"graph is missing",
        r"GATForNodeClassification",
        r"pass an ea\.Graph",
    ),
    "labels of another length": Row(
        lambda _: call(labels=[0, 1]),
        ea.errors.ShapeError,
        r"labels have shape \(2,\)",
        r"forward",
        r"expected \(4,\)",
    ),
    "values as labels": Row(
        lambda _: call(labels=[0.5, 1.0, 0.0, 1.0]),
        ea.errors.DTypeError,
        r"labels are float32",
        r"forward",
        r"-100 for nodes without one",
    ),
    # --- the classifier
    "fit without a graph": Row(
        lambda _: fit(graph=None),
        ea.errors.InputError,
        r"graph is None",
        r"graph",
        r"pass fit\(X, y, graph=…\)",
    ),
    "nodes that both learn and judge": Row(
        lambda _: fit(train_mask=[0, 1], validation_mask=[1, 2]),
        ea.errors.InputError,
        r"share 1 node\(s\)",
        r"train_mask and validation_mask",
        r"expected none",
    ),
    "a mask of another length": Row(
        lambda _: fit(train_mask=[True, False]),
        ea.errors.ShapeError,
        r"2 booleans for 4 nodes",
        r"train_mask",
        r"expected one each",
    ),
    "a mask with a node that does not exist": Row(
        lambda _: fit(train_mask=[0, 9]),
        ea.errors.InputError,
        r"there is no such node",
        r"train_mask\[1\] = 9",
        r"expected 0 to 3",
    ),
    "a mask of whole numbers": Row(
        lambda _: fit(train_mask=np.array([1, 1, 0, 0])),
        ea.errors.InputError,
        r"4 integers 0 and 1 for 4 nodes look like a mask",
        r"train_mask",
        r"pass train_mask\.astype\(bool\)",
    ),
    "a mask of whole numbers to score": Row(
        lambda _: fit().score(X, CLASSES, mask=[0, 1, 1, 1]),
        ea.errors.InputError,
        r"look like a mask",
        r"mask: 4 integers",
        r"expected booleans, or numbers of nodes",
    ),
    "a node twice": Row(
        lambda _: fit(validation_mask=[1, 3, 3]),
        ea.errors.InputError,
        r"the node 3 comes 2 times",
        r"validation_mask",
        r"expected every number of a node once",
    ),
    "labels of another type to score": Row(
        lambda _: fit().score(X, ["0", "1", "0", "1"]),
        ea.errors.InputError,
        r"'0': a label unseen in training",
        r"y\[0\]",
        r"expected one of 0, 1; leave the node out",
    ),
    "a label unseen in training": Row(
        lambda _: fit().score(X, [0, 1, 2, 0], mask=[1, 2]),
        ea.errors.InputError,
        r"= 2: a label unseen in training",
        r"y\[2\]",
        r"expected one of 0, 1; leave the node out",
    ),
    "no node to score": Row(
        lambda _: fit().score(X, CLASSES, mask=np.zeros(4, bool)),
        ea.errors.InputError,
        r"has no node",
        r"mask",
        r"expected some to score",
    ),
    "None among classes of text": Row(
        lambda _: fit(y=np.array(["a", None, "b", "a"], dtype=object)),
        ea.errors.InputError,
        r"= None",
        r"y\[1\]",
        r"leave nodes without one out of the masks",
    ),
    "NaN among classes of text": Row(
        lambda _: fit(y=np.array(["a", "b", float("nan"), "a"], dtype=object)),
        ea.errors.InputError,
        r"= nan",
        r"y\[2\]",
        r"leave nodes without one out of the masks",
    ),
    "text and numbers as classes": Row(
        lambda _: classifier(validation_fraction=0.5).fit(
            X, np.array(["a", 1, "b", "a"], dtype=object), graph=RING
        ),
        ea.errors.DTypeError,
        r"not supported between",
        r"y: ",
        r"labels of one kind",
    ),
    "bytes as classes": Row(
        lambda _: fit(y=np.array([b"a", b"b", b"a", b"b"])),
        ea.errors.DTypeError,
        r"represented as bytes is not supported",
        r"^y:",
        r"expected labels of one kind, all text or all whole numbers",
    ),
    "a graph of NetworkX": Row(
        lambda _: ea.Graph.of(SimpleNamespace(nodes=[(0, 0)], edges=[])),
        ea.errors.DTypeError,
        r"a types\.SimpleNamespace",
        r"^graph:",
        r"G pass networkx\.to_scipy_sparse_array\(G\)",
    ),
    "an object with an edge_index": Row(
        lambda _: fit(graph=SimpleNamespace(edge_index=RING)),
        ea.errors.DTypeError,
        r"a types\.SimpleNamespace",
        r"^graph:",
        r"pass its edge_index",
    ),
    "a fit without a graph after one with it": Row(
        lambda _: fit().fit(X, CLASSES),
        ea.errors.InputError,
        r"graph is None",
        r"graph",
        r"pass fit\(X, y, graph=…\)",
    ),
    "no graph after loading": Row(
        loaded_without_graph,
        ea.errors.InputError,
        r"the graph of the fit is not saved",
        r"graph is None",
        r"such as predict\(X, graph\)",
    ),
    "a file as the folder of a classifier": Row(
        lambda folder: fit().save(file_in(folder) / "x"),
        ea.errors.CheckpointError,
        r"cannot write",
        r"afile",
        r"the estimator is not saved",
    ),
    "columns in another order": Row(
        lambda _: fit(frame("abc")).predict(frame("bac")),
        ea.errors.InputError,
        r"the columns b, a, c",
        r"X",
        r"expected a, b, c as in training; name and order them alike",
    ),
    "a matrix of one axis": Row(
        lambda _: ea.Graph.of(sparse.coo_array(np.ones(4))),
        ea.errors.ShapeError,
        r"shape \(4,\)",
        r"graph",
        r"expected \(4, 4\)",
    ),
    "one class alone": Row(
        lambda _: fit(train_mask=[0, 2]),
        ea.errors.InputError,
        r"have one class",
        r"y",
        r"at least 2 classes",
    ),
    "NaN as a class": Row(
        lambda _: fit(y=np.array([0.0, np.nan, 1.0, 0.0])),
        ea.errors.InputError,
        r"nan",
        r"y\[1\]",
        r"leave nodes without one out",
    ),
    "labels for other nodes": Row(
        lambda _: fit(y=[0, 1]),
        ea.errors.ShapeError,
        r"shape \(2,\) for 4 nodes",
        r"y",
        r"expected \[4\]",
    ),
    "other nodes than in the fit, and no graph": Row(
        lambda _: fit().predict(np.ones((5, 3), np.float32)),
        ea.errors.ShapeError,
        r"5 rows",
        r"X",
        r"pass the other graph",
    ),
    "an option out of range": Row(
        lambda _: classifier(learning_rate=-1.0).fit(X, CLASSES, graph=RING),
        ea.errors.ConfigError,
        r"learning_rate=-1\.0",
        r"GraphNodeClassifier",
        r"expected a number from 0",
    ),
    "an option twice": Row(
        lambda _: classifier(model_options={"hidden_size": 4}).fit(
            X, CLASSES, graph=RING
        ),
        ea.errors.ConfigError,
        r"model_options has hidden_size",
        r"GraphNodeClassifier",
        r"give them there",
    ),
    "the folder of another estimator": Row(
        other_folder,
        ea.errors.CheckpointError,
        r"of a 'Other'",
        r"estimator\.json",
        r"load it with its own class",
    ),
}
