"""The contract of the attention layer, for every combination of slots it accepts."""

from __future__ import annotations

import copy
import itertools
import re

import numpy as np
import pytest
from helpers_gradient import check_slopes
from helpers_models import setting_id, settings
from support.toy_scopes import Edges, Window

import evolving_attention as ea
from evolving_attention import _core

KINDS = _core.attention_kinds()
HEADS, WIDTH, LENGTHS = 2, 6, (5, 1, 7)
SIZED = {
    kind
    for kind, described in KINDS["score"].items()
    if "max_length" in [option["name"] for option in described["options"]]
}
SCORES = [
    *({"kind": k} | ({"max_length": 7} if k in SIZED else {}) for k in KINDS["score"]),
    {"kind": "dot", "scale": 1.0},
    {"kind": "dense_synthesizer", "max_length": 8, "dot": True},
]
SCOPES = [
    {"kind": "dense"},
    {"kind": "dense", "causal": True},
    {"kind": "window", "size": 3},
    Window(),
    Edges(),
]
BIASES = [
    {"kind": "none"},
    {"kind": "relative", "max_distance": 2},
    {"kind": "relative", "max_distance": 9, "values": True},
    {"kind": "buckets", "num_buckets": 4, "max_distance": 4},
    {"kind": "relative_2d", "height": 2, "width": 3},
]
FIRST = [next(settings(kind)) for kind in KINDS["evolve"]]
EVOLVES = [
    *FIRST,
    *({**s, "kernel_size": 1} for s in FIRST if "kernel_size" in s),
    {"kind": "predictive", "alpha": 0.4, "num_layers": 2},
]


def name_of(slot):
    return setting_id(slot if isinstance(slot, dict) else slot.to_dict())


def accepted():
    """Yields every combination of slots that the core's constructor accepts."""
    for score, scope, bias, evolve in itertools.product(
        SCORES, SCOPES, BIASES, EVOLVES
    ):
        try:
            spec = ea.attention.Spec(score, scope, bias, evolve)
        except ea.ConfigError:
            continue
        yield spec, tuple(map(name_of, (score, scope, bias, evolve)))


def specs_of(combinations):
    return pytest.mark.parametrize(
        "spec", [pytest.param(spec, id=" ".join(names)) for spec, names in combinations]
    )


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


class Chain:
    """Three attention layers, each fed with the map of the previous one."""

    def __init__(self, spec, dtype="float64", seed=1, **sizes):
        ea.manual_seed(seed)
        rng, self.layers = np.random.default_rng(seed), []
        for layer in range(3):
            made = _core.Attention(
                spec.to_core(),
                WIDTH,
                HEADS,
                layer=layer,
                num_layers=3,
                dtype=dtype,
                **sizes,
            )
            made.initialize({name for name, _ in made.named_parameters()})
            for name, tensor in made.named_parameters():
                if name.endswith("bias"):  # ReLU has no derivative at 0
                    tensor.copy_(rng.normal(0.0, 0.3, tensor.shape))
            self.layers.append(made)

    def __call__(self, x, lengths, memory=None, memory_lengths=None):
        packing = ea.functional.Packing(HEADS, offsets_of(lengths))
        other = None
        if memory is not None:
            other = ea.functional.Packing(HEADS, offsets_of(memory_lengths))
        carry, outputs = None, []
        for layer in self.layers:
            out = layer.forward(x, packing, memory, other, carry)
            carry = out.carry
            outputs.append(out.context)
        return outputs[0] + outputs[1] + outputs[2]

    def parameters(self):
        return [p for layer in self.layers for _, p in layer.named_parameters()]


def rows(lengths, seed=0, width=WIDTH):
    return np.random.default_rng(seed).standard_normal((sum(lengths), width))


ALL = list(accepted())


def test_the_combinations_are_what_they_should_be():
    specs = [spec for spec, _ in ALL]
    assert len({spec.scope for spec in specs}) == 5
    assert {spec.score.kind for spec in specs} == set(KINDS["score"])
    grids = {spec.bias.kind for spec in specs if spec.scope in SCOPES[2:]}
    assert grids == {"none"}  # relative positions need a grid


