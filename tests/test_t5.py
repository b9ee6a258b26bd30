"""T5 of both versions, plain and evolving: equations, counts, files and generation."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_generation import greedy, padded, sources
from helpers_models import (
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    run,
)
from helpers_t5 import CLASSES, END, SIZES, START, V1_1, VARIANTS, tiny, trained
from helpers_transformer import EVOLVING, Causal, draw
from reference import t5 as reference

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.optim.factory import decay_groups

every_variant = pytest.mark.parametrize("variant", VARIANTS)
both_versions = pytest.mark.parametrize("variant", ["evolving", "evolving v1.1"])


# --- the equations --------------------------------------------------------------------


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "predictive"])
def test_logits_and_maps_are_those_of_the_equations(variant, fused):
    ea.set_fast_path("fused_attention", fused)
    model = tiny(variant, "float64").eval()
    batch = draw((5, 23, 1, 6), (7, 4, 19, 1))
    out = model(**batch.padded(), output_attention_logits=True)
    for row, target in enumerate(batch.decoder(START)):
        source = batch.sources[row]
        logits, encoder, decoder = reference.forward(
            model.state_dict(), model.config, source, target
        )
        n, m = len(target), len(source)
        found = np.asarray(out.logits)[row]
        np.testing.assert_allclose(found[:n], logits, rtol=0, atol=1e-10)
        for ours, theirs, (rows, columns) in (
            (out.encoder_attention_logits, encoder.maps[0], (m, m)),
            (out.decoder_attention_logits, decoder.maps[0], (n, n)),
            (out.cross_attention_logits, decoder.maps[1], (n, m)),
        ):
            for layer, expected in enumerate(theirs):
                maps = np.asarray(ours[layer])[row][:, :rows, :columns]
                np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-10)


@every_variant
def test_gradients_follow_central_differences(variant):
    batch = draw((4, 13), (5, 12))
    # Unscaled scores are large: a larger step would cross the kinks of ReLU.
    bounds = {"step": 1e-7, "rel": 1e-6, "abs": 1e-6}
    assert_gradients_are_slopes(tiny(variant, "float64"), batch.packed(), **bounds)


@every_variant
def test_every_parameter_gets_a_gradient(variant):
    model = tiny(variant)
    _, gradients = run(model, **draw((14, 9), (13, 5)).packed())
    assert [n for n, _ in model.named_parameters() if not gradients[n].any()] == []


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_weights_of_zero_are_t5_bit_for_bit(dtype):
    zero = {
        "attention": ea.attention.Evolving(0.0, 0.0),
        "decoder_attention": Causal(0.0, 0.0),
        "cross_attention": Causal(0.0, 0.0, shift="query"),
    }
    given, found = draw().packed(), []
    for settings in ({}, zero):
        model = tiny("v1.0", dtype, dropout_rate=0.1, **settings)
        ea.manual_seed(3)
        found.append(run(model, **given))
    for first, second in zip(*found, strict=True):
        assert_same_bits(first, second)


# --- initial values ------------------------------------------------------------------


def test_initial_values_have_t5s_deviations():
    sizes = {"d_model": 64, "d_kv": 24, "d_ff": 96, "initializer_factor": 0.5}
    model = tiny("v1.1", vocab_size=300, num_heads=2, **sizes)
    width, inner = 64, 2 * 24
    expected = {
        "shared": 1.0,
        "lm_head": 1.0,
        "q": (width * 24) ** -0.5,
        "k": width**-0.5,
        "v": width**-0.5,
        "o": inner**-0.5,
        "wi_0": width**-0.5,
        "wi_1": width**-0.5,
        "wo": 96**-0.5,
    }
    for name, tensor in model.named_parameters():
        part = name.split(".")[-2]
        if part in expected:
            deviation = np.asarray(tensor).std() / 0.5
            assert deviation == pytest.approx(expected[part], rel=0.1), name
    ea.manual_seed(1)
    many = {
        "num_heads": 8,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 20,
    }
    table = ea.T5Model(ea.T5Config(**{**SIZES, **sizes, **many}))
    for name, tensor in table.named_parameters():
        if "relative" in name:
            assert np.asarray(tensor).std() * 2 == pytest.approx(1 / 8, rel=0.15)
        if "norm" in name:
            assert np.all(np.asarray(tensor) == 0.5)


# --- packed, padded, recomputed, threads ----------------------------------------------


@both_versions
def test_packed_equals_padded_bit_for_bit(variant):
    model = tiny(variant, dropout_rate=0.2)
    batch = draw((5, 14, 1, 6), (7, 13, 3, 1))
    ea.manual_seed(5)
    expected, gradients = run(model, **batch.packed())
    for extra, left in [(0, False), (6, True)]:
        ea.manual_seed(5)
        found, found_gradients = run(model, **batch.padded(extra, left))
        assert_same_bits(gradients, found_gradients)
        valid = batch.valid(extra)
        assert np.array_equal(found["loss"], expected["loss"])
        assert np.array_equal(found["logits"][valid], expected["logits"])


@both_versions
def test_recomputed_activations_have_the_same_bits(variant):
    model = tiny(variant, dropout_rate=0.2)
    given = {**draw().packed(), "output_attentions": True}
    ea.manual_seed(3)
    plain = run(model, **given)
    model.gradient_checkpointing_enable()
    ea.manual_seed(3)
    for first, second in zip(plain, run(model, **given), strict=True):
        assert_same_bits(first, second)


def test_any_number_of_threads_gives_the_same_bits():
    model, batch = tiny("evolving v1.1", dropout_rate=0.1), draw((30, 17), (25, 9))
    before, results = ea.get_num_threads(), []
    try:
        for threads in (1, 3):
            ea.set_num_threads(threads)
            ea.manual_seed(11)
            results.append(run(model, **batch.packed()))
    finally:
        ea.set_num_threads(before)
    for first, second in zip(*results, strict=True):
        assert_same_bits(first, second)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_lowers_the_loss(dtype):
    model, given = tiny("evolving v1.1", dtype), draw().packed()
    before = model.eval()(**given).loss.item()
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(15):
        model(**given).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model.eval()(**given).loss.item() < 0.7 * before


def test_the_tables_of_buckets_do_not_decay():
    groups = decay_groups(tiny().named_parameters(), 0.1)
    tables = [n for n in groups[1]["names"] if n.endswith("attention_bias.weight")]
    assert len(tables) == 2


# --- generation -----------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize("use_cache", [None, False])
def test_targets_are_those_of_whole_forward_passes(variant, use_cache):
    model = trained(variant)
    assert _core.can_cache(model._core)
    found = model.generate(**padded(sources()), max_new_tokens=16, use_cache=use_cache)
    assert len({tuple(row) for row in found}) > 3
    for row, ids in zip(found, sources(), strict=True):
        target = greedy(model, ids, 16, START)
        assert row[: len(target)].tolist() == target
        assert not row[len(target) :].any()


@every_variant
@pytest.mark.parametrize("fused", [True, False])
def test_logits_from_caches_are_those_of_the_full_forward(variant, fused):
    """Uses more tokens than there are distances with their own bucket."""
    ea.set_fast_path("fused_attention", fused)
    model = trained(variant, "float64")
    batch = draw((5, 14, 1), (24, 24, 24), 2)
    targets = np.stack(batch.decoder(START))
    state = _core.start_target(model._core, padded(batch.sources), True)
    with ea.no_grad():
        whole = model(**padded(batch.sources), decoder_input_ids=targets).logits
    order = [0, 1, 2]
    for t in range(24):
        found = np.asarray(state.next(targets[order, t].tolist()))
        expected = np.asarray(whole)[order, t]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        kept = {3: [2, 0, 1], 5: [1, 1, 0, 2], 9: [2, 0]}.get(t)
        if kept is not None:
            state.select(kept)
            order = [order[i] for i in kept]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_target_has_the_same_bits_alone_and_in_any_batch(num_beams):
    model, rows = trained("evolving v1.1"), sources()
    settings = {"num_beams": num_beams, "return_dict_in_generate": True}
    together = model.generate(**padded(rows), **settings)
    for row, ids in enumerate(rows):
        alone = model.generate(ids[None], **settings)
        n = alone.sequences.shape[1]
        assert np.array_equal(together.sequences[row, :n], alone.sequences[0])
        assert alone.sequences_scores[0] == together.sequences_scores[row]


@every_variant
def test_a_later_token_changes_nothing_before_it(variant):
    model = tiny(variant).eval()
    source, target = np.array([[5, 9, 4, 7]]), np.arange(3, 17)[None]
    before = np.asarray(model(source, decoder_input_ids=target).logits)
    for t in (1, 6, 12):
        other = target.copy()
        other[0, t] = 29
        after = np.asarray(model(source, decoder_input_ids=other).logits)
        assert np.array_equal(after[:, :t], before[:, :t])
        assert not np.array_equal(after[:, t], before[:, t])


def test_the_start_is_the_padding_token():
    model = tiny("v1.0").eval()
    source, labels = np.array([[5, 6]]), np.array([[7, 8, END]])
    spelt = model(source, decoder_input_ids=[[0, 7, 8]], labels=labels)
    assert_same_bits(arrays_of(model(source, labels=labels)), arrays_of(spelt))
    assert model.generate(source, max_new_tokens=2)[0, 0] == 0


# --- files ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
@every_variant
def test_save_and_load_keep_every_bit(variant, cls, tmp_path):
    model = tiny(variant, cls=cls).eval()
    model.save_pretrained(tmp_path)
    auto = {"base": ea.AutoModel, "seq2seq_lm": ea.AutoModelForSeq2SeqLM}[model.head]
    again = auto.from_pretrained(tmp_path)
    assert type(again) is cls
    for option in EVOLVING:
        assert getattr(again.config, option) == getattr(model.config, option)
    assert again.load_report.new == []
    assert_same_bits(again.state_dict(), model.state_dict())


def test_a_decoder_that_alone_evolves_is_marked(tmp_path):
    settings = {"decoder_attention": EVOLVING["decoder_attention"]}
    tiny("v1.0", **settings).save_pretrained(tmp_path)
    assert (tmp_path / "evolving_model.safetensors").exists()
    again = ea.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert again.config.decoder_attention == EVOLVING["decoder_attention"]
    assert again.config.attention == ea.attention.Vanilla()


def test_a_plain_checkpoint_gains_the_convolutions_alone(tmp_path):
    plain = tiny("v1.0")
    plain.save_pretrained(tmp_path)
    model = ea.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, **EVOLVING)
    assert len(model.load_report.new) == 2 * 6
    assert all("evolving_conv" in name for name in model.load_report.new)
    state = plain.state_dict()
    lost = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    del state[lost]
    with pytest.raises(ea.CheckpointError, match=f"missing: {lost}"):
        plain.load_state_dict(state)


def test_copies_of_the_table_of_words_are_taken():
    """torch files hold such copies; a copy that differs is an error, not ignored."""
    model = tiny("v1.0")
    state = dict(model.state_dict())
    words = state["shared.weight"]
    table = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    copies = dict.fromkeys(
        (
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
            "lm_head.weight",
        ),
        words,
    )
    report = model.load_state_dict({**state, **copies, table: np.zeros((8, 3))})
    assert report.unexpected == []
    for name in copies:
        with pytest.raises(ea.CheckpointError, match=f"not used by this model: {name}"):
            model.load_state_dict({**state, name: words + 1})
    del state["shared.weight"]
    model.load_state_dict({**state, "encoder.embed_tokens.weight": words})


def test_an_own_output_matrix_beside_a_config_that_ties(tmp_path):
    """Config as version 5 of transformers writes it for v1.1."""
    model = tiny("v1.1").eval()
    model.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    assert '"tie_word_embeddings": false' in config
    config = config.replace(
        '"tie_word_embeddings": false',
        '"scale_decoder_outputs": false, "tie_word_embeddings": true',
    )
    (tmp_path / "config.json").write_text(config)
    again = ea.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert again.config.tie_word_embeddings is False
    given = draw().packed()
    assert_same_bits(arrays_of(again(**given)), arrays_of(model(**given)))
    base = ea.AutoModel.from_pretrained(tmp_path)
    assert base.load_report.unexpected == ["lm_head.weight"]


# --- settings and errors --------------------------------------------------------------


def test_a_spec_that_is_t5s_own_is_its_evolve_kind():
    config = ea.T5Config(**SIZES, attention=EVOLVING["attention"])
    assert config.attention == EVOLVING["attention"]
    spec = config.core_options()["attention"]
    assert spec["score"] == {"kind": "dot", "scale": 1.0}
    assert spec["bias"]["kind"] == "buckets"
    whole = ea.attention.Spec(
        ea.attention.Dot(1.0),
        bias=ea.attention.BucketedPositions(8, 10, initial_std=1 / 24**0.5),
        evolve=EVOLVING["attention"],
    )
    assert ea.T5Config(**SIZES, attention=whole) == config


def test_other_slots_are_taken_as_they_are():
    """Relative position vectors instead of buckets; the score scale of other models."""
    spec = ea.attention.Spec(bias=ea.attention.RelativePositions(4))
    model = tiny("v1.0", attention=spec)
    names = [name for name, _ in model.named_parameters()]
    assert "encoder.block.2.layer.0.SelfAttention.relative_positions" in names
    assert not any("encoder" in n and "attention_bias" in n for n in names)
    _, gradients = run(model, **draw().packed())
    assert all(gradients[name].any() for name in names)


@pytest.mark.parametrize("evolve", [None, EVOLVING["attention"]], ids=repr)
def test_a_spec_of_defaults_has_no_buckets(evolve, tmp_path):
    """Spec() says 1/√d and no bias: as with the same scale written out."""
    spec = ea.attention.Spec(evolve=evolve)
    scaled = ea.attention.Spec(ea.attention.Dot(SIZES["d_kv"] ** -0.5), evolve=evolve)
    model = tiny("v1.0", attention=spec).eval()
    assert not any("encoder" in n and "_bias" in n for n, _ in model.named_parameters())
    given = draw().packed()
    expected = tiny("v1.0", attention=scaled).eval()(**given)
    found = arrays_of(model(**given))
    for name, array in arrays_of(expected).items():
        assert np.allclose(found[name], array, atol=1e-6), name
    model.save_pretrained(tmp_path)
    assert '"model_type": "evolving_t5"' in (tmp_path / "config.json").read_text()
    again = ea.AutoModel.from_pretrained(tmp_path)
    assert again.config.attention == model.config.attention == spec


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"d_kv": 0}, "d_kv is 0, expected an integer from 1"),
        ({"num_decoder_layers": 0}, "num_decoder_layers is 0"),
        ({"dropout_rate": 1.5}, "dropout_rate is 1.5"),
        ({"feed_forward_proj": "gated-swish"}, "unknown activation 'swish'"),
        ({"relative_attention_num_buckets": 7}, "num_buckets = 7 must be even"),
        ({"relative_attention_max_distance": 2}, "max_distance = 2"),
        ({"eos_token_id": 30}, "eos_token_id is 30, expected an integer from 0 to 29"),
        ({"hidden_size": 8}, "unknown option 'hidden_size'"),
        ({"decoder_attention": ea.attention.Evolving(0.1, 0.1)}, "later queries"),
        ({"cross_attention": ea.attention.Evolving(0.1, 0.1)}, "shift='query'"),
        ({"attention": ["vanilla"] * 2}, "2 specs for 3 layers"),
        (
            {"decoder_attention": ea.attention.Spec(ea.attention.Dot(1.0))},
            "expected a causal one",
        ),
        ({"decoder_attention": ea.attention.Spec()}, "expected a causal one"),
    ],
)
def test_wrong_configs(options, text):
    with pytest.raises(ea.ConfigError, match=text):
        ea.T5Model(ea.T5Config(**{**SIZES, **options}))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens = 0, expected 1 or more"),
        ({"max_length": 1}, "max_length = 1, expected 2 or more"),
    ],
)
def test_targets_without_a_longest_length_have_a_shortest(options, text):
    model = tiny("v1.0", cls=ea.T5ForConditionalGeneration)
    with pytest.raises(ea.ConfigError, match=f"{text}$"):
        model.generate([[5, 9, 2]], **options)


def test_a_bias_that_the_first_layer_lacks_is_refused():
    spec = ea.attention.Spec(
        ea.attention.Dot(1.0), bias=ea.attention.RelativePositions(4)
    )
    with pytest.raises(ea.ConfigError, match="layer 1 has the bias 'buckets'"):
        tiny("v1.0", attention=[spec, "vanilla", "vanilla"])


def test_a_base_model_takes_no_labels():
    model = tiny("v1.0", cls=ea.T5Model)
    with pytest.raises(ea.InputError, match="T5ForConditionalGeneration"):
        model(np.array([[5, 6]]), labels=np.array([[7, 8]]))


def test_no_limit_of_length():
    model = tiny(**{"variant": "v1.0", **V1_1}).eval()
    out = model(np.arange(3, 29)[None].repeat(40, 1) % 27, labels=[[4, 5]])
    assert np.isfinite(np.asarray(out.logits)).all()
