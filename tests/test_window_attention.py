"""Convolutional self-attention: windows of positions and of neighbouring heads."""

from __future__ import annotations

import helpers_transformer
import numpy as np
import pytest
from helpers_models import NO_DROPOUT, SIZES, draw, labels_for, tiny
from reference.csan import BORDERS, attend, neighbour
from support.cases import forced, kernel_calls

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F
from evolving_attention.attention import Dense, Evolving, Spec, Window

LENGTHS = (7, 1, 4)
OFFSETS = np.cumsum([0, *LENGTHS])


def layer_of(scope, heads=4, width=12, layer=0, seed=1, **options):
    ea.manual_seed(seed)
    spec = Spec(scope=scope, **options).to_core()
    made = _core.Attention(
        spec, width, heads, layer=layer, num_layers=3, dtype="float64"
    )
    made.initialize({name for name, _ in made.named_parameters()})
    return made


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(("size", "span"), [(5, 3), (3, 1), (1, 3), (25, 3)])
def test_a_layer_is_what_loops_say(border, size, span):
    layer = layer_of(Window(size, span, border))
    weights = {n: np.asarray(p) for n, p in layer.named_parameters()}
    x = np.random.default_rng(0).normal(size=(sum(LENGTHS), 12))
    out = layer.forward(ea.Tensor(x), F.Packing(4, OFFSETS))
    q, k, v = (
        (x @ weights[f"{n}.weight"].T + weights[f"{n}.bias"])
        .reshape(-1, 4, 3)
        .swapaxes(0, 1)
        for n in ("query", "key", "value")
    )
    dense = np.asarray(out.carry.packing.pad(out.probabilities))
    assert dense.shape == (3, 4, 7, span * 7)
    for b, (begin, n) in enumerate(zip(OFFSETS, LENGTHS, strict=False)):
        own = slice(begin, begin + n)
        context, seen = attend(
            q[:, own], k[:, own], v[:, own], size, span, border, 3**-0.5
        )
        got = np.asarray(out.context)[own].reshape(n, 4, 3).swapaxes(0, 1)
        np.testing.assert_allclose(got, context, atol=1e-12)
        maps = dense[b].reshape(4, 7, span, 7)
        np.testing.assert_allclose(maps[:, :n, :, :n], seen, atol=1e-12)
        assert not maps[:, n:].any()
        assert not maps[..., n:].any()


def test_a_window_of_one_head_is_dense_attention_with_a_band():
    rng = np.random.default_rng(0)
    q, k, v = (
        ea.Tensor(rng.normal(size=(12, 8)), dtype="float32", requires_grad=True)
        for _ in range(3)
    )
    dense = F.Packing(2, [0, 9, 12])
    band = [np.abs(np.subtract.outer(*[np.arange(n)] * 2)) <= 2 for n in (9, 3)]
    mask = np.concatenate([np.tile(m, (2, 1, 1)).ravel() for m in band])
    dy = ea.Tensor(rng.normal(size=(12, 8)).astype("f4"))
    found = []
    for packing in (dense, F.Packing(2, [0, 9, 12], window=5)):
        scores = F.attention_scores(q, k, packing, 0.5)
        if packing is dense:
            scores = scores + np.where(mask, 0.0, -1e9).astype("f4")
        y = F.attention_context(F.map_softmax(scores, packing), v, packing)
        y.backward(dy)
        found.append([np.array(y.detach()), *(np.array(t.grad) for t in (q, k, v))])
        for t in (q, k, v):
            t.grad = None
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_windows_are_dense_attention(dtype):
    """Compares loss and all gradients of a model, for windows of 2 n - 1 and more."""
    batch, results = draw((9, 1, 5)), []
    for scope in (Dense(), Window(17), Window(1001)):
        model = tiny(attention=Spec(scope=scope), dtype=dtype, **NO_DROPOUT)
        out = model(**batch.packed(), labels=labels_for(model, batch))
        out.loss.backward()
        gradients = {n: np.array(p.grad) for n, p in model.named_parameters()}
        results.append({"loss": np.array(out.loss.detach()), **gradients})
    bound = 1e-5 if dtype == "float32" else 1e-12
    for name, want in results[0].items():
        for other in results[1:]:
            np.testing.assert_allclose(other[name], want, atol=bound, err_msg=name)
    assert all(np.array_equal(results[1][n], results[2][n]) for n in results[0])


