"""Gradients of returned maps by finite differences, and scores before the step."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import helpers_series
import helpers_transformer
import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    arrays_of,
    assert_same_bits,
    draw,
    gradients,
    labels_for,
    run,
    setting_id,
    settings,
    tiny,
)

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F

KINDS = _core.attention_kinds()["evolve"]
one_per_kind = pytest.mark.parametrize(
    "setting", [next(settings(kind)) for kind in KINDS], ids=setting_id
)
MAPS = ("attentions", "attention_logits", "attention_scores")
ASKED = {f"output_{name}": True for name in MAPS}
DELTAS: dict[str, dict[int, np.ndarray]] = {}
STEP = 1e-6


def moved(maps, name, layer):
    delta = DELTAS.get(name, {}).get(layer)
    return maps if delta is None else maps + ea.Tensor(delta)


@ea.attention.register("moved_scores")
@dataclass(frozen=True)
class MovedScores(ea.attention.CustomBias):
    """Adds a test's offset to S."""

    def map(self, q, context):
        zeros = ea.Tensor(np.zeros(context.packing.map_elements))
        return moved(zeros, "attention_scores", context.layer)


@ea.attention.register("moved_probabilities")
@dataclass(frozen=True)
class MovedProbabilities(ea.attention.CustomScope):
    """The dense scope, with a test's offsets added to L and P."""

    grid = True

    def dot(self, q, k, scale, context):
        return F.attention_scores(q, k, context.packing, scale)

    def normalise(self, logits, scale, context):
        return F.map_softmax(logits, context.packing, scale)

    def mix(self, probabilities, v, context):
        maps = moved(probabilities, "attentions", context.layer)
        return F.attention_context(maps, v, context.packing)


@pytest.fixture(autouse=True)
def no_deltas():
    yield
    DELTAS.clear()


def fused_calls():
    entries = _core.kernel_entries()
    return sum(n for name, _, n in entries if name == "fused_attention_forward")


def model_and_inputs(setting, **spec):
    evolve = ea.attention.from_config(setting)
    attention = ea.attention.Spec(evolve=evolve, **spec) if spec else evolve
    model = tiny(attention=attention, dtype="float64", **NO_DROPOUT)
    batch = draw((5, 3, 1))
    return model, {**batch.packed(), "labels": labels_for(model, batch)}, batch


@one_per_kind
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("name", ["attentions", "attention_scores"])
def test_gradients_of_maps_are_slopes(setting, name, layer):
    model, inputs, _batch = model_and_inputs(setting)
    out = model(**inputs, **ASKED)
    out.loss.backward()
    gradient = out[name][layer].grad
    packing = F.Packing(model.config.num_attention_heads, np.cumsum([0, 5, 3, 1]))
    direction = np.random.default_rng(layer).normal(size=packing.map_elements)
    probe, _, _ = model_and_inputs(
        setting, bias=MovedScores(), scope=MovedProbabilities()
    )
    losses = []
    for sign in (1, -1):
        DELTAS[name] = {layer: sign * STEP * direction}
        losses.append(probe(**inputs).loss.item())
    expected = np.vdot(packing.pad(direction).numpy(), gradient.numpy())
    assert (losses[0] - losses[1]) / (2 * STEP) == pytest.approx(expected, rel=1e-6)
    assert expected != 0


@one_per_kind
def test_the_logits_are_on_the_path_of_the_last_layer(setting):
    model, inputs, _ = model_and_inputs(setting)
    out = model(**inputs, **ASKED)
    out.loss.backward()
    p, dp = out.attentions[2].numpy(), out.attentions[2].grad.numpy()
    expected = p * (dp - (p * dp).sum(-1, keepdims=True))
    if setting.get("running_mean"):
        expected /= 3
    np.testing.assert_allclose(out.attention_logits[2].grad, expected, atol=1e-15)


