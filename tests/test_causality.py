"""No target token reads a later one, in every variant, bit for bit."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers_transformer import EVOLVING, SIZES, VARIANTS, Causal, tiny
from reference import transformer as reference

import evolving_attention as ea
from evolving_attention.modeling import encoder_decoder

every_variant = pytest.mark.parametrize("variant", VARIANTS)
SOURCE = np.array([[5, 9, 4, 7, 8, 3]])
TARGET = np.array([[1, 6, 8, 5, 9, 4, 7]])


def logits(model, target):
    out = model(SOURCE, decoder_input_ids=target, output_attentions=True)
    maps = [np.asarray(each)[0] for each in out.decoder_attentions]
    cross = [np.asarray(each)[0] for each in out.cross_attentions]
    return [np.asarray(out.logits)[0][None], *maps, *cross]  # rows: target tokens


def changed_before(model):
    """Returns pairs (i, t): changing target token t changes results at i < t."""
    before = logits(model, TARGET)
    found = set()
    for t in range(1, TARGET.shape[1]):
        target = TARGET.copy()
        target[0, t] = 11
        after = logits(model, target)
        assert not np.array_equal(after[0][:, t], before[0][:, t])  # t is read at all
        for i in range(t):
            same = (
                np.array_equal(a[:, i], b[:, i])
                for a, b in zip(before, after, strict=True)
            )
            if not all(same):
                found.add((i, t))
    return found


@every_variant
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("fused", [True, False])
def test_a_later_token_changes_nothing_before_it(variant, dtype, fused):
    ea.set_fast_path("fused_attention", fused)
    assert changed_before(tiny(variant, dtype=dtype).eval()) == set()


@every_variant
def test_gradients_of_a_position_reach_no_later_token(variant):
    """With separate tables, a row's gradient comes from one target token."""
    own = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    model = tiny(variant, dtype="float64", **{**own, "decoder_vocab_size": 26})
    labels = np.full(TARGET.shape, -100)
    labels[0, 3] = 4
    mask = np.ones_like(TARGET)
    model(
        SOURCE, decoder_input_ids=TARGET, decoder_attention_mask=mask, labels=labels
    ).loss.backward()
    table = "transformer.decoder.embeddings.word_embeddings.weight"
    gradient = np.asarray(dict(model.named_parameters())[table].grad)
    read = gradient.any(1)
    assert read[TARGET[0, :4]].all()
    assert not read[TARGET[0, 4:]].any()


@pytest.mark.parametrize("size", [3, 5])
def test_the_literal_cross_attention_is_caught(size):
    """The test above can fail: read literally, the paper leaks later tokens."""
    literal = Causal(0.0, 0.4, size, "key_literal")
    model = tiny("vanilla", cross_attention=literal).eval()
    reach = size // 2
    pairs = changed_before(model)
    assert {(t - reach, t) for t in range(reach, TARGET.shape[1])} <= pairs


def test_the_literal_cross_attention_warns_once(caplog, monkeypatch):
    monkeypatch.setattr(encoder_decoder, "_SAID", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tiny("vanilla", cross_attention=Causal(0.0, 0.4, 3, "key_literal"))
    (record,) = caplog.records
    assert "reads 1 later target token" in record.message
    assert "shift='query'" in record.message


def test_a_causal_scope_refuses_kinds_that_read_later_queries():
    for evolve in (
        ea.attention.Evolving(0.1, 0.1),
        Causal(0.0, 0.1, shift="key_literal"),
    ):
        with pytest.raises(ea.ConfigError, match="evolving_causal"):
            ea.attention.Spec(scope=ea.attention.Dense(causal=True), evolve=evolve)
    for evolve in (Causal(0.0, 0.1), Causal(0.0, 0.1, shift="query")):
        ea.attention.Spec(scope=ea.attention.Dense(causal=True), evolve=evolve)


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("shift", ["diagonal", "query"])
def test_taps_and_shift(size, shift):
    """out[i, j] = sum of w[a, b] x[i - 2 r + a, j - 2 r + b] (diagonal: b <= a)."""
    rng = np.random.default_rng(0)
    r, n, m = size // 2, 6, 5
    x, weight = rng.standard_normal((2, n, m)), rng.standard_normal((2, 2, size, size))
    bias = rng.standard_normal(2)
    found = reference.shifted(x, weight, bias, shift)
    right = r if shift == "diagonal" else 0
    for o, i, j in np.ndindex(found.shape):
        total = bias[o]
        for c, a, b in np.ndindex(2, size, size):
            row, column = i - 2 * r + a, j - r - right + b
            taken = b <= a or shift == "query"
            if taken and row >= 0 and 0 <= column < m:
                total += weight[o, c, a, b] * x[c, row, column]
        empty = i < r or j < right
        assert found[o, i, j] == pytest.approx(0.0 if empty else total, abs=1e-12)


def test_the_six_taps_are_those_that_learn():
    model = tiny("evolving", dtype="float64")
    model(SOURCE, labels=TARGET).loss.backward()
    name = "transformer.decoder.layer.1.attention.self.evolving_conv.weight"
    gradient = np.asarray(dict(model.named_parameters())[name].grad)
    assert np.array_equal(gradient.any((0, 1)), np.tril(np.ones((3, 3), bool)))


def test_the_three_chains_can_be_switched_off_one_by_one():
    whole = set(dict(tiny("evolving").named_parameters()))
    for option, part in {
        "attention": "encoder.layer",
        "decoder_attention": ".attention.self",
        "cross_attention": "crossattention",
    }.items():
        settings = {**SIZES, **EVOLVING, option: None}
        model = ea.TransformerModel(ea.TransformerConfig(**settings))
        held = {f"transformer.{name}" for name, _ in model.named_parameters()}
        missing = whole - held
        assert len(missing) == 4
        assert all(part in name for name in missing)