BY_LAYER = [Spec(scope=Window(3, 3)), Spec(scope=Window(5)), "vanilla"]


def test_padded_and_packed_batches_agree_and_show_their_maps():
    model = tiny(attention=BY_LAYER, dtype="float64").eval()
    batch = draw((6, 2, 4))
    asked = {"output_attentions": True, "output_attention_scores": True}
    packed = model(**batch.packed(), **asked)
    padded = model(**batch.padded(2), **asked)
    np.testing.assert_allclose(packed.logits, padded.logits, atol=1e-12)
    shapes = [np.shape(m) for m in padded.attentions]
    assert shapes == [(3, 3, 8, 24), (3, 3, 8, 8), (3, 3, 8, 8)]
    maps = [np.asarray(m) for m in padded.attentions]
    for b, n in enumerate(batch.lengths):
        for m in maps:
            np.testing.assert_allclose(m[b, :, :n].sum(-1), 1.0)
            assert not m[b, :, n:].any()
        i, j = np.indices((8, 8))
        assert not maps[1][b][:, abs(i - j) > 2].any()
        assert (maps[1][b][:, (abs(i - j) <= 2) & (i < n) & (j < n)] > 0).all()
        blocks = maps[0][b].reshape(3, 8, 3, 8)
        assert not blocks[0, :, 0].any()
        assert not blocks[2, :, 2].any()
        assert (blocks[1, 0, :, 0] > 0).all()
    for one, other in zip(packed.attentions, maps, strict=True):
        one = np.asarray(one).reshape(3, 3, 6, -1, 6)
        other = other.reshape(3, 3, 8, -1, 8)
        np.testing.assert_allclose(one, other[:, :, :6, :, :6], atol=1e-12)


def test_maps_have_gradients():
    model = tiny(attention=Spec(scope=Window(3, 3)), dtype="float64", **NO_DROPOUT)
    batch = draw((5, 2))
    asked = {"output_attentions": True, "output_attention_logits": True}
    out = model(**batch.packed(), labels=labels_for(model, batch), **asked)
    out.loss.backward()
    for maps, logits in zip(out.attentions, out.attention_logits, strict=True):
        p, dp, dl = (np.array(x) for x in (maps.detach(), maps.grad, logits.grad))
        assert p.shape == dp.shape == dl.shape == (2, 3, 5, 15)
        expected = p * (dp - (p * dp).sum(-1, keepdims=True))
        np.testing.assert_allclose(dl, expected, atol=1e-12)
        assert dl[:, :, 0].any()
        assert not dp[p == 0].any()


def test_a_window_does_not_feed_the_maps_of_all_keys():
    """Even if its maps have as many cells, the chain restarts."""
    x, packing = ea.Tensor(np.random.default_rng(0).normal(size=(5, 12))), None
    packing = F.Packing(4, [0, 5])
    carry = layer_of(Window(5)).forward(x, packing).carry
    assert carry.maps.shape == (4 * 25,)
    later = layer_of(Dense(), layer=1, evolve=Evolving(0.5, 0.5))
    restarted = later.forward(x, packing, None, None, carry)
    assert np.array_equal(restarted.context, later.forward(x, packing).context)
    again = layer_of(Window(5), layer=1, evolve=Evolving(0.5, 0.5, 1))
    went_on = again.forward(x, packing, None, None, carry)
    assert not np.array_equal(went_on.context, again.forward(x, packing).context)


