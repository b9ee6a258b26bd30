"""Entropies and divergences of heads, and distances within classes, by definition."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import errors, metrics

ROWS = ("attention_entropy", "head_divergence")


def maps(layers=3, sentences=2, heads=4, n=6, seed=0):
    random = np.random.default_rng(seed)
    return random.dirichlet(np.full(n, 0.3), (layers, sentences, heads, n))


def by_token(values):
    """[layers, B, heads, T] as [layers, heads, B * T]."""
    moved = np.moveaxis(values, 2, 1)
    return moved.reshape(*moved.shape[:2], -1)


def test_entropies():
    """By hand: one key, two equal ones, and 1/2 ln 2 + 2 · 1/4 ln 4; and SciPy's."""
    rows = [[1, 0, 0], [0, 0.5, 0.5], [0.5, 0.25, 0.25]]
    found = metrics.attention_entropy([np.array([[rows]])])
    np.testing.assert_allclose(found, [[np.log([1, 2, 8**0.5])]])
    stats = pytest.importorskip("scipy.stats")
    given = maps()
    found = metrics.attention_entropy(given)
    assert found.shape == (3, 4, 12)
    np.testing.assert_allclose(found, by_token(stats.entropy(given, axis=-1)))


def test_divergences():
    """By hand: equal, disjoint, and half in common; and SciPy's squared distances."""
    first, second = [[0.5, 0.5], [1, 0], [1, 0]], [[0.5, 0.5], [0, 1], [0.5, 0.5]]
    third = 1.5 - 0.75 * np.log2(3)  # of (1, 0) and (1/2, 1/2): H(3/4, 1/4) − 1/2
    wide = [np.array([[rows]], float) for rows in (first, second)]
    found = metrics.head_divergence(wide)
    np.testing.assert_allclose(found, [[[0, 1, third]]])
    assert found.min() == 0.0
    distance = pytest.importorskip("scipy.spatial.distance").jensenshannon
    given = maps()
    found = metrics.head_divergence(given)
    expected = distance(given[1:], given[:-1], base=2, axis=-1) ** 2
    assert found.shape == (2, 4, 12)
    np.testing.assert_allclose(found, by_token(expected))
    assert (metrics.head_divergence([given[0], given[0]]) == 0).all()
    near = given[0] * np.random.default_rng(1).uniform(1, 1 + 1e-9, given[0].shape)
    assert (
        metrics.head_divergence([given[0], near]).min() == 0.0
    )  # not below by rounding


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("attention", ["vanilla", "evolving"])
def test_padding_changes_nothing(name, attention):
    ea.manual_seed(0)
    config = ea.BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=24,
        attention=attention,
    )
    model, measure = ea.BertModel(config).eval(), getattr(metrics, name)
    ids = np.random.default_rng(0).integers(1, 50, (2, 9))
    mask = (np.arange(9) < [[9], [5]]).astype(int)

    def maps_of(ids, mask):
        with ea.no_grad():
            options = {"attention_mask": mask, "output_attentions": True}
            return model(ids, **options).attentions

    together = measure(maps_of(ids, mask), mask)
    assert together.shape == (3 - (name == "head_divergence"), 3, 9 + 5)
    alone = [
        measure(maps_of(ids[i : i + 1, :n], np.ones((1, n), int)))
        for i, n in enumerate((9, 5))
    ]
    np.testing.assert_allclose(together, np.concatenate(alone, axis=-1), atol=1e-6)
    # maps of other programs may have anything in the padded rows
    other = [np.array(one) for one in maps_of(ids, mask)]
    for one in other:
        one[1, :, 5:] = np.nan
    np.testing.assert_array_equal(measure(other, mask), together)


def test_rounded_rows_are_normalised():
    given = maps()
    rounded = (given * 1.004).astype(np.float32)
    found = metrics.attention_entropy(rounded)
    np.testing.assert_allclose(found, metrics.attention_entropy(given), atol=1e-6)


def broken(change):
    given = maps()
    change(given[1, 1, 2])
    return list(given)


def halve(rows):
    rows[3] *= 0.5


def negate(rows):
    rows[3] = [1.5, -0.5, 0, 0, 0, 0]


def lose(rows):
    rows[3, 0] = np.nan


