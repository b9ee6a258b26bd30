"""Classifier of graph nodes, with the conventions of scikit-learn."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evolving_attention.attention import Evolving, from_config
from evolving_attention.attention.spec import to_config
from evolving_attention.data.graph import Graph
from evolving_attention.data.labels import listed
from evolving_attention.data.series_axes import names_of
from evolving_attention.device_names import host_array, resolve_device
from evolving_attention.errors import (
    ConfigError,
    DTypeError,
    InputError,
    ShapeError,
    require,
)
from evolving_attention.estimators import files, graph_fitting, rules, targets
from evolving_attention.estimators.fitting import kept_randomness, tell
from evolving_attention.estimators.named import NamedOptions
from evolving_attention.estimators.randomness import seed_of
from evolving_attention.estimators.weights import sample_weights
from evolving_attention.metrics.probabilities import softmax
from evolving_attention.notices import note
from evolving_attention.training import runtime

_base = require("sklearn.base", extra="graphs", why="for the estimators of graphs")
_multiclass: Any = require(
    "sklearn.utils.multiclass", extra="graphs", why="for targets of nodes"
)
_Estimator: Any = _base.BaseEstimator
_Classifier: Any = _base.ClassifierMixin
Array = np.ndarray[Any, Any]
_Self = TypeVar("_Self", bound="GraphNodeClassifier")

_RANGES: dict[str, tuple[float, float]] = {
    "n_epochs": (1, 1_000_000),
    "learning_rate": (0.0, 1e3),
    "weight_decay": (0.0, 1e3),
    "validation_fraction": (0.0, 0.9),
    "patience": (1, 1_000_000),
}
_OF_MODEL = {  # estimator's option: config's option
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_output_heads": "num_output_heads",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "add_self_loops": "add_self_loops",
}


@dataclass(kw_only=True, eq=False, repr=False)
class GraphNodeClassifier(NamedOptions, _Classifier, _Estimator):  # type: ignore[misc]
    """Classifies the nodes of a graph with a graph attention network.

    Training is full-batch Adam on the labelled nodes of one graph, as in the paper: all
    nodes take part in every pass, and ``train_mask`` selects the nodes whose labels
    count. Features are an array [nodes, features] or a sparse SciPy matrix, whose cost
    depends only on its stored values. A bag of words is usually scaled so that each row
    sums to 1 (``sklearn.preprocessing.normalize(X, norm="l1")``).

    Args:
        attention: an evolve kind of ``ea.attention`` with kernels of size 1, its dict
            or name, or a list with one for each layer; None: plain GAT. ``"evolving"``,
            ``Evolving(0.1, 0.1, kernel_size=1)``, is EA-GAT, which needs three layers:
            the output layer has other heads.
        hidden_size: width of a layer, all heads together.
        num_layers, num_heads, num_output_heads: number of layers, including the output
            layer; heads of each layer; heads of the output layer, which are averaged.
        dropout, attention_dropout: dropout of each layer's input and of attention.
        add_self_loops: whether each node attends to itself.
        model_options: dict of further options of ``ea.GATConfig``.
        n_epochs: maximum number of steps, one per epoch.
        learning_rate: learning rate of Adam.
        weight_decay: L2 penalty λ: λ/2 · Σ θ² is added to the loss.
        validation_fraction: share of the labelled nodes held out, class by class, if
            ``fit`` is given no ``validation_mask``.
        patience: training ends after this many epochs without a validation loss or
            accuracy as good as the best before; None: never.
        random_state: a number, a NumPy generator, or None.
        device: device to compute on.
        verbose: print a line every ``verbose`` epochs on stderr; 0: none.

    Attributes:
        classes_: the labels, in the order of ``predict_proba``'s columns.
        model_: the trained :class:`~evolving_attention.GATForNodeClassification`.
        graph_: the graph of the fit.
        history_: one dict per epoch: loss, validation_loss, validation_accuracy.
        best_epoch_: the epoch whose weights were kept.
        interrupted_: "SIGINT", "SIGTERM" or "SIGHUP", if that signal ended training:
            the best epoch so far is kept. A second Ctrl-C raises KeyboardInterrupt.
            None: training was not interrupted.
        n_features_in_: number of columns of X.
        feature_names_in_: column names, if X was a DataFrame with names; a DataFrame
            with other names, or another order, is refused later.

    Raises:
        ConfigError: an option is out of range.
        InputError, ShapeError, DTypeError: features, graph or labels cannot be used.
        MissingExtraError: scikit-learn is not installed.

    Example::

        clf = ea.GraphNodeClassifier(random_state=0)
        clf.fit(X, y, graph=edge_index, train_mask=train, validation_mask=val)
        clf.score(X, y, mask=test)

    Source: Veličković et al., Graph Attention Networks, ICLR 2018, Sections 2 and 3.3.
    """

    attention: Any = None
    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 8
    num_output_heads: int = 1
    dropout: float = 0.6
    attention_dropout: float = 0.6
    add_self_loops: bool = True
    model_options: Any = None
    n_epochs: int = 1000
    learning_rate: float = 5e-3
    weight_decay: float = 5e-4
    validation_fraction: float = 0.2
    patience: int | None = 100
    random_state: Any = None
    device: str = "cpu"
    verbose: bool | int = 0

    # --- fitting ------------------------------------------------------------------

    def fit(
        self: _Self,
        X: Any,
        y: Any,
        graph: Any = None,
        train_mask: Any = None,
        validation_mask: Any = None,
    ) -> _Self:
        """Train on the labelled nodes of a graph; discards an earlier fit.

        Args:
            X: features, [nodes, features].
            y: [nodes] labels; labels of nodes outside the masks are not read.
            graph: an ``ea.Graph``, or anything that ``ea.Graph.of`` accepts: a sparse
                matrix, an ``edge_index``, a list of pairs.
            train_mask: [nodes] booleans, or numbers of nodes, each once: the nodes
                whose labels are learnt; None: all nodes not in ``validation_mask``.
            validation_mask: same format, for the nodes that select the best epoch;
                None: a part of the training nodes.

        Raises:
            ConfigError, InputError, ShapeError, DTypeError: an option or an array
                cannot be used; says which.
            Interrupted: SIGTERM or SIGHUP ended training; the best epoch so far is
                kept.
        """
        import evolving_attention as ea

        self._check_options()
        if validation_mask is None:
            self._check_patience()
        if graph is None:
            raise InputError(
                "graph is None, expected the edges between the nodes; pass "
                "fit(X, y, graph=…)"
            )
        found = self._graph_of(X, graph)
        inputs = graph_fitting.inputs_of(X, found)
        count = found.num_nodes
        seed = seed_of(self)
        training, validation = self._parts(train_mask, validation_mask, count)
        used = np.concatenate([training, validation])
        numbers = np.zeros(count, np.int64)
        classes, numbers[used] = _classes(_labels(y, count, used), used)
        if validation_mask is None and self.validation_fraction:
            known = numbers[training]
            share = self.validation_fraction
            parts = targets.split(len(known), share, seed, known, targets.NODES, 3)
            training, validation = (training[part] for part in parts)
        names = {i: str(label) for i, label in enumerate(classes.tolist())}
        config = ea.GATConfig(
            num_features=int(X.shape[1]) if hasattr(X, "shape") else len(X[0]),
            num_labels=len(classes),
            id2label=names,
            **self._model_settings(),
        )
        with kept_randomness():
            ea.manual_seed(seed)
            model = ea.GATForNodeClassification(config)
            runtime.place_model(model, self.device)
            result = graph_fitting.train(
                model, inputs, numbers, training, validation, self, self._show
            )
        self.classes_, self.model_, self.graph_ = classes, model, found
        self.n_features_in_ = config.num_features
        self.__dict__.pop("feature_names_in_", None)  # remove an earlier fit's names
        if (columns := _columns(X)) is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)
        self.history_, self.best_epoch_ = result.history, result.best_epoch
        self.fit_seconds_, self.interrupted_ = result.seconds, result.interrupted
        tell(result, self.n_epochs, stacklevel=3, continues=False)
        return self

    def _check_options(self) -> None:
        rules.check_ranges(self, _RANGES)
        rules.check_dicts(self, model_options="of ea.GATConfig")
        resolve_device(self.device)

    def _check_patience(self) -> None:
        """Refuse a patience that was set, though no node is held out to watch."""
        usual = inspect.signature(type(self)).parameters["patience"].default
        if self.patience not in (None, usual) and not self.validation_fraction:
            raise ConfigError(
                f"{type(self).__name__}: patience={self.patience} with "
                "validation_fraction=0, expected validation nodes to watch; raise "
                "validation_fraction, pass a validation_mask, or leave patience out"
            )

    def _model_settings(self) -> dict[str, Any]:
        """Returns the options of the model's config."""
        options = {name: getattr(self, own) for own, name in _OF_MODEL.items()}
        given = self.model_options or {}
        if both := sorted(set(given) & {*options, "attention"}):
            raise ConfigError(
                f"{type(self).__name__}: model_options has {', '.join(both)}, which "
                "are options of the estimator; expected others; give them there"
            )
        return {**options, "attention": self._attention(), **given}

    def _attention(self) -> Any:
        """Returns the attention of all layers, or of each."""

        def known(one: Any) -> Any:  # kernels over edges have size 1
            return Evolving(kernel_size=1) if one == "evolving" else one

        given = self.attention
        several = isinstance(given, (list, tuple))
        return from_config(list(map(known, given)) if several else known(given))

    def _show(self, row: dict[str, float]) -> None:
        """Prints the scores of an epoch, if it is one to show."""
        every = int(self.verbose)
        if every and row["epoch"] % every == 0:
            note("  ".join(f"{name} {value:.4g}" for name, value in row.items()))

    def _parts(self, training: Any, validation: Any, count: int) -> tuple[Array, Array]:
        """Returns the indices of the training and the validation nodes of the masks."""
        held = np.zeros(0, np.int64)
        if validation is not None:
            held = node_numbers(validation, count, "validation_mask")
        if training is None:
            chosen = np.setdiff1d(np.arange(count), held)
        else:
            chosen = node_numbers(training, count, "train_mask")
        if both := np.intersect1d(chosen, held).tolist():
            raise InputError(
                f"train_mask and validation_mask share {len(both)} node(s), the first "
                f"is {both[0]}; expected none"
            )
        if len(chosen) == 0:
            raise InputError("train_mask has no node; expected some to learn from")
        return chosen, held

    # --- a fitted estimator -------------------------------------------------------

    def predict_proba(self, X: Any, graph: Any = None) -> Array:
        """Returns each node's probability of each class: float64 [nodes, classes].

        Args:
            X: features of all nodes of the graph.
            graph: the graph; None: the graph of the fit.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError, ShapeError, DTypeError: features or graph cannot be used.
        """
        return softmax(host_array(self._run(X, graph).logits))

    def predict(self, X: Any, graph: Any = None) -> Array:
        """Returns each node's most probable label; arguments as ``predict_proba``."""
        odds = self.predict_proba(X, graph)
        found: Array = self.classes_[odds.argmax(axis=1)]
        return found

    def score(
        self,
        X: Any,
        y: Any,
        graph: Any = None,
        mask: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Returns the share of nodes whose label is right.

        Args:
            X, graph: as in ``predict_proba``.
            y: [nodes] labels.
            mask: [nodes] booleans, or numbers of nodes, each once, to score; None: all.
            sample_weight: [nodes] weights >= 0; those of nodes outside the mask are not
                read. None: equal weights.

        Raises:
            NotFittedError, InputError, ShapeError, DTypeError: as ``predict_proba``;
                also for labels that training did not see, for no node to score, and
                for weights that cannot be used.
        """
        odds = self.predict_proba(X, graph)
        nodes, numbers = scored_nodes(self, y, len(odds), mask)
        weight = sample_weights(sample_weight, len(odds), 1, targets.NODES, nodes)
        hits = odds[nodes].argmax(axis=1) == numbers
        return float(np.average(hits, weights=weight))

    def embed(self, X: Any, graph: Any = None) -> Array:
        """Returns the output layer's input of each node: float32 [nodes, hidden_size].

        With ``num_layers=1`` this input is the features: float32 [nodes, features].
        Arguments as for ``predict_proba``.
        """
        last = self._fitted().config.num_hidden_layers - 1
        if last == 0:
            self._run(X, graph)  # checks both
            dense = X.toarray() if hasattr(X, "toarray") else X
            return np.array(dense, dtype=np.float32)
        out = self._run(X, graph, output_hidden_states=[last])
        return host_array(out.hidden_states[last]).astype(np.float32)

    def attention_maps(self, X: Any, graph: Any = None) -> tuple[Array, list[Array]]:
        """Returns the attention probabilities of every layer, edge by edge.

        Arguments as ``predict_proba``.

        Returns:
            ``edge_index`` int64 [2, edges], sources before targets, including self
            loops; and for each layer float32 [edges, heads]. Each head's probabilities
            sum to 1 over the edges that enter a node.
        """
        maps = self._run(X, graph, output_attentions=True).attentions
        seen = self._graph_of(X, graph)
        if self.model_.config.add_self_loops:
            seen = seen.with_self_loops()
        found = [host_array(one).astype(np.float32) for one in maps]
        return seen.edge_index, found

    def _run(self, X: Any, graph: Any, **wanted: Any) -> Any:
        model = self._fitted()
        known, columns = vars(self).get("feature_names_in_"), _columns(X)
        if known is not None and columns is not None and columns != tuple(known):
            raise InputError(
                f"X: the columns {listed(columns)}, expected {listed(known)} as in "
                "training; name and order them alike"
            )
        runtime.place_model(model, self.device)
        inputs = graph_fitting.inputs_of(X, self._graph_of(X, graph))
        return graph_fitting.outputs(model, inputs, **wanted)

    def _fitted(self) -> Any:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        return self.model_

    def _graph_of(self, X: Any, graph: Any) -> Graph:
        nodes = _rows_of(X)
        if graph is None:
            graph = vars(self).get("graph_")
            if graph is None:
                raise InputError(
                    "graph is None, and the graph of the fit is not saved; expected "
                    "the edges between the nodes; pass graph=…, such as predict(X, "
                    "graph)"
                )
            if graph.num_nodes != nodes:
                raise ShapeError(
                    f"X: {nodes} rows, the graph of the fit has {graph.num_nodes} "
                    "nodes; expected one row each; pass the other graph as graph"
                )
        return Graph.of(graph, nodes)

    # --- files --------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator: the model's files and ``estimator.json``.

        The graph is not saved: pass it to ``predict`` after :meth:`load`.

        Raises:
            NotFittedError: the estimator is not fitted.
            CheckpointError: the folder cannot be written.
        """
        self._fitted()
        record = {
            **files.heading(self, attention=to_config(self._attention())),
            "classes": self.classes_.tolist(),
            "kind": self.classes_.dtype.str,
            "features": vars(self).get("feature_names_in_"),
        }
        files.write(folder, self.model_, record)

    @classmethod
    def load(cls: type[_Self], folder: str | Path, device: str = "cpu") -> _Self:
        """Load an estimator that :meth:`save` wrote.

        Raises:
            CheckpointError: the folder is missing, damaged, or another estimator's.
            ConfigError, BackendUnavailable: the device does not exist.
        """
        import evolving_attention as ea

        path = Path(folder)
        record = files.read_own(cls, path, device)
        model = files.read_model(ea.GATForNodeClassification, path, device)
        files.check_files(path, record)
        with files.usable(path):
            made = cls(**record["options"], device=device)
            made.classes_ = files.labels_of(path, record, model)
            files.set_fit(made, record)
            names = files.names_of(path, record, "features", model.config.num_features)
            if names is not None:
                made.feature_names_in_ = np.array(names, dtype=object)
        made.model_, made.n_features_in_ = model, model.config.num_features
        return made


def _rows_of(X: Any) -> int:
    """Returns the number of rows of X, [nodes, features]."""
    try:
        shape = np.shape(X)
    except ValueError as error:  # rows of different lengths
        raise ShapeError(f"X: {error}; expected [nodes, features]") from None
    if len(shape) != 2:
        raise ShapeError(
            f"X: shape {shape}, expected [nodes, features]: a row for each node"
        )
    return int(shape[0])


def _labels(y: Any, count: int, used: Array) -> Array:
    """Returns the labels of the nodes ``used``; y has one for each of ``count``."""
    if y is None:
        raise InputError(
            "requires y to be passed, but the target y is None: expected a label for "
            f"each of the {count} nodes"
        )
    labels = np.asanyarray(targets.unmixed(y))  # keeps the mask of numpy.ma
    if labels.shape != (count,):
        raise ShapeError(
            f"y: shape {labels.shape} for {count} nodes, expected [{count}]: a label "
            "for each, also for those that no mask has"
        )
    targets.refuse_masked(labels[used], "y")
    return np.asarray(labels[used])


def _classes(own: Array, used: Array) -> tuple[Array, Array]:
    """Returns the classes, at least two, and the number of each label's class.

    Objects that all are numbers or booleans, as beside a missing label, become an array
    of their type.

    Args:
        own: labels of the nodes ``used``.
        used: numbers of these nodes, for messages.
    """
    numeric = (Real, np.bool_)
    if own.dtype.kind == "O" and all(isinstance(one, numeric) for one in own):
        own = np.array(own.tolist())
    bad = targets.missing(own)
    if own.dtype.kind == "f":
        bad |= own != np.round(own)
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"y[{used[at]}] = {own[at]}: expected the class of the node, as text or as "
            "a whole number; leave nodes without one out of the masks"
        )
    try:
        _multiclass.check_classification_targets(own)  # refuses bytes
        classes, found = np.unique(own, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"y: {error}; expected labels of one kind, all text or all whole numbers"
        ) from None
    if len(classes) < 2:
        raise InputError(
            f"y: the nodes of the masks have one class, {classes.tolist()}, expected "
            "at least 2 classes to tell apart; check the masks"
        )
    return classes, found


