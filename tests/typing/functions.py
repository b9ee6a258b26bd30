"""Typical typed use of tensors and functions; run by tests/test_types.py."""

from __future__ import annotations

import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F


def scores(x: ea.Tensor, heads: int) -> ea.Tensor:
    """Softmax over the scores of self-attention of one sequence."""
    packing = F.Packing(heads, [0, x.shape[0]])
    maps = F.attention_scores(x, x, packing, scale=0.5)
    return F.map_softmax(maps, packing)


def gradient(values: np.ndarray) -> list[float]:
    """Gradient of a sum of squares."""
    x = ea.Tensor(values, dtype="float32", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    found: list[float] = x.grad.numpy().tolist()
    return found


def evolved(q: np.ndarray, k: list[list[list[list[float]]]]) -> tuple[int, ...]:
    """Arrays and lists are accepted wherever a tensor is."""
    context, maps = F.evolving_attention(q, k, q, alpha=0.1)
    y: ea.Tensor = F.linear(F.gelu(q), np.eye(2, dtype="float32"), bias=None)
    return context.shape + maps.shape + y.shape


@ea.no_grad()
def norm(x: ea.Tensor) -> float:
    """The decorator keeps the signature."""
    return F.sqrt((x * x).sum()).item()


def accuracy(logits: ea.Tensor, labels: np.ndarray) -> float:
    """Comparisons return tensors, and dim= means axis=."""
    right: ea.Tensor = logits.argmax(dim=-1) == labels
    rows, columns = logits.size()
    assert rows * columns == logits.size == logits.numel()
    return right.mean().item()


def likeliest(logits: ea.Tensor) -> tuple[list[int], float]:
    """Pairs unpack, and have names."""
    values, indices = logits.log_softmax(-1).topk(1)
    q, k = logits.chunk(2, dim=-1)
    spread: ea.Tensor = (q - k).std(dim=-1, correction=0) % 2.0
    found: list[int] = indices[:, 0].tolist()
    assert logits.sort().values.shape[:1] == (values[:, 0] + spread).shape
    return found, values.max().exp().item()


def main() -> None:
    """Runs everything."""
    assert scores(ea.Tensor([[1.0, 2.0], [3.0, 4.0]]), 2).size == 8
    assert gradient(np.array([1.0, 2.0])) == [2.0, 4.0]
    q = np.ones((1, 1, 2, 2), dtype="float32")
    assert evolved(q, q.tolist())[:4] == (1, 1, 2, 2)
    length: float = norm(ea.Tensor([3.0, 4.0]))
    assert length == 5.0
    logits = ea.Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert accuracy(logits, np.array([1, 1])) == 0.5
    assert likeliest(logits)[0] == [1, 0]
    assert abs(logits[:, 0] ** 2).max().tolist() == 1.0
    assert f"{F.einsum('ij->', logits):.1f}" == "2.0"


if __name__ == "__main__":
    main()