def chained(x, layers, size, span, border, alpha, beta):
    """Returns the context of the last of several evolving layers, cell by cell."""
    contexts = []
    for begin, n in zip(OFFSETS, LENGTHS, strict=False):
        near = np.abs(np.subtract.outer(*[np.arange(n)] * 2)) <= size // 2
        maps = None
        for weights in layers:
            q, k, v = (
                x[begin : begin + n] @ weights[f"{name}.weight"].T
                + weights[f"{name}.bias"]
                for name in ("query", "key", "value")
            )
            q, k, v = (t.reshape(n, 4, 3).swapaxes(0, 1) for t in (q, k, v))
            scores, exists = np.zeros((2, 4, n, span, n))
            values = np.zeros((4, span, n, 3))
            for h, a in np.ndindex(4, span):
                g = neighbour(h, a - span // 2, 4, border, False)
                if g is not None:
                    exists[h, :, a] = near
                    scores[h, :, a] = near * (q[h] @ k[g].T) * 3**-0.5
                    values[h, a] = v[g]
            if maps is None:
                maps = scores
            else:
                mixed = alpha * maps + (1 - alpha) * scores
                kernel = weights["evolving_conv.weight"][:, :, 0, 0]
                grown = np.einsum("gh,hiaj->giaj", kernel, mixed)
                grown += weights["evolving_conv.bias"][:, None, None, None]
                maps = beta * np.maximum(grown, 0) + (1 - beta) * mixed
                maps = exists * maps
        shown = exists * np.exp(maps - maps.max())
        shown /= shown.sum((2, 3), keepdims=True)
        contexts.append(np.einsum("hiaj,hajd->ihd", shown, values).reshape(n, 12))
    return np.concatenate(contexts)


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("border", ["clip", "wrap", "clamp"])
def test_no_convolution_reads_the_cells_of_missing_heads(border, learnable):
    """Compares three layers with loops, and their gradients with differences."""
    rng, packing = np.random.default_rng(0), F.Packing(4, OFFSETS)
    evolve = Evolving(0.3, 0.4, 1, learnable=learnable)
    made = [
        layer_of(Window(3, 3, border), layer=i, evolve=evolve, seed=i) for i in range(3)
    ]
    layers = []
    for layer in made:
        parameters = dict(layer.named_parameters())
        if "evolving_conv.bias" in parameters:
            parameters["evolving_conv.bias"].copy_(rng.normal(size=4) + 1.0)
        layers.append({name: np.array(p.detach()) for name, p in parameters.items()})
    x, dy = rng.normal(size=(2, sum(LENGTHS), 12))

    def expected():
        return chained(x, layers, 3, 3, border, 0.3, 0.4)

    carry = None
    for layer in made:
        out = layer.forward(ea.Tensor(x), packing, None, None, carry)
        carry = out.carry
    np.testing.assert_allclose(out.context.detach(), expected(), atol=1e-12)
    out.context.backward(ea.Tensor(dy))
    for i, name in [
        *((1, f"evolving_conv.{each}") for each in ("weight", "bias")),
        *((2, f"evolving_conv.{each}") for each in ("weight", "bias")),
        *((i, "query.bias") for i in range(3)),
    ]:
        found = np.array(dict(made[i].named_parameters())[name].grad)
        array, wanted = layers[i][name], np.zeros(found.shape)
        for at in np.ndindex(array.shape):
            for step in (1e-6, -1e-6):
                before = array[at]
                array[at] += step
                wanted[at] += (dy * expected()).sum() / (2 * step)
                array[at] = before
        np.testing.assert_allclose(found, wanted, atol=1e-7, err_msg=f"{i} {name}")


def test_training_with_dropout_of_weights():
    """The loss falls, with the same bits where layers are recomputed in backward."""
    batch, labels, curves = draw((9, 3, 6, 5, 8, 2)), np.arange(6) % 2, []
    for again in (False, True):
        model = tiny(attention=BY_LAYER, seed=3).train()
        if again:
            model.gradient_checkpointing_enable()
        optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(30):
            loss = model(**batch.packed(), labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5]), losses
        curves.append(losses)
    assert curves[0] == curves[1]


