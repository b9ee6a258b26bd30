"""Graphs, and graph attention networks over them: forms, laws, gradients, files."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from helpers_gradient import check_slopes
from scipy import sparse

import evolving_attention as ea

NODES, FEATURES = 9, 6
EVOLVING = ea.attention.Evolving(0.3, 0.4, kernel_size=1)
SIZES = {
    "num_features": FEATURES,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "num_labels": 4,
}
# Several edges of one pair, a loop, and node 8 without edges.
PAIRS = np.array(
    [[0, 1], [1, 0], [2, 1], [2, 1], [3, 3], [4, 5], [5, 4], [6, 0], [7, 6], [0, 7]]
)


def made(name="GATForNodeClassification", dtype="float64", seed=1, **options):
    ea.manual_seed(seed)
    model = getattr(ea, name)(ea.GATConfig(**{**SIZES, **options}), dtype)
    rng = np.random.default_rng(seed)
    for parameter, tensor in model.named_parameters():
        if parameter.endswith("bias"):  # ReLU has no derivative at 0
            tensor.copy_(rng.normal(0.0, 0.3, tensor.shape))
    return model.eval()


def features(seed=0, nodes=NODES):
    return np.random.default_rng(seed).standard_normal((nodes, FEATURES))


def graph(nodes=NODES):
    return ea.Graph(*PAIRS.T, nodes)


# --- the graph --------------------------------------------------------------------


def test_all_forms_give_one_graph():
    matrix = sparse.coo_array(
        (np.ones(len(PAIRS)), tuple(PAIRS.T)), shape=(NODES, NODES)
    )
    once = np.unique(PAIRS, axis=0)  # duplicate entries of a matrix are added
    for value, pairs in (
        (PAIRS.T, PAIRS),
        (PAIRS, PAIRS),
        (PAIRS.tolist(), PAIRS),
        (graph(), PAIRS),
        (matrix, once),
        (matrix.tocsr(), once),
    ):
        found = ea.Graph.of(value, NODES)
        assert found.num_nodes == NODES
        assert sorted(found.edge_index.T.tolist()) == sorted(pairs.tolist())
        assert (np.diff(found.edge_index[1]) >= 0).all()
        starts, sources = found.edges.starts, found.edges.sources
        for node in range(NODES):
            seen = sources[starts[node] : starts[node + 1]]
            assert sorted(seen) == sorted(pairs[pairs[:, 1] == node, 0])


def test_edges_of_a_node_keep_their_order():
    given = ea.Graph([5, 3, 4, 1], [2, 0, 2, 2], 6)
    assert given.edge_index.tolist() == [[3, 5, 4, 1], [0, 2, 2, 2]]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (10**13, r"greatest node number is 10,000,000,000,000 with 2 edge\(s\), exp"),
        (np.uint64(2**63 + 5), "sources have the node 9223372036854775813, expected"),
    ],
)
def test_numbers_that_are_no_numbers_of_nodes(node, message):
    ids = np.array([0, node], np.uint64)
    with pytest.raises(ea.InputError, match=message):
        ea.Graph(ids, ids[::-1])


def test_self_loops_replace_those_that_are_there():
    looped = graph().with_self_loops()
    sources, targets = looped.edge_index
    assert np.array_equal(sources[sources == targets], np.arange(NODES))
    assert looped.num_edges == len(PAIRS) - 1 + NODES
    assert looped.with_self_loops() is looped
    ends = looped.edges.starts[1:] - 1  # after the other edges of their node
    assert np.array_equal(looped.edges.sources[ends], np.arange(NODES))


def test_entries_of_zero_are_no_edges_and_an_empty_graph_is_one():
    matrix = sparse.csr_array((np.array([0.0, 2.0]), ([0, 1], [1, 0])), shape=(3, 3))
    assert ea.Graph.of(matrix).edge_index.tolist() == [[1], [0]]
    assert ea.Graph.of([], 4).num_edges == 0
    assert ea.Graph.of([[0, 1], [1, 0]], symmetric=True).num_edges == 2


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_entries_at_one_place_are_added(form):
    indices, starts = np.array([1, 1, 2, 2]), np.array([0, 2, 4, 4])
    parts = (np.array([1.0, -1.0, 2.0, 3.0]), indices, starts)
    matrix = getattr(sparse, f"{form}_array")(parts, shape=(3, 3))
    pair = [[1], [2]] if form == "csr" else [[2], [1]]
    assert ea.Graph.of(matrix).edge_index.tolist() == pair
    assert matrix.data.tolist() == parts[0].tolist()  # the caller's matrix stays


def test_a_graph_is_pickled():
    again = pickle.loads(pickle.dumps(graph()))
    assert np.array_equal(again.edge_index, graph().edge_index)
    assert again.num_nodes == NODES


# --- the model --------------------------------------------------------------------


def oracle(model, x, edges):
    """Computes plain GAT and the 1 x 1 step edge by edge in NumPy."""
    config, state = model.config, model.state_dict()
    sources, targets = edges
    before = None
    last = config.num_hidden_layers - 1
    for i in range(last + 1):
        heads = config.num_output_heads if i == last else config.num_attention_heads
        h = (x @ state[f"convs.{i}.lin.weight"].T).reshape(len(x), heads, -1)
        target, source = (h * half for half in state[f"convs.{i}.score.weight"])
        scores = target.sum(2)[targets] + source.sum(2)[sources]
        scores = np.where(scores > 0, scores, 0.2 * scores)
        weight = state.get(f"convs.{i}.evolving_conv.weight")
        if weight is not None and before is not None:
            mixed = 0.3 * before + 0.7 * scores
            grown = (
                mixed @ weight[:, :, 0, 0].T + state[f"convs.{i}.evolving_conv.bias"]
            )
            scores = 0.4 * np.maximum(grown, 0) + 0.6 * mixed
        before = scores
        odds = np.exp(scores)
        sums = np.zeros((len(x), heads))
        np.add.at(sums, targets, odds)
        y = np.zeros_like(h)
        np.add.at(y, targets, (odds / sums[targets])[:, :, None] * h[sources])
        y = y.mean(1) if i == last else y.reshape(len(x), -1)
        y = y + state[f"convs.{i}.bias"]
        x = y if i == last else np.where(y > 0, y, np.expm1(np.minimum(y, 0)))
    return x


@pytest.mark.parametrize("attention", [None, EVOLVING], ids=["gat", "ea_gat"])
@pytest.mark.parametrize("output_heads", [1, 2])
def test_logits_equal_the_formula(attention, output_heads):
    model = made(attention=attention, num_output_heads=output_heads)
    given = graph()
    found = model(features(), given).logits.numpy()
    expected = oracle(model, features(), given.with_self_loops().edge_index)
    assert np.abs(found - expected).max() < 1e-12


def test_the_chain_ends_where_the_heads_change():
    def convolutions(**options):
        model = made(attention=EVOLVING, **options)
        return [name for name, _ in model.named_parameters() if "conv.w" in name]

    one = ["convs.1.evolving_conv.weight"]
    assert convolutions() == one
    assert convolutions(num_output_heads=2) == [*one, "convs.2.evolving_conv.weight"]
    with pytest.warns(UserWarning, match="attention has no effect"):
        assert convolutions(num_hidden_layers=2) == []


@pytest.mark.parametrize(
    "attention",
    [
        EVOLVING,
        ea.attention.Residual(),
        ea.attention.Predictive(0.3, num_layers=0),
        ea.attention.EvolvingReleased(0.3, 0.4, kernel_size=1),
        ea.attention.Spec("concatenative", "edges", evolve=EVOLVING),
        (EVOLVING, "vanilla"),
    ],
    ids=["evolving", "residual", "predictive", "released", "spec", "per layer"],
)
def test_two_layers_that_cannot_evolve_are_told(attention):
    with pytest.warns(UserWarning, match="attention has no effect.*take 3 layers"):
        model = made(attention=attention, num_hidden_layers=2)
    plain = made(num_hidden_layers=2)
    found, expected = (
        one(features(), graph()).logits.numpy() for one in (model, plain)
    )
    assert np.array_equal(found, expected)


def test_what_can_evolve_or_is_vanilla_is_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(num_hidden_layers=2)
        made(attention=ea.attention.Spec("dot", "edges"), num_hidden_layers=2)
        made(attention=EVOLVING, num_hidden_layers=2, num_output_heads=2)
        made(attention=Shifted(), num_hidden_layers=2)


def test_a_spec_means_what_it_says():
    """Dot products are no concatenative scores; GAT's own layer is its evolve kind."""
    for slots in ({"score": "dot"}, {"evolve": EVOLVING}):
        with pytest.raises(ea.ConfigError, match=r"scope is Dense.*expected .*Edges"):
            made(attention=ea.attention.Spec(**slots))
    score = ea.attention.Concatenative(0.3)
    own = ea.attention.Spec(score, "edges", evolve=EVOLVING)
    assert made(attention=own, negative_slope=0.3).config.attention == EVOLVING
    other = made(attention=own).config
    assert other.attention == own
    assert ea.GATConfig.from_dict(other.to_dict()).attention == own


