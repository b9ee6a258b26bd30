"""Scores other than dot products, and Shaw's positions, against their equations."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, tiny
from reference import scores as by_hand
from reference.evolving import chain, masked_softmax

import evolving_attention as ea
from evolving_attention import _core

HEADS, WIDTH, LENGTHS = 2, 6, (5, 1, 7)
KINDS = [ea.attention.DenseSynthesizer, ea.attention.RandomSynthesizer]


def layers_of(spec, number=1):
    made = []
    for layer in range(number):
        ea.manual_seed(layer + 1)
        one = _core.Attention(
            spec.to_core(),
            WIDTH,
            HEADS,
            layer=layer,
            num_layers=number,
            dtype="float64",
        )
        one.initialize({name for name, _ in one.named_parameters()})
        rng = np.random.default_rng(layer)
        for name, tensor in one.named_parameters():
            if name.endswith(("bias", "mixture")):
                tensor.copy_(rng.normal(0.0, 0.5, tensor.shape))
        made.append(one)
    return made


def named(layer):
    return {name: np.asarray(tensor) for name, tensor in layer.named_parameters()}


def projected(x, parameters, name):
    y = x @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]
    return y.reshape(len(x), HEADS, WIDTH // HEADS)


def scores_by_hand(kind, x, parameters):
    q = projected(x, parameters, "query") if "query.weight" in parameters else None
    weight = parameters["score.weight"]
    if isinstance(kind, ea.attention.DenseSynthesizer):
        made = by_hand.dense_synthesizer(q, weight, parameters["score.bias"])
    else:
        made = by_hand.random_synthesizer(len(x), weight)
    if not kind.dot:
        return made
    k = projected(x, parameters, "key")
    return by_hand.mixed(made, q, k, parameters["score.mixture"])


def assert_layers_follow(kind, formula):
    """Two layers; the second evolves the map of the first."""
    spec = ea.attention.Spec(score=kind, evolve=ea.attention.Evolving(0.3, 0.6))
    layers = layers_of(spec, 2)
    x = np.random.default_rng(5).standard_normal((sum(LENGTHS), WIDTH))
    offsets = [0, *np.cumsum(LENGTHS).tolist()]
    packing, carry, found = ea.functional.Packing(HEADS, offsets), None, []
    for layer in layers:
        out = layer.forward(ea.Tensor(x), packing, None, None, carry)
        carry = out.carry
        found.append(np.asarray(out.context))
    values = [named(layer) for layer in layers]
    for begin, end in itertools.pairwise(offsets):
        rows = x[begin:end]
        raw = np.stack([formula(rows, v) for v in values])
        conv = [v.get("evolving_conv.weight") for v in values]
        bias = [v.get("evolving_conv.bias") for v in values]
        _, probabilities = chain(raw, conv, bias, 0.3, 0.6)
        for p, v, y in zip(probabilities, values, found, strict=True):
            expected = np.einsum("hij,jhd->ihd", p, projected(rows, v, "value"))
            assert np.allclose(y[begin:end], expected.reshape(-1, WIDTH), atol=1e-12)


@pytest.mark.parametrize("dot", [False, True], ids=["alone", "mixed"])
@pytest.mark.parametrize("cls", KINDS)
def test_layers_are_what_the_equations_say(cls, dot):
    kind = cls(max_length=8, dot=dot)
    assert_layers_follow(kind, functools.partial(scores_by_hand, kind))


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        (ea.attention.Multiplicative(), by_hand.multiplicative),
        (ea.attention.Additive(), by_hand.additive),
        (
            ea.attention.Concatenative(negative_slope=0.3),
            functools.partial(by_hand.concatenative, slope=0.3),
        ),
    ],
    ids=["multiplicative", "additive", "concatenative"],
)
def test_other_scores_are_what_their_formulas_say(kind, formula):
    """Eq. 11 (TPAMI), in the forms of docs/attention.md."""

    def scores(x, parameters):
        q, k = (projected(x, parameters, name) for name in ("query", "key"))
        return formula(q, k, parameters["score.weight"])

    assert_layers_follow(kind, scores)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("farthest", [2, 9])
def test_relative_positions_are_those_of_shaw(farthest, values):
    bias = ea.attention.RelativePositions(farthest, values)
    (layer,) = layers_of(ea.attention.Spec(bias=bias))
    x = np.random.default_rng(5).standard_normal((7, WIDTH))
    out = layer.forward(ea.Tensor(x), ea.functional.Packing(HEADS, [0, 7]))
    own = named(layer)
    q, k, v = (projected(x, own, name) for name in ("query", "key", "value"))
    raw = by_hand.dot(q, k) + by_hand.shaw(q, own["relative_positions"])
    p = masked_softmax(raw, None)
    expected = np.einsum("hij,jhd->ihd", p, v)
    if values:
        expected += by_hand.shaw_values(p, own["relative_values"])
    assert np.allclose(np.asarray(out.context), expected.reshape(7, WIDTH), atol=1e-12)


def test_projections_that_nobody_reads_are_left_out():
    dense, random = (cls(max_length=8) for cls in KINDS)
    mixed = [cls(max_length=8, dot=True) for cls in KINDS]
    both = {"query.weight", "key.weight"}

    def projections(**slots):
        (layer,) = layers_of(ea.attention.Spec(**slots))
        return both & set(named(layer))

    assert projections(score=dense) == {"query.weight"}
    assert projections(score=random) == set()
    assert projections(score=mixed[0]) == projections(score=mixed[1]) == both
    relative, buckets = (
        ea.attention.RelativePositions(3),
        ea.attention.BucketedPositions(),
    )
    assert projections(score=random, bias=relative) == {"query.weight"}
    assert projections(score=random, bias=buckets) == set()


def test_the_mixture_starts_even():
    (layer,) = layers_of(ea.attention.Spec(score=KINDS[1](8, dot=True)))
    ea.manual_seed(1)
    layer.initialize({"score.mixture"})
    assert named(layer)["score.mixture"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("cls", KINDS)
def test_longer_sequences_are_refused(cls):
    (layer,) = layers_of(ea.attention.Spec(score=cls(max_length=4)))
    x = ea.Tensor(np.zeros((5, WIDTH)))
    with pytest.raises(ea.ShapeError, match=r"5 tokens.*4 positions.*max_length = 5"):
        layer.forward(x, ea.functional.Packing(HEADS, [0, 5]))


def test_a_plain_checkpoint_gains_the_mixture_alone(tmp_path):
    plain = tiny("BertForSequenceClassification")
    plain.save_pretrained(tmp_path)
    spec = ea.attention.Spec(score=KINDS[0](max_length=32, dot=True))
    mixed = ea.BertForSequenceClassification.from_pretrained(tmp_path, attention=spec)
    expected = {
        f"bert.encoder.layer.{i}.attention.self.score.{name}"
        for i in range(mixed.config.num_hidden_layers)
        for name in ("weight", "bias", "mixture")
    }
    assert set(mixed.load_report.new) == expected
    before = {name for name, _ in plain.named_parameters()}
    assert {name for name, _ in mixed.named_parameters()} == before | expected


def test_models_train_without_queries_and_keys():
    ids, labels = np.arange(12).reshape(2, 6), np.array([0, 1])
    for cls in KINDS:
        model = tiny(
            "BertForSequenceClassification",
            ea.attention.Spec(score=cls(32), evolve=ea.attention.Evolving(0.2, 0.3)),
            **NO_DROPOUT,
        )
        optimizer = ea.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(40):
            model.zero_grad()
            loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            assert all(p.grad is not None for p in model.parameters()), cls
            optimizer.step()
            losses.append(float(np.asarray(loss)))
        assert losses[-1] < 0.5 * losses[0]
