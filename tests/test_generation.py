"""Laws of greedy search: steps equal the whole pass, batches change nothing."""

from __future__ import annotations

import logging
import signal
import time
import weakref

import numpy as np
import pytest
from helpers_generation import (
    END,
    LENGTHS,
    greedy,
    log_probabilities,
    padded,
    sources,
    trained,
)
from helpers_transformer import SIZES, VARIANTS, Causal, draw, tiny

import evolving_attention as ea
from evolving_attention import _core

every_variant = pytest.mark.parametrize("variant", VARIANTS)


def assert_row(row, target, padding=0):
    """Asserts that the row is the target followed by padding."""
    assert row[: len(target)].tolist() == target
    assert (row[len(target) :] == padding).all()


class Steep(ea.attention.CustomScore):
    """Scores that depend on the query's position, which a single row does not tell."""

    def scores(self, q, k, dot, pair_sum, context):
        place = np.arange(1, q.shape[0] + 1, dtype=np.float32)[:, None]
        return dot(q * ea.Tensor(place), k, 0.1)


# --- steps equal the whole pass -------------------------------------------------------


@every_variant
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("use_cache", [None, False])
def test_targets_are_those_of_whole_forward_passes(variant, dtype, use_cache):
    model = trained(variant, dtype)
    found = model.generate(**padded(sources()), max_new_tokens=16, use_cache=use_cache)
    assert len({tuple(row) for row in found}) > 3
    for row, ids in zip(found, sources(), strict=True):
        assert_row(row, greedy(model, ids, 16))


@every_variant
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [("float64", 1e-7, 1e-9), ("float32", 1e-5, 1e-5)]
)
def test_logits_from_caches_are_those_of_the_full_forward(
    variant, fused, dtype, rtol, atol
):
    ea.set_fast_path("fused_attention", fused)
    assert_same_logits(trained(variant, dtype), rtol, atol)


MORE: dict[str, dict] = {
    "carried, no convolution": {"decoder_attention": Causal(0.3, 0.0)},
    "carried, 1 x 1": {"decoder_attention": Causal(0.3, 0.4, 1)},
    "carried, 3 x 3": VARIANTS["skips"],
    "carried, 5 x 5": {
        "decoder_attention": Causal(0.5, 0.7, 5),
        "cross_attention": Causal(0.5, 0.7, 5, "query"),
    },
    "learned": {
        "decoder_attention": Causal(0.3, 0.4, learnable=True),
        "cross_attention": Causal(0.3, 0.4, 5, "query", learnable=True),
    },
    "by layer": {"decoder_attention": Causal([0.0, 0.1, 0.5, 0.0], [0.9, 0, 0.4, 1])},
    "some carry": {
        "decoder_attention": [
            Causal(0.0, 0.4),
            Causal(0.3, 0.0),
            ea.attention.Vanilla(),
            Causal(0.6, 0.9),
        ]
    },
    "one layer of four": {
        "decoder_attention": [ea.attention.Vanilla()] * 3 + [Causal(0.0, 0.4)]
    },
    "other reaches": {"decoder_attention": [Causal(0.0, 0.4), Causal(0.0, 0.4, 5)] * 2},
    "additive": {
        "decoder_attention": ea.attention.Spec(
            score=ea.attention.Additive(), scope=ea.attention.Dense(causal=True)
        )
    },
}


@pytest.mark.parametrize("kind", MORE)
@pytest.mark.parametrize("fused", [True, False])
def test_logits_from_caches_of_deeper_decoders(kind, fused):
    ea.set_fast_path("fused_attention", fused)
    model = tiny("vanilla", dtype="float64", decoder_layers=4, **MORE[kind]).eval()
    assert _core.can_cache(model._core)
    assert_same_logits(model, 1e-7, 1e-9)


TOKENS = 24  # more tokens than any of these caches keeps rows


