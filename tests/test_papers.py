"""Arithmetic of the papers, and the page that shows it."""

from __future__ import annotations

import ast
import functools

import numpy as np
import pytest
from reference import paper_page
from reference.paper_counts import built
from reference.paper_figures import Figure, figures, mean
from reference.paper_tables import EA, SEARCHED, TRANSLATION

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.cli.search_spaces import SPACES, size_of


@pytest.fixture(scope="module")
def found():
    pytest.importorskip("scipy")
    return figures()


def test_the_page_has_these_figures(found):
    text = paper_page.PAGE.read_text(encoding="utf-8")
    made = paper_page.rendered(text)
    assert made == text, "run PYTHONPATH=src:tests python -m reference.paper_page"
    assert all(figure.line() in text for figure in found)


def test_what_differs_is_explained(found):
    differing = [figure for figure in found if not figure.agrees]
    assert [f.what for f in differing if not f.why] == []
    assert len({(f.paper, f.what) for f in found}) == len(found)


def test_figures_are_rounded_half_up():
    assert Figure(EA, "x", "83.5", mean(["83.45"])).agrees
    assert not Figure(EA, "x", "83.4", mean(["83.45"])).agrees
    assert Figure(EA, "x", "1.01", mean(["0.010064"]), "%").ours == "1.0064 %"
    assert not Figure(EA, "x", "0.80", mean(["0.010064"]), "%").agrees


@pytest.mark.parametrize(("path", "name"), sorted({row[2:] for row in paper_page.HELD}))
def test_the_tests_that_the_page_names_are_there(repo, path, name):
    tree = ast.parse((repo / path).read_text(encoding="utf-8"))
    named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert f"test_{name}" in named


def test_larger_searches_find_higher_maxima():
    """E[max of n] = ∫ x n φ(x) Φ(x)ⁿ⁻¹ dx for the standard normal distribution."""
    integrate = pytest.importorskip("scipy.integrate")
    normal = pytest.importorskip("scipy.stats").norm
    text = paper_page.PAGE.read_text(encoding="utf-8")
    section = text.split("## Searches of unequal size")[1].split("\n## ")[0]
    highest = {}
    for name in ("icml-glue-plain", "icml-glue"):
        n = size_of(SPACES[name].space())
        assert f" {n} " in section
        highest[name], _ = integrate.quad(
            lambda x, n=n: x * n * normal.pdf(x) * normal.cdf(x) ** (n - 1), -9, 9
        )
        assert f"{highest[name]:.2f}" in section
    more = 0.5 * (highest["icml-glue"] - highest["icml-glue-plain"])
    assert f"adds {more:.1f} points" in " ".join(section.split())


def test_values_of_the_searched_grids():
    """Every value as printed, and what the papers fixed beside them."""
    found = {}
    for name, paper in SPACES.items():
        values = {option: set(given) for option, given in paper.grid.items()}
        assert all(len(values[option]) == len(paper.grid[option]) for option in values)
        found[name] = (values, paper.settings)
    assert found == SEARCHED


@pytest.mark.parametrize("size", TRANSLATION)
def test_weights_of_translation(size):
    """Table 10; only the encoder has skips (Section 4.3)."""
    make = functools.partial(ea.create_model, f"ea_transformer_{size}", vocab_size=30)
    config = built(make).config
    alpha, beta = TRANSLATION[size]
    assert (config.attention.alpha, config.attention.beta) == (alpha, beta)
    for kind in (config.decoder_attention.evolve, config.cross_attention):
        assert (kind.alpha, kind.beta) == (0, beta)


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_permutations_of_tokens(kernel_size):
    """Section 5.7 (TPAMI): without positions, 1 × 1 convolutions keep the permutation
    symmetry, and larger ones break it."""
    spec = ea.attention.Spec(evolve=ea.attention.Evolving(0.3, 0.6, kernel_size))
    layers = []
    for layer in range(2):
        ea.manual_seed(layer)
        made = _core.Attention(
            spec.to_core(), 6, 2, layer=layer, num_layers=2, dtype="float64"
        )
        made.initialize({name for name, _ in made.named_parameters()})
        layers.append(made)

    def run(x):
        packing, carry, out = ea.functional.Packing(2, [0, len(x)]), None, None
        for layer in layers:
            out = layer.forward(ea.Tensor(x), packing, None, None, carry)
            carry = out.carry
        return np.asarray(out.context)

    x = np.random.default_rng(0).standard_normal((7, 6))
    order = np.array([3, 0, 6, 2, 5, 1, 4])
    equal = np.allclose(run(x[order]), run(x)[order], atol=1e-12)
    assert equal == (kernel_size == 1)
