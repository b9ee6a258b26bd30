"""Contract tests of every evolve kind: registering a kind adds it to the tests.

The settings come from the options the core declares (``helpers_models.settings``), so
a new kind, or a new option of one, needs no new test here.
"""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    all_settings,
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    copy_parameters,
    draw,
    labels_for,
    run,
    settings,
    tiny,
)

import evolving_attention as ea
from evolving_attention import _core

KINDS = _core.attention_kinds()["evolve"]
every_setting = pytest.mark.parametrize("setting", all_settings())
one_per_kind = pytest.mark.parametrize(
    "setting", [next(settings(kind)) for kind in KINDS], ids=list(KINDS)
)


def plain(setting):
    """Returns the options as config.json holds them, without those that are None."""
    return {name: value for name, value in setting.items() if value is not None}


# --- declarations -----------------------------------------------------------------


def test_python_and_core_know_the_same_kinds():
    assert set(KINDS) <= set(ea.attention.kinds())
    of_core = {
        kind for kind, cls in ea.attention.kinds().items() if not _is_custom(cls)
    }
    assert of_core == set(KINDS)


def _is_custom(cls):
    return issubclass(cls, ea.attention.CustomEvolve)


@pytest.mark.parametrize("kind", KINDS)
def test_dataclass_declares_what_the_core_declares(kind):
    declared = {o["name"]: o for o in KINDS[kind]["options"]}
    fields = dataclasses.fields(ea.attention.kinds()[kind])
    assert [f.name for f in fields] == list(declared)
    for field in fields:
        option = declared[field.name]
        required = field.default is dataclasses.MISSING
        assert required == option["required"], field.name
        if not required:
            assert field.default == option["default"], field.name
            assert type(field.default) is type(option["default"]), field.name
        assert option["doc"]
    assert KINDS[kind]["paper"]


def wrong_values():
    for kind, description in KINDS.items():
        good = next(settings(kind))
        for option in description["options"]:
            name, low, high = option["name"], option["low"], option["high"]
            bad = ["much", [] if option["per_layer"] else [0.1]]
            if option["type"] in ("float", "int"):
                step = 1 if option["type"] == "int" else 1e-9
                bad += [math.nan, math.inf, True]
                bad += [type(step)(low) - step, type(step)(high) + step]
            if option["type"] == "int":
                bad += [float(low)]
            if option["type"] == "str":
                bad = ["", "Fan_In", 3]
            if option["odd"]:
                bad += [int(low) + 1]
            for value in bad:
                case = {**good, name: value}
                yield pytest.param(case, name, id=f"{kind}-{name}={value}")


@pytest.mark.parametrize(("setting", "name"), list(wrong_values()))
def test_values_out_of_range_are_refused(setting, name):
    with pytest.raises(ea.ConfigError, match=name):
        ea.attention.from_config(setting)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_unknown_options_are_named(kind):
    good = plain(next(settings(kind)))
    with pytest.raises(ea.ConfigError, match="gain"):
        ea.attention.from_config({**good, "gain": 1})
    for option in KINDS[kind]["options"]:
        if option["required"]:
            lacking = {k: v for k, v in good.items() if k != option["name"]}
            with pytest.raises(ea.ConfigError, match=option["name"]):
                ea.attention.from_config(lacking)


@pytest.mark.parametrize("value", ["evolvin", {"alpha": 0.1}, 3, ["predictive"]])
def test_what_is_no_kind_is_refused(value):
    with pytest.raises(ea.ConfigError, match=r"kind|attention="):
        ea.attention.from_config(value)


# --- round trips --------------------------------------------------------------------


@every_setting
def test_config_round_trip(setting):
    kind = ea.attention.from_config(setting)
    assert {**setting, **kind.to_dict()} == setting  # some defaults are left out
    assert ea.attention.from_config(kind.to_dict()) == kind
    config = ea.BertConfig(attention=setting)
    again = ea.BertConfig.from_dict(config.to_dict())
    assert again == config
    assert again.attention == kind
    assert ("attention" in config.to_dict()) == (kind != ea.attention.Vanilla())


