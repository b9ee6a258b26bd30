"""One case of an operation: inputs, the call, a NumPy oracle; how it is run."""

from __future__ import annotations

import contextlib
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

NUMPY_TYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Case:
    """A call of one op on differentiable inputs of the given shapes.

    ``call`` takes one Tensor per shape and returns a Tensor; everything else it needs
    (labels, masks, packing) it holds itself. ``oracle`` is the same in NumPy float64.
    ``wide`` cases are large enough for kernels to cut them into several jobs, and too
    large for differences; the others get a gradient check. ``terms`` is the number of
    products that the longest sum of the op, forward or backward, has.
    """

    op: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    call: Callable
    oracle: Callable | None = None
    wide: bool = False
    vast: bool = False  # of wide ones: minutes on emulated hardware
    positive: bool = False  # inputs in [0.5, 2] instead of normal
    step: float = 1e-5  # of central differences
    terms: int = 0
    cancels: float = 0.0  # size of terms that may cancel to almost nothing
    roundings: int = 1  # how often a value is stored on its way to a result
    # Where a result follows from another that is stored on the way: takes inputs, a
    # result and that of ref, and returns what ref makes of what the first had stored.
    follows: Callable[[list, np.ndarray, np.ndarray], np.ndarray] | None = None
    dtypes: tuple[str, ...] = tuple(NUMPY_TYPES)

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"

    @property
    def sum_length(self) -> int:
        """``terms``, or the largest input where it is not given."""
        return self.terms or max(1, *(math.prod(s) for s in self.shapes))

    def draw(self) -> list[np.ndarray]:
        """The inputs, float64: the same in every process."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        arrays = [np.asarray(rng.standard_normal(shape)) for shape in self.shapes]
        if self.positive:
            arrays = [np.asarray(0.5 + 1.5 / (1 + np.exp(-a))) for a in arrays]
        if self.step >= 0.125:  # exactly representable, also in few bits
            arrays = [np.asarray(np.round(a * 4) / 4) for a in arrays]
        return arrays

    def tensors(self, dtype: str, device: str = "cpu") -> list:
        """The inputs as tensors of a type on a device."""
        from evolving_attention import _core

        return [
            _core.Tensor(
                round_to(a, dtype), dtype=dtype, requires_grad=True, device=device
            )
            for a in self.draw()
        ]

    def cotangent(self, shape: Sequence[int]) -> np.ndarray:
        """The gradient that flows in from above, float64."""
        rng = np.random.default_rng(zlib.crc32(f"d {self}".encode()))
        return rng.standard_normal(tuple(shape))


def round_to(array: np.ndarray, dtype: str) -> np.ndarray:
    """``array`` rounded to ``dtype`` by NumPy."""
    return np.asarray(array).astype(NUMPY_TYPES[dtype])


def as_float64(tensor: object) -> np.ndarray:
    """A copy of a tensor (or array) in float64."""
    return np.array(np.asarray(tensor), dtype=np.float64)


def run_case(case: Case, dtype: str, device: str = "cpu") -> list[np.ndarray]:
    """Run a case forward and backward; return output and gradients in their own type.

    The random state is set first, so that dropout draws the same bits every time.
    """
    from evolving_attention import _core
    from evolving_attention.device_names import host_array

    _core.manual_seed(7)
    inputs = case.tensors(dtype, device)
    out = case.call(*inputs)
    dy = round_to(case.cotangent(out.shape), out.dtype)
    out.backward(_core.Tensor(dy, dtype=out.dtype, device=device))
    results = [np.array(host_array(out))]
    for tensor, shape in zip(inputs, case.shapes, strict=True):
        assert tensor.grad is not None, f"{case}: no gradient of shape {shape}"
        assert tensor.grad.shape == shape
        results.append(np.array(host_array(tensor.grad)))
    return results


def followed(case: Case, dtype: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """What ref makes of what ``got`` stored on its way, with run_case's random bits."""
    import evolving_attention as ea

    if case.follows is None or np.array_equal(got, want):
        return want
    ea.manual_seed(7)
    with forced(("*", "ref")), ea.no_grad():
        return case.follows(case.tensors(dtype), got, want)


@contextlib.contextmanager
def forced(*choices: tuple[str, str]) -> Iterator[None]:
    """Force (kernel, implementation) pairs alone, in order; then EA_KERNEL's again."""
    from evolving_attention import _core

    try:
        _core.force_kernel("*", "")
        for kernel, implementation in choices:
            _core.force_kernel(kernel, implementation)
        yield
    finally:
        _core.force_kernel("*", "")
        for choice in filter(None, os.environ.get("EA_KERNEL", "").split(",")):
            _core.force_kernel(*choice.split(":"))


def kernel_calls(kernel: str, implementation: str) -> int:
    """How often an implementation has run since the process started."""
    from evolving_attention import _core

    for name, candidate, calls in _core.kernel_entries():
        if (name, candidate) == (kernel, implementation):
            return calls
    raise LookupError(f"no implementation {implementation} of {kernel}")