@pytest.mark.parametrize("left", [False, True])
def test_gradients_lie_as_the_maps_do(left):
    model = tiny(attention=ea.attention.Evolving(0.3, 0.4), **NO_DROPOUT)
    batch = draw((5, 3, 1))
    labels = labels_for(model, batch)
    packed = model(**batch.packed(), labels=labels, **ASKED)
    packed.loss.backward()
    padded = model(**batch.padded(2, left=left), labels=labels, **ASKED)
    padded.loss.backward()
    valid = batch.valid(2, left)
    pairs = valid[:, None, :, None] & valid[:, None, None, :]
    for name in MAPS:
        for here, there in zip(packed[name], padded[name], strict=True):
            gradient = there.grad.numpy()
            assert gradient.shape == there.shape
            assert not gradient[np.broadcast_to(~pairs, gradient.shape)].any()
            kept = np.broadcast_to(pairs, gradient.shape)
            of_packed = here.grad.numpy()
            inside = batch.valid()
            there_too = inside[:, None, :, None] & inside[:, None, None, :]
            there_too = np.broadcast_to(there_too, of_packed.shape)
            np.testing.assert_array_equal(gradient[kept], of_packed[there_too])


@one_per_kind
def test_asking_changes_no_bit_and_keeps_the_fused_path(setting):
    model = tiny(attention=setting)
    batch = draw()
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}

    def calls(**asked):
        ea.manual_seed(5)
        before = fused_calls()
        results = run(model, **inputs, **asked)
        return fused_calls() - before, results

    count, (out, slopes) = calls()
    again, (asked_out, asked_slopes) = calls(**ASKED)
    assert again == count
    assert_same_bits({k: asked_out[k] for k in out}, out)
    assert_same_bits(asked_slopes, slopes)


@one_per_kind
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fused_and_plain_paths_agree_with_dropout(setting, dtype):
    found = []
    on = _core.fast_paths()["fused_attention"]
    try:
        for fused in (True, False):
            _core.set_fast_path("fused_attention", fused)
            ea.manual_seed(5)
            model = tiny(attention=setting, dtype=dtype)
            out = model(**draw().packed(), labels=[0, 1, 1, 0], **ASKED)
            out.loss.backward()
            found.append([np.asarray(m.grad) for name in MAPS for m in out[name]])
    finally:
        _core.set_fast_path("fused_attention", on)
    for ours, theirs in zip(*found, strict=True):
        scale = np.abs(theirs).max()
        assert scale > 0
        bound = scale * (1e-4 if dtype == "float32" else 1e-10)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound)


@one_per_kind
def test_scores_are_those_before_the_step(setting):
    model, inputs, _ = model_and_inputs(setting)
    first = model(**inputs, output_attention_scores=True, output_attention_logits=True)
    with ea.no_grad():
        fused = model(**inputs, output_attention_scores=True)
    np.testing.assert_array_equal(first.attention_scores[0], first.attention_logits[0])
    assert not np.allclose(first.attention_scores[2], first.attention_logits[2]) or (
        setting["kind"] == "vanilla"
    )
    for here, there in zip(first.attention_scores, fused.attention_scores, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-12)


def test_scores_include_relative_positions():
    spec = ea.attention.Spec(
        bias=ea.attention.RelativePositions(2), evolve=ea.attention.Evolving(0.3, 0.4)
    )
    model = tiny(attention=spec, dtype="float64", **NO_DROPOUT).eval()
    asked = {"output_attention_scores": True, "output_attention_logits": True}
    with ea.no_grad():
        out = model(**draw().packed(), **asked)
    np.testing.assert_array_equal(out.attention_scores[0], out.attention_logits[0])


def test_recomputation_gives_the_same_gradients():
    found = []
    for on in (False, True):
        ea.manual_seed(3)
        model = tiny(attention=ea.attention.Evolving(0.3, 0.4))
        if on:
            model.gradient_checkpointing_enable()
        batch = draw()
        out = model(**batch.packed(), labels=labels_for(model, batch), **ASKED)
        out.loss.backward()
        maps = {
            f"{name}.{i}": maps.grad.numpy()
            for name in MAPS
            for i, maps in enumerate(out[name])
        }
        found.append({**maps, **gradients(model), **arrays_of(out)})
    assert_same_bits(*found)


def test_a_penalty_on_the_maps_adds_to_their_gradient():
    model, inputs, _ = model_and_inputs({"kind": "evolving"})
    out = model(**inputs, output_attentions=[1])
    out.loss.backward()
    before = out.attentions[1].grad.numpy().copy()
    out = model(**inputs, output_attentions=[1])
    maps = out.attentions[1]
    (out.loss + (maps * maps).sum()).backward()
    added = maps.grad.numpy() - before
    np.testing.assert_allclose(added, 2 * maps.numpy(), atol=1e-12)


