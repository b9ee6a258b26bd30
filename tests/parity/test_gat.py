"""GAT against PyTorch Geometric's GATConv: logits and every gradient."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
geometric = pytest.importorskip(
    "torch_geometric.nn", reason="needs torch_geometric (extra: parity)"
)

NODES, FEATURES, CLASSES, WIDTH = 23, 11, 5, 4


class Peer(torch.nn.Module):
    """GATConv layers as in the paper: ELU between them, heads of the last averaged."""

    def __init__(self, layers, heads, output_heads, add_self_loops):
        super().__init__()
        self.convs = torch.nn.ModuleList()
        for i in range(layers):
            last = i + 1 == layers
            self.convs.append(
                geometric.GATConv(
                    FEATURES if i == 0 else heads * WIDTH,
                    CLASSES if last else WIDTH,
                    heads=output_heads if last else heads,
                    concat=not last,
                    add_self_loops=add_self_loops,
                )
            )

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = torch.nn.functional.elu(conv(x, edge_index))
        return self.convs[-1](x, edge_index)


def pair(layers, heads, output_heads, add_self_loops):
    """Returns the peer with random parameters, and our model with the same."""
    torch.manual_seed(layers)
    peer = Peer(layers, heads, output_heads, add_self_loops).double()
    state = {}
    for tensor in peer.parameters():
        with torch.no_grad():
            tensor.copy_(torch.randn_like(tensor) * 0.5)
    for i, conv in enumerate(peer.convs):
        state[f"convs.{i}.lin.weight"] = conv.lin.weight.detach().numpy()
        state[f"convs.{i}.bias"] = conv.bias.detach().numpy()
        state[f"convs.{i}.score.weight"] = np.concatenate(
            [conv.att_dst.detach().numpy(), conv.att_src.detach().numpy()]
        )
    config = ea.GATConfig(
        num_features=FEATURES,
        num_labels=CLASSES,
        hidden_size=heads * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_output_heads=output_heads,
        add_self_loops=add_self_loops,
    )
    ours = ea.GATForNodeClassification(config, "float64").eval()
    ours.load_state_dict(state)
    return peer, ours


@pytest.mark.parametrize(
    ("layers", "heads", "output_heads", "add_self_loops"),
    [(2, 8, 1, True), (3, 2, 2, True), (2, 3, 8, False), (1, 1, 1, True)],
)
def test_logits_and_gradients(layers, heads, output_heads, add_self_loops):
    peer, ours = pair(layers, heads, output_heads, add_self_loops)
    rng = np.random.default_rng(layers)
    x = rng.standard_normal((NODES, FEATURES))
    edge_index = rng.integers(0, NODES - 2, (2, 60))  # self-loops, repeated edges
    labels = rng.integers(0, CLASSES, NODES)
    labels[::3] = -100

    logits = peer(torch.tensor(x), torch.tensor(edge_index))
    torch.nn.functional.cross_entropy(logits, torch.tensor(labels)).backward()
    out = ours(x, ea.Graph.of(edge_index, NODES), labels)
    out.loss.backward()
    assert np.abs(out.logits.numpy() - logits.detach().numpy()).max() < 1e-12

    grads = {name: np.asarray(p.grad) for name, p in ours.named_parameters()}
    for i, conv in enumerate(peer.convs):
        for name, expected in (
            ("lin.weight", conv.lin.weight.grad.numpy()),
            ("bias", conv.bias.grad.numpy()),
            (
                "score.weight",
                np.concatenate([conv.att_dst.grad.numpy(), conv.att_src.grad.numpy()]),
            ),
        ):
            assert np.abs(grads[f"convs.{i}.{name}"] - expected).max() < 1e-12, name


def test_attention_weights_and_their_edges():
    peer, ours = pair(2, 4, 1, True)
    rng = np.random.default_rng(9)
    x = rng.standard_normal((NODES, FEATURES))
    edge_index = rng.integers(0, NODES, (2, 50))
    seen, weights = peer.convs[0](
        torch.tensor(x), torch.tensor(edge_index), return_attention_weights=True
    )[1]
    graph = ea.Graph.of(edge_index, NODES)
    maps = ours(x, graph, output_attentions=[0]).attentions[0].numpy()
    order = np.argsort(seen[1].numpy(), kind="stable")
    looped = graph.with_self_loops().edge_index
    assert np.array_equal(seen.numpy()[:, order], looped)
    assert np.abs(weights.detach().numpy()[order] - maps).max() < 1e-12


def test_graphs_and_matrices_of_other_libraries():
    """Pairs that are NetworkX's nodes are no edges; the remedies of the errors work."""
    networkx = pytest.importorskip("networkx", reason="needs networkx (extra: parity)")
    from torch_geometric.data import Data

    grid = networkx.grid_2d_graph(3, 4)
    edge_index = torch.tensor([[0, 1, 1], [1, 2, 0]])
    matrix = torch.sparse_coo_tensor(edge_index, torch.ones(3), (3, 3))
    for value, remedy in (
        (grid, r"networkx.*pass networkx\.to_scipy_sparse_array\(G\)"),
        (Data(edge_index=edge_index), r"torch_geometric.*pass its edge_index"),
        (matrix, r"torch\.Tensor.*pass A\.to_sparse_coo\(\)\.coalesce\(\)\.indices"),
    ):
        with pytest.raises(ea.errors.DTypeError, match=remedy):
            ea.Graph.of(value)
    found = ea.Graph.of(networkx.to_scipy_sparse_array(grid), symmetric=True)
    assert (found.num_nodes, found.num_edges) == (12, 34)
    indices = matrix.to_sparse_coo().coalesce().indices()
    for value in (Data(edge_index=edge_index).edge_index, indices):
        assert sorted(ea.Graph.of(value).edge_index.T.tolist()) == sorted(
            edge_index.T.tolist()
        )
    classifier = ea.GraphNodeClassifier(n_epochs=1)
    with pytest.raises(ea.errors.DTypeError, match=r"X: .*sparse matrix of SciPy"):
        classifier.fit(matrix, [0, 1, 0], graph=edge_index)