@every_setting
def test_save_and_load(setting, tmp_path):
    model = tiny(attention=setting).eval()
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    written = again.config.to_dict()
    assert written.pop("architectures") == ["BertForSequenceClassification"]
    assert written.pop("dtype") == "float32"
    assert written == model.config.to_dict()
    assert again.load_report.new == []
    inputs = draw().packed()
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model(**inputs)))


@every_setting
def test_a_vanilla_checkpoint_gains_exactly_the_parameters_of_the_kind(
    setting, tmp_path
):
    base = tiny()
    base.save_pretrained(tmp_path)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attention=setting
    )
    have = {name for name, _ in base.named_parameters()}
    extra = [name for name, _ in model.named_parameters() if name not in have]
    assert sorted(model.load_report.new) == sorted(extra)
    fresh = dict(model.named_parameters())
    for name in extra:
        assert np.any(np.asarray(fresh[name])) == name.endswith(("weight", "logit")), (
            name
        )


# --- what a kind may not change -------------------------------------------------------


def starts_plain(param):
    """Returns whether the first layer computes L = S.

    Without a skip, a decoder's convolution needs no previous map, so that the first
    layer convolves too.
    """
    setting = param.values[0]
    return setting["kind"] != "evolving_causal" or setting["alpha"] > 0


with_plain_start = pytest.mark.parametrize(
    "setting", list(filter(starts_plain, all_settings()))
)


@with_plain_start
def test_first_layer_has_no_carry(setting):
    base, model = tiny().eval(), tiny(attention=setting).eval()
    copy_parameters(base, model)
    inputs = {**draw().packed(), "output_attention_logits": [0]}
    expected = np.asarray(base(**inputs).attention_logits[0])
    assert np.array_equal(np.asarray(model(**inputs).attention_logits[0]), expected)
    names = {name for name, _ in base.named_parameters()}
    extra = [name for name, _ in model.named_parameters() if name not in names]
    assert not [name for name in extra if ".layer.0." in name]


@with_plain_start
def test_one_layer_equals_the_base_model(setting):
    base = tiny(num_hidden_layers=1).eval()
    model = tiny(attention=setting, num_hidden_layers=1).eval()
    batch = draw()
    inputs = {**batch.packed(), "labels": labels_for(base, batch)}
    for ours, theirs in zip(run(model, **inputs), run(base, **inputs), strict=True):
        assert_same_bits(ours, theirs)


def zero_settings():
    """Yields settings with all per-layer weights 0, for the kinds that have any."""
    for kind, description in KINDS.items():
        weights = [o for o in description["options"] if o["per_layer"]]
        if weights:
            yield {"kind": kind, **{o["name"]: 0.0 for o in weights}}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("setting", list(zero_settings()), ids=lambda s: s["kind"])
def test_weights_of_zero_equal_vanilla_bit_for_bit(setting, dtype):
    base, model = tiny(dtype=dtype), tiny(attention=setting, dtype=dtype)
    names = [name for name, _ in base.named_parameters()]
    assert [name for name, _ in model.named_parameters()] == names
    batch = draw()
    inputs = {
        **batch.packed(),
        "labels": labels_for(base, batch),
        "output_attentions": True,
        "output_hidden_states": True,
    }
    results = []
    for each in (base, model):  # dropout draws the same mask in both
        ea.manual_seed(3)
        results.append(run(each, **inputs))
    for first, second in zip(*results, strict=True):
        assert_same_bits(first, second)


def test_evolving_and_predictive_are_among_the_zero_settings():
    assert {"evolving", "predictive"} <= {s["kind"] for s in zero_settings()}


# --- padding, masks, threads, types ---------------------------------------------------


