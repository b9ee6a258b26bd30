"""Training of graph attention networks on a CUDA device, against the CPU.

Runs where there is a GPU, and on the emulated CUDA of tests/cuda_host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_gpu import array, last_cuda_device
from scipy import sparse

import evolving_attention as ea

LAST = last_cuda_device()
NODES, FEATURES = 40, 12


def course(device: str, evolving: bool, as_sparse: bool) -> list[np.ndarray]:
    """Returns the losses of three steps, the last logits, and the final weights."""
    rng = np.random.default_rng(0)
    x: Any = rng.random((NODES, FEATURES)) * (rng.random((NODES, FEATURES)) < 0.3)
    x = sparse.csr_array(x.astype(np.float32)) if as_sparse else x.astype(np.float32)
    graph = ea.Graph(*rng.integers(0, NODES - 1, (2, 150)), NODES)
    labels = np.arange(NODES) % 3
    labels[::4] = -100
    kind = ea.attention.Evolving(0.3, 0.4, kernel_size=1) if evolving else None
    ea.manual_seed(2)
    config = ea.GATConfig(
        num_features=FEATURES,
        num_labels=3,
        hidden_size=16,
        num_attention_heads=4,
        num_hidden_layers=3,
        attention=kind,
    )
    model = ea.GATForNodeClassification(config).to(device).train()
    optimizer = ea.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        out = model(x, graph, labels)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(array(out.loss))
    weights = [array(parameter) for parameter in model.parameters()]
    return [np.array(losses), array(out.logits), *weights]


@pytest.mark.parametrize("as_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("evolving", [False, True], ids=["gat", "ea_gat"])
def test_training_agrees_with_the_cpu(evolving: bool, as_sparse: bool) -> None:
    want, got = (course(device, evolving, as_sparse) for device in ("cpu", LAST))
    for a, b in zip(want, got, strict=True):
        # Adam divides by the root of a small second moment, which amplifies last bits
        assert np.abs(a - b).max() < 1e-3 * max(1.0, float(np.abs(a).max()))
    assert np.array_equal(got[1], course(LAST, evolving, as_sparse)[1])
