"""Models on the GPU: gradients, agreement with the CPU, and reproducible bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers_gpu import array, bits, why_no_gpu

import evolving_attention as ea
from evolving_attention import _core, optim

if why_no_gpu():
    pytest.skip(why_no_gpu(), allow_module_level=True)


KINDS = {
    "vanilla": None,
    "evolving": ea.attention.Evolving(alpha=0.3, beta=0.2),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(alpha=0.3),
}
SIZES = {
    "vocab_size": 211,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "intermediate_size": 131,
    "max_position_embeddings": 160,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LENGTHS = (33, 7, 128, 1, 19)
kinds = pytest.mark.parametrize("kind", KINDS)


def batch(seed: int = 0) -> dict[str, Any]:
    """Packed sentences of several lengths, with labels."""
    rng = np.random.default_rng(seed)
    return {
        "input_ids": rng.integers(1, SIZES["vocab_size"], sum(LENGTHS)),
        "sequence_offsets": np.cumsum([0, *LENGTHS]),
        "labels": rng.integers(0, 2, len(LENGTHS)),
    }


def model_of(kind: str, dtype: str = "float32", device: str = "cuda", **more: Any):
    _core.manual_seed(3)
    config = ea.BertConfig(**SIZES, **more, attention=KINDS[kind])
    model = ea.BertForSequenceClassification(config, dtype)
    model.to(device)
    return model


def gradients(model: Any, inputs: dict[str, Any]) -> tuple[float, list[np.ndarray]]:
    loss = model.train()(**inputs).loss
    loss.backward()
    return loss.item(), [array(p.grad).astype(np.float64) for p in model.parameters()]


def apart(found: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """Returns |difference| / |exact| over all gradients together."""
    both = (np.concatenate([a.ravel() for a in one]) for one in (found, exact))
    got, want = both
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


# In float32 only the order of sums differs, through three layers and back. bfloat16 has
# the bound that tests/test_bfloat16.py uses for random models on the CPU.
@kinds
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("bfloat16", 0.15)])
def test_gradients_are_those_of_the_cpu(kind: str, dtype: str, bound: float):
    want_loss, want = gradients(model_of(kind, "float32", "cpu", **NO_DROPOUT), batch())
    loss, got = gradients(model_of(kind, dtype, **NO_DROPOUT), batch())
    assert loss == pytest.approx(want_loss, abs=0.03 if dtype == "bfloat16" else 1e-4)
    assert apart(got, want) <= bound


@kinds
def test_the_gradient_is_the_slope(kind: str):
    """Central differences of the loss along the gradient itself, all on the GPU."""
    model, inputs = model_of(kind, **NO_DROPOUT), batch()
    _, grads = gradients(model, inputs)
    square = sum(float((g**2).sum()) for g in grads)
    start = [array(p) for p in model.parameters()]
    step = 0.02 / square  # changes the loss by about 0.02 each way

    def loss_at(sign: int) -> float:
        with ea.no_grad():
            for p, a, g in zip(model.parameters(), start, grads, strict=True):
                p.copy_((a + sign * step * g).astype(np.float32))
            return model(**inputs).loss.item()

    slope = (loss_at(1) - loss_at(-1)) / (2 * step)
    assert slope == pytest.approx(square, rel=0.02)


def train(
    device: str,
    dtype: str,
    steps: int,
    kind: str = "evolving",
    watch: Callable[[float], None] = lambda loss: None,
    **more: Any,
) -> Any:
    model = model_of(kind, dtype, device, **more).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        loss = model(**batch(step % 4)).loss
        loss.backward()
        optim.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        watch(loss.item())
    return model


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 0.01), ("bfloat16", 0.06)])
def test_fifty_steps_follow_the_cpu(dtype: str, bound: float):
    """Both draw the same dropout: Philox gives the same bits everywhere."""
    losses: dict[str, list[float]] = {"cpu": [], "cuda": []}
    for device, seen in losses.items():
        train(device, dtype, 50, watch=seen.append)
    apart = np.abs(np.subtract(losses["cpu"], losses["cuda"]))
    assert apart.max() <= bound, apart
    assert np.mean(losses["cuda"][-4:]) < 0.5 * np.mean(losses["cuda"][:4])


@kinds
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_twenty_runs_have_the_same_bits(kind: str, dtype: str):
    want = bits(train("cuda", dtype, 3, kind).parameters())
    for run in range(19):
        assert bits(train("cuda", dtype, 3, kind).parameters()) == want, run


def test_a_checkpoint_goes_both_ways(tmp_path):
    model = train("cuda", "float32", 2)
    model.save_pretrained(tmp_path)
    again = ea.BertForSequenceClassification.from_pretrained(tmp_path)
    assert again.device == "cpu"
    assert bits(again.parameters()) == bits(model.parameters())
    again.to("cuda")
    with ea.no_grad():
        outputs = [m.eval()(**batch()).logits for m in (model, again)]
    assert len({array(o).tobytes() for o in outputs}) == 1
