"""Text nets against PyTorch nets of the benchmarks: logits, loss, all gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch (extra: parity)")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers.torch_text import TextNet, Words
from helpers_parity import close, torch
from helpers_text_nets import QUIET, VARIANTS, Predictive, draw, tiny

import evolving_attention as ea

Evolving = ea.attention.Evolving
pytestmark = pytest.mark.parity
F = torch.nn.functional
MORE = {
    "two convolutions": {"attention": Predictive(0.6, 2)},
    "three convolutions": {"attention": Predictive(0.4, 3)},
    "all predicted": {"attention": Predictive(1.0)},
    "evolving": {"attention": Evolving(0.2, 0.3)},
    "alpha of each layer": {"attention": Predictive([0.0, 0.2, 0.7])},
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("variant", [*VARIANTS, *MORE])
def test_logits_and_gradients(variant, dtype):
    kind = "Transformer" if variant in MORE else variant
    model = tiny(kind, dtype, **QUIET, **MORE.get(variant, {}))
    batch = draw(model, (5, 13, 1, 6))
    double = torch.float64
    net = TextNet(model.config).to(double)
    state = {k: np.asarray(v) for k, v in model.state_dict().items()}
    start = {k: torch.tensor(v, dtype=double) for k, v in state.items()}
    net.load_state_dict(start, strict=True)
    padded = batch.padded()
    ids, types = (torch.tensor(padded[n]) for n in ("input_ids", "token_type_ids"))
    lengths = torch.tensor(padded["attention_mask"].sum(axis=1))
    logits = net(ids, types, lengths)
    loss = F.cross_entropy(logits, torch.as_tensor(batch.labels))
    loss.backward()
    out = model(**batch.packed(), output_hidden_states=True)
    out.loss.backward()
    close(out.logits, logits.detach(), dtype, "logits")
    close(out.loss, loss.detach(), dtype, "loss")
    states = net.hidden_states(ids, types, Words(lengths, ids.shape[1], double))
    valid = padded["attention_mask"] > 0
    for i, (found, state) in enumerate(zip(out.hidden_states, states, strict=True)):
        close(found, state.detach()[valid], dtype, f"state {i}")
    own = dict(model.named_parameters())
    for name, parameter in net.named_parameters():
        close(own[name].grad, parameter.grad, dtype, name)
