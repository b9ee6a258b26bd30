"""Masks of tensors where NumPy, pandas and PyTorch read them: they are booleans."""

from __future__ import annotations

import numpy as np
import pytest

import evolving_attention as ea

VALUES = np.arange(12.0, dtype=np.float32).reshape(3, 4)
T = ea.Tensor(VALUES)


def test_a_mask_selects_in_numpy() -> None:
    logits = ea.Tensor([[2.0, 1], [0, 3], [1, 4]])
    labels, ids = np.array([0, 1, 0]), np.array([10, 20, 30])
    assert ids[logits.argmax(-1) != labels].tolist() == [30]
    assert VALUES[(T > 5).numpy()].tolist() == [6, 7, 8, 9, 10, 11]
    assert (~np.asarray(ea.Tensor([-1.0, 2, 3]) > 0)).tolist() == [True, False, False]
    assert T[(T[:, 0] > 1).numpy()].shape == (2, 4)


def test_a_mask_selects_in_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2, 3]})
    assert frame[(ea.Tensor([1.0, -1, 2]) > 0).numpy()].x.tolist() == [1, 3]


def test_elements_are_truth_values() -> None:
    mask = T[0] > 1
    assert mask.dtype == "bool"
    assert mask.tolist() == [False, False, True, True]
    assert mask.tolist()[2] is True
    assert "True" in repr(mask)
    assert bool(mask.any()) is True
    assert int(mask.sum()) == 2
    assert mask.sum().dtype == "int64"
    assert mask.float().mean().item() == 0.5


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
def test_anything_but_0_is_true(dtype: str) -> None:
    x = ea.Tensor([0, 1, 3], dtype=dtype)
    assert x.to("bool").tolist() == [False, True, True]
    assert x.to("bool").to(dtype).tolist() == [0, 1, 1]
    assert ea.Tensor([0.5, float("nan"), 0.0]).to("bool").tolist() == [
        True,
        True,
        False,
    ]


def test_masks_multiply_numbers() -> None:
    x = ea.Tensor([1.0, -2, 3], requires_grad=True)
    (x * (x > 0)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 0, 1]


def test_masks_go_through_torch_and_back() -> None:
    torch = pytest.importorskip("torch")
    mask = ea.Tensor(torch.tensor([True, False]))
    assert mask.dtype == "bool"
    assert torch.from_dlpack(mask).dtype == torch.bool
    assert torch.from_dlpack(mask).tolist() == [True, False]
