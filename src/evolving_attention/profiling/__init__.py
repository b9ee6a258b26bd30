"""Profiles a step: time shares of the kernels, and operations of its products.

    with ea.profile() as found:
        model(**batch).loss.backward()
    print(found)

``EA_PROFILE=1`` times a whole process and prints the same table to stderr at its end.
Times are wall times of kernels as summed by the core; the time of Python, tokenizers,
data and waiting is "outside kernels".
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from evolving_attention.notices import note
from evolving_attention.profiling.flops import (
    encoder_decoder_flops,
    matrix_flops,
    series_flops,
    vit_flops,
)
from evolving_attention.profiling.image_flops import cifar_net_flops, resnet_flops

__all__ = [
    "Profile",
    "cifar_net_flops",
    "encoder_decoder_flops",
    "matrix_flops",
    "profile",
    "report",
    "report_at_exit",
    "resnet_flops",
    "series_flops",
    "vit_flops",
]

# Kernels that are only a matrix product, and kernels that contain products of queries,
# keys, values and maps.
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
        """Share of the time in matrix products."""
        return self._share(self._sum(_PRODUCTS))

    @property
    def attention(self) -> float:
        """Share of the time in kernels with products of queries, keys, values, maps."""
        return self._share(self._sum(_ATTENTION))

    def shares(self) -> dict[str, float]:
        """Returns each kernel's share of the time, longest first, then the rest."""
        found = {name: self._share(s) for name, _, s in self.kernels}
        return {**found, "outside kernels": self.outside}

    def as_dict(self) -> dict[str, object]:
        """Returns all values, for JSON."""
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
    """Times the kernels of the block; the result is complete after the block.

    Earlier timings are discarded, including those of an outer ``profile()``.
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
    """Formats the table of a profile as text."""
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
    """Prints the process's profile to stderr at its end; called by EA_PROFILE=1."""
    global _at_exit_since
    if _at_exit_since is None:
        _at_exit_since = time.perf_counter()
        atexit.register(_print_at_exit)


def _print_at_exit() -> None:
    core = sys.modules.get("evolving_attention._core")
    if core is None or _at_exit_since is None:
        return  # the core was not used
    seconds = time.perf_counter() - _at_exit_since
    kernels = [(str(n), int(c), float(s)) for n, c, s in core.profile()]
    if kernels:
        note(report(Profile(seconds, kernels)))
