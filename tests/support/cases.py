"""A case of an operation (inputs, call, NumPy oracle), and functions that run it."""

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

    ``call`` takes one Tensor per shape and returns a Tensor; it holds everything else
    it needs (labels, masks, packing). ``oracle`` is the same computation in NumPy
    float64. ``wide`` cases are large enough for kernels to split them into several
    jobs, and too large for finite differences; the others get a gradient check.
    ``terms`` is the number of products in the op's longest sum, forward or backward.
    """

    op: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    call: Callable
    oracle: Callable | None = None
    wide: bool = False
    vast: bool = False  # a wide case that takes minutes on emulated hardware
    positive: bool = False  # inputs in [0.5, 2] instead of normal
    step: float = 1e-5  # of the central differences
    terms: int = 0
    cancels: float = 0.0  # size of terms that may cancel to almost nothing
    roundings: int = 1  # how often a value is stored before the result
    # For a result that follows from another, stored result: takes the inputs, a result
    # and ref's result; returns ref's result for the values stored by the first.
    follows: Callable[[list, np.ndarray, np.ndarray], np.ndarray] | None = None
    dtypes: tuple[str, ...] = tuple(NUMPY_TYPES)

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"

    @property
    def sum_length(self) -> int:
        """Returns ``terms``, or the largest input's size if it is not given."""
        return self.terms or max(1, *(math.prod(s) for s in self.shapes))

    def draw(self) -> list[np.ndarray]:
        """Returns the inputs in float64; they are the same in every process."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        arrays = [np.asarray(rng.standard_normal(shape)) for shape in self.shapes]
        if self.positive:
            arrays = [np.asarray(0.5 + 1.5 / (1 + np.exp(-a))) for a in arrays]
        if self.step >= 0.125:  # exactly representable, also with few bits
            arrays = [np.asarray(np.round(a * 4) / 4) for a in arrays]
        return arrays

    def tensors(self, dtype: str, device: str = "cpu") -> list:
        """Returns the inputs as tensors of a type on a device."""
        from evolving_attention import _core

        return [
            _core.Tensor(
                round_to(a, dtype), dtype=dtype, requires_grad=True, device=device
            )
            for a in self.draw()
        ]

    def cotangent(self, shape: Sequence[int]) -> np.ndarray:
        """Returns the output gradient, float64."""
        rng = np.random.default_rng(zlib.crc32(f"d {self}".encode()))
        return rng.standard_normal(tuple(shape))


def round_to(array: np.ndarray, dtype: str) -> np.ndarray:
    """Returns ``array`` rounded to ``dtype`` by NumPy."""
    return np.asarray(array).astype(NUMPY_TYPES[dtype])


def as_float64(tensor: object) -> np.ndarray:
    """Returns a copy of a tensor (or array) in float64."""
    return np.array(np.asarray(tensor), dtype=np.float64)


def run_case(case: Case, dtype: str, device: str = "cpu") -> list[np.ndarray]:
    """Runs a case forward and backward; returns output and gradients in their type.

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
    """Returns ref's result for the values stored by ``got``; bits as in run_case."""
    import evolving_attention as ea

    if case.follows is None or np.array_equal(got, want):
        return want
    ea.manual_seed(7)
    with forced(("*", "ref")), ea.no_grad():
        return case.follows(case.tensors(dtype), got, want)


@contextlib.contextmanager
def forced(*choices: tuple[str, str]) -> Iterator[None]:
    """Forces only these (kernel, implementation) pairs in order; restores EA_KERNEL."""
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
    """Returns how often an implementation has run since the process started."""
    from evolving_attention import _core

    for name, candidate, calls in _core.kernel_entries():
        if (name, candidate) == (kernel, implementation):
            return calls
    raise LookupError(f"no implementation {implementation} of {kernel}")
