"""(Evolving) AA-ResNet in NumPy: Bello et al., ICCV 2019; Wang et al., ICML 2021.

``state`` maps names to arrays as ``state_dict()`` does; images [B, C, height, width].
"""

from __future__ import annotations

import numpy as np

from reference.evolving import conv_map, masked_softmax


def windows(x, size, stride, before, after, outside=0.0):
    """Returns [size², B, C, h, w]: the pixels of each window."""
    sides = [(0, 0), (0, 0), (before, after), (before, after)]
    x = np.pad(x, sides, constant_values=outside)
    h, w = ((n - size) // stride + 1 for n in x.shape[2:])
    cut = [
        x[:, :, u : u + h * stride : stride, v : v + w * stride : stride]
        for u in range(size)
        for v in range(size)
    ]
    return np.array([part[:, :, :h, :w] for part in cut])


def mean_pool(x):
    """Averages 3 x 3 windows, stride 2; pads even sides at the end, skips padding."""
    sums, counts = windows(x, 3, 2, 0, 1), windows(np.ones_like(x), 3, 2, 0, 1)
    return sums.sum(0) / counts.sum(0)


def enlarge(x):
    """Doubles the sides: pixel 2i is i, 2i + 1 the mean of i and i + 1."""
    for axis in (2, 3):
        n = x.shape[axis]
        after = np.take(x, np.minimum(np.arange(n) + 1, n - 1), axis)
        shape = [*x.shape[:axis], 2 * n, *x.shape[axis + 1 :]]
        x = np.stack([x, (x + after) / 2], axis + 1).reshape(shape)
    return x


class AugmentedResNet:
    """Call with images: returns (logits, maps of every layer)."""

    def __init__(self, config, state):
        self.config, self.state, self.maps = config, state, []

    def conv(self, name, x, stride):
        weight = self.state[f"{name}.weight"]
        size = weight.shape[-1]
        cells = windows(x, size, stride, size // 2, size // 2)
        return np.einsum(
            "tbchw,oct->bohw", cells, weight.reshape(*weight.shape[:2], -1)
        )

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def evolve(self, place, scores):
        kind, name = self.config.attention, f"{place}.attention.self"
        before = self.maps[-1] if self.maps else None
        if before is None or before.shape != scores.shape or not hasattr(kind, "alpha"):
            return scores
        predictive = not hasattr(kind, "beta")
        stem = "evolving_conv"
        parameters = [
            self.state[f"{name}.{stem}.{part}"] for part in ("weight", "bias")
        ]
        mixed = kind.alpha * before + (1 - kind.alpha) * scores
        seen = before if predictive else mixed
        grown = np.maximum([conv_map(m, *parameters) for m in seen], 0)
        if predictive:
            return kind.alpha * grown + (1 - kind.alpha) * scores
        return kind.beta * grown + (1 - kind.beta) * mixed

    def attend(self, place, x, stride, halved):
        for _ in range((stride == 2) + halved):
            x = mean_pool(x)
        batch, channels, height, width = x.shape
        rows = x.reshape(batch, channels, -1).swapaxes(1, 2)
        q, k, v = (
            self.linear(f"{place}.attention.self.{part}", rows)
            .reshape(batch, height * width, self.config.num_attention_heads, -1)
            .swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        row, column = np.divmod(np.arange(height * width), width)
        tables = [
            self.state[f"{place}.attention.self.relative_{s}"]
            for s in ("height", "width")
        ]
        near = tables[0][row - row[:, None] + height - 1]
        near = near + tables[1][column - column[:, None] + width - 1]
        q = q / np.sqrt(q.shape[-1])
        scores = q @ k.swapaxes(2, 3) + np.einsum("bhid,ijd->bhij", q, near)
        self.maps.append(self.evolve(place, scores))
        mixed = masked_softmax(self.maps[-1], None) @ v
        rows = self.linear(
            f"{place}.attention.output.dense",
            mixed.swapaxes(1, 2).reshape(batch, height * width, -1),
        )
        image = rows.swapaxes(1, 2).reshape(batch, -1, height, width)
        return enlarge(image) if halved else image

    def layer(self, name, x, stride=1, stage=0, act=True):
        y = self.conv(f"{name}.convolution", x, stride)
        if f"{name}.attention.self.query.weight" in self.state:
            y = np.concatenate([y, self.attend(name, x, stride, stage == 1)], 1)
        norm = {
            p: self.state[f"{name}.normalization.{p}"][:, None, None]
            for p in ("weight", "bias", "running_mean", "running_var")
        }
        y = (y - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5)
        y = y * norm["weight"] + norm["bias"]
        return np.maximum(y, 0) if act else y

    def __call__(self, images):
        x = self.layer("resnet.embedder.embedder", images, 2)
        x = windows(x, 3, 2, 1, 1, -np.inf).max(0)
        for stage, depth in enumerate(self.config.depths):
            for block in range(depth):
                x = self.block(
                    f"resnet.encoder.stages.{stage}.layers.{block}", x, stage, block
                )
        return self.linear("classifier.1", x.mean((2, 3))), self.maps

    def block(self, at, x, stage, block):
        stride, y = 2 if stage > 0 and block == 0 else 1, x
        basic = self.config.layer_type == "basic"
        strides = (stride, 1) if basic else (1, stride, 1)
        for i, step in enumerate(strides):
            y = self.layer(f"{at}.layer.{i}", y, step, stage, i + 1 < len(strides))
        if f"{at}.shortcut.convolution.weight" in self.state:
            x = self.layer(f"{at}.shortcut", x, stride, act=False)
        return np.maximum(x + y, 0)
