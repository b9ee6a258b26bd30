"""The three toys at work, in an extension built with their diffs.

Run by tools/run_price.sh, which applies the diffs of this folder to a copy of the tree.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.cases import forced

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F
from evolving_attention.cli.attention_arguments import AttentionOptions

if "toy_echo" not in _core.attention_kinds()["evolve"]:
    pytest.skip(
        "no toys in this build (tools/run_price.sh makes one)", allow_module_level=True
    )

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
IDS = np.array([[1, 2, 3, 4], [4, 5, 6, 7]])
CURVE = 0.3


# --- an attention kind ----------------------------------------------------------------


@pytest.fixture
def echo():
    """A classifier with the toy kind, in float64."""
    ea.manual_seed(3)
    config = ea.BertConfig(**SIZES, attention=ea.attention.ToyEcho(gamma=0.7))
    return ea.BertForSequenceClassification(config, "float64")


def test_kind_equals_numpy(echo):
    gains = {n: t for n, t in echo.named_parameters() if n.endswith("self.gain")}
    assert len(gains) == 2, "one in each layer but the first"
    for i, gain in enumerate(gains.values()):
        gain.copy_(np.array([0.5 + i]))
    wanted = {"output_attention_logits": True, "output_hidden_states": True}
    out = echo.eval()(IDS, **wanted)
    weights = echo.state_dict()
    previous = None
    for layer in range(3):
        name = f"bert.encoder.layer.{layer}.attention.self"
        hidden = np.asarray(out.hidden_states[layer])
        q, k = (
            (hidden @ weights[f"{name}.{x}.weight"].T + weights[f"{name}.{x}.bias"])
            .reshape(2, 4, 3, 8)
            .swapaxes(1, 2)
            for x in ("query", "key")
        )
        scores = q @ k.swapaxes(2, 3) / np.sqrt(8)
        if previous is not None:
            gain = weights[f"{name}.gain"]
            scores = scores + 0.7 * gain * np.tanh(previous)
        maps = np.asarray(out.attention_logits[layer])
        np.testing.assert_allclose(maps, scores, rtol=1e-10, atol=1e-12)
        previous = maps


def test_kind_trains_and_loads(echo, tmp_path):
    optimizer = ea.optim.AdamW(echo.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = echo.train()(IDS, labels=[0, 1]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.item()))
    assert losses[-1] < losses[0]
    assert any(
        t.item() != 1 for n, t in echo.named_parameters() if n.endswith("self.gain")
    )
    echo.save_pretrained(tmp_path)
    loaded = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, dtype="float64"
    )
    assert loaded.config.attention == ea.attention.ToyEcho(0.7)
    want = np.asarray(echo.eval()(IDS).logits)
    np.testing.assert_array_equal(np.asarray(loaded(IDS).logits), want)


def test_kind_begins_from_a_plain_checkpoint(tmp_path):
    plain = ea.BertForSequenceClassification(ea.BertConfig(**SIZES))
    plain.save_pretrained(tmp_path)
    model = ea.BertForSequenceClassification.from_pretrained(
        tmp_path, attention={"kind": "toy_echo", "gamma": 0.1}
    )
    name = "bert.encoder.layer.{}.attention.self.gain"
    assert sorted(model.load_report.new) == [name.format(1), name.format(2)]


def test_kind_is_on_the_command_line():
    """Its option has a flag of its own, with the text that the core declares."""
    options = AttentionOptions(attention="toy_echo", toy_echo_gamma=0.2)
    assert options.config() == ea.attention.ToyEcho(0.2)
    flags = {f.name: f.metadata["help"] for f in dataclasses.fields(options)}
    assert "toy_echo" in flags["attention"]
    assert flags["toy_echo_gamma"].startswith("the weight of the previous layer's maps")


def test_kind_has_its_range():
    with pytest.raises(ea.ConfigError, match="gamma"):
        ea.attention.ToyEcho(gamma=2.0)


# --- an operation ---------------------------------------------------------------------


KERNELS = ("toy_curve_forward", "toy_curve_backward")


def curve_by(implementation, x):
    """The result and the gradient of its sum of squares."""
    with forced(*((kernel, implementation) for kernel in KERNELS)):
        leaf = ea.Tensor(x, requires_grad=True)
        y = F.toy_curve(leaf, CURVE)
        F.sum(F.mul(y, y)).backward()
        return y.numpy(), leaf.grad.numpy()


def implementations(kernel=KERNELS[0]):
    """Those of a kernel on the CPU in this build."""
    return [name for entry, name, _ in _core.kernel_entries() if entry == kernel]


def test_operation_is_there_three_times():
    for kernel in KERNELS:
        assert implementations(kernel) == ["simd", "ref", "cuda_host"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operation_agrees_with_ref(dtype):
    x = np.random.default_rng(1).normal(size=(7, 33)).astype("float32")
    rounded = ea.Tensor(x, dtype=dtype).numpy()
    want = curve_by("ref", rounded)
    for implementation in implementations():
        got = curve_by(implementation, rounded)
        bound = 1e-6 if dtype == "float32" else 2**-7
        for mine, theirs in zip(got, want, strict=True):
            mine, theirs = mine.astype("float64"), theirs.astype("float64")
            np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound)


def test_operation_has_a_gradient():
    x = np.random.default_rng(2).normal(size=12)
    y, slope = curve_by("ref", x)
    np.testing.assert_allclose(y, x + CURVE * x**2, rtol=1e-12)
    np.testing.assert_allclose(slope, 2 * y * (1 + 2 * CURVE * x), rtol=1e-12)


@pytest.mark.parametrize("implementation", ["simd", "cuda_host"])
def test_operation_leaves_float64_to_ref(implementation):
    """Nobody said so: it follows from the arguments of the contract."""
    with pytest.raises(ea.KernelNotFound, match="does not take these arguments"):
        curve_by(implementation, np.ones(3))


# --- a family -------------------------------------------------------------------------


def test_family_is_known_by_name():
    assert ea.list_models("toy_net_*") == ["toy_net_base", "toy_net_large"]
    model = ea.create_model("toy_net_large", vocab_size=50)
    assert type(model) is ea.ToyNetModel
    assert model.config.hidden_size == 64
    assert model(IDS).last_hidden_state.shape == (2, 4, 64)
    assert {"ToyNetConfig", "ToyNetModel"} <= set(dir(ea))


def test_family_saves_and_loads(tmp_path):
    model = ea.create_model("toy_net_base", task="sequence_classification").eval()
    model.save_pretrained(tmp_path)
    loaded = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(loaded) is ea.ToyNetForSequenceClassification
    want = np.asarray(model(IDS, labels=[0, 1]).logits)
    np.testing.assert_array_equal(np.asarray(loaded(IDS).logits), want)
    body = ea.AutoModel.from_pretrained(tmp_path)
    assert body.load_report.missing == []
    assert ea.AutoConfig.from_pretrained(tmp_path) == loaded.config


def test_family_trains():
    model = ea.create_model("toy_net_base", task="sequence_classification")
    optimizer = ea.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = model.train()(IDS, labels=[0, 1]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.item()))
    assert losses[-1] < losses[0]


def test_family_refuses_what_it_has_not():
    with pytest.raises(ea.ConfigError, match="task='masked_lm', expected one of base"):
        ea.create_model("toy_net_base", task="masked_lm")
