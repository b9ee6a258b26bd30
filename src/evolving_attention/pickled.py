"""Pickling of tensors, for joblib, multiprocessing and ``copy.deepcopy``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from evolving_attention._core import Tensor
from evolving_attention.device_names import host_array


def reduced(tensor: Tensor) -> tuple[Any, ...]:
    """Returns the pickled state: values, dtype, device and a leaf's ``requires_grad``.

    Graph and gradient are left out: the result of an operation is restored as plain
    values.
    """
    array = host_array(tensor)
    if array.dtype == ml_dtypes.bfloat16:
        array = array.view(np.uint16)
    needs_gradient = tensor.requires_grad and tensor.is_leaf
    return rebuilt, (array, str(tensor.dtype), tensor.device, needs_gradient)


def rebuilt(array: np.ndarray, dtype: str, device: str, requires_grad: bool) -> Tensor:
    """Rebuilds the tensor from the result of :func:`reduced`.

    Raises:
        BackendUnavailable: this machine does not have the device.
    """
    if dtype == "bfloat16":
        array = array.view(ml_dtypes.bfloat16)
    return Tensor(array, requires_grad=requires_grad, device=device)
