"""Stacks whose layers differ: shared tables, chains that restart, numbers by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, SIZES

import evolving_attention as ea
from evolving_attention.attention import (
    BucketedPositions,
    Dense,
    Evolving,
    EvolvingCausal,
    EvolvingReleased,
    Predictive,
    Residual,
    Spec,
    Window,
)

IDS = np.array([[2, 5, 6, 7, 8, 3, 9, 4]])


def bert(attention: list[Any]) -> ea.BertModel:
    """Returns a BERT with these layers and seed 0."""
    sizes = {**SIZES, **NO_DROPOUT, "num_hidden_layers": len(attention)}
    ea.manual_seed(0)
    return ea.BertModel(ea.BertConfig(attention=attention, **sizes), "float64").eval()


def run(attention: list[Any], **wanted: bool) -> Any:
    """Returns the output of such a model."""
    with ea.no_grad():
        return bert(attention)(IDS, **wanted)


def with_buckets(causal: bool, *options: int, **more: Any) -> Spec:
    bias = BucketedPositions(*options, initial_std=1.0, **more)
    return Spec(scope=Dense(causal=causal), bias=bias)


def test_a_dense_layer_after_a_causal_one_has_the_bias_of_all_keys() -> None:
    """The table is shared, not the map, whose cells the scopes choose."""

    def bias_of_last(first: bool) -> np.ndarray:
        shown = {"output_attention_scores": True}
        some = [with_buckets(first), with_buckets(False)]
        full = run(some, **shown).attention_scores[1].numpy()
        plain = run([some[0], Spec()], **shown).attention_scores[1].numpy()
        return full - plain

    dense, after_causal = bias_of_last(False), bias_of_last(True)
    np.testing.assert_allclose(after_causal, dense, atol=1e-12)
    assert np.abs(np.triu(dense[0, 0], 1)).max() > 0.5


@pytest.mark.parametrize(
    "between", [Spec(scope=Window(3)), Spec(), Spec(scope=Dense(causal=True))]
)
def test_the_table_passes_layers_without_it(between: Spec) -> None:
    first = with_buckets(False)
    assert run([first, between, first]).last_hidden_state.shape == (1, 8, 24)


@pytest.mark.parametrize("causal", [False, True])
def test_recomputed_layers_have_the_same_gradients(causal: bool) -> None:
    layers = [with_buckets(causal), Spec(scope=Window(3)), with_buckets(False)]
    layers += [Residual(running_mean=True)] * 2
    sizes = {**SIZES, **NO_DROPOUT, "num_hidden_layers": 5}
    found = []
    for again in (False, True):
        ea.manual_seed(0)
        config = ea.BertConfig(attention=layers, **sizes)
        model = ea.BertForSequenceClassification(config, "float64").train()
        if again:
            model.gradient_checkpointing_enable()
        model(IDS, labels=[1]).loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        found.append([g.numpy() for g in grads])
    for whole, recomputed in zip(*found, strict=True):
        np.testing.assert_array_equal(recomputed, whole)


def test_the_buckets_of_t5_pass_a_window() -> None:
    model = ea.create_model(
        "t5_small",
        **{"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4},
        num_layers=3,
        attention=["vanilla", Spec(scope=Window(3)), "vanilla"],
    ).eval()
    ids = np.array([[5, 6, 3]])
    found = model(ids, decoder_input_ids=ids).last_hidden_state
    assert found.shape == (1, 3, 32)


@pytest.mark.parametrize(
    "layers",
    [
        [Spec(), with_buckets(False)],
        [with_buckets(False, 32), with_buckets(False, 8)],
        [with_buckets(False), with_buckets(False, bidirectional=False)],
    ],
    ids=["no table", "other number", "other direction"],
)
def test_buckets_that_layer_0_has_not_are_refused_when_made(layers: list[Spec]) -> None:
    with pytest.raises(ea.errors.ConfigError, match=r"layer 1 .*'buckets'.*layer 0"):
        run(layers)


def softmax(x: np.ndarray) -> np.ndarray:
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


@pytest.mark.parametrize("maps", [1, 2, 3])
@pytest.mark.parametrize("plain", [False, True])
def test_the_running_mean_counts_from_the_start_of_the_chain(
    maps: int, plain: bool
) -> None:
    if plain:
        ea.set_fast_path("fused_attention", False)
    before = [Spec(scope=Window(3))] * 2
    layers = [*before, *[Residual(running_mean=True)] * maps]
    found = run(layers, output_attentions=True, output_attention_logits=True)
    logits = found.attention_logits[-1].numpy()
    expected = softmax(logits / maps)
    np.testing.assert_allclose(found.attentions[-1].numpy(), expected, atol=1e-6)


def test_the_default_of_the_running_mean_follows_the_depth_of_the_model() -> None:
    """The chain has 24 layers, the model 25."""
    shown = {"output_attentions": True, "output_attention_logits": True}
    found = run([Spec(scope=Window(3)), *[Residual()] * 24], **shown)
    expected = softmax(found.attention_logits[-1].numpy() / 24)
    np.testing.assert_allclose(found.attentions[-1].numpy(), expected, atol=1e-12)


def test_chains_of_images_count_to_the_depth_of_the_model() -> None:
    """None of the chains of these 26 layers is longer than 24."""
    image = np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)
    found = []
    for mean in (None, True):
        ea.manual_seed(0)
        sizes = {"num_labels": 5, "image_size": 64}
        model = ea.create_model("aa_resnet34", attention=Residual(mean), **sizes).eval()
        with ea.no_grad():
            found.append(model(image).logits.numpy())
    np.testing.assert_array_equal(*found)


WINDOW = Spec(scope=Window(3))


@pytest.mark.parametrize(
    ("kind", "with_parameters"),
    [
        (Evolving(0.3, 0.4), [3, 4]),
        (Evolving(0.0, 0.4), [3, 4]),
        (Evolving(0.3, 0.4, learnable=True), [3, 4]),
        (Evolving([0.3] * 5, [0, 0, 0.4, 0.4, 0]), [3]),
        (EvolvingReleased(0.3, 0.4), [4]),
        (Predictive(0.3), [3, 4]),
        (Predictive(0.3, 2), [3, 4]),
    ],
    ids=str,
)
def test_layers_count_from_the_start_of_their_chain(
    kind: Any, with_parameters: list[int]
) -> None:
    model = bert([WINDOW, WINDOW, kind, kind, kind])
    names = [name for name, _ in model.named_parameters() if ".evolving_" in name]
    layers = {int(name.split(".layer.")[1].split(".")[0]) for name in names}
    assert sorted(layers) == with_parameters
    with ea.no_grad():
        found = model(IDS, output_attention_logits=True, output_attention_scores=True)
    maps = [x[2].numpy() for x in (found.attention_logits, found.attention_scores)]
    np.testing.assert_array_equal(*maps)


@pytest.mark.parametrize(
    "before", [Spec(), Spec(scope=Dense(causal=True)), Evolving(0.3, 0.4)]
)
def test_dense_layers_are_one_chain(before: Any) -> None:
    names = [name for name, _ in bert([before, Evolving(0.3, 0.4)]).named_parameters()]
    assert any("layer.1.attention.self.evolving_conv" in name for name in names)


def test_a_chain_of_the_causal_kind_without_skip_starts_with_a_convolution() -> None:
    model = bert(
        [WINDOW, Spec(scope=Dense(causal=True), evolve=EvolvingCausal(0, 0.4))]
    )
    names = [name for name, _ in model.named_parameters()]
    assert any("layer.1.attention.self.evolving_conv" in name for name in names)


@pytest.mark.parametrize(
    ("name", "layers"), [("aa_resnet34", 26), ("aa_resnet50", 13), ("cifar_net", 6)]
)
def test_images_take_a_number_for_each_attention(name: str, layers: int) -> None:
    """A list counts all layers with attention, not those of one chain."""
    sizes = {"num_labels": 5, **({"image_size": 64} if "resnet" in name else {})}
    model = ea.create_model(name, attention=Evolving([0.1] * layers, 0.1), **sizes)
    assert len(model.config.attention.alpha) == layers
    with pytest.raises(ea.errors.ConfigError, match=f"for {layers} layers"):
        ea.create_model(name, attention=Evolving([0.1] * (layers - 1), 0.1), **sizes)


def test_the_numbers_of_images_are_those_of_their_layers() -> None:
    """Number i is that of spec i in a list of specs."""
    images = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
    alphas = [0.0, 0.9, 0.2, 0.7, 0.1, 0.5]
    found = []
    for attention in (
        Evolving(alphas, 0.1),
        [Evolving(alpha, 0.1) for alpha in alphas],
    ):
        ea.manual_seed(0)
        model = ea.create_model("cifar_net", num_labels=5, attention=attention).eval()
        with ea.no_grad():
            found.append(model(images).logits.numpy())
    np.testing.assert_array_equal(*found)
