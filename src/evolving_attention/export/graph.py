"""An ONNX graph under construction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

OPSET = 17  # the first opset with LayerNormalization


class Graph:
    """Nodes and constants of a graph; a value is the name of a node's result.

    Args:
        helper: the module ``onnx.helper``.
        numpy_helper: the module ``onnx.numpy_helper``.
        arrays: the parameters by name.

    Attributes:
        arrays: the argument ``arrays``.
        nodes: the nodes in execution order.
        constants: tensors by name.
    """

    def __init__(
        self, helper: Any, numpy_helper: Any, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self._helper, self._numpy = helper, numpy_helper
        self.arrays = arrays
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns its result."""
        result = f"{kind}_{len(self.nodes)}"
        self.nodes.append(
            self._helper.make_node(kind, inputs, [result], name=result, **attributes)
        )
        return result

    def name(self, value: str, name: str) -> None:
        """Gives a value the name of a graph output."""
        self.nodes.append(
            self._helper.make_node("Identity", [value], [name], name=name)
        )

    def number(self, value: float) -> str:
        """Returns a float32 constant."""
        return self._constant(f"number_{value!r}", np.float32(value))

    def integers(self, *values: int) -> str:
        """Returns an int64 vector."""
        name = "integers_" + "_".join(map(str, values))
        return self._constant(name, np.array(values, np.int64))

    def integer(self, value: int) -> str:
        """Returns an int64 scalar."""
        return self._constant(f"integer_{value}", np.int64(value))

    def parameter(
        self, name: str, *, transposed: bool = False, factors: Any = None
    ) -> str:
        """Returns a parameter of the model.

        Args:
            name: name of the parameter.
            transposed: swap its two axes.
            factors: multiply its elements by these.
        """
        array = self.arrays[name]
        if factors is not None:
            array = (array * factors).astype(np.float32)
        if transposed:
            return self._constant(f"{name}.T", np.ascontiguousarray(array.T))
        return self._constant(name, array)

    def has(self, name: str) -> bool:
        """Whether the model has this parameter."""
        return name in self.arrays

    def _constant(self, name: str, value: Any) -> str:
        if name not in self.constants:
            self.constants[name] = self._numpy.from_array(np.asarray(value), name)
        return name

    # --- layers ---------------------------------------------------------------------

    def linear(self, x: str, name: str) -> str:
        """Returns X Wᵀ + b."""
        product = self.op(
            "MatMul", x, self.parameter(f"{name}.weight", transposed=True)
        )
        return self.op("Add", product, self.parameter(f"{name}.bias"))

    def layer_norm(self, x: str, name: str, epsilon: float) -> str:
        """Returns layer norm over the last axis."""
        weight, bias = (self.parameter(f"{name}.{part}") for part in ("weight", "bias"))
        return self.op(
            "LayerNormalization", x, weight, bias, axis=-1, epsilon=float(epsilon)
        )

    def mixed(self, *terms: tuple[float, str]) -> str:
        """Returns the sum of factor × value, without terms whose factor is 0."""
        parts = [
            x if factor == 1 else self.op("Mul", x, self.number(factor))
            for factor, x in terms
            if factor != 0
        ]
        total = parts[0]
        for part in parts[1:]:
            total = self.op("Add", total, part)
        return total

    def activation(self, x: str, kind: str) -> str:
        """Applies one of the activations of text models."""
        if kind in ("relu", "tanh"):
            return self.op({"relu": "Relu", "tanh": "Tanh"}[kind], x)
        if kind == "leaky_relu":
            return self.op("LeakyRelu", x, alpha=0.01)
        if kind == "gelu":
            inner = self.op("Erf", self.op("Mul", x, self.number(0.5**0.5)))
        else:  # gelu_new
            cube = self.op("Mul", self.op("Mul", x, x), x)
            bent = self.mixed((1, x), (0.044715, cube))
            inner = self.op(
                "Tanh", self.op("Mul", bent, self.number((2 / np.pi) ** 0.5))
            )
        half = self.op("Mul", x, self.number(0.5))
        return self.op("Mul", half, self.op("Add", inner, self.number(1.0)))
