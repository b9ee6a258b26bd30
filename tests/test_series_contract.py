"""Contract of time-series models, for every task class of the package."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers_cifar import CIFAR_NETS
from helpers_images import VITS
from helpers_models import (
    MODELS,
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    run,
)
from helpers_resnet import RESNETS
from helpers_series import (
    EVOLVING,
    HEADS,
    LAYERS,
    LENGTHS,
    NO_DROPOUT,
    SERIES,
    SIZES,
    VARIANTS,
    WIDTH,
    draw,
    pad_masked,
    targets_for,
    tiny,
)
from helpers_t5 import CLASSES as T5S
from helpers_text_nets import CLASSES as NETS
from helpers_transformer import PAIRS

import evolving_attention as ea
from evolving_attention import modeling

every_model = pytest.mark.parametrize("name", SERIES)
every_variant = pytest.mark.parametrize("variant", VARIANTS)
HEADED = [name for name, cls in SERIES.items() if cls.head != "base"]


def test_every_task_class_is_under_contract():
    classes = {
        name
        for name, cls in vars(modeling).items()
        if isinstance(cls, type)
        and issubclass(cls, modeling.PreTrainedModel)
        and hasattr(cls, "head")
    }
    graphs = {"GATModel", "GATForNodeClassification"}  # test_graphs.py
    others = {*PAIRS, *T5S, *VITS, *RESNETS, *CIFAR_NETS, *NETS}
    assert classes == {*MODELS, *SERIES, *others, *graphs}
    heads = {"base", "classification", "regression", "pretraining"}
    assert {cls.head for cls in SERIES.values()} == heads


# --- outputs --------------------------------------------------------------------------


@every_model
def test_shapes(name):
    model = tiny(name).eval()
    batch = draw()
    asked = {
        "output_hidden_states": True,
        "output_attentions": True,
        "output_attention_logits": True,
    }
    out = model(**batch.padded(2), **asked)
    n, t, total = len(LENGTHS), max(LENGTHS) + 2, sum(LENGTHS)
    expected = {
        "base": {"last_hidden_state": (n, t, WIDTH)},
        "classification": {"logits": (n, 3)},
        "regression": {"logits": (n, 2)},
        "pretraining": {"logits": (n, t, SIZES["channels"])},
    }[model.head]
    layers = {"hidden_states", "attentions", "attention_logits"}
    assert {k: v.shape for k, v in dict(out).items() if k not in layers} == expected
    assert {i: s.shape for i, s in enumerate(out.hidden_states)} == {
        i: (n, t, WIDTH) for i in range(LAYERS + 1)
    }
    for maps in (out.attentions, out.attention_logits):
        assert {i: m.shape for i, m in enumerate(maps)} == {
            i: (n, HEADS, t, t) for i in range(LAYERS)
        }
    sums = np.asarray(out.attentions[1]).sum(-1)
    assert np.allclose(sums, batch.valid(2)[:, None], atol=1e-6)
    packed = model(**batch.packed())
    for key, shape in expected.items():
        rows = (total, *shape[2:]) if len(shape) == 3 else shape
        assert packed[key].shape == rows, key


@every_model
@every_variant
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_padding_changes_no_bit(name, variant, mode):
    model = tiny(name, **VARIANTS[variant]).train(mode == "train")
    if mode == "eval":  # non-trivial running statistics
        tiny_batch = draw(seed=7).packed()
        model.train()(**tiny_batch)
        model.eval()
    batch = draw()
    targets = targets_for(model, batch)
    before = {key: value.copy() for key, value in model.state_dict().items()}
    ea.manual_seed(5)
    expected, grads = run(model, **batch.packed(), **targets)
    moved = {key: value.copy() for key, value in model.state_dict().items()}
    assert (mode == "train" and variant != "layer norm") == any(
        before[key].tobytes() != moved[key].tobytes() for key in before
    )
    for extra, filler in [(0, np.nan), (3, 1e30), (3, np.inf)]:
        valid = batch.valid(extra)
        model.load_state_dict(before)
        ea.manual_seed(5)
        inputs = {**batch.padded(extra, filler), **pad_masked(targets, valid)}
        found, found_grads = run(model, **inputs)
        assert_same_bits(found_grads, grads)
        assert_same_bits(model.state_dict(), moved)
        for key, value in found.items():
            rows = value[valid] if value.shape[:2] == valid.shape else value
            assert np.array_equal(rows, expected[key]), key
            if rows is not value:
                assert not value[~valid].any()


@every_variant
def test_a_series_is_evaluated_as_if_alone(variant):
    model = tiny(**VARIANTS[variant])
    model(**draw(seed=7).packed())
    model.eval()
    batch = draw()
    together = np.asarray(model(**batch.packed()).logits)
    for i, row in enumerate(batch.rows):
        alone = np.asarray(model(row[None]).logits)
        assert np.abs(alone[0] - together[i]).max() < 2e-6 * np.abs(together).max()
    with ea.no_grad():
        together = np.asarray(model(**batch.packed()).logits)
        for i, row in enumerate(batch.rows):
            assert np.array_equal(np.asarray(model(row[None]).logits)[0], together[i])


@every_model
def test_asking_for_outputs_changes_nothing_else(name):
    model = tiny(name).eval()
    batch = draw()
    inputs = {**batch.packed(), **targets_for(model, batch)}
    plain, grads = run(model, **inputs)
    asked, asked_grads = run(
        model, **inputs, output_hidden_states=True, output_attentions=[-1]
    )
    last = model(**inputs, output_attentions=[-1]).attentions
    assert [x is not None for x in last] == [False] * (LAYERS - 1) + [True]
    assert_same_bits(plain, {k: v for k, v in asked.items() if k in plain})
    assert_same_bits(grads, asked_grads)


# --- training -------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_training_lowers_the_loss(name, dtype):
    model = tiny(name, dtype, **NO_DROPOUT)
    batch = draw((8, 12, 5, 11, 9, 7))
    inputs = {**batch.packed(), **targets_for(model, batch)}
    losses = []
    optimizer = ea.optim.RAdam(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    for _ in range(25):
        loss = model(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.7 * losses[0]


@every_model
@every_variant
def test_every_parameter_gets_a_gradient(name, variant):
    model = tiny(name, **VARIANTS[variant])
    batch = draw()
    _, grads = run(model, **batch.packed(), **targets_for(model, batch))
    silent = [n for n, _ in model.named_parameters() if n not in grads]
    assert silent == []
    # Batch norm removes constants added before it; softmax removes those of keys.
    constant = ("key.bias", "convolution.bias", "self.value.bias", "output.dense.bias")
    zero = [n for n, g in grads.items() if not g.any() and not n.endswith(constant)]
    assert zero == []


@every_variant
@pytest.mark.parametrize("name", HEADED)
def test_gradients_follow_central_differences(name, variant):
    model = tiny(name, "float64", **{**NO_DROPOUT, **VARIANTS[variant]})
    batch = draw((4, 6, 1))
    inputs = {**batch.packed(), **targets_for(model, batch)}
    assert_gradients_are_slopes(model, inputs, rel=1e-5, abs=2e-7)


def test_the_input_gets_a_gradient():
    model = tiny(dtype="float64", **NO_DROPOUT).eval()
    batch = draw((4, 6))
    given = batch.padded(filler=0.0)
    values = ea.Tensor(given["values"], requires_grad=True)
    model(values, given["lengths"], [0, 1]).loss.backward()
    grad = np.asarray(values.grad)
    assert grad.shape == values.shape
    assert grad[batch.valid()].any(-1).all()
    assert not grad[~batch.valid()].any()


@every_model
@every_variant
def test_eval_is_deterministic_and_training_follows_the_seed(name, variant):
    model = tiny(name, **VARIANTS[variant])
    inputs = draw().packed()
    held = {key: value.copy() for key, value in model.state_dict().items()}

    def result(seed=None):
        model.load_state_dict(held)
        if seed is not None:
            ea.manual_seed(seed)
        return arrays_of(model(**inputs))

    first, second = result(1), result()
    key = next(iter(first))
    assert not np.array_equal(first[key], second[key])
    assert_same_bits(result(1), first)
    model.eval()
    assert_same_bits(result(1), result(2))
    state = ea.get_rng_state()
    result()
    assert ea.get_rng_state() == state  # eval draws no random numbers


@every_variant
def test_any_number_of_threads_gives_the_same_bits(variant):
    count, found = ea.get_num_threads(), []
    batch = draw((12, 7, 3, 12, 9, 1, 12, 11) * 3)
    try:
        for threads in (1, 2, 3):
            ea.set_num_threads(threads)
            model = tiny(**VARIANTS[variant])
            ea.manual_seed(3)
            found.append(run(model, **batch.packed(), **targets_for(model, batch)))
    finally:
        ea.set_num_threads(count)
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            assert_same_bits(first, second)


@every_model
@every_variant
def test_gradient_checkpointing_keeps_every_bit(name, variant):
    batch, found = draw(), []
    for on in (False, True):
        model = tiny(name, **VARIANTS[variant])
        if on:
            model.gradient_checkpointing_enable()
        ea.manual_seed(4)
        inputs = {**batch.packed(), **targets_for(model, batch)}
        found.append([*run(model, **inputs), model.state_dict()])
    for first, second in zip(*found, strict=True):
        assert_same_bits(first, second)


@pytest.mark.parametrize("path", [*ea.fast_paths(), "all"])
@pytest.mark.parametrize("variant", ["EA-DC", "DC", "released", "relative"])
def test_what_stands_behind_a_fast_path_gives_the_same(variant, path):
    batch, found = draw((9, 12, 5)), []
    # Before a batch norm, gradients of biases are rounding errors only.
    options = {**NO_DROPOUT, "norm": "layer", **VARIANTS[variant]}
    for on in (True, False):
        ea.set_fast_path(path, on)
        model = tiny(**options)
        found.append(run(model, **batch.packed(), **targets_for(model, batch)))
    for fast, plain in zip(*found, strict=True):
        floor = 1e-2 * max(np.abs(value).max() for value in plain.values())
        for key, value in plain.items():
            scale = max(np.abs(value).max(), floor)
            assert np.abs(fast[key] - value).max() <= 3e-5 * scale, key


@dataclasses.dataclass(frozen=True)
class Halved(ea.attention.CustomEvolve):
    """L = S / 2 + gain M: a kind in Python with one parameter."""

    kind = "halved"

    def parameters(self, layer, num_heads):
        return {"gain": np.full(1, 0.25)} if layer else {}

    def step(self, scores, previous, context):
        half = scores * 0.5
        return (
            half if previous is None else half + previous * context.parameters["gain"]
        )


def test_a_kind_of_ones_own():
    model = tiny(attention=Halved(), **NO_DROPOUT)
    name = "transformer.encoder.layer.3.attention.self.evolve.gain"
    assert name in dict(model.named_parameters())
    batch = draw()
    _, grads = run(model, **batch.packed(), **targets_for(model, batch))
    assert grads[name].any()


# --- files ----------------------------------------------------------------------------


@every_model
@every_variant
def test_save_and_load_keep_every_bit(name, variant, tmp_path):
    model = tiny(name, **VARIANTS[variant])
    model(**draw(seed=7).packed())  # non-trivial running statistics
    model.eval().save_pretrained(tmp_path)
    again = SERIES[name].from_pretrained(tmp_path)
    assert not again.training
    assert again.load_report.new == []
    assert again.config.attention == model.config.attention
    written = again.config.to_dict()
    assert written.pop("architectures") == [name]
    assert written.pop("dtype") == "float32"
    assert written == model.config.to_dict()
    assert_same_bits(again.state_dict(), model.state_dict())
    inputs = draw().packed()
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model(**inputs)))


@pytest.mark.parametrize("name", HEADED)
def test_pre_training_hands_its_body_over(name, tmp_path):
    first = tiny("EADCTransformerForPretraining")
    first(**draw(seed=7).packed())
    first.eval().save_pretrained(tmp_path)
    model = SERIES[name].from_pretrained(tmp_path, num_labels=4)
    held = first.state_dict()
    own = [key for key in model.state_dict() if not key.startswith("transformer.")]
    if name != "EADCTransformerForPretraining":
        assert sorted(model.load_report.new) == sorted(own)
    for key, value in model.state_dict().items():
        if key.startswith("transformer."):
            assert value.tobytes() == held[key].tobytes(), key
    base = ea.EADCTransformerModel.from_pretrained(tmp_path)
    inputs = {**draw().packed(), "output_hidden_states": [LAYERS]}
    expected = np.asarray(first(**inputs).hidden_states[LAYERS])
    assert np.array_equal(np.asarray(base(**inputs).last_hidden_state), expected)


@every_model
def test_copies_and_element_types(name):
    model = tiny(name)
    model(**draw(seed=7).packed())
    copy = model.eval().copy()
    assert_same_bits(copy.state_dict(), model.state_dict())
    for dtype in ("bfloat16", "float64"):
        other = model.copy(dtype)
        assert other.dtype == dtype
        found = arrays_of(other(**draw().packed()))
        for key, value in arrays_of(model(**draw().packed())).items():
            error = np.abs(found[key].astype("f8") - value).max()
            bound = 0.06 if dtype == "bfloat16" else 1e-4
            assert error < bound * np.abs(value).max(), key


def test_evolving_parameters_are_new_in_a_vanilla_checkpoint(tmp_path):
    tiny(attention=None).save_pretrained(tmp_path)
    model = SERIES["EADCTransformerForClassification"].from_pretrained(
        tmp_path, attention=EVOLVING
    )
    assert len(model.load_report.new) == 2 * (LAYERS - 1)
    assert all("evolving_conv" in key for key in model.load_report.new)
