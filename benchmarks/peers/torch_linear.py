"""PyTorch's linear layers with forward products by oneDNN instead of MKL.

On the AMD CPU of the records oneDNN with packed weights is the faster library in the
forward pass. Both products of the backward pass stay with MKL.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import nn

_Net = TypeVar("_Net", bound=nn.Module)


class _Product(torch.autograd.Function):
    """y = x Wᵀ + b; weights change every step, so packing is part of the step."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        rows = x.numel() // x.shape[-1]
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
        flat = x.reshape(rows, -1)
        y = torch.ops.mkldnn._linear_pointwise(flat, packed, bias, "none", [], "")
        return y.reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        (given,) = gradients
        flat = given.reshape(-1, given.shape[-1])
        of_weight = flat.t() @ x.reshape(-1, x.shape[-1])
        return given @ weight, of_weight, flat.sum(0)


class OneDnnLinear(nn.Linear):
    """A linear layer with oneDNN's forward product."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Maps [..., in] to [..., out]."""
        return _Product.apply(input, self.weight, self.bias)  # type: ignore[no-any-return]


def with_onednn(net: _Net) -> _Net:
    """Returns a copy of the net in which every linear layer is a OneDnnLinear."""
    made = copy.deepcopy(net)
    for layer in made.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = OneDnnLinear
    return made
