"""EA-DC-Transformer against a transcription in PyTorch: values and gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")

from benchmarks.peers.torch_series import (  # noqa: E402
    SeriesClassifier,
    SeriesShape,
    Steps,
)

import evolving_attention as ea  # noqa: E402

pytestmark = pytest.mark.parity
BOUNDS = {"float64": 1e-10, "float32": 3e-5}
LENGTHS = np.array([11, 3, 7, 1])
CHANNELS, LONGEST, CLASSES = 5, 12, 3
EVOLVING = {"alpha": 0.3, "beta": 0.4}
SHAPES = {
    "DC-Transformer": {},
    "EA-DC-Transformer": EVOLVING,
    "dilated convolution": {"ratio": 0.0},
    "EA-Transformer": {"ratio": 1.0, **EVOLVING},
    "without skip": {"alpha": 0.0, "beta": 0.5},
    "without convolution": {"alpha": 0.5, "beta": 0.0},
    "5 x 5": {**EVOLVING, "map_kernel": 5},
    "relative positions": {**EVOLVING, "relative": True},
    "centred": {**EVOLVING, "causal": False, "kernel_size": 5},
    "mean": {**EVOLVING, "mean": True},
    "layer norm": {**EVOLVING, "layer_norm": True},
    "not dilated": {"dilation_base": 1},
    "released EA": {**EVOLVING, "released": True},
    "released DC": {"released": True},
}


def shape_of(name, **more):
    given = {"width": 16, "blocks": 2, "heads": 2, "ratio": 0.5, "inner": 20}
    quiet = {"dropout": 0.0, "map_dropout": 0.0}
    given |= quiet | SHAPES[name] | more
    return SeriesShape(CHANNELS, LONGEST, given.pop("outputs", CLASSES), **given)


def config_of(shape, **more):
    attention = None
    if shape.alpha is not None:
        attention = ea.attention.Evolving(shape.alpha, shape.beta, shape.map_kernel)
    return ea.EADCTransformerConfig(
        channels=shape.channels,
        max_length=shape.max_length,
        attention=attention,
        hidden_size=shape.width,
        num_blocks=shape.blocks,
        num_attention_heads=shape.heads,
        attention_ratio=shape.ratio,
        intermediate_size=shape.inner,
        kernel_size=shape.kernel_size,
        dilation_base=shape.dilation_base,
        causal=shape.causal,
        norm="layer" if shape.layer_norm else "batch",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        relative="learned" if shape.relative else "none",
        pooling="mean" if shape.mean else "flatten",
        released_behaviour=shape.released,
        **more,
    )


def pair(name, dtype, regression=False):
    """Returns our model and the PyTorch one with the same weights, by our names."""
    shape = shape_of(name, **({"outputs": 2} if regression else {}))
    ea.manual_seed(3)
    if regression:
        mine = ea.EADCTransformerForRegression(config_of(shape, num_targets=2), dtype)
    else:
        mine = ea.EADCTransformerForClassification(
            config_of(shape, num_labels=CLASSES), dtype
        )
    torch.manual_seed(0)
    head = "regressor" if regression else "classifier"
    theirs = SeriesClassifier(shape, head).to(getattr(torch, dtype))
    rng = np.random.default_rng(4)
    for key, tensor in mine.named_parameters():  # non-trivial biases and norms
        if key.endswith(("bias", "norm.weight")):
            tensor.copy_(np.asarray(tensor) + rng.normal(0.0, 0.1, tensor.shape))
    state = {k: torch.tensor(v.copy()) for k, v in mine.state_dict().items()}
    missing, extra = theirs.load_state_dict(state, strict=False)
    assert extra == []
    assert all(key.endswith("num_batches_tracked") for key in missing)
    return mine, theirs


def series(dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, int(LENGTHS.max()), CHANNELS)).astype(dtype)
    return values, rng.integers(0, CLASSES, 4)


def steps_of(values):
    x = torch.tensor(values)
    return x, Steps(torch.tensor(LENGTHS), x.shape[1], x.dtype)


def close(found, expected, dtype, what):
    expected = np.asarray(expected.detach(), np.float64)
    found = np.asarray(found, np.float64)
    assert found.shape == expected.shape, what
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    assert np.abs(found - expected).max(initial=0.0) <= BOUNDS[dtype] * scale, what


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SHAPES)
def test_training_passes_agree(name, dtype):
    mine, theirs = pair(name, dtype)
    values, labels = series(dtype)
    out = mine(values, LENGTHS, labels)
    out.loss.backward()
    logits = theirs(*steps_of(values))
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
    loss.backward()
    close(out.logits, logits, dtype, "logits")
    close(out.loss, loss, dtype, "loss")
    expected = dict(theirs.named_parameters())
    for key, tensor in mine.named_parameters():
        close(tensor.grad, expected[key].grad, dtype, key)
    assert len(expected) == len(list(mine.named_parameters()))
    state = theirs.state_dict()
    for key, tensor in mine.named_buffers():  # updated once, by the same batch
        close(tensor, state[key], dtype, key)


@pytest.mark.parametrize("name", SHAPES)
def test_evaluation_agrees(name):
    mine, theirs = pair(name, "float64")
    for seed in (1, 2):  # non-trivial running statistics
        values, _ = series("float64", seed)
        mine(values, LENGTHS)
        theirs(*steps_of(values))
    mine.eval(), theirs.eval()
    values, _ = series("float64")
    close(mine(values, LENGTHS).logits, theirs(*steps_of(values)), "float64", name)


def test_regression_agrees():
    mine, theirs = pair("EA-DC-Transformer", "float64", regression=True)
    values, _ = series("float64")
    targets = np.random.default_rng(5).normal(size=(4, 2))
    out = mine(values, LENGTHS, targets)
    out.loss.backward()
    loss = torch.nn.functional.mse_loss(
        theirs(*steps_of(values)), torch.tensor(targets)
    )
    loss.backward()
    close(out.loss, loss, "float64", "loss")
    expected = dict(theirs.named_parameters())
    for key, tensor in mine.named_parameters():
        close(tensor.grad, expected[key].grad, "float64", key)
