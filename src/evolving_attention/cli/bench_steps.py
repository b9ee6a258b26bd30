"""The work of ``evolving-attention bench``: models of three sizes, steps, products.

PyTorch is imported by name and only if installed: the package itself never depends on
it.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# layers, width, heads, inner, vocabulary, batch, length
SIZES: dict[str, tuple[int, int, int, int, int, int, int]] = {
    "tiny": (2, 32, 2, 64, 200, 2, 16),
    "small": (4, 256, 4, 1024, 30522, 8, 64),
    "base": (12, 768, 12, 3072, 30522, 4, 64),
}
DTYPES = ("float32", "bfloat16")
KINDS = ("vanilla", "evolving")
WORKS = ("training", "inference")
GEMM = (1024, 768, 3072)
_Run = Callable[[], object]


def has_torch() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def gemm(dtype: str, compare: bool) -> dict[str, float]:
    """Returns GFLOP/s of a BERT-sized product, ours and PyTorch's, best of ten."""
    from evolving_attention import Tensor, no_grad

    m, k, n = GEMM
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k), np.float32)
    b = random.standard_normal((k, n), np.float32)
    x, y = (Tensor(v).to(dtype) for v in (a, b))
    runs: dict[str, _Run] = {"ours": lambda: x @ y}
    if compare and has_torch():
        torch = importlib.import_module("torch")
        p, q = (torch.from_numpy(v).to(getattr(torch, dtype)) for v in (a, b))
        runs["torch"] = lambda: torch.mm(p, q)
    with no_grad():
        times = turns(runs, 10, float("inf"))
    return {side: 2e-9 * m * k * n / min(took) for side, took in times.items()}


def turns(runs: dict[str, _Run], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Returns seconds of alternating calls after a warm-up call; at least one round."""
    times: dict[str, list[float]] = {side: [] for side in runs}
    end = time.perf_counter() + seconds
    for turn in range(-1, rounds):
        if turn >= 1 and time.perf_counter() > end:
            break
        for side in runs if turn % 2 else reversed(runs):
            begin = time.perf_counter()
            runs[side]()
            if turn >= 0:
                times[side].append(time.perf_counter() - begin)
    return times


def _config(size: str) -> dict[str, Any]:
    """Returns the sizes under the names that BertConfig and transformers both use."""
    layers, width, heads, inner, words, _, _ = SIZES[size]
    return {
        "vocab_size": words,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "num_labels": 2,
    }


def _batch(size: str) -> dict[str, np.ndarray]:
    """Returns random ids without padding, and labels."""
    words, batch, length = SIZES[size][-3:]
    random = np.random.default_rng(0)
    return {
        "input_ids": random.integers(1, words, (batch, length)),
        "labels": random.integers(0, 2, batch),
    }


def _model(size: str, dtype: str, kind: str) -> Any:
    """Builds a new classifier of this package."""
    from evolving_attention import attention, manual_seed
    from evolving_attention.modeling import BertConfig, BertForSequenceClassification

    own = attention.Vanilla() if kind == "vanilla" else attention.Evolving(0.1, 0.1)
    config = BertConfig(**_config(size), attention=own)
    manual_seed(0)
    return BertForSequenceClassification(config, dtype=dtype)


def our_runs(size: str, dtype: str, kind: str) -> dict[str, _Run]:
    """Returns functions for training step and inference of this package's model."""
    from evolving_attention import no_grad, optim

    model, inputs = _model(size, dtype, kind), _batch(size)
    optimizer = optim.AdamW(model.parameters(), lr=2e-5)

    def step() -> None:
        model.train()
        model(**inputs).loss.backward()
        norm = optim.global_grad_norm(model.parameters())
        optimizer.step(optim.clip_scale(norm, 1.0))  # clips inside step(), as Trainer
        optimizer.zero_grad()

    def infer() -> None:
        model.eval()
        with no_grad():
            model(input_ids=inputs["input_ids"])

    return dict(zip(WORKS, (step, infer), strict=True))


def torch_runs(size: str, dtype: str) -> dict[str, _Run]:
    """Returns the same functions for transformers' BERT; bfloat16 uses autocast."""
    torch, hf = (importlib.import_module(name) for name in ("torch", "transformers"))
    model = hf.BertForSequenceClassification(hf.BertConfig(**_config(size)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    ids, labels = (torch.from_numpy(array) for array in _batch(size).values())
    low = {"device_type": "cpu", "dtype": torch.bfloat16, "enabled": dtype != "float32"}

    def step() -> None:
        model.train()
        with torch.autocast(**low):
            loss = model(ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def infer() -> None:
        model.eval()
        with torch.no_grad(), torch.autocast(**low):
            model(ids)

    return dict(zip(WORKS, (step, infer), strict=True))