@ea.attention.register("test_edges_shifted")
@dataclass(frozen=True)
class Shifted(ea.attention.CustomEvolve):
    """A kind that changes the scores of a layer without a map, too."""

    def step(self, scores, previous, context):
        return scores + 1.0


@pytest.mark.parametrize(
    "attention",
    [
        EVOLVING,
        ea.attention.Evolving(0.3, 0.4, kernel_size=1, learnable=True),
        ea.attention.Residual(),
        ea.attention.Predictive(0.3, num_layers=0),
        ea.attention.Spec(scope=ea.attention.Edges(), evolve=EVOLVING),
        ea.attention.Spec(score="additive", scope="edges", evolve="residual"),
    ],
    ids=["evolving", "learned", "residual", "predictive", "dot", "additive"],
)
def test_gradients_are_slopes(attention):
    model = made(attention=attention)
    labels = np.arange(NODES) % 4
    labels[2] = -100

    def loss():
        return model(features(), graph(), labels).loss

    loss().backward()
    assert all(tensor.grad is not None for tensor in model.parameters())

    def value():
        with ea.no_grad():
            return loss().item()

    check_slopes(model.parameters(), value, abs=1e-8)


@pytest.mark.parametrize("attention", [None, EVOLVING], ids=["gat", "ea_gat"])
def test_the_order_of_nodes_permutes_the_output(attention):
    model = made(attention=attention, dtype="float32", hidden_size=64)
    x = features().astype("f4")

    def logits(x, edges):
        return model(x, edges).logits.numpy()

    plain = logits(x, graph())
    order = np.random.default_rng(5).permutation(NODES)  # new number of each node
    moved = np.empty_like(x)
    moved[order] = x
    kept = ea.Graph(*order[PAIRS].T, NODES)  # edges of a node stay in their order
    assert np.abs(logits(moved, kept)[order] - plain).max() < 1e-6
    with ea.no_grad():
        assert np.array_equal(logits(moved, kept)[order], logits(x, graph()))
    mixed = np.random.default_rng(6).permutation(len(PAIRS))
    other = ea.Graph(*order[PAIRS[mixed]].T, NODES)
    assert np.abs(logits(moved, other)[order] - plain).max() < 1e-6