def test_folders_keep_windows(tmp_path):
    model = tiny(attention=BY_LAYER).eval()
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.attention == model.config.attention
    assert again.config.to_dict()["attention"][0]["scope"] == {
        "kind": "window",
        "size": 3,
        "heads": 3,
        "head_border": "clip",
    }
    batch = draw((6, 2, 4))
    assert np.array_equal(
        model(**batch.packed()).logits, again(**batch.packed()).logits
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Window(10), r"size = 10 must be odd"),
        (lambda: Window(0), r"size = 0 is outside \[1, "),
        (lambda: Window(3, 2), r"heads = 2 must be odd"),
        (lambda: Window(3, 1, "clib"), r"head_border = 'clib'; expected one of clip"),
        (lambda: Window("3"), r"size"),
        (
            lambda: Spec(scope=Window(), evolve=Evolving(0.1, 0.1)),
            r"kernel of size 3.*kernel_size=1",
        ),
        (
            lambda: Spec(scope=Window(), bias=ea.attention.RelativePositions(3)),
            "leave the bias out, or use the scope dense",
        ),
        (
            lambda: Spec("additive", Window()),
            "adds queries and keys.*score dot or multiplicative",
        ),
        (
            lambda: tiny(attention=Spec(scope=Window(3, 5))),
            r"heads = 5 are more than the 3 of the layer",
        ),
        (
            lambda: helpers_transformer.tiny(
                "vanilla", cross_attention=Spec(scope=Window(3))
            ),
            r"cross_attention has the scope Window.*expected ea.attention.Dense",
        ),
        (
            lambda: helpers_transformer.tiny(
                "vanilla", decoder_attention=Spec(scope=Window(3))
            ),
            "shows later tokens",
        ),
        (lambda: F.Packing(2, [0, 3], window=4), "size 4 and heads 1: expected odd"),
        (
            lambda: F.Packing(2, [0, 3], window=3, window_heads=3),
            "heads 3 are more than the 2",
        ),
        (lambda: F.Packing(2, [0, 3], causal=True, window=3), "is causal"),
        (
            lambda: F.Packing(2, [0, 3], window=3, head_border="wrapp"),
            "expected clip, wrap, clamp or author",
        ),
        (
            lambda: F.pair_sum(*[np.ones((3, 2))] * 2, F.Packing(2, [0, 3], window=3)),
            "windows of 3 positions; this operation needs a map of all",
        ),
        (
            lambda: F.map_softmax(
                np.ones(18), F.Packing(2, [0, 3], window=3), key_mask=np.ones(3, "u1")
            ),
            "needs a map of all",
        ),
        (
            lambda: F.map_conv(
                np.ones(18),
                np.ones((2, 2, 3, 3)),
                np.ones(2),
                F.Packing(2, [0, 3], window=3),
            ),
            "needs a map of all",
        ),
    ],
)
def test_what_windows_refuse(make, text):
    with pytest.raises(ea.ConfigError, match=f"(?s){text}"):
        make()


def test_a_context_computes_the_gradients_that_are_wanted():
    packing = F.Packing(2, [0, 5], window=3)
    kernels = ("window_products", "window_sums")
    before = [kernel_calls(name, "ref") for name in kernels]
    for wanted in ("maps", "values"):
        maps = ea.Tensor(np.ones(packing.map_elements), requires_grad=wanted == "maps")
        values = ea.Tensor(np.ones((5, 4)), requires_grad=wanted == "values")
        with forced(("*", "ref")):
            F.sum(_core.ops.attention_context(maps, values, packing)).backward()
    after = [kernel_calls(name, "ref") for name in kernels]
    assert np.subtract(after, before).tolist() == [1, 3]


def test_windows_are_of_the_queries_own_tokens():
    with pytest.raises(ea.ShapeError, match="3 queries and 4 keys; expected self"):
        F.Packing(2, [0, 3], [0, 4], window=3)


def test_no_new_parameters():
    names = [n for n, _ in tiny(attention=BY_LAYER).named_parameters()]
    assert names == [n for n, _ in tiny().named_parameters()]
    assert SIZES["num_hidden_layers"] == len(BY_LAYER)
