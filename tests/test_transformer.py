"""Contract of encoder-decoders, for every task class and attention variant."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import (
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    run,
)
from helpers_transformer import (
    EVOLVING,
    PAIRS,
    SIZES,
    VARIANTS,
    draw,
    inputs_for,
    tiny,
)
from reference import transformer as reference

import evolving_attention as ea

every_model = pytest.mark.parametrize("name", PAIRS)
every_variant = pytest.mark.parametrize("variant", VARIANTS)
MAPS = {
    "encoder_attentions": 3,
    "decoder_attentions": 2,
    "cross_attentions": 2,
    "encoder_attention_logits": 3,
    "decoder_attention_logits": 2,
    "cross_attention_logits": 2,
}


def test_the_task_classes():
    assert {cls.head for cls in PAIRS.values()} == {"base", "seq2seq_lm"}


# --- the equations --------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["vanilla", "evolving", "skips", "1 x 1", "5 x 5"])
def test_logits_and_maps_are_those_of_the_equations(variant):
    model = tiny(variant, dtype="float64").eval()
    batch = draw()
    out = model(**batch.padded(), output_attention_logits=True)
    for row, target in enumerate(batch.decoder()):
        source = batch.sources[row]
        logits, encoder, decoder = reference.forward(
            model.state_dict(), model.config, source, target
        )
        n, m = len(target), len(source)
        found = np.asarray(out.logits)[row]
        np.testing.assert_allclose(found[:n], logits, rtol=0, atol=1e-11)
        for ours, theirs, (rows, columns) in (
            (out.encoder_attention_logits, encoder.maps["attention"], (m, m)),
            (out.decoder_attention_logits, decoder.maps["attention"], (n, n)),
            (out.cross_attention_logits, decoder.maps["crossattention"], (n, m)),
        ):
            for layer, expected in enumerate(theirs):
                maps = np.asarray(ours[layer])[row][:, :rows, :columns]
                np.testing.assert_allclose(maps, expected, rtol=0, atol=1e-11)


def test_a_decoder_without_skip_evolves_in_its_first_layer():
    model = tiny("evolving")
    sites = [n for n, _ in model.named_parameters() if n.endswith("conv.weight")]
    assert len(sites) == 2 + 2 + 2  # encoder: from the second layer on
    assert [n for n in sites if ".layer.0." in n] == [
        "transformer.decoder.layer.0.attention.self.evolving_conv.weight",
        "transformer.decoder.layer.0.crossattention.self.evolving_conv.weight",
    ]
    skips = [n for n, _ in tiny("skips").named_parameters() if "conv.weight" in n]
    assert not [n for n in skips if ".layer.0." in n]


@every_variant
def test_gradients_follow_central_differences(variant):
    model = tiny(variant, dtype="float64")
    batch = draw((4, 6), (5, 3))
    inputs = {**batch.packed(), "label_smoothing": 0.1}
    assert_gradients_are_slopes(model, inputs, abs=1e-7)


@pytest.mark.parametrize("setting", [0.0, 0.1])
def test_the_loss_is_the_mean_over_labels(setting):
    model = tiny(dtype="float64").eval()
    batch = draw()
    out = model(**batch.packed(), label_smoothing=setting)
    logits = np.asarray(out.logits)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    labels = np.concatenate(batch.labels)
    chosen = log_p[np.arange(len(labels)), labels]
    expected = -((1 - setting) * chosen + setting * log_p.mean(-1)).mean()
    assert out.loss.item() == pytest.approx(expected, abs=1e-12)


# --- outputs --------------------------------------------------------------------------


@every_model
def test_shapes(name):
    model = tiny(name=name).eval()
    batch = draw()
    given = inputs_for(model, batch.padded(2))
    out = model(
        **given,
        output_attentions=True,
        output_hidden_states=True,
        output_attention_logits=True,
    )
    b, s, t = 4, 11, 9
    assert out.encoder_last_hidden_state.shape == (b, s, 24)
    last = {"base": ("last_hidden_state", 24), "seq2seq_lm": ("logits", 30)}
    key, width = last[model.head]
    assert out[key].shape == (b, t, width)
    assert [x.shape for x in out.encoder_hidden_states] == [(b, s, 24)] * 4
    assert [x.shape for x in out.decoder_hidden_states] == [(b, t, 24)] * 3
    shapes = {"encoder": (3, s, s), "decoder": (2, t, t), "cross": (2, t, s)}
    for field, count in MAPS.items():
        assert [x.shape for x in out[field]] == [
            (b, *shapes[field.partition("_")[0]])
        ] * count
    for maps, keys in ((out.encoder_attentions, s), (out.cross_attentions, s)):
        for each in maps:
            sums = np.asarray(each).sum(-1)
            assert np.all(np.isclose(sums, 1, atol=1e-6) | (sums == 0)), keys
    assert not np.triu(np.asarray(out.decoder_attentions[1]), 1).any()


def test_outputs_on_request():
    model = tiny().eval()
    given = draw().padded()
    assert "cross_attentions" not in model(**given)
    everything = model(**given, output_attentions=True, output_hidden_states=True)
    some = model(**given, output_attentions=[-1], output_hidden_states=[0])
    for field in ("encoder_attentions", "decoder_attentions", "cross_attentions"):
        *none, last = some[field]
        assert none == [None] * len(none)
        assert np.array_equal(last, everything[field][-1])
    assert some.decoder_hidden_states[1:] == (None, None)
    with pytest.raises(ea.InputError, match="output_attentions: index 2 is outside 0"):
        model(**given, output_attentions=[2])  # the decoder has two layers


@every_variant
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_packed_equals_padded_bit_for_bit(variant, mode):
    model = tiny(variant, dropout=0.2, attention_dropout=0.1).train(mode == "train")
    batch = draw()
    ea.manual_seed(5)
    expected, gradients = run(model, **batch.packed())
    for extra, left in [(0, False), (6, False), (6, True)]:
        ea.manual_seed(5)
        found, found_gradients = run(model, **batch.padded(extra, left))
        assert_same_bits(gradients, found_gradients)
        valid = batch.valid(extra)
        assert np.array_equal(found["loss"], expected["loss"])
        assert np.array_equal(found["logits"][valid], expected["logits"])
        assert not found["logits"][~valid].any()


@every_variant
def test_a_pair_alone_has_the_bits_it_has_in_a_batch(variant):
    """In inference, where each row of a product is independent (docs/numerics.md)."""
    model = tiny(variant).eval()
    batch = draw((5, 9, 1, 36), (7, 4, 40, 1))
    with ea.no_grad():
        together = np.asarray(model(**batch.padded()).logits)
        for row, labels in enumerate(batch.labels):
            alone = np.asarray(model(**batch.alone(row)).logits)[0]
            assert np.array_equal(together[row, : len(labels)], alone)


@every_variant
def test_any_number_of_threads_gives_the_same_bits(variant):
    model = tiny(variant, dropout=0.1)
    batch = draw((30, 17, 3, 38), (25, 9, 40, 12))
    before, results = ea.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            ea.set_num_threads(threads)
            ea.manual_seed(11)
            results.append(run(model, **batch.packed()))
    finally:
        ea.set_num_threads(before)
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("name", ["fused_attention", "fused_norm", "fused_activation"])
def test_fast_paths_do_not_change_the_result(name):
    model = tiny(dtype="float64").eval()
    given = draw().packed()
    fast = arrays_of(model(**given))
    ea.set_fast_path(name, False)
    slow = arrays_of(model(**given))
    np.testing.assert_allclose(slow["logits"], fast["logits"], rtol=0, atol=1e-12)


# --- the decoder's inputs -------------------------------------------------------------


def test_labels_give_the_decoder_its_inputs():
    model = tiny(decoder_start_token_id=7).eval()
    batch = draw()
    given = batch.padded()
    decoder = np.full_like(given["labels"], 0)
    for row, ids in enumerate(batch.decoder(7)):
        decoder[row, : len(ids)] = ids
    mask = (given["labels"] != -100).astype(np.int64)
    spelt = model(**given, decoder_input_ids=decoder, decoder_attention_mask=mask)
    assert_same_bits(arrays_of(model(**given)), arrays_of(spelt))
    whole = model(**given, decoder_input_ids=decoder)  # no mask: computes padding
    assert np.array_equal(whole.loss, spelt.loss)
    assert np.asarray(whole.logits)[3, 2:].any()


def test_a_label_that_does_not_count_in_the_middle_becomes_padding():
    model = tiny(pad_token_id=4).eval()
    labels = np.array([[5, -100, 6, -100]])
    found = model(np.array([[8, 9]]), labels=labels)
    spelt = model(
        np.array([[8, 9]]),
        decoder_input_ids=np.array([[1, 5, 4, 0]]),
        decoder_attention_mask=np.array([[1, 1, 1, 0]]),
        labels=labels,
    )
    assert_same_bits(arrays_of(found), arrays_of(spelt))


# --- training and files ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("variant", ["evolving", "pre-norm"])
def test_training_lowers_the_loss(variant, dtype):
    model = tiny(variant, dtype=dtype)
    given = draw().packed()
    before = model.eval()(**given).loss.item()
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(15):
        model(**given).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model.eval()(**given).loss.item() < 0.7 * before


@every_variant
def test_every_parameter_gets_a_gradient(variant):
    model = tiny(variant)
    _, gradients = run(model, **draw().packed())
    silent = [n for n, _ in model.named_parameters() if n not in gradients]
    assert silent == []
    zero = [n for n, g in gradients.items() if not g.any() and "key.bias" not in n]
    assert zero == []


@every_variant
def test_recomputed_activations_have_the_same_bits(variant):
    model = tiny(variant, dropout=0.2)
    given = {**draw().packed(), "output_attentions": True}
    ea.manual_seed(3)
    plain = run(model, **given)
    model.gradient_checkpointing_enable()
    ea.manual_seed(3)
    again = run(model, **given)
    for first, second in zip(plain, again, strict=True):
        assert_same_bits(first, second)


@every_model
@every_variant
def test_save_and_load_keep_every_bit(name, variant, tmp_path):
    model = tiny(variant, name).eval()
    model.save_pretrained(tmp_path)
    auto = {"base": ea.AutoModel, "seq2seq_lm": ea.AutoModelForSeq2SeqLM}[model.head]
    again = auto.from_pretrained(tmp_path)
    assert type(again) is PAIRS[name]
    for option in EVOLVING:
        assert getattr(again.config, option) == getattr(model.config, option)
    assert_same_bits(again.state_dict(), model.state_dict())
    given = inputs_for(model, draw().packed())
    assert_same_bits(arrays_of(again(**given)), arrays_of(model(**given)))


def test_a_plain_checkpoint_gains_the_convolutions_of_three_chains(tmp_path):
    tiny("vanilla").save_pretrained(tmp_path)
    model = ea.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, **EVOLVING)
    new = model.load_report.new
    assert len(new) == 2 * 6
    assert all("evolving_conv" in name for name in new)
    base = ea.AutoModel.from_pretrained(tmp_path)
    assert type(base) is ea.TransformerModel


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"d_model": 25}, "d_model 25 is not a multiple of encoder_attention_heads"),
        ({"decoder_layers": 0}, "decoder_layers is 0"),
        ({"decoder_vocab_size": 20}, "share_encoder_decoder_embeddings=False"),
        ({"eos_token_id": 30}, "eos_token_id is 30, expected an integer from 0 to 29"),
        ({"hidden_size": 8}, "unknown option 'hidden_size'"),
        ({"decoder_attention": ea.attention.Evolving(0.1, 0.1)}, "later queries"),
        ({"decoder_attention": ea.attention.Predictive(0.1)}, "later queries"),
        (
            {
                "decoder_attention": ea.attention.Spec(
                    bias={"kind": "relative", "max_distance": 2}
                )
            },
            "expected a causal one",
        ),
        ({"decoder_attention": ea.attention.Spec()}, "expected a causal one"),
        ({"cross_attention": ea.attention.Evolving(0.1, 0.1)}, "shift='query'"),
        ({"cross_attention": "evolvin"}, "evolvin"),
        ({"attention": ["vanilla"] * 2}, "2 specs for 3 layers"),
    ],
)
def test_wrong_configs(options, text):
    with pytest.raises(ea.ConfigError, match=text):
        ea.TransformerModel(ea.TransformerConfig(**{**SIZES, **options}))


IDS, LABELS = np.array([[5, 6]]), np.array([[7, 8, 2]])


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"labels": LABELS}, "input_ids is missing"),
        ({"input_ids": IDS}, "decoder_input_ids and labels are None"),
        ({"input_ids": [[5, 30]], "labels": LABELS}, r"input_ids\[0, 1\] = 30"),
        (
            {"input_ids": IDS, "decoder_input_ids": [[1, 44]]},
            r"decoder_input_ids\[0, 1\] = 44.*decoder_vocab_size",
        ),
        ({"input_ids": IDS, "labels": [[7, 30]]}, r"labels\[0, 1\] = 30"),
        ({"input_ids": IDS, "labels": [7, 8]}, r"labels have shape \(2,\)"),
        ({"input_ids": IDS, "labels": [[0.5]]}, "labels must be integers"),
        (
            {"input_ids": np.repeat(IDS, 2, 0), "labels": LABELS},
            "2 sources and 1 targets",
        ),
        (
            {"input_ids": IDS, "labels": LABELS, "decoder_attention_mask": [[1, 2, 1]]},
            r"decoder_attention_mask\[0, 1\] = 2",
        ),
        (
            {"input_ids": IDS, "labels": np.full((1, 41), 5)},
            "decoder_input_ids has a sequence of 41 tokens, this model takes 40",
        ),
        (
            {
                "input_ids": IDS,
                "labels": [4, 5],
                "decoder_sequence_offsets": [0, 1],
            },
            "decoder_sequence_offsets run from 0 to 1, expected 0 to 2",
        ),
    ],
)
def test_wrong_inputs(inputs, text):
    with pytest.raises(ea.errors.Error, match=text):
        tiny()(**inputs)


def test_a_base_model_takes_no_labels():
    with pytest.raises(ea.InputError, match="ForConditionalGeneration"):
        tiny(name="TransformerModel")(IDS, labels=LABELS)


# --- floating-point operations --------------------------------------------------------


@pytest.mark.parametrize("model_type", ["transformer", "t5"])
def test_operations_by_the_lengths_of_source_and_target(model_type):
    if model_type == "t5":
        sizes = {"num_layers": 3, "num_decoder_layers": 2, "num_heads": 2, "d_kv": 6}
        made, inner = ea.T5Config(vocab_size=40, d_model=8, d_ff=20, **sizes), 12
    else:
        sizes = {"encoder_layers": 3, "decoder_layers": 2}
        for part in ("encoder", "decoder"):
            sizes |= {f"{part}_attention_heads": 2, f"{part}_ffn_dim": 20}
        made, inner = ea.TransformerConfig(vocab_size=40, d_model=8, **sizes), 8
    evolving = made.to_dict() | {
        "attention": ea.attention.Evolving(0.1, 0.1),
        "decoder_attention": ea.attention.EvolvingCausal(0.0, 0.1),
        "cross_attention": ea.attention.EvolvingCausal(0.0, 0.1, shift="query"),
    }
    config = type(made).from_dict(evolving)
    s, t = 5, 7
    found = ea.profiling.encoder_decoder_flops(config, s, t)
    one, ffn = 8 * inner, 2 * 8 * 20  # a projection; a feed-forward
    encoder = 3 * s * (4 * one + ffn)
    decoder = 2 * t * (4 * one + 2 * one + ffn) + 2 * s * 2 * one
    assert found["dense"] == 2 * (encoder + decoder)
    assert found["attention"] == 2 * 2 * inner * (3 * s * s + 2 * t * t + 2 * s * t)
    assert found["map_conv"] == 2 * 9 * 2**2 * (2 * s * s + 2 * t * t + 2 * s * t)
    assert found["logits"] == 2 * t * 40 * 8
    assert found["total"] == sum(v for k, v in found.items() if k != "total")
    trained = ea.profiling.encoder_decoder_flops(config, s, t, training=True)
    assert trained == {part: 3 * value for part, value in found.items()}
    with pytest.raises(ea.errors.ConfigError, match="1 or more; got 0 and 7"):
        ea.profiling.encoder_decoder_flops(config, 0, t)