GOOD = maps()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    ("attentions", "mask", "error", "says"),
    [
        (None, None, errors.InputError, "output_attentions=True"),
        ([], None, errors.InputError, "there are no attention maps"),
        ([GOOD[0], None], None, errors.InputError, "attentions[1] is None"),
        (GOOD[0], None, errors.ShapeError, "attentions[0] has shape (4, 6, 6)"),
        (GOOD[:, :0], None, errors.ShapeError, "(0, 4, 6, 6), expected [B, heads"),
        ([GOOD[0], GOOD[1, :, :2]], None, errors.ShapeError, "(2, 2, 6, 6), but att"),
        (GOOD, np.ones((2, 5)), errors.ShapeError, "(2, 5), expected (2, 6)"),
        (GOOD, np.zeros((2, 6)), errors.InputError, "values [0.0], expected 1"),
        (GOOD, np.full((2, 6), -1e4), errors.InputError, "values [-10000.0]"),
        (broken(halve), None, errors.InputError, "attentions[1][1, 2, 3] sums to 0.5"),
        (broken(negate), None, errors.InputError, "its smallest value is -0.5"),
        (broken(lose), None, errors.InputError, "attentions[1][1, 2, 3] sums to nan"),
    ],
)
def test_mistakes_with_maps(name, attentions, mask, error, says):
    with pytest.raises(error) as caught:
        getattr(metrics, name)(attentions, mask)
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"{name}: ")
    assert says in str(caught.value)


def test_the_row_of_a_mistake_is_that_of_the_sentence():
    mask = [[1, 0, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1]]
    with pytest.raises(errors.InputError, match=r"\[1\]\[1, 2, 3\] sums to 0.5"):
        metrics.attention_entropy(broken(halve), mask)


def test_one_layer_has_no_divergence():
    with pytest.raises(errors.InputError, match="one layer, expected two or more"):
        metrics.head_divergence(GOOD[:1])


def test_within_class_distances():
    """By hand: two classes 3 apart, each with points 1 from its centre."""
    X, y = np.array([[0, 1], [0, -1], [3, 1], [3, -1]]), ["a", "a", "b", "b"]
    measure = metrics.within_class_distance
    assert measure(X, y) == pytest.approx(1)
    assert measure(X, y, relative=True) == pytest.approx(1 / 3.25**0.5)
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 5)), random.integers(0, 3, 40)
    centres = [X[y == k].mean(axis=0) for k in range(3)]
    expected = np.sqrt(((X - np.array(centres)[y]) ** 2).sum(axis=1)).mean()
    assert measure(X, y) == pytest.approx(expected)
    assert measure(ea.Tensor(X, dtype="float64"), y) == pytest.approx(expected)
    share = measure(X, y, relative=True)
    assert measure(X, np.zeros(40)) == pytest.approx(expected / share)
    assert measure(7 * X + 3, y) == pytest.approx(7 * expected)
    assert measure(7 * X + 3, y, relative=True) == pytest.approx(share)


@pytest.mark.parametrize(
    ("X", "y", "relative", "error", "says"),
    [
        (np.ones(3), [0, 1, 1], False, errors.ShapeError, "X has shape (3,) and y (3,"),
        (np.ones((3, 2)), [0, 1], False, errors.ShapeError, "(3, 2) and y (2,)"),
        (np.ones((0, 2)), [], False, errors.ShapeError, "(0, 2) and y (0,)"),
        ([[1.0], [np.nan]], [0, 1], False, errors.InputError, "X[1] has NaN"),
        (np.full((3, 2), 0.1), [0, 0, 1], True, errors.InputError, "without|leave out"),
    ],
)
def test_mistakes_with_representations(X, y, relative, error, says):
    with pytest.raises(error) as caught:
        metrics.within_class_distance(X, y, relative=relative)
    assert type(caught.value) is error
    assert any(part in str(caught.value) for part in says.split("|"))