@specs_of(ALL)
def test_contract(spec):
    chain = Chain(spec)
    x = ea.Tensor(rows(LENGTHS), requires_grad=True)
    weights = rows(LENGTHS, 5)
    out = chain(x, LENGTHS)
    (out * ea.Tensor(weights)).sum().backward()
    assert np.isfinite(np.asarray(out)).all()

    # sequences are independent: each alone gives the same rows
    parts = np.split(np.asarray(x.detach()), np.cumsum(LENGTHS)[:-1])
    alone = [np.asarray(chain(ea.Tensor(part), (len(part),))) for part in parts]
    assert np.allclose(np.concatenate(alone), np.asarray(out), atol=1e-12)

    # gradients of the input and of every parameter equal finite differences
    def loss():
        with ea.no_grad():
            return float((np.asarray(chain(x, LENGTHS)) * weights).sum())

    assert all(tensor.grad is not None for tensor in (x, *chain.parameters()))
    check_slopes((x, *chain.parameters()), loss, abs=2e-6)

    if isinstance(spec.scope, ea.attention.Dense) and spec.scope.causal:
        later = np.array(x.detach())
        later[3] += 1.0  # a token of the first sequence
        moved = np.asarray(chain(ea.Tensor(later), LENGTHS))
        assert np.array_equal(moved[:3], np.asarray(out)[:3])
        assert not np.array_equal(moved[3:5], np.asarray(out)[3:5])


@pytest.mark.parametrize("farthest", [16, 1500])
def test_relative_values_of_a_short_text_have_its_bits_in_any_batch(farthest):
    relative = ea.attention.RelativePositions(farthest, values=True)
    chain = Chain(ea.attention.Spec(bias=relative), "float32")
    lengths = (33, 7, 600, 9, 1, 550, 2)
    x = rows(lengths).astype("f4")
    with ea.no_grad():
        together = np.asarray(chain(ea.Tensor(x), lengths))
        for begin, n in zip(offsets_of(lengths), lengths, strict=False):
            part = slice(begin, begin + n)
            alone = np.asarray(chain(ea.Tensor(x[part]), (n,)))
            assert np.array_equal(alone, together[part]), n