@every_setting
def test_padding_never_changes_a_result(setting):
    model = tiny(attention=setting).eval()
    batch = draw()
    labels = labels_for(model, batch)
    expected = run(model, **batch.packed(), labels=labels)
    for extra, left in [(0, False), (7, False), (7, True)]:
        found = run(model, **batch.padded(extra, left), labels=labels)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same_bits(ours, theirs)


@every_setting
def test_padding_never_changes_maps(setting):
    model = tiny(attention=setting).eval()
    batch = draw()
    wanted = {"output_attentions": True, "output_attention_logits": True}
    expected = model(**batch.packed(), **wanted)
    for extra, left in [(0, False), (7, False), (7, True)]:
        found = model(**batch.padded(extra, left), **wanted)
        for row, cells in enumerate(batch.valid(extra, left)):
            keep = np.ix_(range(3), cells, cells)
            n = int(cells.sum())
            for name in ("attentions", "attention_logits"):
                for layer, maps in enumerate(getattr(found, name)):
                    theirs = np.asarray(getattr(expected, name)[layer])[row]
                    ours = np.asarray(maps)[row]
                    assert np.array_equal(ours[keep], theirs[:, :n, :n])
                    outside = ours.copy()
                    outside[keep] = 0
                    assert not outside.any()


@every_setting
def test_masked_keys_get_probability_zero_in_every_layer(setting):
    model = tiny(attention=setting).eval()
    rng = np.random.default_rng(4)
    ids = rng.integers(3, 40, (3, 8))
    mask = np.array([[1] * 8, [1, 0, 1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 1, 1, 0, 0]])
    out = model(ids, mask, output_attentions=True)
    assert len(out.attentions) == 3
    for maps in out.attentions:
        p = np.asarray(maps)
        assert np.array_equal(p > 0, np.broadcast_to(allowed(mask), p.shape))
        sums = p.sum(-1)
        assert np.allclose(sums, np.broadcast_to(mask[:, None], sums.shape), atol=1e-6)


def allowed(mask):
    return (mask[:, None, :, None] * mask[:, None, None, :]).astype(bool)


@every_setting
def test_any_number_of_threads_gives_the_same_bits(setting):
    model = tiny(attention=setting)
    batch = draw((30, 17, 3, 38, 21, 1, 40, 25))
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    before, results = ea.get_num_threads(), []
    others = random.Random(str(setting)).sample((2, 3, 4, 7, 8), 2)
    try:
        for threads in (1, *others):
            ea.set_num_threads(threads)
            ea.manual_seed(11)
            results.append(run(model, **inputs))
    finally:
        ea.set_num_threads(before)
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert_same_bits(first, second)


@one_per_kind
def test_bfloat16_stays_near_float32(setting):
    # Two maps are mixed and convolved per layer, each rounded to 8 bits: the logits
    # of three layers stay within 3 % of their size, the loss within 1 %.
    model = tiny(attention=setting, dtype="bfloat16", initializer_range=0.1).eval()
    wide = tiny(attention=setting, initializer_range=0.1).eval()
    copy_parameters(model, wide)
    batch = draw((12, 30, 5))
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    (ours, our_gradients), (theirs, their_gradients) = (
        run(m, **inputs) for m in (model, wide)
    )
    scale = np.abs(theirs["logits"]).max()
    assert np.abs(ours["logits"].astype("f4") - theirs["logits"]).max() < 0.03 * scale
    assert abs(float(ours["loss"]) - float(theirs["loss"])) < 0.01
    for name, gradient in their_gradients.items():
        error = np.linalg.norm(our_gradients[name].astype("f4") - gradient)
        assert error <= 0.08 * np.linalg.norm(gradient) + 1e-4, name


@every_setting
def test_gradients_follow_central_differences(setting):
    options = {**NO_DROPOUT, "attention": setting, "dtype": "float64"}
    model = tiny(initializer_range=0.2, **options)
    batch = draw((4, 6))
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    assert_gradients_are_slopes(model, inputs, abs=1e-7)
