"""The evolving step of the built-in attention kinds in ONNX, on padded maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError
from evolving_attention.export.graph import Graph


@dataclass(frozen=True)
class Site:
    """The layer of an evolving step.

    Attributes:
        graph: the graph under construction.
        layer: index of the layer, from 0.
        num_layers: number of layers of the model.
        prefix: prefix of the layer's parameters, ``…attention.self``.
        inside: float [B, 1, T, T], 1 in valid cells, 0 in padding.
    """

    graph: Graph
    layer: int
    num_layers: int
    prefix: str
    inside: str

    def number(self, value: Any) -> float:
        """Returns this layer's weight, from one number or a number per layer."""
        if isinstance(value, tuple):
            return float(value[self.layer])
        return float(value)

    def convolved(self, maps: str, name: str, activation: str, taps: Any = None) -> str:
        """Returns act(Conv(maps)); the convolution reads zeros in padding.

        ``taps`` are factors for the kernel's elements.
        """
        weight = f"{self.prefix}.{name}.weight"
        graph = self.graph
        side = graph.arrays[weight].shape[-1]
        cells = graph.op("Mul", maps, self.inside)
        found = graph.op(
            "Conv",
            cells,
            graph.parameter(weight, factors=taps),
            graph.parameter(f"{self.prefix}.{name}.bias"),
            kernel_shape=[side, side],
            pads=[side // 2] * 4,
        )
        return graph.activation(found, activation)


def evolved(kind: Any, site: Site, scores: str, previous: str | None) -> str:
    """Returns this layer's L, the next layer's ``previous``; the first layer has None.

    Raises:
        ConfigError: the kind is not built into the core.
    """
    if kind.kind not in _STEPS:
        raise ConfigError(
            f"export_onnx: attention kind {kind.kind!r} has no ONNX form; expected one "
            f"of {', '.join(_STEPS)}"
        )
    if previous is None and not _starts_alone(kind, site):
        return scores
    return _STEPS[kind.kind](kind, site, scores, previous or scores)


def _starts_alone(kind: Any, site: Site) -> bool:
    """Whether the step has no skip and also runs in the first layer."""
    return kind.kind == "evolving_causal" and site.number(kind.alpha) == 0


def softmax_scale(kind: Any, layer: int, num_layers: int) -> float:
    """Returns t of softmax(t L): 1, except for residual attention's running mean."""
    if kind.kind != "residual":
        return 1.0
    mean = num_layers > 24 if kind.running_mean is None else kind.running_mean
    return 1.0 / (layer + 1) if mean else 1.0


def _vanilla(kind: Any, site: Site, scores: str, previous: str) -> str:
    return scores


def _residual(kind: Any, site: Site, scores: str, previous: str) -> str:
    return site.graph.op("Add", previous, scores)


def _evolving(kind: Any, site: Site, scores: str, previous: str) -> str:
    return _with_convolution(kind, site, scores, previous, site.convolved)


def _causal(kind: Any, site: Site, scores: str, previous: str) -> str:
    """Shifts the convolution down and right; cells left empty by the shift are 0."""
    reach = kind.kernel_size // 2
    down = 0 if kind.shift == "key_literal" else reach
    right = 0 if kind.shift == "query" else reach

    def moved(maps: str, name: str, activation: str) -> str:
        taps = np.tri(kind.kernel_size) if kind.shift == "diagonal" else None
        graph = site.graph
        found = site.convolved(maps, name, activation, taps)
        found = graph.op("Mul", found, site.inside)
        pads = graph.integers(0, 0, down, right, 0, 0, -down, -right)
        return graph.op("Pad", found, pads)

    return _with_convolution(kind, site, scores, previous, moved)


def _with_convolution(
    kind: Any,
    site: Site,
    scores: str,
    previous: str,
    convolved: Callable[[str, str, str], str],
) -> str:
    """Returns L, with I = α M + (1 − α) S, L = β ReLU(Conv(I)) + (1 − β) I."""
    graph = site.graph
    alpha, beta = site.number(kind.alpha), site.number(kind.beta)
    if kind.learnable:
        alpha = _learned(site, "evolving_alpha_logit", alpha)
        beta = _learned(site, "evolving_beta_logit", beta)
    mixed = graph.mixed((alpha, previous), (1 - alpha, scores))
    if beta == 0:
        return mixed
    found = convolved(mixed, "evolving_conv", "relu")
    return graph.mixed((beta, found), (1 - beta, mixed))


def _learned(site: Site, name: str, start: float) -> float:
    """Returns the learned weight; a weight that starts at 0 has no parameter."""
    parameter = f"{site.prefix}.{name}"
    if not site.graph.has(parameter):
        return start
    logit = float(np.asarray(site.graph.arrays[parameter])[0])
    return float(1 / (1 + np.exp(-logit)))


def _released(kind: Any, site: Site, scores: str, previous: str) -> str:
    alpha, beta = site.number(kind.alpha), site.number(kind.beta)
    if site.layer < 2 or alpha == beta == 0:
        return scores
    graph = site.graph
    before = graph.activation(previous, "leaky_relu")
    mixed = graph.mixed((alpha, before), (1 - alpha, scores))
    if beta == 0:
        return mixed
    found = site.convolved(mixed, "evolving_conv", "leaky_relu")
    return graph.mixed((beta, found), (1 - beta, mixed))


def _predictive(kind: Any, site: Site, scores: str, previous: str) -> str:
    alpha, found = site.number(kind.alpha), previous
    if alpha == 0:
        return scores
    for i in range(kind.num_layers):
        name = "evolving_conv" if kind.num_layers == 1 else f"evolving_conv.{i}"
        found = site.convolved(found, name, "relu")
    return site.graph.mixed((alpha, found), (1 - alpha, scores))


_STEPS: dict[str, Callable[[Any, Site, str, str], str]] = {
    "vanilla": _vanilla,
    "residual": _residual,
    "evolving": _evolving,
    "evolving_causal": _causal,
    "evolving_released": _released,
    "predictive": _predictive,
}