@specs_of(ALL[:: max(1, len(ALL) // 40)])
def test_threads_and_element_types(spec):
    chain = Chain(spec, "float32")
    x = rows(LENGTHS).astype("f4")
    before, results = ea.get_num_threads(), []
    try:
        for threads in (1, 3):
            ea.set_num_threads(threads)
            results.append(np.asarray(chain(ea.Tensor(x), LENGTHS)))
    finally:
        ea.set_num_threads(before)
    assert np.array_equal(*results)
    narrow = Chain(spec, "bfloat16")
    for mine, theirs in zip(narrow.parameters(), chain.parameters(), strict=True):
        mine.copy_(np.asarray(theirs))
    found = np.asarray(narrow(ea.Tensor(x, dtype="bfloat16"), LENGTHS)).astype("f4")
    scale = np.abs(results[0]).max()
    assert np.abs(found - results[0]).max() < 0.05 * scale


@pytest.mark.parametrize("scope", SCOPES[:2], ids=name_of)
@pytest.mark.parametrize("score", SCORES, ids=name_of)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_weights_of_zero_are_vanilla(score, scope, dtype):
    x = ea.Tensor(rows(LENGTHS), dtype=dtype)
    found = [
        np.asarray(
            Chain(ea.attention.Spec(score, scope, None, evolve), dtype)(x, LENGTHS)
        )
        for evolve in ("vanilla", ea.attention.Evolving(0.0, 0.0))
    ]
    assert np.array_equal(*found)


@specs_of([one for one in ALL if isinstance(one[0].scope, ea.attention.Dense)][::47])
def test_cross_attention_between_two_packed_batches(spec):
    asking, answering = (4, 2, 3), (2, 5, 1)
    q = ea.Tensor(rows(asking), requires_grad=True)
    m = ea.Tensor(rows(answering, 1, 10), requires_grad=True)
    weights = rows(asking, 5)
    chain = Chain(spec, memory_size=10)
    whole = chain(q, asking, m, answering)
    (whole * ea.Tensor(weights)).sum().backward()

    def loss():
        with ea.no_grad():
            return float((np.asarray(chain(q, asking, m, answering)) * weights).sum())

    check_slopes((q, m, *chain.parameters()), loss, abs=2e-6)
    parts = [
        np.split(np.asarray(x.detach()), np.cumsum(lengths)[:-1])
        for x, lengths in ((q, asking), (m, answering))
    ]
    alone = [
        np.asarray(chain(ea.Tensor(qb), (len(qb),), ea.Tensor(mb), (len(mb),)))
        for qb, mb in zip(*parts, strict=True)
    ]
    assert np.allclose(np.concatenate(alone), np.asarray(whole), atol=1e-12)


def test_queries_and_memory_have_as_many_sequences():
    chain = Chain(ea.attention.Spec(), memory_size=10)
    q, m = ea.Tensor(rows((4, 2, 3))), ea.Tensor(rows((2, 6), 1, 10))
    with pytest.raises(ea.ShapeError, match=r"3 sequences of queries and 2 of keys"):
        chain(q, (4, 2, 3), m, (2, 6))


def test_edges_need_a_packing_with_a_graph():
    chain = Chain(ea.attention.Spec(scope="edges"))
    with pytest.raises(ea.ConfigError, match="needs a graph between the tokens"):
        chain(ea.Tensor(rows(LENGTHS)), LENGTHS)


@pytest.mark.parametrize("fused", [True, False])
def test_keys_and_values_may_have_other_widths(fused):
    ea.set_fast_path("fused_attention", fused)
    spec = ea.attention.Spec(evolve=ea.attention.Evolving(0.3, 0.4))
    x = ea.Tensor(rows(LENGTHS), requires_grad=True)
    chain = Chain(spec, head_key_width=5, head_value_width=2)
    out = chain(x, LENGTHS)
    assert out.shape == (sum(LENGTHS), 4)
    names = {n: p.shape for n, p in chain.layers[0].named_parameters()}
    assert names["query.weight"] == names["key.weight"] == (10, WIDTH)
    assert names["value.weight"] == (4, WIDTH)


def test_a_chain_restarts_where_maps_change():
    """With another head count or other sequences, L = S as in a first layer."""
    spec = ea.attention.Spec(evolve=ea.attention.Evolving(0.3, 0.4))
    x, packing = ea.Tensor(rows((4,))), ea.functional.Packing(2, [0, 4])
    first = Chain(spec).layers[0].forward(x, packing)
    ea.manual_seed(3)
    wide = _core.Attention(
        spec.to_core(), WIDTH, 3, layer=1, num_layers=3, dtype="float64"
    )
    wide.initialize({name for name, _ in wide.named_parameters()})
    restarted = wide.forward(x, packing, None, None, first.carry)
    fresh = wide.forward(x, packing)
    assert np.array_equal(restarted.context, fresh.context)
    assert restarted.carry.packing.num_heads == 3
    again = wide.forward(x, packing, None, None, fresh.carry)
    assert not np.array_equal(again.context, fresh.context)


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        (
            {"scope": Edges(), "evolve": ea.attention.Evolving(0.1, 0.1)},
            "kernel_size=1",
        ),
        ({"scope": Window(), "bias": ea.attention.RelativePositions(3)}, "dense"),
        (
            {
                "scope": {"kind": "dense", "causal": True},
                "evolve": {"kind": "predictive", "alpha": 0.1},
            },
            "maps of later queries",
        ),
        ({"score": "dots"}, r"did you mean 'dot'"),
        ({"scope": {"kind": "dense", "causal": "yes"}}, "causal='yes'"),
        ({"bias": {"kind": "relative"}}, "needs max_distance"),
        ({"evolve": 3}, "slot evolve"),
    ],
)
def test_what_cannot_stand_together_is_refused(slots, text):
    with pytest.raises(ea.ConfigError, match=text):
        ea.attention.Spec(**slots)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ea.BertConfig(attention="additive"), "Spec(score='additive')"),
        (
            lambda: ea.BertConfig(attention={"kind": "relative", "max_distance": 3}),
            "Spec(bias={'kind': 'relative', 'max_distance': 3})",
        ),
        (
            lambda: ea.BertConfig(attention=ea.attention.Additive()),
            "Spec(score=Additive())",
        ),
        (lambda: ea.attention.Spec(ea.attention.Residual()), "Spec(evolve=Residual("),
        (lambda: ea.BertConfig(attention={"kind": ["evolving"]}), "kind ['evolving']"),
        (lambda: ea.attention.Spec({"kind": []}), "score kind [] is not known"),
        (lambda: ea.attention.Window(2**63 + 1), "Window: size is a number of 64 bits"),
        (lambda: ea.attention.Dot(10**30), "Dot: scale is a number of 100 bits"),
        (lambda: ea.attention.Evolving([], 0.1), "Evolving: alpha=[], expected"),
        (lambda: ea.attention.Predictive(np.zeros(0)), "Predictive: alpha=[]"),
    ],
)
def test_what_no_slot_takes_is_refused_with_a_remedy(make, text):
    with pytest.raises(ea.ConfigError, match=re.escape(text)):
        make()