def test_a_node_without_edges_and_several_edges_of_one_pair():
    alone = made(add_self_loops=False)
    found = alone(features(), graph()).logits.numpy()
    assert np.allclose(found[8], alone.state_dict()["convs.2.bias"], atol=0)
    # A duplicate edge counts as one edge with doubled odds.
    maps = alone(features(), graph(), output_attentions=[0]).attentions[0].numpy()
    sources, targets = graph().edge_index
    twice = (sources == 2) & (targets == 1)
    assert twice.sum() == 2
    assert np.array_equal(*maps[twice])
    sums = np.zeros((NODES, 2))
    np.add.at(sums, targets, maps)
    entered = np.isin(np.arange(NODES), targets)
    assert np.allclose(sums[entered], 1.0)
    assert (sums[~entered] == 0).all()


def test_a_sparse_matrix_gives_what_a_dense_one_does():
    x = features() * (np.random.default_rng(2).random((NODES, FEATURES)) < 0.4)
    model = made()
    labels = np.arange(NODES) % 4
    grads = []
    for given in (x, sparse.csr_array(x), sparse.coo_matrix(x)):
        model.zero_grad()
        out = model(given, graph(), labels)
        out.loss.backward()
        grads.append([np.array(p.grad) for p in model.parameters()])
        assert (
            np.abs(
                out.logits.numpy()
                - oracle(model, x, graph().with_self_loops().edge_index)
            ).max()
            < 1e-12
        )
    for other in grads[1:]:
        assert all(
            np.abs(a - b).max() < 1e-13 for a, b in zip(grads[0], other, strict=True)
        )


def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(0)
    nodes, count = 3_000, 20_000
    given = ea.Graph(*rng.integers(0, nodes, (2, count)), nodes)
    x = rng.standard_normal((nodes, FEATURES)).astype(np.float32)
    labels = rng.integers(0, 4, nodes)
    before, found = ea.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            ea.set_num_threads(threads)
            model = made(attention=EVOLVING, dtype="float32").train()
            ea.manual_seed(7)
            out = model(x, given, labels)
            out.loss.backward()
            found.append(
                [out.logits.numpy(), *(np.array(p.grad) for p in model.parameters())]
            )
    finally:
        ea.set_num_threads(before)
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))


