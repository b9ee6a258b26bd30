"""Text nets against a transcription in PyTorch: logits, loss and all gradients."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers_parity import close, torch
from helpers_text_nets import QUIET, VARIANTS, Predictive, draw, tiny

pytestmark = pytest.mark.parity
F = torch.nn.functional
MORE = {
    "two convolutions": {"attention": Predictive(0.6, 2)},
    "three convolutions": {"attention": Predictive(0.4, 3)},
    "all predicted": {"attention": Predictive(1.0)},
    "alpha of each layer": {"attention": Predictive([0.0, 0.2, 0.7])},
}


class Net:
    """One text at a time; ``w`` are the parameters by our names."""

    def __init__(self, config, w):
        self.config, self.w = config, w

    def affine(self, x, name):
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, x, name):
        weight, bias = self.w[f"{name}.weight"], self.w[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.config.layer_norm_eps)

    def predicted(self, scores, previous, layer, name):
        """Eq. 4: the convolutions see the map before, never the scores."""
        evolve = self.config.attention
        if previous is None or not isinstance(evolve, Predictive):
            return scores
        alpha = np.broadcast_to(evolve.alpha, self.config.num_hidden_layers)[layer]
        grown = previous[None]
        for i in range(evolve.num_layers):
            own = f"{name}.evolving_conv" + (f".{i}" if evolve.num_layers > 1 else "")
            weight, bias = self.w[f"{own}.weight"], self.w[f"{own}.bias"]
            grown = torch.relu(F.conv2d(grown, weight, bias, padding=1))
        return alpha * grown[0] + (1 - alpha) * scores

    def attention(self, x, previous, layer, name):
        heads, length = self.config.num_attention_heads, len(x)
        q, k, v = (
            self.affine(x, f"{name}.{part}").view(length, heads, -1).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(1, 2)
        table = self.w.get(f"{name}.relative_positions")
        if table is not None:  # r of j - i
            farthest = self.config.max_position_embeddings - 1
            places = torch.arange(length)
            scores = scores + torch.einsum(
                "hid,ijd->hij", q, table[places[None] - places[:, None] + farthest]
            )
        scores = scores / math.sqrt(q.shape[-1])
        logits = self.predicted(scores, previous, layer, name)
        context = torch.softmax(logits, -1) @ v
        return context.transpose(0, 1).reshape(length, -1), logits

    def __call__(self, ids, types):
        config, w = self.config, self.w
        embeddings = "text_net.embeddings"
        words = w[f"{embeddings}.word_embeddings.weight"][ids]
        x = self.affine(words, f"{embeddings}.projection")
        if config.type_vocab_size > 1:
            x = x + w[f"{embeddings}.token_type_embeddings.weight"][types]
        states, logits = [x], None
        for i in range(config.num_hidden_layers):
            layer = f"text_net.encoder.layer.{i}"
            z = states[-1]
            if config.dense_connections and i > 0:
                z = self.affine(torch.cat(states, 1), f"{layer}.connection")
            branches = []
            if config.attention_ratio > 0:
                name = f"{layer}.attention.self"
                context, logits = self.attention(z, logits, i, name)
                branches.append(context)
            if config.attention_ratio < 1:
                weight = w[f"{layer}.convolution.weight"]
                bias = w[f"{layer}.convolution.bias"]
                padding = weight.shape[2] // 2
                convolved = F.conv1d(z.T[None], weight, bias, padding=padding)
                branches.append(convolved[0].T)
            mixed = torch.cat(branches, 1)
            if len(branches) == 1:
                mixed = self.affine(mixed, f"{layer}.branches.output.dense")
            h = self.norm(z + mixed, f"{layer}.branches.output.LayerNorm")
            wide = torch.relu(self.affine(h, f"{layer}.intermediate.dense"))
            narrow = self.affine(wide, f"{layer}.output.dense")
            states.append(self.norm(h + narrow, f"{layer}.output.LayerNorm"))
        return self.affine(states[-1].mean(0), "classifier"), states


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("variant", [*VARIANTS, *MORE])
def test_logits_and_gradients(variant, dtype):
    kind = "Transformer" if variant in MORE else variant
    model = tiny(kind, dtype, **QUIET, **MORE.get(variant, {}))
    batch = draw(model, (5, 13, 1, 6))
    given = {
        name: torch.tensor(np.asarray(tensor), dtype=torch.float64, requires_grad=True)
        for name, tensor in model.named_parameters()
    }
    net = Net(model.config, given)
    rows = [
        net(torch.as_tensor(ids), torch.as_tensor(types))
        for ids, types in zip(batch.ids, batch.types, strict=True)
    ]
    logits = torch.stack([row for row, _ in rows])
    loss = F.cross_entropy(logits, torch.as_tensor(batch.labels))
    loss.backward()
    out = model(**batch.packed(), output_hidden_states=True)
    out.loss.backward()
    close(out.logits, logits.detach(), dtype, "logits")
    close(out.loss, loss.detach(), dtype, "loss")
    for i, state in enumerate(out.hidden_states):
        expected = torch.cat([states[i] for _, states in rows])
        close(state, expected.detach(), dtype, f"state {i}")
    found = dict(model.named_parameters())
    for name, parameter in given.items():
        close(found[name].grad, parameter.grad, dtype, name)
