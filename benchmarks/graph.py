"""An epoch of GAT on Cora and on a large synthetic graph: ours and PyTorch Geometric.

Both sides start from the same weights and have the same layers, dropout and Adam with
L2; before the timing their losses and gradients without dropout are compared. An epoch
is one update on all nodes, and one pass without dropout over all nodes that scores the
validation nodes, as in the paper's training. Cora uses the two-layer network of the
paper; each side gets the features in the form that is fastest for it: ours a sparse
matrix, the peer a dense one (``--sparse_peer``: a sparse one).
The graph "made" has 170,000 nodes, 1.2 million directed edges whose ends follow a power
law, and 128 dense features. EA-GAT of three layers takes turns in the same rounds with
GAT of three layers; no other library has EA-GAT.

    python -m benchmarks.graph [--graphs cora made] [--rounds 15]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import harness
from benchmarks import options as spelled
from benchmarks.cora import ALPHA, BETA, FILE, RECIPE, Cora

GRAPHS = ("cora", "made")
NODES, EDGES, WIDTH, CLASSES = 170_000, 1_200_000, 128, 40
HEADS, HIDDEN, DROPOUT = 8, 64, 0.6
Array = np.ndarray[Any, Any]
Step = Callable[[], None]


class Problem:
    """A graph with features, labels, and its training and validation nodes."""

    def __init__(self, x: Any, edge_index: Array, labels: Array, parts: Any) -> None:
        import evolving_attention as ea
        from evolving_attention.estimators import graph_fitting

        self.x, self.edge_index = x, edge_index
        self.classes = int(labels.max()) + 1
        self.train, self.val = parts
        self.numbers = labels
        self.labels = np.full(len(labels), -100, np.int64)
        self.labels[self.train] = labels[self.train]
        graph = ea.Graph(*edge_index, len(labels))
        self.inputs = graph_fitting.inputs_of(x, graph)

    @property
    def dense(self) -> Array:
        """Returns the features as a dense array."""
        made = self.x.toarray() if hasattr(self.x, "toarray") else self.x
        return np.ascontiguousarray(made, np.float32)


def cora(file: Path) -> Problem:
    """Returns Cora in its published split."""
    data = Cora(file)
    graph = data.inputs["graph"]
    train, val, _ = data.published
    return Problem(data.x, graph.edge_index, data.classes, (train, val))


def made(nodes: int, edges: int) -> Problem:
    """Returns a random graph with hubs; all nodes have a class, half of them train."""
    rng = np.random.default_rng(0)
    odds = 1.0 / np.arange(1, nodes + 1) ** 0.6
    ends = rng.choice(nodes, (2, edges), p=odds / odds.sum())
    ends = rng.permutation(nodes)[ends]
    x = rng.standard_normal((nodes, WIDTH)).astype(np.float32)
    order = rng.permutation(nodes)
    parts = (order[: nodes // 2], order[nodes // 2 : nodes * 3 // 4])
    return Problem(x, ends, rng.integers(0, CLASSES, nodes), parts)


def our_model(problem: Problem, layers: int, evolving: bool) -> Any:
    """Builds our network."""
    import evolving_attention as ea

    ea.manual_seed(0)
    kind = ea.attention.Evolving(ALPHA, BETA, kernel_size=1) if evolving else None
    return ea.GATForNodeClassification(
        ea.GATConfig(
            num_features=problem.x.shape[1],
            num_labels=problem.classes,
            num_hidden_layers=layers,
            hidden_size=HIDDEN,
            num_attention_heads=HEADS,
            hidden_dropout_prob=DROPOUT,
            attention_probs_dropout_prob=DROPOUT,
            attention=kind,
        )
    )


def our_epoch(problem: Problem, model: Any) -> Step:
    """Returns a step of ours: one update and one scoring pass."""
    import evolving_attention as ea
    from evolving_attention.estimators import graph_fitting

    rate, decay = RECIPE["learning_rate"], RECIPE["weight_decay"]
    optimizer = ea.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)

    def epoch() -> None:
        graph_fitting.step(model, problem.inputs, problem.labels, optimizer, decay)
        logits = graph_fitting.outputs(model, problem.inputs).logits.numpy()
        graph_fitting.cross_entropy(logits[problem.val], problem.numbers[problem.val])

    return epoch


class Peer(torch.nn.Module):
    """The peer's network, built from PyTorch Geometric's GATConv."""

    def __init__(self, problem: Problem, layers: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        self.convs = torch.nn.ModuleList()
        for i in range(layers):
            last = i + 1 == layers
            self.convs.append(
                GATConv(
                    problem.x.shape[1] if i == 0 else HIDDEN,
                    problem.classes if last else HIDDEN // HEADS,
                    heads=1 if last else HEADS,
                    concat=not last,
                    dropout=DROPOUT,
                )
            )

    def forward(self, x: Any, edge_index: Any) -> Any:
        """Returns the logits of all nodes."""
        drop = torch.nn.functional.dropout
        for i, conv in enumerate(self.convs):
            if x.layout == torch.strided:
                x = drop(x, DROPOUT, self.training)
            x = conv(x, edge_index)
            if i + 1 < len(self.convs):
                x = torch.nn.functional.elu(x)
        return x

    def take(self, model: Any) -> None:
        """Copies our weights."""
        state = {k: torch.from_numpy(v) for k, v in model.state_dict().items()}
        with torch.no_grad():
            for i, conv in enumerate(self.convs):
                conv.lin.weight.copy_(state[f"convs.{i}.lin.weight"])
                conv.bias.copy_(state[f"convs.{i}.bias"])
                score = state[f"convs.{i}.score.weight"]
                conv.att_dst.copy_(score[:1])
                conv.att_src.copy_(score[1:])


def peer_epoch(problem: Problem, peer: Peer, sparse: bool) -> Step:
    """Returns a step of the peer: one update and one scoring pass."""
    x = torch.from_numpy(problem.dense)
    if sparse:
        x = x.to_sparse_csr()
    edge_index = torch.from_numpy(problem.edge_index)
    labels = torch.from_numpy(problem.labels)
    numbers, val = torch.from_numpy(problem.numbers), torch.from_numpy(problem.val)
    optimizer = torch.optim.Adam(
        peer.parameters(),
        lr=RECIPE["learning_rate"],
        weight_decay=RECIPE["weight_decay"],
    )

    def epoch() -> None:
        peer.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(peer(x, edge_index), labels)
        loss.backward()
        optimizer.step()
        peer.eval()
        with torch.no_grad():
            logits = peer(x, edge_index)
            torch.nn.functional.cross_entropy(logits[val], numbers[val]).item()

    return epoch


def start_losses(problem: Problem, model: Any, peer: Peer) -> dict[str, float]:
    """Returns the loss of both sides without dropout; exits if they differ."""
    peer.take(model)
    out = model.eval()(**problem.inputs, labels=problem.labels)
    with torch.no_grad():
        logits = peer.eval()(
            torch.from_numpy(problem.dense), torch.from_numpy(problem.edge_index)
        )
        theirs = torch.nn.functional.cross_entropy(
            logits, torch.from_numpy(problem.labels)
        )
    found = {"ours": float(out.loss.item()), "torch": float(theirs.item())}
    if abs(found["ours"] - found["torch"]) > 1e-4:
        raise SystemExit(f"the two sides differ before training: {found}")
    return found


def measure(problem: Problem, options: argparse.Namespace) -> dict[str, Any]:
    """Times all sides in turns."""
    plain = our_model(problem, 2, False)
    peer = Peer(problem, 2)
    found: dict[str, Any] = {"start_loss": start_losses(problem, plain, peer)}
    sides: dict[str, Step] = {
        "ours": our_epoch(problem, plain),
        "torch_geometric": peer_epoch(problem, peer, options.sparse_peer),
        "gat3": our_epoch(problem, our_model(problem, 3, False)),
        "ea_gat3": our_epoch(problem, our_model(problem, 3, True)),
    }
    times = harness.interleave(sides, options.rounds, warmup=2)
    for side, seconds in times.items():
        found[side] = harness.summarize(seconds)
        print(f"  {side:16s} {harness.shown(found[side])}", flush=True)
    for name, (one, other) in {
        "speedup": ("torch_geometric", "ours"),
        "over_vanilla": ("ea_gat3", "gat3"),
    }.items():
        found[name] = found[one]["median_s"] / found[other]["median_s"]
        print(f"  {one} over {other}: {found[name]:.2f}")
    return found


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = spelled.parser(__doc__, "threads", "dry", rounds=15)
    parser.add_argument("--data", type=Path, default=FILE, help="cora.npz")
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--nodes", type=int, default=NODES, help="of the made graph")
    parser.add_argument("--edges", type=int, default=EDGES, help="of the made graph")
    parser.add_argument(
        "--sparse_peer", action="store_true", help="sparse features, without dropout"
    )
    options = parser.parse_args(arguments)
    harness.set_threads(options.threads)
    machine = harness.measured_machine(options.threads)
    print(harness.machine_line(machine))
    results: dict[str, Any] = {}
    for name in options.graphs:
        print(name)
        one = (
            cora(options.data) if name == "cora" else made(options.nodes, options.edges)
        )
        results[name] = measure(one, options)
    if not options.dry:
        settings = spelled.settings(options)
        print(harness.write("graph", machine, results, settings=settings))


if __name__ == "__main__":
    main()