DRAWN = {
    # medians by head, [layers][heads], and the heads from left to right
    "entropy_by_head": (
        [[5, 1.5, 0.5, 4.5], [2, 3, 1, 6]],
        [[2, 1, 3, 0], [2, 0, 1, 3]],
    ),
    "divergence_by_head": (
        [[0.8, 0.25, 0.1, 0.75], [0.3, 0.5, 0.2, 0.9]],
        [[0, 1, 2, 3], [0, 1, 2, 3]],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_figures(name):
    """RealFormer's: blue, yellow, red by the median; entropies sorted by it."""
    colours = pytest.importorskip("matplotlib.colors")
    medians, order = DRAWN[name]
    spread = np.linspace(-0.1, 0.1, 2001)
    figure = getattr(ea.plots, name)(np.array(medians)[..., None] + spread)
    words = "layer {}" if name == "entropy_by_head" else "layers {} and {}"
    low, high = (1.5, 4.5) if name == "entropy_by_head" else (0.25, 0.75)
    names = ["#2b5c8a", "#b58a1b", "#c8553d"]
    for i, (axes, values, heads) in enumerate(
        zip(figure.axes, medians, order, strict=True)
    ):
        assert axes.get_title() == words.format(i + 1, i + 2)
        assert [t.get_text() for t in axes.get_xticklabels()] == list(map(str, heads))
        sorted_ = [values[head] for head in heads]
        np.testing.assert_allclose(axes.lines[0].get_ydata(), sorted_)
        violins = axes.collections[: len(heads)]
        for violin, value in zip(violins, sorted_, strict=True):
            band = names[(value >= low) + (value > high)]
            assert colours.to_hex(violin.get_facecolor()[0]) == band
            widths, heights = violin.get_paths()[0].vertices.T
            assert np.ptp(widths) == pytest.approx(0.48)  # 0.9 from eight heads on
            np.testing.assert_allclose(
                [heights.min(), heights.max()], [value - 0.1, value + 0.1]
            )
    told = [t.get_text() for t in figure.legends[0].get_texts()]
    assert [text.split(": ")[1] for text in told] == ["2 of 8", "4 of 8", "2 of 8"]
    assert told[1] == f"median {low} to {high}: 4 of 8"


@pytest.mark.parametrize(
    ("layers", "heads", "columns"), [(12, 12, 3), (6, 16, 2), (1, 1, 1), (4, 4, 3)]
)
def test_figures_are_legible(layers, heads, columns):
    pytest.importorskip("matplotlib")
    values = np.random.default_rng(0).uniform(0, 1, (layers, heads, 9))
    for name in DRAWN:
        figure = getattr(ea.plots, name)(values, title="x" * 200)
        figure.canvas.draw()
        assert figure.get_figwidth() <= 9.6
        boxes = [axes.get_window_extent() for axes in figure.axes]
        assert len(boxes) == layers
        assert len({round(box.x0) for box in boxes}) == columns
        for box in boxes:
            assert box.height == pytest.approx(115)
            assert box.width / heads >= 21
        texts = figure.findobj(lambda artist: hasattr(artist, "get_text"))
        for text in texts:
            box = text.get_window_extent()
            if text.get_text() and text.get_visible():
                assert 0 <= box.x0 < box.x1 <= figure.bbox.x1, text.get_text()
                assert 0 <= box.y0 < box.y1 <= figure.bbox.y1, text.get_text()


def test_two_figures_can_have_one_axis():
    pytest.importorskip("matplotlib")
    axes = ea.plots.entropy_by_head(np.ones((1, 2, 3)), highest=7.0).axes[0]
    assert axes.get_ylim() == (0.0, 7.0)
    axes = ea.plots.entropy_by_head(np.ones((1, 2, 3))).axes[0]
    assert axes.get_ylim() == (0.0, 1.04)


@pytest.mark.parametrize(
    ("values", "bands", "error", "says"),
    [
        (np.ones((2, 3)), (1, 2), errors.ShapeError, "shape (2, 3), expected [layers"),
        (np.ones((2, 3, 0)), (1, 2), errors.ShapeError, "shape (2, 3, 0)"),
        (-np.ones((1, 1, 1)), (1, 2), errors.InputError, "negative"),
        (np.full((1, 1, 1), np.nan), (1, 2), errors.InputError, "NaN"),
        (np.ones((1, 1, 1)), (2, 1), errors.ConfigError, "bands=(2, 1)"),
    ],
)
@pytest.mark.parametrize("name", DRAWN)
def test_mistakes_with_figures(name, values, bands, error, says):
    pytest.importorskip("matplotlib")
    with pytest.raises(error) as caught:
        getattr(ea.plots, name)(values, bands=bands)
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"[{name}] ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "name", ["metrics.heads", "metrics.representations", "plots.heads"]
)
def test_examples_of_docstrings(name):
    pytest.importorskip("matplotlib")
    found = doctest.testmod(importlib.import_module(f"evolving_attention.{name}"))
    assert found.attempted >= 3
    assert found.failed == 0