def assert_same_logits(model, rtol, atol):
    """Compares every score after every token, also while sequences are reordered."""
    batch = draw((5, 9, 1), (TOKENS,) * 3, 2)
    targets = np.stack(batch.decoder())
    state = _core.start_target(model._core, padded(batch.sources), True)
    with ea.no_grad():
        whole = model(**padded(batch.sources), decoder_input_ids=targets).logits
    whole = np.asarray(whole).astype(np.float64)
    order = [0, 1, 2]
    for t in range(TOKENS):
        found = np.asarray(state.next(targets[order, t].tolist()))
        expected = whole[order, t]
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        kept = {3: [2, 0, 1], 5: [1, 1, 0, 2], 6: [3, 1, 0, 2], 9: [2]}.get(t)
        if kept is not None:
            state.select(kept)
            order = [order[i] for i in kept]


def test_which_attentions_have_caches():
    for variant in VARIANTS:
        assert _core.can_cache(tiny(variant)._core), variant
    relative = ea.attention.Spec(
        scope=ea.attention.Dense(causal=True), bias=ea.attention.RelativePositions(2)
    )
    steep = ea.attention.Spec(score=Steep(), scope=ea.attention.Dense(causal=True))
    made = [
        ea.attention.Spec(score=score, scope=ea.attention.Dense(causal=True))
        for score in (
            ea.attention.RandomSynthesizer(20),
            ea.attention.DenseSynthesizer(20, dot=True),
        )
    ]
    across = {"cross_attention": ea.attention.Spec(score=made[0].score)}
    for kinds in (
        across,
        *({"decoder_attention": kind} for kind in (relative, steep, *made)),
    ):
        model = tiny("vanilla", **kinds).eval()
        assert not _core.can_cache(model._core)
        for ids in sources():
            found = model.generate(ids[None], max_new_tokens=9)
            assert found[0].tolist() == greedy(model, ids, 9)
    with pytest.raises(ea.ConfigError, match="leave use_cache out"):
        model.generate([[4, 5]], use_cache=True)


# --- alone, in any batch, in any order ------------------------------------------------


@every_variant
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_target_has_the_same_bits_alone_and_in_any_batch(variant, dtype, num_beams):
    model, rows = trained(variant, dtype), sources()
    settings = {"num_beams": num_beams, "return_dict_in_generate": True}
    together = model.generate(**padded(rows), **settings)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = model.generate(**padded([rows[i] for i in order], 4, True), **settings)
    assert np.array_equal(shuffled.sequences, together.sequences[order])
    assert np.array_equal(shuffled.sequences_scores, together.sequences_scores[order])
    for row, ids in enumerate(rows):
        alone = model.generate(ids[None], **settings)
        assert_row(together.sequences[row], alone.sequences[0].tolist())
        assert np.array_equal(alone.sequences_scores[0], together.sequences_scores[row])
    before = ea.get_num_threads()
    try:
        ea.set_num_threads(3)
        threads = model.generate(**padded(rows), **settings)
    finally:
        ea.set_num_threads(before)
    assert np.array_equal(threads.sequences, together.sequences)
    assert np.array_equal(threads.sequences_scores, together.sequences_scores)


def test_targets_end_at_different_lengths():
    """The tests above therefore see sentences leave the batch."""
    found = trained().generate(**padded(sources()))
    assert len({(row == END).argmax() for row in found}) > 2


def test_packed_sources_are_taken():
    model, rows = trained(), sources()
    offsets = np.cumsum([0, *map(len, rows)])
    found = model.generate(np.concatenate(rows), sequence_offsets=offsets)
    assert np.array_equal(found, model.generate(**padded(rows)))


def test_no_sources():
    found = trained().generate(np.zeros((0, 4), np.int64))
    assert found.shape == (0, 0)


# --- lengths, scores, modes -----------------------------------------------------------


def test_by_default_a_target_may_have_fifty_tokens_more_than_its_source(caplog):
    model = tiny("vanilla", max_position_embeddings=55).eval()
    with caplog.at_level(logging.WARNING):
        found = model.generate(**padded(sources((1, 3, 9))), eos_token_id=29)
    lengths = (found != 0).sum(1) - 1
    assert lengths.tolist() == [51, 53, 55]
    assert "3 of 3 targets reach max_new_tokens (its default)" in caplog.text


def test_a_length_that_is_reached_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        found = trained().generate(**padded(sources()), max_new_tokens=3)
    assert found.shape == (len(LENGTHS), 4)
    assert "targets reach max_new_tokens (3) without an end" in caplog.text