SPECS = [
    ea.attention.Spec("dot", {"kind": "dense", "causal": True}),
    ea.attention.Spec("multiplicative", bias=ea.attention.RelativePositions(3, True)),
    ea.attention.Spec("additive", evolve=ea.attention.Evolving(0.2, 0.3)),
    ea.attention.Spec("concatenative", Window()),
]


@pytest.mark.parametrize("attention", [*SPECS, SPECS[:3]], ids=str)
def test_text_models_take_specs_and_keep_them(attention, tmp_path):
    config = ea.BertConfig(
        vocab_size=40,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=36,
        attention=attention,
    )
    model = ea.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.attention == model.config.attention
    assert again.load_report.new == []
    ids = np.arange(12).reshape(2, 6)
    assert np.array_equal(again(ids).logits, model(ids).logits)


def test_a_list_of_another_length_is_refused():
    with pytest.raises(ea.ConfigError, match="2 specs for 3 layers"):
        ea.BertModel(
            ea.BertConfig(
                vocab_size=40,
                hidden_size=24,
                num_hidden_layers=3,
                num_attention_heads=3,
                intermediate_size=36,
                attention=["vanilla", ea.attention.Evolving(0.1, 0.1)],
            )
        )


def test_a_spec_of_one_evolve_kind_is_that_kind():
    kind = ea.attention.Evolving(0.1, 0.2)
    assert ea.BertConfig(attention=ea.attention.Spec(evolve=kind)).attention == kind
    written = ea.BertConfig(attention={"evolve": kind.to_dict()}).to_dict()
    assert written["attention"] == kind.to_dict()


SMALL = {"vocab_size": 40, "hidden_size": 24, "num_attention_heads": 3}


@pytest.mark.parametrize(
    "attention", ["evolving", ["vanilla", "evolving"], {"score": "additive"}, None]
)
def test_an_attention_that_is_set_is_that_of_the_constructor(attention, tmp_path):
    sizes = {**SMALL, "num_hidden_layers": 2, "intermediate_size": 36}
    config = ea.BertConfig(**sizes, attention="residual")
    config.attention = attention
    assert config == ea.BertConfig(**sizes, attention=attention)
    model = ea.BertModel(config).eval()
    model.save_pretrained(tmp_path)
    again = ea.BertModel.from_pretrained(tmp_path)
    assert again.config.attention == config.attention
    ids = np.arange(12).reshape(2, 6)
    assert np.array_equal(again(ids).last_hidden_state, model(ids).last_hidden_state)
    with pytest.raises(ea.ConfigError, match="did you mean 'evolving'"):
        config.attention = "evolvin"


