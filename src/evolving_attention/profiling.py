"""Where the time of a step goes: shares of the kernels, and the work of its products.

    with ea.profile() as found:
        model(**batch).loss.backward()
    print(found)

``EA_PROFILE=1`` times a whole process and prints the same table to stderr at its end.
Times are wall times of kernels as the core sums them; what Python, tokenizers, data and
waiting take is "outside kernels".
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evolving_attention.errors import ConfigError

__all__ = [
    "Profile",
    "matrix_flops",
    "profile",
    "report",
    "report_at_exit",
    "vit_flops",
]

# Kernels of the registry that are nothing but a product of matrices, and those that
# hold products of queries, keys, values and maps.
_PRODUCTS = frozenset({"matmul"})
_ATTENTION = frozenset(
    {
        "attention_context",
        "attention_context_backward",
        "attention_scores",
        "attention_scores_backward",
        "cached_attention",
        "evolve_backward",
        "evolve_forward",
        "fused_attention_backward",
        "fused_attention_forward",
        "map_conv_backward",
        "map_conv_forward",
    }
)


@dataclass
class Profile:
    """Timings of one stretch of work.

    Attributes:
        seconds: wall time of the stretch.
        kernels: (kernel, calls, seconds), longest first.
    """

    seconds: float = 0.0
    kernels: list[tuple[str, int, float]] = field(default_factory=list)

    def _sum(self, names: frozenset[str]) -> float:
        return sum(s for name, _, s in self.kernels if name in names)

    def _share(self, seconds: float) -> float:
        return seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def outside(self) -> float:
        """Share of the time in which no kernel ran."""
        return max(0.0, 1.0 - self._share(sum(s for _, _, s in self.kernels)))

    @property
    def matrix_products(self) -> float:
        """Share of the time in products of matrices."""
        return self._share(self._sum(_PRODUCTS))

    @property
    def attention(self) -> float:
        """Share of the time in kernels with products of queries, keys, values, maps."""
        return self._share(self._sum(_ATTENTION))

    def shares(self) -> dict[str, float]:
        """Share of the time of each kernel, longest first, then what is outside."""
        found = {name: self._share(s) for name, _, s in self.kernels}
        return {**found, "outside kernels": self.outside}

    def as_dict(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {
            "seconds": self.seconds,
            "kernels": [
                {"kernel": name, "calls": calls, "seconds": seconds}
                for name, calls, seconds in self.kernels
            ],
            "shares": self.shares(),
            "matrix_products": self.matrix_products,
            "attention": self.attention,
        }

    def __str__(self) -> str:
        return report(self)


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Time the kernels of the block; the result is complete after it.

    The timings that ran before are forgotten, as are those of an outer ``profile()``.
    """
    core = importlib.import_module("evolving_attention._core")
    found = Profile()
    core.reset_profile()
    core.set_profiling(True)
    begin = time.perf_counter()
    try:
        yield found
    finally:
        found.seconds = time.perf_counter() - begin
        found.kernels = [(str(n), int(c), float(s)) for n, c, s in core.profile()]
        core.set_profiling(_at_exit_since is not None)  # EA_PROFILE=1 keeps it on


def report(found: Profile) -> str:
    """The table of a profile as text."""
    names = [name for name, _, _ in found.kernels] + ["outside kernels"]
    wide = max(map(len, names))
    lines = [f"{'kernel':{wide}s}  {'calls':>8s}  {'seconds':>9s}   share"]
    for name, calls, seconds in found.kernels:
        share = found._share(seconds)
        lines.append(f"{name:{wide}s}  {calls:8d}  {seconds:9.3f}  {share:6.1%}")
    rest = found.outside * found.seconds
    lines.append(
        f"{'outside kernels':{wide}s}  {'':8s}  {rest:9.3f}  {found.outside:6.1%}"
    )
    lines.append(
        f"in all {found.seconds:.3f} s; products of matrices "
        f"{found.matrix_products:.1%}, attention {found.attention:.1%}"
    )
    return "\n".join(lines)


_at_exit_since: float | None = None


def report_at_exit() -> None:
    """Print the profile of the process to stderr at its end; done by EA_PROFILE=1."""
    global _at_exit_since
    if _at_exit_since is None:
        _at_exit_since = time.perf_counter()
        atexit.register(_print_at_exit)