def test_as_many_tokens_as_there_are_positions():
    model = tiny("vanilla").eval()
    longest = SIZES["max_position_embeddings"]
    found = model.generate([[4, 5]], max_new_tokens=longest, eos_token_id=29)
    assert found.shape == (1, longest + 1)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.5])
def test_scores_are_log_probabilities(length_penalty):
    model = trained(dtype="float64")
    out = model.generate(
        **padded(sources()),
        max_new_tokens=7,
        length_penalty=length_penalty,
        return_dict_in_generate=True,
    )
    scored = zip(sources(), out.sequences, out.sequences_scores, strict=True)
    for row, target, score in scored:
        ids = [1, *[i for i in target[1:] if i != 0]]
        log_p = log_probabilities(model, row, [ids[:-1]])[0]
        chosen = log_p[np.arange(len(ids) - 1), ids[1:]]
        expected = chosen.sum() / len(chosen) ** length_penalty
        assert score == pytest.approx(expected, rel=1e-7)


def test_token_ids_in_place_of_the_configs():
    model = trained()
    ids = padded(sources())
    usual = model.generate(**ids)
    other = model.generate(**ids, pad_token_id=29)
    assert np.array_equal(np.where(other == 29, 0, other), usual)
    started = model.generate(**ids, decoder_start_token_id=5)
    assert (started[:, 0] == 5).all()
    token = int(usual[0, 1])
    ended = model.generate(**ids, eos_token_id=token)
    assert_row(ended[0], [1, token])


def test_dropout_is_off_and_the_mode_stays():
    model = tiny("evolving", dropout=0.5)
    assert model.training
    first = model.generate(**padded(sources()), max_new_tokens=8)
    state = ea.get_rng_state()
    assert np.array_equal(model.generate(**padded(sources()), max_new_tokens=8), first)
    assert ea.get_rng_state() == state
    assert model.training
    model.eval()
    assert np.array_equal(model.generate(**padded(sources()), max_new_tokens=8), first)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_an_interrupted_search_ends_soon_and_leaves_the_model(num_beams):
    model = tiny("evolving")  # untrained: it ends no target early
    rows, limit = padded(sources((20,) * 60)), SIZES["max_position_embeddings"]

    def run():
        return model.generate(
            **rows, num_beams=num_beams, max_new_tokens=limit, early_stopping="never"
        )

    before = time.perf_counter()
    expected = run()
    whole = time.perf_counter() - before

    def stop(*_):
        raise KeyboardInterrupt

    def interrupted():
        before = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, whole / 20)
        with pytest.raises(KeyboardInterrupt):
            run()
        return time.perf_counter() - before

    held = signal.signal(signal.SIGALRM, stop)
    try:
        took = min(interrupted() for _ in range(5))  # a busy machine delays one
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, held)
    assert took < 0.6 * whole
    assert model.training
    assert np.array_equal(run(), expected)


def test_targets_in_the_making_keep_their_model():
    model = trained()
    state = _core.start_target(model._core, padded(sources()), True)
    gone = weakref.ref(model)
    del model
    assert gone() is None
    assert state.next([1] * len(LENGTHS)).shape == (len(LENGTHS), 30)


@pytest.mark.parametrize("expected", [1, 3 * TOKENS, 2**62])
def test_expected_tokens_change_no_score(expected):
    model, rows = trained(), padded(sources()[:3])

    def logits(tokens):
        state, found, used = _core.start_target(model._core, rows, True), [], []
        if tokens:
            state.expect(tokens)
        for t in range(TOKENS):
            found.append(np.asarray(state.next([1, 4 + t % 5, 7])))
            used.append(_core.current_memory())
        return found, used

    plain, grown = logits(None)
    found, used = logits(expected)
    assert np.array_equal(found, plain)
    if expected == 3 * TOKENS:  # keys and values are allocated at the first step
        assert used[-1] - used[0] < grown[-1] - grown[0]
    assert used[0] - grown[0] < 2**28  # too large an expectation is ignored


