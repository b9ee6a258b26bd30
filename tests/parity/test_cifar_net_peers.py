"""Nets for small images against the same net spelled out in PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers_cifar import EVOLVING, tiny
from helpers_parity import close, torch
from helpers_resnet import draw

import evolving_attention as ea

pytestmark = pytest.mark.parity
LABELS = np.array([1, 4, 0])
F = torch.nn.functional


class Twin:
    """Call with images: returns logits; keeps the maps and the states of stages."""

    def __init__(self, model: Any, training: bool) -> None:
        self.config, self.training = model.config, training
        self.maps: list[Any] = []
        self.states: list[Any] = []
        self.weights = {
            name: torch.tensor(np.asarray(tensor)).requires_grad_()
            for name, tensor in model.named_parameters()
        }
        self.buffers = {
            name: torch.tensor(np.asarray(tensor))
            for name, tensor in model.named_buffers()
        }

    def linear(self, name: str, x: Any) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def layer(self, name: str, x: Any, active: bool = True) -> Any:
        weight = self.weights[f"{name}.convolution.weight"]
        y = F.conv2d(x, weight, padding=weight.shape[-1] // 2)
        if f"{name}.attention.self.query.weight" in self.weights:
            y = torch.cat([y, self.attend(f"{name}.attention", x)], 1)
        at = f"{name}.normalization"
        y = F.batch_norm(
            y,
            self.buffers[f"{at}.running_mean"],
            self.buffers[f"{at}.running_var"],
            self.weights[f"{at}.weight"],
            self.weights[f"{at}.bias"],
            self.training,
        )
        return y.relu() if active else y

    def attend(self, name: str, x: Any) -> Any:
        batch, _, height, width = x.shape
        rows, heads = x.flatten(2).mT, self.config.num_attention_heads
        q, k, v = (
            self.linear(f"{name}.self.{part}", rows)
            .reshape(batch, height * width, heads, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        row = torch.arange(height * width) // width
        column = torch.arange(height * width) % width
        tall = self.weights[f"{name}.self.relative_height"]
        wide = self.weights[f"{name}.self.relative_width"]
        near = tall[row - row[:, None] + height - 1]
        near = near + wide[column - column[:, None] + width - 1]
        q = q / q.shape[-1] ** 0.5
        scores = q @ k.mT + torch.einsum("bhid,ijd->bhij", q, near)
        self.maps.append(self.evolve(f"{name}.self.evolving_conv", scores))
        mixed = (self.maps[-1].softmax(-1) @ v).transpose(1, 2).flatten(2)
        found = self.linear(f"{name}.output.dense", mixed)
        return found.mT.reshape(batch, -1, height, width)

    def evolve(self, name: str, scores: Any) -> Any:
        kind = self.config.attention
        before = self.maps[-1] if self.maps else None
        if before is None or before.shape != scores.shape or not hasattr(kind, "alpha"):
            return scores
        a = kind.alpha
        mixed = a * before + (1 - a) * scores
        predictive = not hasattr(kind, "beta")
        weight, bias = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        seen = before if predictive else mixed
        grown = F.conv2d(seen, weight, bias, padding=1).relu()
        if predictive:
            return a * grown + (1 - a) * scores
        return kind.beta * grown + (1 - kind.beta) * mixed

    def block(self, at: str, known: list[Any]) -> Any:
        x = known[-1]
        if self.config.dense_connections and len(known) > 1:
            x = self.layer(f"{at}.gathering", torch.cat(known, 1))
        x = x + self.layer(f"{at}.mixing", x)
        for i in range(self.config.num_feed_forwards):
            one = f"{at}.feed_forward.{i}"
            inner = self.layer(f"{one}.intermediate", x)
            x = x + self.layer(f"{one}.output", inner, active=False)
        return x

    def __call__(self, images: Any) -> Any:
        known = [self.layer("cifar_net.embedder", images)]
        self.states = [known[0]]
        for stage, depth in enumerate(self.config.depths):
            at = f"cifar_net.encoder.stages.{stage}"
            if stage:
                all_ = known if self.config.dense_connections else known[-1:]
                small = F.avg_pool2d(torch.cat(all_, 1), 2)
                known = [self.layer(f"{at}.widening", small)]
            for i in range(depth):
                known.append(self.block(f"{at}.layers.{i}", known))
            self.states.append(known[-1])
        return self.linear("classifier.1", known[-1].mean((2, 3)))


@pytest.mark.parametrize("training", [False, True], ids=["evaluated", "trained"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": ea.attention.Predictive(0.3)},
        {"attention": EVOLVING, "dense_connections": False},
        {"attention_side": 0, "num_feed_forwards": 1, "feed_forward_ratio": 2.0},
    ],
    ids=["vanilla", "predictive", "evolving", "convolutions"],
)
def test_logits_maps_gradients_and_statistics(
    options: dict[str, Any], training: bool
) -> None:
    model = tiny(**options)
    model.train(training)
    twin = Twin(model, training)
    images = draw(3, (16, 16))
    logits = twin(torch.tensor(images))
    loss = F.cross_entropy(logits, torch.tensor(LABELS))
    out = model(
        images,
        labels=LABELS,
        output_hidden_states=True,
        output_attention_logits=options.get("attention_side") != 0,
    )
    close(out.logits, logits.detach(), "float64", "logits")
    close(out.loss, loss.detach(), "float64", "loss")
    maps = out.attention_logits or ()  # None: no attention layers
    assert len(twin.maps) == len(maps) == model.config.num_hidden_layers
    for found, map_ in zip(maps, twin.maps, strict=True):
        close(found, map_.detach(), "float64", "map")
    for found, state in zip(out.hidden_states, twin.states, strict=True):
        close(found, state.detach(), "float64", "state")
    loss.backward()
    out.loss.backward()
    for name, tensor in model.named_parameters():
        close(tensor.grad, twin.weights[name].grad, "float64", name)
    for name, tensor in model.named_buffers():
        close(tensor, twin.buffers[name], "float64", name)
