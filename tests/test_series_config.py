"""Settings of EA-DC-Transformer: published sizes, defaults, and round trips."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_series import EVOLVING, LAYERS, SIZES, draw, tiny

import evolving_attention as ea

Config = ea.EADCTransformerConfig


def names(model):
    return {name for name, _ in model.named_parameters()}


# Parameters the released program uses, for 24 channels, 144 steps and one output.
PUBLISHED = {
    (64, 2): 204_049,
    (64, 3): 296_641,
    (64, 4): 389_233,
    (64, 5): 481_825,
    (128, 2): 504_209,
    (128, 3): 736_865,
    (128, 4): 969_521,
    (128, 5): 1_202_177,
}


@pytest.mark.parametrize(("width", "blocks"), PUBLISHED)
def test_parameters_of_the_released_program(width, blocks):
    config = Config(
        channels=24,
        max_length=144,
        hidden_size=width,
        num_blocks=blocks,
        attention=ea.attention.Evolving(0.3, 0.5),
        released_behaviour=True,
    )
    model = ea.EADCTransformerForRegression(config)
    assert model.num_parameters() == PUBLISHED[width, blocks]


@pytest.mark.parametrize(("width", "blocks"), PUBLISHED)
def test_the_paper_adds_the_projection_of_heads_and_one_convolution(width, blocks):
    config = Config(
        channels=24,
        max_length=144,
        hidden_size=width,
        num_blocks=blocks,
        attention=ea.attention.Evolving(0.3, 0.5),
    )
    model = ea.EADCTransformerForRegression(config)
    inner = width // 4
    more = 2 * blocks * (inner * inner + inner) + 584  # W_O, and layer 1's convolution
    assert model.num_parameters() == PUBLISHED[width, blocks] + more


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_operations_counted_by_hand(ratio):
    """Two operations for each cell of every product, layer by layer (Section 3.3)."""
    d, channels, longest, n, ffn, heads, blocks = 16, 3, 10, 7, 12, 2, 2
    options = {
        "attention": ea.attention.Evolving(0.3, 0.5, kernel_size=5),
        "relative": "learned",
        "kernel_size": 3,
    }
    config = Config(
        channels=channels,
        max_length=longest,
        hidden_size=d,
        num_blocks=blocks,
        num_attention_heads=heads,
        attention_ratio=ratio,
        intermediate_size=ffn,
        num_labels=4,
        **options,
    )
    found = ea.profiling.series_flops(config, n)
    layers, inner = 2 * blocks, int(ratio * d)
    projections = n * (3 * d * inner + inner * inner)  # queries, keys, values; W_O
    dense = n * channels * d + layers * (projections + n * 2 * d * ffn)
    pairs = n * n * 2 * inner + n * (2 * n - 1) * inner  # and every distance
    sites = layers - 1 if inner else 0  # the first layer has no map before it
    assert found["dense"] == 2 * (dense + 4 * longest * d)  # the flat head
    assert found["convolution"] == 2 * layers * n * 3 * d * (d - inner)
    assert found["attention"] == 2 * layers * pairs
    assert found["map_conv"] == 2 * sites * n * n * heads**2 * 25
    assert found["total"] == sum(v for k, v in found.items() if k != "total")
    trained = ea.profiling.series_flops(config, n, training=True)
    assert trained == {part: 3 * value for part, value in found.items()}


def test_operations_of_heads_and_of_the_released_program():
    sizes = {"channels": 3, "max_length": 10, "hidden_size": 32, "num_blocks": 2}
    count = ea.profiling.series_flops
    config = Config(**sizes, num_targets=2, num_labels=4)
    body = count(config, head="base")["dense"]
    assert count(config)["dense"] == body + 2 * 4 * 10 * 32
    assert count(config, head="regression")["dense"] == body + 2 * 2 * 10 * 32
    assert count(config, head="pretraining")["dense"] == body + 2 * 10 * 3 * 32
    mlp = {"classifier_hidden_size": 5, "pooling": "mean", "num_labels": 4}
    assert count(Config(**sizes, **mlp))["dense"] == body + 2 * (5 * 32 + 4 * 5)
    evolving = {**sizes, "attention": ea.attention.Evolving(0.3, 0.5)}
    maps = [
        count(Config(**evolving, released_behaviour=released))["map_conv"]
        for released in (False, True)
    ]
    assert maps == [2 * 3 * 100 * 9 * 64, 2 * 2 * 100 * 9 * 64]  # not its first block
    for steps in (0, 11):
        with pytest.raises(ea.ConfigError, match=f"steps={steps}, expected 1 to 10"):
            count(config, steps)


def test_a_ratio_of_zero_has_no_attention_and_of_one_no_convolution():
    without, only = tiny(attention_ratio=0.0), tiny(attention_ratio=1.0)
    assert not [name for name in names(without) if "attention" in name]
    assert not [name for name in names(only) if "convolution" in name]
    assert [name for name in names(only) if "evolving_conv" in name]
    assert without(**draw().packed(), output_attentions=False).attentions is None


def test_where_maps_evolve():
    layers = {n.split(".layer.")[1][0] for n in names(tiny()) if "evolving" in n}
    assert layers == {"1", "2", "3"}
    released = tiny(released_behaviour=True)
    layers = {n.split(".layer.")[1][0] for n in names(released) if "evolving" in n}
    assert layers == {"2", "3"}
    assert not [n for n in names(released) if "attention.output" in n]


def test_a_new_convolution_is_its_direction():
    model = tiny()
    state = model.state_dict()
    for key, value in state.items():
        if key.endswith("weight_v"):
            norm = np.linalg.norm(value.reshape(len(value), -1), axis=1)
            length = state[key[:-1] + "g"]
            assert length.shape == (len(value), 1, 1)
            assert np.allclose(length.ravel(), norm, rtol=1e-6)


def test_dropout_by_behaviour():
    paper, released = (
        tiny(released_behaviour=on, attention=None) for on in (False, True)
    )
    for model, differs in ((paper, True), (released, False)):
        quiet = tiny(
            released_behaviour=model is released,
            attention=None,
            attention_probs_dropout_prob=0.0,
        )
        found = []
        for each in (model, quiet):
            ea.manual_seed(2)
            found.append(np.asarray(each(**draw().packed()).logits))
        assert np.array_equal(*found) != differs


def test_round_trips():
    config = Config(channels=3, max_length=9, attention=EVOLVING, norm="layer")
    again = Config.from_dict(config.to_dict())
    assert again == config
    assert again.attention == EVOLVING
    assert again.num_hidden_layers == 2 * config.num_blocks == 6
    assert again != Config(channels=3, max_length=9, attention=EVOLVING)
    assert Config.from_dict(config.to_dict(), norm="batch").norm == "batch"
    named = Config(channels=1, max_length=4, id2label={0: "low", 1: "high", 2: "none"})
    assert (named.num_labels, named.label2id["none"]) == (3, 2)


def test_the_auto_classes_know_the_family(tmp_path):
    model = tiny()
    model.save_pretrained(tmp_path)
    assert ea.AutoConfig.from_pretrained(tmp_path) == Config.from_pretrained(tmp_path)
    assert type(ea.AutoModel.from_pretrained(tmp_path)) is ea.EADCTransformerModel


def test_chosen_layers():
    out = tiny().eval()(
        **draw().packed(), output_attentions=[-1, 0], output_hidden_states=[LAYERS]
    )
    asked = [i for i, maps in enumerate(out.attentions) if maps is not None]
    assert asked == [0, LAYERS - 1]
    assert [x is not None for x in out.hidden_states] == [False] * LAYERS + [True]


def test_causal_convolutions_do_not_look_ahead():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, 9, SIZES["channels"]))
    later = values.copy()
    later[0, 6:] += 1.0
    for causal in (True, False):
        model = tiny(
            "EADCTransformerModel", "float64", attention_ratio=0.0, causal=causal
        ).eval()
        states = [np.asarray(model(x).last_hidden_state)[0] for x in (values, later)]
        same = np.array_equal(states[0][:6], states[1][:6])
        assert same == causal
        assert not np.array_equal(states[0][6:], states[1][6:])


# --- masks of pre-training ------------------------------------------------------------


def test_spans_have_the_ratio_and_the_mean_that_were_asked_for():
    masked = ea.mask_spans([400] * 50, 4, ratio=0.15, mean_span=3.0, rng=1)
    assert masked.shape == (50, 400, 4)
    assert masked.dtype == bool
    # 80,000 cells in about 4,000 spans: 4 standard deviations are 2.5 % and 5 %.
    assert masked.mean() == pytest.approx(0.15, rel=0.08)
    begins = masked[:, 1:] & ~masked[:, :-1]
    ends = masked[:, :-1] & ~masked[:, 1:]
    lengths = []
    for series in range(50):
        for channel in range(4):
            first = np.flatnonzero(begins[series, :, channel])
            last = np.flatnonzero(ends[series, :, channel])
            last = last[last > (first[0] if len(first) else 0)]
            lengths += list(last[: len(first)] - first[: len(last)])
    assert np.mean(lengths) == pytest.approx(3.0, rel=0.06)
    assert (np.array(lengths) == 1).mean() == pytest.approx(1 / 3, abs=0.03)
    a, b = masked[:, :, 0].ravel(), masked[:, :, 1].ravel()
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.05  # channels are masked independently


def test_masks_follow_the_seed_and_leave_the_padding():
    first = ea.mask_spans([4, 9, 1], 2, rng=3)
    assert np.array_equal(first, ea.mask_spans([4, 9, 1], 2, rng=3))
    generator = np.random.default_rng(3)
    assert np.array_equal(first, ea.mask_spans([4, 9, 1], 2, rng=generator))
    assert not np.array_equal(first, ea.mask_spans([4, 9, 1], 2, rng=generator))
    for seed in range(40):
        masked = ea.mask_spans([4, 9, 1], 2, rng=seed)
        assert not masked[0, 4:].any()
        assert not masked[2, 1:].any()
        assert ea.mask_spans([1], 1, ratio=0.01, rng=seed).sum() == 1


def test_the_loss_is_of_the_masked_cells_alone():
    model = tiny("EADCTransformerForPretraining", "float64").eval()
    batch = draw()
    given = batch.padded()
    masked = ea.mask_spans(batch.lengths, SIZES["channels"], rng=2)
    out = model(**given, masked=masked)
    error = np.asarray(out.logits) - given["values"]
    assert out.loss.item() == pytest.approx((error[masked] ** 2).mean(), rel=1e-12)
    changed = {**given, "values": np.where(masked, 7.0, given["values"])}
    hidden = np.asarray(model(**changed, masked=masked).logits)
    assert np.array_equal(hidden, np.asarray(out.logits))  # masked values are not read
    assert not np.array_equal(np.asarray(model(**changed).logits), hidden)
    assert model(**given).loss is None