def _print_at_exit() -> None:
    core = sys.modules.get("evolving_attention._core")
    if core is None or _at_exit_since is None:
        return  # nothing of the core was used
    seconds = time.perf_counter() - _at_exit_since
    kernels = [(str(n), int(c), float(s)) for n, c, s in core.profile()]
    if kernels:
        print(report(Profile(seconds, kernels)), file=sys.stderr, flush=True)


def matrix_flops(
    lengths: Sequence[int],
    *,
    layers: int,
    width: int,
    inner: int,
    heads: int,
    labels: int = 2,
    kernel_size: int = 0,
    training: bool = False,
) -> dict[str, float]:
    """Floating-point operations of the matrix products of one BERT step.

    Args:
        lengths: tokens of each sequence, without padding.
        layers, width, inner, heads, labels: sizes of the classifier.
        kernel_size: side of the convolution over maps, 0 for none; the first layer
            has none in any case.
        training: also the two products of each product's backward.

    Returns:
        ``dense`` (projections, feed-forward, pooler, classifier), ``attention``
        (scores and context), ``map_conv``, and their sum ``total``. A multiplication
        with its addition counts as two.
    """
    if min(lengths, default=1) < 0 or min(layers, width, inner, heads) < 1:
        raise ConfigError(
            "matrix_flops: sizes must be positive and lengths not negative, got "
            f"lengths={list(lengths)}, layers={layers}, width={width}, inner={inner}, "
            f"heads={heads}"
        )
    tokens, pairs = sum(lengths), sum(n * n for n in lengths)
    dense = layers * 2.0 * tokens * (4 * width * width + 2 * width * inner)
    dense += 2.0 * len(lengths) * width * (width + labels)
    parts = {
        "dense": dense,
        "attention": layers * 4.0 * pairs * width,
        "map_conv": (layers - 1) * 2.0 * pairs * heads**2 * kernel_size**2,
    }
    factor = 3.0 if training else 1.0
    found = {name: factor * value for name, value in parts.items()}
    return {**found, "total": sum(found.values())}


_DENSE = ("query.weight", "key.weight", "value.weight", "dense.weight")


def vit_flops(
    config: Any, images: int = 1, *, training: bool = False
) -> dict[str, float]:
    """Floating-point operations of the matrix products of ViT with a classifier.

    The parts follow from the shapes of the model's parameters, with any attention.

    Args:
        config: a :class:`~evolving_attention.ViTConfig`.
        images: number of images.
        training: also the two products of each product's backward.

    Returns:
        ``patches`` (their embedding), ``dense`` (projections, feed-forward,
        classifier), ``attention`` (scores and context), ``map_conv``, and their sum
        ``total``. A multiplication with its addition counts as two.

    Example:
        >>> import evolving_attention as ea
        >>> from evolving_attention.profiling import vit_flops
        >>> config = ea.ViTConfig(image_size=384, num_labels=1000)
        >>> f"{vit_flops(config)['total'] / 2e9:.1f} billion products"
        '55.5 billion products'
    """
    core = importlib.import_module("evolving_attention._core")
    options = {**config.core_options(), "head": "image_classification"}
    model = core.create_model(config.model_type, options)  # shapes, no memory
    tokens, (rows, columns) = config.tokens, config.grid
    layers, width = config.num_hidden_layers, config.hidden_size
    parts = dict.fromkeys(("patches", "dense", "attention", "map_conv"), 0.0)
    parts["attention"] = layers * 2.0 * tokens**2 * width
    for name, tensor in model.named_parameters():
        axes, size = len(tensor.shape), float(tensor.size)
        if name.endswith("patch_embeddings.projection.weight"):
            parts["patches"] += rows * columns * size
        elif name == "classifier.weight":
            parts["dense"] += size
        elif name.endswith(_DENSE):
            parts["dense"] += tokens * size
        elif axes == 4:
            parts["map_conv"] += tokens**2 * size
    factor = 2.0 * images * (3.0 if training else 1.0)
    found = {name: factor * value for name, value in parts.items()}
    return {**found, "total": sum(found.values())}