def test_models_of_one_config_keep_their_attention(tmp_path):
    config = ea.BertConfig(**SMALL)
    arms = {}
    for alpha in (0.1, 0.9):
        config.attention = ea.attention.Evolving(alpha, 0.3)
        arms[alpha] = ea.BertModel(config)
    copies = {alpha: arm.copy() for alpha, arm in arms.items()}
    for alpha, arm in copies.items():
        own = copy.copy(arm.config)
        own.attention = "vanilla"
        with pytest.raises(ea.ConfigError, match=r"set to Vanilla\(\), expected"):
            arm.config.attention = "vanilla"
        arms[alpha].save_pretrained(tmp_path / str(alpha))
        found = ea.BertModel.from_pretrained(tmp_path / str(alpha))
        assert found.config.attention.alpha == alpha


@pytest.mark.parametrize("chain", ["attention", "decoder_attention", "cross_attention"])
@pytest.mark.parametrize("family", [ea.T5Config, ea.TransformerConfig])
def test_each_chain_of_an_encoder_decoder_may_be_set(family, chain):
    config = family(vocab_size=40)
    for value in ("residual", ["residual", "vanilla"]):
        setattr(config, chain, value)
        assert config == family(vocab_size=40, **{chain: value})
    if chain != "attention":
        leak = ea.attention.Spec(evolve=ea.attention.Evolving(0.1, 0.1))
        with pytest.raises(ea.ConfigError, match="later"):
            setattr(config, chain, leak)


@pytest.mark.parametrize(
    ("model", "config", "value", "text"),
    [
        ("BertModel", ea.BertConfig(), {"layer_norm_eps": -1.0}, "layer_norm_eps is"),
        ("BertModel", ea.BertConfig(), {"hidden_size": 10**30}, "hidden_size is 10"),
        ("ResNetModel", ea.ResNetConfig(), {"attention": "evolving"}, "expected none"),
        (
            "GATForNodeClassification",
            ea.GATConfig(num_features=5),
            {"attention": ea.attention.Spec()},
            "does not see the graph",
        ),
        (
            "TextNetForSequenceClassification",
            ea.TextNetConfig(**SMALL, embedding_size=6, attention_ratio=0),
            {"attention": "residual"},
            "a net without attention",
        ),
        (
            "EADCTransformerForClassification",
            ea.EADCTransformerConfig(channels=2, max_length=9, released_behaviour=True),
            {"attention": "residual"},
            "released_behaviour with",
        ),
    ],
)
def test_what_is_set_is_checked_when_a_model_is_built(model, config, value, text):
    for name, one in value.items():
        setattr(config, name, one)
    with pytest.raises(ea.ConfigError, match=text):
        getattr(ea, model)(config)


A = ea.attention


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: A.Predictive(0.1, learnable=True),
            "Predictive: .*'learnable'; the opt",
        ),
        (
            lambda: A.EvolvingReleased(0.1, 0.1, learnable=True),
            "options are: alpha, be",
        ),
        (
            lambda: A.Evolving(alfa=0.1),
            r"'alfa' \(did you mean 'alpha'\?\); the options",
        ),
        (
            lambda: A.Dot(0.1, 2, 3, 4),
            "Dot: too many positional arguments; the options",
        ),
        (lambda: A.Vanilla(beta=0.1), "Vanilla: .*'beta'; the options are: none"),
        (lambda: A.Spec(evolved="vanilla"), "Spec: .*did you mean 'evolve'"),
        (A.Predictive, "Predictive: missing .* 'alpha'; the options are: alpha, num"),
        (A.RelativePositions, "missing a required argument: 'max_distance'; the opt"),
    ],
)
def test_unknown_options_are_told_with_the_known_ones(make, says):
    with pytest.raises(ea.ConfigError, match=says):
        make()