def test_a_large_graph_needs_no_memory_of_nodes_squared():
    nodes = 200_000  # a map of all pairs would take 160 GB
    ring = np.arange(nodes)
    given = ea.Graph(ring, np.roll(ring, 1), nodes)
    model = made(dtype="float32", attention=EVOLVING)
    x = np.ones((nodes, FEATURES), np.float32)
    before = ea.memory.current()
    ea.memory.reset_peak()  # set by other tests
    with ea.no_grad():
        logits = model(x, given).logits.numpy()
    assert ea.memory.peak() - before < 400 * 2**20
    assert np.abs(logits - logits[0]).max() < 1e-5  # all nodes look alike


def test_recomputation_gives_the_same_bits():
    grads = []
    for again in (False, True):
        model = made(attention=EVOLVING).train()
        if again:
            model.gradient_checkpointing_enable()
        ea.manual_seed(3)
        model(features(), graph(), np.arange(NODES) % 4).loss.backward()
        grads.append([np.array(p.grad) for p in model.parameters()])
    assert all(map(np.array_equal, *grads))


def test_alpha_and_beta_of_zero_are_plain_attention():
    plain = made().state_dict()
    zero = made(attention=ea.attention.Evolving(0.0, 0.0, kernel_size=1))
    zero.load_state_dict(plain)
    assert np.array_equal(
        zero(features(), graph()).logits.numpy(),
        made()(features(), graph()).logits.numpy(),
    )


@pytest.mark.parametrize("name", ["GATModel", "GATForNodeClassification"])
def test_saved_and_loaded(name, tmp_path):
    model = made(name, attention=EVOLVING)
    model.save_pretrained(tmp_path)
    again = getattr(ea, name).from_pretrained(tmp_path, dtype="float64")
    assert again.config.attention == EVOLVING
    assert again.config.sizes() == model.config.sizes()
    first, second = (m(features(), graph()) for m in (model, again))
    for key in first:
        assert np.array_equal(first[key].numpy(), second[key].numpy())
    assert first.to_tuple()[0].shape == (NODES, 8 if name == "GATModel" else 4)


def test_names_of_models():
    plain = ea.create_model("gat", num_features=5)
    assert isinstance(plain, ea.GATModel)
    evolving = ea.create_model(
        "ea_gat", task="node_classification", num_features=5, num_labels=3
    )
    assert evolving.config.num_hidden_layers == 3
    assert evolving.config.attention.kernel_size == 1
    # Cora's: 1,433 features, 7 classes.
    cora = ea.GATForNodeClassification(ea.GATConfig(num_features=1433, num_labels=7))
    assert cora.num_parameters() == 1433 * 64 + 64 + 128 + 64 * 7 + 7 + 14


def test_states_and_maps_have_gradients():
    model = made(attention=EVOLVING)
    out = model(
        features(),
        graph(),
        np.arange(NODES) % 4,
        output_hidden_states=True,
        output_attentions=True,
        output_attention_logits=True,
        output_attention_scores=True,
    )
    out.loss.backward()
    edges = graph().with_self_loops().num_edges
    assert [s.shape for s in out.hidden_states] == [(NODES, 8)] * 3 + [(NODES, 4)]
    for maps in (out.attentions, out.attention_logits, out.attention_scores):
        assert [m.shape for m in maps] == [(edges, 2), (edges, 2), (edges, 1)]
        assert all(
            m.grad is not None and np.isfinite(m.grad.numpy()).all() for m in maps
        )


def test_a_kind_of_ones_own_along_edges():
    @ea.attention.register("test_edges_gate")
    @dataclass(frozen=True)
    class Gate(ea.attention.CustomEvolve):
        def parameters(self, layer, heads):
            return {"gate": np.zeros(heads)}

        def step(self, scores, previous, context):
            assert context.packing.edges.num_edges * context.num_heads == scores.size
            gate = context.packing.per_head(context.parameters["gate"])
            return scores if previous is None else scores + gate * previous

    model = made(attention=Gate())
    plain = made()
    assert np.allclose(
        model(features(), graph()).logits.numpy(),
        plain(features(), graph()).logits.numpy(),
    )
