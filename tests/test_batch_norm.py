"""Batch norm's state: buffers that are saved and loaded, but not optimized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers_models import draw, labels_for, tiny

import evolving_attention as ea
from evolving_attention import _core, optim
from evolving_attention import functional as F
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.training.numerics import check_finite

BUFFERS = ["running_mean", "running_var"]
ROWS = np.random.default_rng(0).normal(3.0, 2.0, (64, 6))


class Normed(PreTrainedModel):
    """A model with one batch norm, saved and loaded by the base class."""

    config_class = ea.BertConfig
    head = "base"
    table = ea.BertModel.table

    def _build(self, config: Any, dtype: str) -> None:
        self.config, self.dtype = config, dtype
        self._core = _core.BatchNorm(6, dtype)
        self._named = self._core.named_parameters()
        self._buffers = self._core.named_buffers()
        self.load_report = self._new_head = None

    def run(self) -> Any:
        return self._core(ea.Tensor(ROWS, dtype=self.dtype))


def normed(dtype: str = "float32") -> Normed:
    """Returns a model after three training batches."""
    model = Normed(ea.BertConfig(), dtype)
    for _ in range(3):
        model.run()
    return model


def state_of(model: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.state_dict().items()}


def buffers_of(model: Any) -> dict[str, np.ndarray]:
    return {name: np.array(tensor) for name, tensor in model.named_buffers()}


def test_a_new_layer_starts_from_a_standard_normal() -> None:
    found = buffers_of(Normed(ea.BertConfig()))
    assert list(found) == BUFFERS
    assert (found["running_mean"] == 0).all()
    assert (found["running_var"] == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_training_moves_them_and_evaluation_reads_them(dtype: str) -> None:
    model = Normed(ea.BertConfig(), dtype)
    rows = np.asarray(ea.Tensor(ROWS, dtype=dtype)).astype(np.float64)
    mean, variance = np.zeros(6), np.ones(6)
    for _ in range(3):
        y = np.asarray(model.run()).astype(np.float64)
        assert np.abs(y.mean(0)).max() < 0.01
        mean = 0.9 * mean + 0.1 * rows.mean(0)
        variance = 0.9 * variance + 0.1 * rows.var(0, ddof=1)
    found = buffers_of(model)
    wide = np.float64 if dtype == "float64" else np.float32
    for array, expected in zip(found.values(), (mean, variance), strict=True):
        assert array.dtype == wide  # for bfloat16 models too: their sums are long
        np.testing.assert_allclose(array, expected, rtol=1e-5)
    model.eval()
    y = np.asarray(model.run()).astype(np.float64)
    expected = (rows - mean) / np.sqrt(variance + 1e-5)
    rtol = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.01}[dtype]
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol / 100)
    for name, array in buffers_of(model).items():
        assert array.tobytes() == found[name].tobytes()


def test_they_are_no_parameters() -> None:
    model = normed()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["weight", "bias"]
    assert model.num_parameters() == 12
    assert not any(tensor.requires_grad for _, tensor in model.named_buffers())
    before = buffers_of(model)
    optimizer = optim.RAdam(model.parameters(), lr=0.1, weight_decay=0.5)
    model.eval()
    (model.run() * 0.5).sum().backward()
    weight = np.array(dict(model.named_parameters())["weight"])
    optimizer.step()
    assert (weight != np.asarray(dict(model.named_parameters())["weight"])).all()
    for name, array in buffers_of(model).items():
        assert array.tobytes() == before[name].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_saved_and_loaded_bit_for_bit(dtype: str, tmp_path: Any) -> None:
    model = normed(dtype)
    assert list(model.state_dict()) == ["weight", "bias", *BUFFERS]
    model.save_pretrained(tmp_path)
    loaded = Normed.from_pretrained(tmp_path, dtype=dtype)
    assert state_of(loaded) == state_of(model)
    other = Normed(ea.BertConfig(), dtype)
    other.load_state_dict(model.state_dict())
    assert state_of(other) == state_of(model)
    copied = model.copy()
    assert state_of(copied) == state_of(model)
    copied.train().run()
    assert state_of(copied) != state_of(model)  # a copy has its own buffers
    for one, two in zip(model.eval().run(), loaded.run(), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()


def test_a_file_without_them_is_refused(tmp_path: Any) -> None:
    state = {name: np.array(a) for name, a in normed().state_dict().items()}
    model = Normed(ea.BertConfig())
    del state["running_var"]
    with pytest.raises(ea.CheckpointError, match="running_var"):
        model.load_state_dict(state)
    state["running_var"] = np.ones(7, np.float32)
    with pytest.raises(ea.CheckpointError, match=r"running_var.*7"):
        model.load_state_dict(state)
    state["running_var"] = np.full(6, np.nan, np.float32)
    with pytest.raises(ea.CheckpointError, match=r"running_var holds NaN"):
        model.load_state_dict(state)


def test_statistics_that_are_not_finite_are_not_saved() -> None:
    model = normed()
    check_finite(model, None, "saving")
    dict(model.named_buffers())["running_mean"].copy_(np.full(6, np.nan, np.float32))
    with pytest.raises(ea.NonFiniteError, match="buffer running_mean"):
        check_finite(model, None, "saving")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])  # 3e38² overflows
def test_a_batch_that_is_not_finite_does_not_spoil_them(value, dtype: str) -> None:
    """Training that skips such a step, or stops, continues with unchanged buffers."""
    model = normed(dtype)
    before = buffers_of(model)
    spoiled = np.array(ROWS)
    spoiled[3, 2] = value if dtype != "float64" or value != 3e38 else 1e300
    model._core(ea.Tensor(spoiled, dtype=dtype))
    after = buffers_of(model)
    assert after["running_var"][2] == before["running_var"][2]
    if not np.isfinite(value):
        assert after["running_mean"][2] == before["running_mean"][2]
    for name, array in after.items():
        assert np.isfinite(array).all()
        assert (np.delete(array, 2) != np.delete(before[name], 2)).all(), name


def test_models_without_any_have_none() -> None:
    model = tiny("BertModel")
    assert list(model.named_buffers()) == []
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_a_backward_pass_may_follow_further_training() -> None:
    """The gradient of an evaluation uses its own copies, whatever changes later."""
    model = normed("float64").eval()
    gradients = []
    for moved in (False, True):
        x = ea.Tensor(ROWS, requires_grad=True)
        weight = dict(model.named_parameters())["weight"]
        weight.grad = None
        y = model._core(x)
        if moved:
            model.train().run()
        (y * y).sum().backward()
        gradients.append([np.array(g) for g in (x.grad, weight.grad)])
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, two)


@dataclass(frozen=True)
class NormedScores(ea.attention.CustomEvolve):
    """An evolve step with its own state: batch norm over the cells of all heads."""

    running: Any

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        column = scores.reshape(scores.size, 1)
        ones, zeros = ea.Tensor([1.0]), ea.Tensor([0.0])
        y = F.batch_norm(column, ones, zeros, *self.running, training=True)
        return y.reshape(scores.size)


def test_recomputed_layers_move_them_once() -> None:
    found = []
    for on in (False, True):
        running = (ea.Tensor([0.0]), ea.Tensor([1.0]))
        model = tiny(attention=NormedScores(running)).train()
        if on:
            model.gradient_checkpointing_enable()
        batch = draw((5, 9, 4))
        ea.manual_seed(1)
        out = model(**batch.packed(), labels=labels_for(model, batch))
        out.loss.backward()
        gradient = next(iter(model.parameters())).grad
        found.append([np.array(a) for a in (*running, out.loss, gradient)])
    assert found[0][0] != 0
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
