"""α and β of the shipped kinds: by layer, learned, by head, and their defaults."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import helpers_transformer
import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    copy_parameters,
    draw,
    inputs_for,
    run,
    tiny,
)

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F
from evolving_attention.cli.attention_arguments import AttentionOptions
from evolving_attention.cli.images_arguments import ImageAttentionArguments
from evolving_attention.estimators import architecture, image_models

Evolving = ea.attention.Evolving
Causal = ea.attention.EvolvingCausal
SELF = "bert.encoder.layer.{}.attention.self.{}"


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


# --- a number for each layer ------------------------------------------------------


def same_results(first, second):
    copy_parameters(first, second)
    inputs = inputs_for(first, draw())
    for ours, theirs in zip(run(first, **inputs), run(second, **inputs), strict=True):
        assert_same_bits(ours, theirs)


@pytest.mark.parametrize(
    ("by_layer", "one_by_one"),
    [
        (
            Evolving(alpha=[0.9, 0.2, 0.4], beta=[0, 0.3, 0]),
            [Evolving(0.9, 0.0), Evolving(0.2, 0.3), Evolving(0.4, 0.0)],
        ),
        (
            Evolving(alpha=(0.1, 0.2, 0.4), beta=0.5),
            [Evolving(0.1, 0.5), Evolving(0.2, 0.5), Evolving(0.4, 0.5)],
        ),
        (
            ea.attention.Predictive(alpha=[0, 0.2, 0.4]),
            [ea.attention.Predictive(a) for a in (0.0, 0.2, 0.4)],
        ),
        (
            ea.attention.EvolvingReleased(alpha=0.2, beta=np.array([0.1, 0.2, 0.3])),
            [ea.attention.EvolvingReleased(0.2, b) for b in (0.1, 0.2, 0.3)],
        ),
    ],
    ids=["both", "alpha", "predictive", "released"],
)
def test_numbers_by_layer_equal_a_list_of_kinds(by_layer, one_by_one):
    first = tiny(attention=by_layer, **NO_DROPOUT)
    second = tiny(attention=one_by_one, **NO_DROPOUT)
    same_results(first, second)


def test_numbers_by_layer_keep_the_fused_path():
    model = tiny(attention=Evolving([0, 0.2, 0.4], [0, 0.3, 0.1]))
    entries = _core.kernel_entries

    def calls():
        return sum(c for n, _, c in entries() if n == "fused_attention_forward")

    before = calls()
    model(**inputs_for(model, draw()))
    assert calls() - before == 3


def test_numbers_by_layer_stand_in_every_slot_and_file(tmp_path):
    spec = ea.attention.Spec(
        bias=ea.attention.RelativePositions(3), evolve=Evolving([0, 0.2, 0.4])
    )
    model = tiny(attention=spec, **NO_DROPOUT)
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())["attention"]
    assert saved["evolve"]["alpha"] == [0, 0.2, 0.4]
    again = type(model).from_pretrained(tmp_path).train()
    assert again.config.attention == model.config.attention
    assert hash(again.config.attention.evolve) == hash(Evolving((0, 0.2, 0.4)))
    same_results(model, again)


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_layers_is_refused(count):
    with pytest.raises(ea.ConfigError, match=rf"alpha has {count} numbers for"):
        tiny(attention=Evolving(alpha=[0.1] * count))


@pytest.mark.parametrize("value", [[0.1, 1.5], [0.1, float("nan")], ["a"], [[0.1]]])
def test_each_number_is_checked(value):
    with pytest.raises(ea.ConfigError, match="alpha"):
        Evolving(alpha=value)


def test_all_zero_is_vanilla():
    assert Evolving([0, 0.0, 0], 0).equals_vanilla
    assert not Evolving([0, 0.1, 0], 0).equals_vanilla


# --- learned ------------------------------------------------------------------------


def test_learned_weights_start_where_they_are_told():
    model = tiny(attention=Evolving([0, 0.2, 0.4], 0.7, learnable=True))
    held = dict(model.named_parameters())
    names = [name for name in held if "_logit" in name]
    assert len(names) == 4  # none in the first layer
    for layer, alpha in [(1, 0.2), (2, 0.4)]:
        for name, value in [("alpha", alpha), ("beta", 0.7)]:
            logit = held[SELF.format(layer, f"evolving_{name}_logit")]
            np.testing.assert_allclose(sigmoid(logit), [value], rtol=1e-6)


@pytest.mark.parametrize(
    "fixed", [Evolving(0.3, 0.6), Evolving(0.3, 0), Evolving(0, 1)]
)
def test_learned_weights_compute_what_fixed_ones_do(fixed):
    if fixed.beta == 1:
        fixed = Evolving(0, 0.6)
    learned = Evolving(fixed.alpha, fixed.beta, learnable=True)
    first = tiny(attention=fixed, dtype="float64", **NO_DROPOUT)
    second = tiny(attention=learned, dtype="float64", **NO_DROPOUT)
    copy_parameters(first, second)
    inputs = inputs_for(first, draw())
    (ours, our_slopes), (theirs, slopes) = run(second, **inputs), run(first, **inputs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-10)
    for name, value in slopes.items():
        np.testing.assert_allclose(our_slopes[name], value, rtol=1e-7, atol=1e-12)


def test_gradients_of_learned_weights_are_slopes():
    model = tiny(
        attention=Evolving(0.3, 0.4, learnable=True), dtype="float64", **NO_DROPOUT
    )
    inputs = inputs_for(model, draw())
    assert_gradients_are_slopes(model, inputs, rel=1e-5, abs=1e-8)
    _, found = run(model, **inputs)
    assert all(np.any(v) for name, v in found.items() if name.endswith("_logit"))


def test_learned_weights_move_and_stay_inside(tmp_path):
    model = tiny(attention=Evolving(0.02, 0.97, learnable=True), **NO_DROPOUT)
    inputs = inputs_for(model, draw())
    optimizer = ea.optim.AdamW(model.parameters(), lr=0.5)
    for _ in range(8):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    held = dict(model.named_parameters())
    values = [sigmoid(held[name]).item() for name in held if name.endswith("_logit")]
    assert all(0 <= value <= 1 for value in values)
    assert not np.allclose(values, [0.02, 0.97] * 2, atol=1e-3)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["attention"]["learnable"] is True
    again = type(model).from_pretrained(tmp_path)
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model.eval()(**inputs)))


@pytest.mark.parametrize("wrong", [{"alpha": 1}, {"beta": 1.0}, {"beta": [0.1, 1]}])
def test_a_weight_of_one_cannot_be_learned(wrong):
    with pytest.raises(ea.ConfigError, match="cannot be learned"):
        Evolving(**wrong, learnable=True)


def test_logits_are_not_decayed():
    model = tiny(attention=Evolving(learnable=True))
    decayed, plain = ea.optim.decay_groups(model.named_parameters(), 0.1)
    assert sum(name.endswith("_logit") for name in plain["names"]) == 4
    assert not any(name.endswith("_logit") for name in decayed["names"])


def test_what_is_not_learned_stands_in_no_file():
    assert "learnable" not in Evolving().to_dict()
    assert ea.attention.from_config(Evolving().to_dict()) == Evolving()


# --- decoders -----------------------------------------------------------------------


def pair(**attention):
    return helpers_transformer.tiny("vanilla", dtype="float64", **attention)


def pair_results(model):
    return run(model, **helpers_transformer.draw().packed())


def test_a_decoder_takes_numbers_by_layer():
    first = pair(decoder_attention=Causal([0, 0.3], [0.4, 0.2]))
    one_by_one = [Causal(0.0, 0.4), Causal(0.3, 0.2)]
    second = pair(decoder_attention=one_by_one)
    copy_parameters(first, second)
    for ours, theirs in zip(pair_results(first), pair_results(second), strict=True):
        assert_same_bits(ours, theirs)
    with pytest.raises(ea.ConfigError, match="beta has 3 numbers for 2 layers"):
        pair(decoder_attention=Causal(0.0, [0.1, 0.2, 0.3]))


@pytest.mark.parametrize(("alpha", "logits"), [(0.0, 2), (0.3, 2)])
@pytest.mark.parametrize("slot", ["decoder_attention", "cross_attention"])
@pytest.mark.parametrize("size", [1, 3])
def test_learned_weights_of_a_decoder_compute_what_fixed_ones_do(
    alpha, logits, slot, size
):
    shift = "diagonal" if slot == "decoder_attention" else "query"
    first = pair(**{slot: Causal(alpha, 0.4, size, shift)})
    second = pair(**{slot: Causal(alpha, 0.4, size, shift, learnable=True)})
    names = [n for n, _ in second.named_parameters() if n.endswith("_logit")]
    assert len(names) == logits  # beta in both layers, or both weights in the second
    copy_parameters(first, second)
    (theirs, slopes), (ours, our_slopes) = pair_results(first), pair_results(second)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-10)
    for name, value in slopes.items():
        np.testing.assert_allclose(our_slopes[name], value, rtol=1e-7, atol=1e-12)
    assert all(np.any(our_slopes[name]) for name in names)


def test_cross_attention_is_checked_in_every_layer():
    with pytest.raises(ea.ConfigError, match="later target tokens"):
        pair(cross_attention=Evolving(0.1, [0.1, 0.1, 0.0]))
    spec = ea.attention.Spec(scope=ea.attention.Dense(causal=True))
    with pytest.raises(ea.ConfigError, match="reads the maps of later queries"):
        ea.attention.Spec(scope=spec.scope, evolve=Evolving(0.1, [0.1, 0.1, 0.0]))
    with pytest.raises(ea.ConfigError, match=r"attention\.evolving_causal.*learned"):
        Causal(0.0, [0.1, 1, 0.1], learnable=True)


# --- by head ------------------------------------------------------------------------


def test_per_head_lies_as_the_maps_do():
    packing = F.Packing(2, [0, 1, 3], key_offsets=[0, 2, 3])
    x = ea.Tensor([1.0, 2.0], requires_grad=True)
    spread = packing.per_head(x)
    assert spread.tolist() == [1, 1, 2, 2, 1, 1, 2, 2]
    (spread * np.arange(8, dtype="f4")).sum().backward()
    assert x.grad.tolist() == [0 + 1 + 4 + 5, 2 + 3 + 6 + 7]
    with pytest.raises(ea.ShapeError, match="one number for each head"):
        packing.per_head([1.0, 2.0, 3.0])


@ea.attention.register("mixed_by_head")
@dataclass(frozen=True)
class MixedByHead(ea.attention.CustomEvolve):
    """Evolving without a convolution, with a learned weight for each head."""

    start: float = 0.0

    def parameters(self, layer, num_heads):
        if layer == 0:
            return {}
        return {"logit": np.full(num_heads, self.start, np.float32)}

    def step(self, scores, previous, context):
        if previous is None:
            return scores
        alpha = F.sigmoid(context.parameters["logit"])
        mix = context.packing.per_head(alpha)
        return scores + mix * (previous - scores)


def test_a_kind_of_ones_own_with_a_weight_for_each_head():
    start = float(np.log(0.3 / 0.7))
    model = tiny(attention=MixedByHead(start), dtype="float64", **NO_DROPOUT)
    base = tiny(attention=Evolving(0.3, 0), dtype="float64", **NO_DROPOUT)
    copy_parameters(base, model)
    inputs = inputs_for(model, draw())
    np.testing.assert_allclose(
        np.asarray(model(**inputs).logits), np.asarray(base(**inputs).logits), rtol=1e-6
    )
    assert_gradients_are_slopes(model, inputs, rel=1e-5, abs=1e-8)


# --- defaults -----------------------------------------------------------------------


def test_defaults_are_the_same_on_every_face():
    expected = Evolving(alpha=0.1, beta=0.1)
    assert Evolving() == expected
    assert ea.attention.from_config("evolving") == expected
    assert ea.attention.from_config({"kind": "evolving"}) == expected
    assert ea.BertConfig(attention="evolving").attention == expected
    assert AttentionOptions(attention="evolving").config() == expected
    declared = _core.attention_kinds()["evolve"]["evolving"]["options"]
    assert {o["name"]: o["default"] for o in declared}["alpha"] == 0.1
    series = ea.EADCTransformerConfig(channels=2, max_length=9, attention="evolving")
    assert series.attention == expected


def test_estimators_have_their_papers_values(repo):
    text = (repo / "docs" / "attention.md").read_text(encoding="utf-8")
    said = re.search(
        r"commands for time series \| α = ([\d.]+), β = ([\d.]+) \|\n"
        r"\| `ImageClassifier\(\)`, `image train` \| α = ([\d.]+), β = ([\d.]+)",
        text,
    )
    assert said is not None
    given = [architecture.DEFAULT_ATTENTION, image_models.DEFAULT_ATTENTION]
    numbers = [float(n) for n in said.groups()]
    assert [x for one in given for x in (one.alpha, one.beta)] == numbers
    commands = ImageAttentionArguments(attention="evolving").config()
    assert commands == image_models.DEFAULT_ATTENTION