def test_hidden_states_have_gradients_too():
    model, inputs, batch = model_and_inputs({"kind": "evolving"})
    inputs = {**batch.padded(1), "labels": inputs["labels"]}
    out = model(**inputs, output_hidden_states=True)
    out.loss.backward()
    for state in out.hidden_states:
        assert state.grad.shape == state.shape
        assert np.any(state.grad.numpy())
        assert not np.any(state.grad.numpy()[~batch.valid(1)])


def test_time_series_maps_have_gradients():
    model = helpers_series.tiny(dtype="float64")
    batch = helpers_series.draw()
    targets = helpers_series.targets_for(model, batch)
    out = model(**batch.packed(), **targets, output_attentions=True)
    out.loss.backward()
    assert all(np.any(maps.grad.numpy()) for maps in out.attentions)


def pair_maps(variant, fused=True, again=False, dtype="float64"):
    """Returns the gradients of an encoder-decoder's maps and states, and its maps."""
    on = _core.fast_paths()["fused_attention"]
    _core.set_fast_path("fused_attention", fused)
    try:
        model = helpers_transformer.tiny(variant, dtype=dtype)
        if again:
            model.gradient_checkpointing_enable()
        batch = helpers_transformer.draw()
        out = model(**batch.padded(1), **ASKED, output_hidden_states=True)
        out.loss.backward()
    finally:
        _core.set_fast_path("fused_attention", on)
    found = {
        f"{kind}_{name}.{i}": maps.grad.numpy()
        for kind in ("encoder", "decoder", "cross")
        for name in (*MAPS, "hidden_states")
        for i, maps in enumerate(getattr(out, f"{kind}_{name}", None) or ())
    }
    return found, out


@pytest.mark.parametrize("variant", ["vanilla", "evolving", "skips", "5 x 5"])
def test_maps_of_all_three_chains_have_gradients(variant):
    found, out = pair_maps(variant)
    assert len(found) == 3 * (3 + 2 + 2) + 4 + 3
    plain, _ = pair_maps(variant, fused=False)
    for name, ours in found.items():
        scale = np.abs(plain[name]).max()
        assert scale > 0 or name.endswith(".0"), name
        np.testing.assert_allclose(
            ours, plain[name], rtol=0, atol=1e-12 + 1e-10 * scale
        )
    for kind in ("encoder", "decoder", "cross"):
        p, dp = out[f"{kind}_attentions"][-1], found[f"{kind}_attentions.1"]
        if kind == "encoder":
            dp = found["encoder_attentions.2"]
        expected = p.numpy() * (dp - (p.numpy() * dp).sum(-1, keepdims=True))
        logits = out[f"{kind}_attention_logits"][-1]
        np.testing.assert_allclose(logits.grad, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("variant", ["evolving", "skips"])
def test_recomputed_decoders_give_the_same_gradients(variant):
    here, _ = pair_maps(variant, dtype="float32")
    again, _ = pair_maps(variant, again=True, dtype="float32")
    assert_same_bits(here, again)


def test_no_graph_no_gradient():
    model, inputs, _ = model_and_inputs({"kind": "evolving"})
    with ea.no_grad():
        out = model(**inputs, output_attentions=True)
    assert out.attentions[0].grad is None
    assert not out.attentions[0].retains_grad


def test_retain_grad_of_any_result():
    x = ea.Tensor([3.0], requires_grad=True)
    y, z = x * x, x * 2
    y.retain_grad()
    y.retain_grad()  # a second call changes nothing
    x.retain_grad()
    assert y.retains_grad
    assert not z.retains_grad
    assert not x.retains_grad
    total = y * 5 + z
    del z
    gc.collect()
    total.backward()
    assert y.grad.tolist() == [5.0]
    assert x.grad.tolist() == [32.0]
    with pytest.raises(ea.InputError, match="does not require a gradient"):
        ea.Tensor([1.0]).retain_grad()


def test_a_second_output_has_its_own_gradient():
    model, inputs, _ = model_and_inputs({"kind": "residual"})
    out = model(**inputs, output_attention_logits=[0], output_hidden_states=[1])
    out.loss.backward()
    assert out.attention_logits[0].grad.shape == out.attention_logits[0].shape
    assert out.hidden_states[1].grad.shape == out.hidden_states[1].shape
