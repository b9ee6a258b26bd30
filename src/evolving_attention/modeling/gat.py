"""Graph attention networks, plain and evolving: config and tasks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import pairwise, starmap
from operator import eq
from typing import Any, ClassVar

from evolving_attention.attention import (
    Concatenative,
    CustomEvolve,
    CustomScope,
    Edges,
    Evolve,
    Evolving,
    Spec,
)
from evolving_attention.attention.spec import layers_of
from evolving_attention.data.graph import Graph, sparse_rows
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.gat import GAT
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.names import register_sizes

_RULES = Rules(
    integers={"num_features": (1, 10_000_000), "num_output_heads": (1, 1_024)},
    numbers={"negative_slope": (0.0, 1.0)},
    flags=("add_self_loops",),
)


class GATConfig(PretrainedConfig):
    """Sizes of a graph attention network, by default those of the paper for Cora.

        x = W · dropout(h),  S_ij = LeakyReLU(a · [x_i; x_j]) of each edge j → i
        h' = ELU(‖ over heads of Σ_j dropout(softmax_j(L_ij)) x_j + b)

    The last layer of a classifier has no ELU and averages its heads.

    Args:
        num_features: number of features of a node; required.
        hidden_size: width of a layer, over all heads; PyTorch Geometric's
            ``out_channels`` times ``heads``.
        num_hidden_layers: number of layers, including the output layer.
        num_attention_heads: heads of each layer except the output layer.
        num_output_heads: heads of the output layer, which are averaged.
        hidden_dropout_prob: dropout of the input of each layer.
        attention_probs_dropout_prob: dropout of the attention probabilities.
        negative_slope: slope of LeakyReLU in the scores.
        add_self_loops: whether each node sees itself: a node gets exactly one edge to
            itself, replacing those in the graph.
        num_labels: number of classes; names go to ``id2label``.
        attention: see :class:`PretrainedConfig`. An evolve kind alone means GAT's layer
            with that kind: ``Spec(Concatenative(negative_slope), "edges",
            evolve=kind)``. Kernels have size 1, since edges have no neighbours:
            ``Evolving(alpha, beta, kernel_size=1)``. A chain of maps ends where the
            number of heads changes: with one output head, a two-layer model never
            evolves.

    Raises:
        ConfigError: an option is missing, unknown, of the wrong type or out of range.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.GATConfig(
        ...     num_features=1433, num_labels=7, num_hidden_layers=3,
        ...     attention=ea.attention.Evolving(0.1, 0.1, kernel_size=1),
        ... )

    Source: Veličković et al., Graph Attention Networks, ICLR 2018; Wang et al.,
    Convolution-enhanced Evolving Attention Networks, TPAMI 2023, Sections 3.4 and 5.7.
    """

    model_type = "gat"
    has_graph = True
    rules = _RULES
    defaults: ClassVar[dict[str, Any]] = {
        "num_features": None,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_output_heads": 1,
        "hidden_dropout_prob": 0.6,
        "attention_probs_dropout_prob": 0.6,
        "negative_slope": 0.2,
        "add_self_loops": True,
    }

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        source = type(self).__name__
        if values["num_features"] is None:
            raise ConfigError(
                f"{source}: num_features is missing; expected an integer: "
                f"{source}(num_features=1433)"
            )
        for name, only in (
            ("classifier_dropout", "the output layer has hidden_dropout_prob"),
            ("problem_type", "a node has one class; leave it out"),
        ):
            if values[name] not in (None, "single_label_classification"):
                raise ConfigError(
                    f"{source}: {name} = {values[name]!r}, expected None: {only}"
                )
        super()._set(values, attention)
        specs = layers_of(self._fulls()["attention"])
        self._tell_if_no_map_is_carried([one.evolve for one in specs])

    def _check_attention(self) -> None:
        source = type(self).__name__
        for one in layers_of(self._fulls()["attention"]):
            if not isinstance(one.scope, (Edges, CustomScope)):
                raise ConfigError(
                    f"{source}: the scope is {one.scope!r}, which does not see the "
                    "graph; expected ea.attention.Edges()"
                )

    def _tell_if_no_map_is_carried(self, kinds: list[Evolve]) -> None:
        """Warns if these kinds have no effect: a map goes on to a layer of equal heads.

        A kind written in Python may change the scores of a layer that gets no map.
        """
        ours = [one for one in kinds if not isinstance(one, CustomEvolve)]
        hidden = [self.num_attention_heads] * (self.num_hidden_layers - 1)
        carried = any(starmap(eq, pairwise([*hidden, self.num_output_heads])))
        if not carried and not all(one.equals_vanilla for one in ours):
            warnings.warn(
                f"{type(self).__name__}: attention has no effect, as no layer gets a "
                f"map: num_hidden_layers = {self.num_hidden_layers}, "
                f"num_attention_heads = {self.num_attention_heads}, num_output_heads = "
                f"{self.num_output_heads}; take 3 layers or more, or as many output "
                "heads as hidden ones",
                stacklevel=4,
            )

    def _layer(self, chain: str, evolve: Evolve) -> Spec:
        return Spec(Concatenative(self.negative_slope), Edges(), evolve=evolve)


class _GraphModel(PreTrainedModel):
    config_class = GATConfig
    table = GAT

    needed = ("features", "pass an array (nodes, features), or a sparse matrix")

    def _given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Converts the graph to edges and a sparse matrix to values and cells."""
        given = dict(inputs)
        features, graph = given["features"], given.get("graph")
        if graph is None:
            raise InputError(
                f"{type(self).__name__}: graph is missing; pass an ea.Graph, a sparse "
                "matrix, or an edge_index [2, edges]"
            )
        if hasattr(features, "tocsr"):
            given["features"], given["feature_cells"] = sparse_rows(features)
        cells = given.get("feature_cells")
        rows = len(features) if cells is None else cells.num_nodes
        made = graph if isinstance(graph, Graph) else Graph.of(graph, rows)
        looped = made.with_self_loops() if self.config.add_self_loops else made
        given["graph"] = looped.edges
        return given


class GATModel(_GraphModel):
    """Representation of every node: ``last_hidden_state``, heads concatenated.

    Attention maps are [edges, heads], like PyTorch Geometric's attention weights, with
    edges in the order of ``graph.with_self_loops().edge_index``.
    """

    head = "base"


class GATForNodeClassification(_GraphModel):
    """Classifies nodes; the loss is the mean cross entropy over labelled nodes.

    ``labels`` are [nodes], -100 for nodes to ignore. Attention maps are as in
    :class:`GATModel`.

    Example:
        >>> import numpy as np, evolving_attention as ea
        >>> model = ea.GATForNodeClassification(ea.GATConfig(num_features=3))
        >>> graph = ea.Graph(sources=[0, 1, 2], targets=[1, 2, 0])
        >>> model.eval()(np.eye(3, dtype=np.float32), graph).logits.shape
        (3, 2)
    """

    head = "node_classification"


register_sizes("gat", GATConfig, prefixes=("",))
register_sizes(
    "ea_gat",
    GATConfig,
    prefixes=("",),
    num_hidden_layers=3,
    attention=Evolving(alpha=0.1, beta=0.1, kernel_size=1),
)