# --- mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_length": 1}, "max_length = 1, expected 2 to 41"),
        ({"max_length": 9, "max_new_tokens": 9}, "expected one of them"),
        ({"min_new_tokens": -1}, "min_new_tokens = -1, expected 0 or more"),
        ({"min_length": 5, "max_length": 4}, "5, expected at most max_length = 4"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size = -1, expected 0"),
        ({"forced_bos_token_id": 30}, "forced_bos_token_id = 30, expected 0 to 29"),
        ({"forced_eos_token_id": -1}, "forced_eos_token_id = -1, expected 0 to 29"),
        ({"length_penalty_form": "google"}, "'google', expected 'transformers' or"),
        ({"do_sample": True, "top_k": -1}, "top_k = -1, expected 0 or more"),
        ({"do_sample": True, "seed": -1}, "seed = -1, expected 0 or more"),
        ({"do_sample": True, "num_return_sequences": 0}, "= 0, expected 1 to 1000000"),
        ({"alignment_layer": 0}, "=0 has no effect alone, expected output_alignments"),
        (
            {
                "alignment_layer": 2,
                "output_alignments": True,
                "return_dict_in_generate": True,
            },
            "alignment_layer=2, expected -2 to 1",
        ),
        ({"max_new_tokens": 0}, "max_new_tokens = 0, expected 1 to 40"),
        ({"max_new_tokens": 41}, r"41, expected 1 to 40 \(max_position_embeddings\)"),
        ({"max_new_tokens": 3.0}, "max_new_tokens=3.0, expected a whole number"),
        ({"num_beams": 0}, "num_beams = 0, expected 1 to 30"),
        ({"num_beams": 31}, r"num_beams = 31, expected 1 to 30 \(the target's voc"),
        ({"num_beams": True}, "num_beams=True, expected a whole number"),
        ({"num_return_sequences": 2}, "num_return_sequences = 2, expected 1 to 1"),
        ({"length_penalty": float("nan")}, "length_penalty=nan, expected a number"),
        ({"length_penalty": -11}, "length_penalty = -11, expected -10 to 10"),
        ({"num_beams": 2**63}, r"num_beams=9\d+8, expected at most 64 bits"),
        (
            {"max_time": 9},
            "'max_time' is no option; the options are: max_new_tokens, m",
        ),
        ({"early_stopping": "soon"}, "early_stopping='soon', expected True or False"),
        ({"eos_token_id": 30}, "eos_token_id = 30, expected 0 to 29"),
        ({"decoder_start_token_id": -1}, "decoder_start_token_id = -1, expected 0 to"),
        ({"pad_token_id": "x"}, "pad_token_id='x', expected a whole number"),
        ({"use_cache": 1}, "use_cache=1, expected True or False or None"),
        ({"return_dict_in_generate": 1}, "return_dict_in_generate=1, expected True"),
    ],
)
def test_wrong_settings(settings, text):
    with pytest.raises(ea.ConfigError, match=text):
        tiny().generate([[4, 5]], **settings)


def test_mistakes():
    with pytest.raises(ea.InputError, match="input_ids is missing"):
        tiny().generate()
    with pytest.raises(ea.InputError, match=r"input_ids\[0, 1\] = 30"):
        tiny().generate([[4, 30]])
    with pytest.raises(ea.InputError, match="has a sequence of 41 tokens"):
        tiny().generate([[4] * 41])
    literal = tiny("vanilla", cross_attention=Causal(0.0, 0.4, 3, "key_literal"))
    with pytest.raises(ea.ConfigError, match="reads later target tokens"):
        literal.generate([[4, 5]])
    base = tiny(name="TransformerModel")
    with pytest.raises(ea.ConfigError, match=r'token by token.*task="seq2seq_lm"'):
        _core.can_cache(base._core)
    for cached in (True, False):
        state = _core.start_target(trained()._core, {"input_ids": [[4, 5]]}, cached)
        with pytest.raises(ea.ShapeError, match="2 tokens for 1 targets"):
            state.next([1, 1])


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize(
    ("value", "shown"), [(np.nan, "-?nan"), (np.inf, "-?(inf|nan)")]
)
def test_scores_that_are_not_finite(num_beams, value, shown):
    damaged = tiny()
    bias = "transformer.decoder.layer.0.output.dense.bias"
    dict(damaged.named_parameters())[bias].copy_(np.full(SIZES["d_model"], value))
    with pytest.raises(ea.InputError, match=f"is {shown}; the weights are damaged"):
        damaged.generate([[4, 5]], num_beams=num_beams)
    assert damaged.training