def _columns(X: Any) -> tuple[str, ...] | None:
    """Returns the column names of a DataFrame, or None."""
    return names_of(X.columns) if hasattr(X, "columns") else None


def scored_nodes(
    classifier: GraphNodeClassifier, y: Any, count: int, mask: Any = None
) -> tuple[Array, Array]:
    """Returns the nodes to score, of ``count``, and the number of each one's class.

    Raises:
        InputError, ShapeError: as ``score`` of the classifier.
    """
    nodes = np.arange(count) if mask is None else node_numbers(mask, count, "mask")
    if len(nodes) == 0:
        raise InputError("mask has no node; expected some to score; check the mask")
    labels = _labels(y, count, nodes)
    numbers = targets.class_numbers(
        labels, classifier.classes_, kind=targets.NODES, rows=nodes
    )
    return nodes, numbers


def node_numbers(mask: Any, count: int, name: str) -> Array:
    """Returns node numbers from a mask, in the mask's order.

    Raises:
        ShapeError, InputError: the mask is neither one boolean per node nor numbers of
            nodes, each once.
    """
    given = np.asarray(mask)
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise ShapeError(
            f"{name}: {given.dtype} of shape {given.shape}, expected [{count}] "
            "booleans, or numbers of nodes"
        )
    if given.dtype.kind == "b":
        if len(given) != count:
            raise ShapeError(
                f"{name}: {len(given)} booleans for {count} nodes, expected one each"
            )
        return np.flatnonzero(given)
    bad = (given < 0) | (given >= count)
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"{name}[{at}] = {given[at]}: there is no such node, expected 0 to "
            f"{count - 1}"
        )
    if len(given) == count and np.isin(given, (0, 1)).all():
        raise InputError(
            f"{name}: {count} integers 0 and 1 for {count} nodes look like a mask, "
            f"expected booleans, or numbers of nodes; pass {name}.astype(bool)"
        )
    found, times = np.unique(given.astype(np.int64), return_counts=True)
    if (times > 1).any():
        raise InputError(
            f"{name}: the node {found[int(np.argmax(times))]} comes "
            f"{times.max()} times, expected every number of a node once; take the "
            "copies out, or make a mask boolean"
        )
    return found
