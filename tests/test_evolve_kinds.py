"""The four kinds of the core against NumPy transcriptions of the papers' equations.

The scores S of every layer are recomputed from the model's own hidden states and
weights; the oracles in ``reference/`` then say what maps and probabilities follow.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers_models import draw, tiny
from reference import evolving, predictive, realformer

import evolving_attention as ea
from evolving_attention import _core

HEADS, LAYERS, WIDTH = 3, 4, 24
# Maps and probabilities are of order 1; float32's bound covers sums of four layers.
BOUNDS = {"float32": 1e-5, "float64": 1e-12}


def build(attention, dtype="float64", **options):
    sizes = {"num_hidden_layers": LAYERS, "initializer_range": 0.2, **options}
    return tiny("BertModel", attention, dtype, **sizes).eval()


def weights_of(model):
    return {k: v.astype(np.float64) for k, v in model.state_dict().items()}


def run_layers(model, batch):
    """Returns maps, probabilities and scores recomputed in float64, by sequence.

    Each entry is (scores, maps, probabilities), all [layers, heads, n, n].
    """
    depth = model.config.num_hidden_layers
    out = model(
        **batch.packed(),
        output_hidden_states=True,
        output_attentions=True,
        output_attention_logits=True,
    )
    state, found = weights_of(model), []
    begins = np.cumsum([0, *batch.lengths])
    for row, n in enumerate(batch.lengths):
        scores, maps, probabilities = [], [], []
        for i in range(depth):
            hidden = np.asarray(out.hidden_states[i], np.float64)
            hidden = hidden[begins[row] : begins[row + 1]]
            scores.append(score(state, f"encoder.layer.{i}.attention.self", hidden))
            maps.append(np.asarray(out.attention_logits[i])[row, :, :n, :n])
            probabilities.append(np.asarray(out.attentions[i])[row, :, :n, :n])
        found.append(tuple(np.stack(part) for part in (scores, maps, probabilities)))
    return found


def score(state, name, hidden):
    """S = Q K^T / sqrt(d), [heads, n, n]."""
    q, k = (
        (hidden @ state[f"{name}.{part}.weight"].T + state[f"{name}.{part}.bias"])
        .reshape(len(hidden), HEADS, -1)
        .transpose(1, 0, 2)
        for part in ("query", "key")
    )
    return q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])


def convolutions(model, part):
    """Returns each layer's weights or biases; zeros for the first, which has none."""
    state = weights_of(model)
    name = "encoder.layer.{}.attention.self.evolving_conv." + part
    first = np.zeros_like(state[name.format(1)])
    return [first, *(state[name.format(i)] for i in range(1, LAYERS))]


def compare(found, oracle, bound):
    for scores, maps, probabilities in found:
        expected, expected_probabilities = oracle(scores)
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(maps - expected).max() <= bound * scale
        assert np.abs(probabilities - expected_probabilities).max() <= bound


both_types = pytest.mark.parametrize("dtype", BOUNDS)


@both_types
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.2), (0.5, 1.0), (0.0, 0.3)])
def test_evolving_maps(alpha, beta, kernel, dtype):
    model = build(ea.attention.Evolving(alpha, beta, kernel), dtype)
    shape_conv(model)
    weights, biases = (convolutions(model, part) for part in ("weight", "bias"))
    compare(
        run_layers(model, draw((6, 1, 9))),
        lambda s: evolving.chain(s, weights, biases, alpha, beta),
        BOUNDS[dtype],
    )


def shape_conv(model):
    """Sets the convolutions' biases, which start at 0, to random values."""
    rng = np.random.default_rng(2)
    for name, tensor in model.named_parameters():
        if "evolving_conv" in name and name.endswith("bias"):
            tensor.copy_(rng.normal(0.0, 0.2, tensor.shape))


@both_types
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_evolving_without_convolution_is_a_convex_mix(alpha, dtype):
    model = build(ea.attention.Evolving(alpha, 0.0), dtype)
    compare(
        run_layers(model, draw((6, 1, 9))),
        lambda s: evolving.chain(s, None, None, alpha, 0.0),
        BOUNDS[dtype],
    )


@both_types
@pytest.mark.parametrize("running_mean", [False, True, None])
def test_residual_maps(running_mean, dtype):
    model = build(ea.attention.Residual(running_mean), dtype)
    compare(
        run_layers(model, draw((6, 1, 9))),
        lambda s: realformer.chain(s, bool(running_mean)),
        BOUNDS[dtype],
    )


@pytest.mark.parametrize(("layers", "divides"), [(24, False), (25, True)])
def test_residual_divides_by_default_only_deeper_than_24_layers(layers, divides):
    model = build(ea.attention.Residual(), num_hidden_layers=layers)
    compare(
        run_layers(model, draw((4,))),
        lambda s: realformer.chain(s, divides),
        1e-11,
    )


@both_types
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_predictive_maps(depth, alpha, dtype):
    model = build(ea.attention.Predictive(alpha, depth), dtype)
    shape_conv(model)
    weights, biases = predictive_convolutions(model, depth)
    compare(
        run_layers(model, draw((6, 1, 9))),
        lambda s: predictive.chain(s, weights, biases, alpha),
        BOUNDS[dtype],
    )


def predictive_convolutions(model, depth):
    state = weights_of(model)
    names = [f"evolving_conv.{i}" for i in range(depth)]
    if depth == 1:
        names = ["evolving_conv"]
    return tuple(
        [
            [
                state[f"encoder.layer.{layer}.attention.self.{name}.{part}"]
                for name in (names if layer else [])
            ]
            for layer in range(LAYERS)
        ]
        for part in ("weight", "bias")
    )


# --- parameters ---------------------------------------------------------------------

KINDS = {
    "vanilla": (ea.attention.Vanilla(), {}),
    "evolving": (
        ea.attention.Evolving(0.1, 0.2),
        {"evolving_conv.weight": (3, 3, 3, 3), "evolving_conv.bias": (3,)},
    ),
    "evolving 5x5": (
        ea.attention.Evolving(0.1, 0.2, kernel_size=5),
        {"evolving_conv.weight": (3, 3, 5, 5), "evolving_conv.bias": (3,)},
    ),
    "evolving 1x1": (
        ea.attention.Evolving(0.0, 1.0, kernel_size=1),
        {"evolving_conv.weight": (3, 3, 1, 1), "evolving_conv.bias": (3,)},
    ),
    "evolving without convolution": (ea.attention.Evolving(0.5, 0.0), {}),
    "residual": (ea.attention.Residual(), {}),
    "predictive": (
        ea.attention.Predictive(0.1),
        {"evolving_conv.weight": (3, 3, 3, 3), "evolving_conv.bias": (3,)},
    ),
    "predictive without convolution": (ea.attention.Predictive(0.1, 0), {}),
    "predictive of weight 0": (ea.attention.Predictive(0.0, 2), {}),
    "predictive twice": (
        ea.attention.Predictive(0.1, 2),
        {
            f"evolving_conv.{i}.{part}": shape
            for i in range(2)
            for part, shape in (("weight", (3, 3, 3, 3)), ("bias", (3,)))
        },
    ),
}


@pytest.mark.parametrize("name", ["BertForMaskedLM", "RobertaModel"])
@pytest.mark.parametrize("case", KINDS)
def test_names_and_shapes_of_convolutions(case, name):
    attention, expected = KINDS[case]
    base, model = tiny(name), tiny(name, attention)
    plain = {n for n, _ in base.named_parameters()}
    prefix = "bert." if name == "BertForMaskedLM" else ""
    found = {n: t.shape for n, t in model.named_parameters() if n not in plain}
    assert found == {
        f"{prefix}encoder.layer.{layer}.attention.self.{part}": shape
        for layer, (part, shape) in itertools.product((1, 2), expected.items())
    }


LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
# architecture, sizes, parameters of the vanilla model with its pooler
COUNTS = {
    "BERT-Base": ("bert", {}, 109_482_240),
    "BERT-Large": ("bert", LARGE, 335_141_888),
    "RoBERTa-Large": ("roberta", LARGE, 355_359_744),
}


@pytest.mark.parametrize("case", COUNTS)
def test_parameter_counts(case):
    architecture, sizes, expected = COUNTS[case]
    cls = {"bert": ea.BertConfig, "roberta": ea.RobertaConfig}[architecture]
    config = cls(attention=ea.attention.Evolving(0.1, 0.1), **sizes)
    # Built but not initialised: drawing so many random values would take long.
    options = {**config.core_options(), "head": "base"}
    model = _core.create_model(architecture, options, "bfloat16")
    model.allocate()
    count = sum(tensor.size for _, tensor in model.named_parameters())
    del model
    _core.release_cached_memory()
    heads, sites = config.num_attention_heads, config.num_hidden_layers - 1
    assert count == expected + sites * (9 * heads**2 + heads)


def test_fan_in_draws_a_truncated_normal():
    heads, layers = 12, 20
    kind = ea.attention.Evolving(0.1, 0.1)
    options = {"num_attention_heads": heads, "num_hidden_layers": layers}
    model = tiny("BertModel", kind, **options)
    named = dict(model.named_parameters())
    values = np.concatenate(
        [
            np.asarray(named[f"encoder.layer.{i}.attention.self.evolving_conv.weight"])
            for i in range(1, layers)
        ],
        axis=None,
    )
    deviation = (9 * heads) ** -0.5
    assert values.std() == pytest.approx(deviation, rel=0.02)
    assert abs(values.mean()) < 0.03 * deviation
    assert np.abs(values).max() <= 2 * deviation / 0.8796 * 1.0001
    assert np.abs(values).max() > 2 * deviation


def test_identity_starts_as_a_pass_through():
    kind = ea.attention.Evolving(0.0, 1.0, conv_init="identity")
    model = build(kind, initializer_range=0.2)
    named = dict(model.named_parameters())
    weight = np.asarray(named["encoder.layer.1.attention.self.evolving_conv.weight"])
    expected = np.zeros((HEADS, HEADS, 3, 3))
    expected[range(HEADS), range(HEADS), 1, 1] = 1
    assert np.array_equal(weight, expected)
