// Attention as single steps on flat maps, for Python.
#include <pybind11/stl.h>

#include <array>

#include "bindings/ops.h"
#include "ops/attention.h"
#include "ops/evolve.h"
#include "ops/fused_attention.h"
#include "ops/map_conv.h"
#include "ops/softmax.h"

namespace ea {

namespace {

constexpr const char* kEvolve = R"(Computes the evolving step as one operation.

    L = p M + s S + w ReLU(Conv(a M + b S))

With (a, b, p, s, w) = (alpha, 1 - alpha, alpha (1 - beta), (1 - alpha) (1 - beta),
beta) this is the evolving attention of the paper.

Args:
    previous: M, flat maps of packing.map_elements elements, or None where a = p = 0.
    scores: S, flat maps of packing.map_elements elements.
    weight: [heads, heads, k, k], k odd; None where w = 0.
    bias: [heads]; None where w = 0.
    coefficients: (a, b, p, s, w).
    packing: heads and sequences.
    shift: (down, right): by how many cells the result of the convolution is moved.

Returns:
    L, flat maps in the type of the scores.

Raises:
    ShapeError: maps, weight or bias do not fit the packing.
    DTypeError: the tensors differ in type.
    InputError: previous, weight or bias is missing where its coefficient is not 0.
    ConfigError: the shift goes up or left.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> before, scores = [0.0, 0.0, 4.0, 4.0], [2.0, 2.0, 2.0, 2.0]
    >>> mix = (0.0, 0.0, 0.5, 0.5, 0.0)
    >>> F.evolve(before, scores, None, None, mix, packing).numpy().tolist()
    [1.0, 1.0, 3.0, 3.0]

Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021,
Eq. 4.)";

constexpr const char* kComposite =
    R"(Computes evolve() spelled out in other operations.

    L = p M + s S + w ReLU(Conv(a M + b S))

It is what runs where evolve()'s fast path is off, and what evolve() is tested with.

Args:
    previous: M, flat maps of packing.map_elements elements, or None where a = p = 0.
    scores: S, flat maps of packing.map_elements elements.
    weight: [heads, heads, k, k], k odd; None where w = 0.
    bias: [heads]; None where w = 0.
    coefficients: (a, b, p, s, w).
    packing: heads and sequences.
    shift: (down, right): by how many cells the result of the convolution is moved.

Returns:
    L, flat maps in the type of the scores.

Raises:
    ShapeError, DTypeError, InputError, ConfigError: as evolve().

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> before, scores = [0.0, 0.0, 4.0, 4.0], [2.0, 2.0, 2.0, 2.0]
    >>> mix = (0.0, 0.0, 0.5, 0.5, 0.0)
    >>> F.evolve_composite(before, scores, None, None, mix, packing).numpy().tolist()
    [1.0, 1.0, 3.0, 3.0])";

void bind_products(py::module_& m) {
  m.def("attention_scores", &attention_scores, py::arg("q"), py::arg("k"),
        py::arg("packing").none(false), py::arg("scale"), Release(),
        R"(Multiplies every query with every key of its own sequence.

    S[b, h, i, j] = scale q[b, i, h] . k[b, j, h]

With a window in the packing, of every key in it, those of neighbouring heads too, and
of no other; so in map_softmax() and attention_context().

Args:
    q: queries, [total queries, heads * d], head after head.
    k: keys, [total keys, heads * d].
    packing: heads and sequences; queries and keys may differ in number.
    scale: factor of the products, 1 / sqrt(d) in a transformer.

Returns:
    Flat maps [packing.map_elements] in the type of q.

Raises:
    ShapeError: rows or widths do not fit the packing, or widths differ.
    DTypeError: q and k differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> q, k = [[1.0], [2.0]], [[1.0], [3.0]]
    >>> F.attention_scores(q, k, packing, 0.5).numpy().tolist()
    [0.5, 1.5, 1.0, 3.0]

Source: Vaswani et al., NeurIPS 2017, Eq. 1.)");
  m.def("attention_context", &attention_context, py::arg("p"), py::arg("v"),
        py::arg("packing").none(false), Release(),
        R"(Sums the values of each sequence with the weights of a map.

    y[b, i, h] = sum of p[b, h, i, j] v[b, j, h] over j

Args:
    p: flat maps of packing.map_elements elements.
    v: values, [total keys, heads * d], head after head.
    packing: heads and sequences; queries and keys may differ in number.

Returns:
    [total queries, heads * d] in the type of v.

Raises:
    ShapeError: maps or values do not fit the packing.
    DTypeError: p and v differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> p, v = [0.5, 0.5, 1.0, 0.0], [[1.0], [3.0]]
    >>> F.attention_context(p, v, packing).numpy().tolist()
    [[2.0], [1.0]]

Source: Vaswani et al., NeurIPS 2017, Eq. 1.)");
}

void bind_maps(py::module_& m) {
  m.def(
      "map_softmax",
      [](const Var& x, const PackingPtr& packing, double scale,
         const OptionalVar& mask) {
        return map_softmax(x, packing, scale, mask ? mask->data() : Tensor());
      },
      py::arg("x"), py::arg("packing").none(false), py::arg("scale") = 1.0,
      py::arg("key_mask") = py::none(), Release(),
      R"(Normalises every row of attention maps over the keys it may see.

    p[b, h, i, j] = exp(scale x[b, h, i, j]) / sum of exp(scale x[b, h, i, j']) over j'

j' are the keys that the packing's causal limit and mask leave; others get exactly 0.

Args:
    x: flat maps of packing.map_elements elements.
    packing: heads and sequences, with what limits the keys.
    scale: factor of the maps before the softmax.
    key_mask: bool or uint8 [total keys], 0 for a key that no row sees, in place of the
        packing's; None: the packing's.

Returns:
    Flat maps in the type of x.

Raises:
    ShapeError: the maps or the mask do not fit the packing.
    DTypeError: x is not a floating-point tensor.

Example:
    >>> from evolving_attention import functional as F
    >>> causal = F.Packing(1, [0, 2], causal=True)
    >>> F.map_softmax([3.0, 7.0, 1.0, 1.0], causal).numpy().tolist()
    [1.0, 0.0, 0.5, 0.5])");
  m.def(
      "map_conv",
      [](const Var& x, const Var& weight, const Var& bias,
         const PackingPtr& packing, const std::array<std::int64_t, 2>& shift) {
        return map_conv(x, weight, bias, packing, {shift[0], shift[1]});
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"),
      py::arg("packing").none(false), py::arg("shift") = kNoShift, Release(),
      R"(Convolves attention maps as images, heads being channels.

    y[b, o, i, j] = bias[o] + sum over h, u, v of
        weight[o, h, u, v] x[b, h, i + u - k // 2, j + v - k // 2]

Cells outside a sequence's own map are 0.

Args:
    x: flat maps of packing.map_elements elements.
    weight: [heads, heads, k, k], k odd.
    bias: [heads].
    packing: heads and sequences.
    shift: (down, right): by how many cells the result is moved.

Returns:
    Flat maps in the type of x.

Raises:
    ShapeError: maps, weight or bias do not fit the packing, or k is even.
    DTypeError: the tensors differ in type.
    ConfigError: the shift goes up or left.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> x, double = [1.0, 2.0, 3.0, 4.0], [[[[2.0]]]]
    >>> F.map_conv(x, double, [0.5], packing).numpy().tolist()
    [2.5, 4.5, 6.5, 8.5]

Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021.)");
}

}  // namespace

void bind_attention_ops(py::module_& ops) {
  bind_products(ops);
  bind_maps(ops);
  const auto with = [](auto fn) {
    return [fn](const OptionalVar& previous, const Var& scores,
                const OptionalVar& weight, const OptionalVar& bias,
                const std::array<double, 5>& c, const PackingPtr& packing,
                const std::array<std::int64_t, 2>& shift) {
      return fn(or_none(previous), scores, or_none(weight), or_none(bias),
                EvolveCoefficients{c[0], c[1], c[2], c[3], c[4]}, packing,
                MapShift{shift[0], shift[1]});
    };
  };
  ops.def("evolve", with(evolve), py::arg("previous"), py::arg("scores"),
          py::arg("weight"), py::arg("bias"), py::arg("coefficients"),
          py::arg("packing").none(false), py::arg("shift") = kNoShift,
          Release(), kEvolve);
  ops.def("evolve_composite", with(evolve_composite), py::arg("previous"),
          py::arg("scores"), py::arg("weight"), py::arg("bias"),
          py::arg("coefficients"), py::arg("packing").none(false),
          py::arg("shift") = kNoShift, Release(), kComposite);
}

void bind_fused_attention(py::module_& ops) {
  ops.def(
      "fused_attention",
      [](const Var& q, const Var& k, const Var& v, const OptionalVar& previous,
         const OptionalVar& weight, const OptionalVar& bias,
         const std::array<double, 5>& c, const PackingPtr& packing,
         double scale, double softmax_scale, double dropout, bool carry,
         const std::array<std::int64_t, 2>& shift,
         const OptionalVar& score_bias) {
        const FusedAttentionOutput out = fused_attention(
            q, k, v, or_none(previous), or_none(weight), or_none(bias), packing,
            {{c[0], c[1], c[2], c[3], c[4]},
             scale,
             softmax_scale,
             {dropout},
             carry,
             {shift[0], shift[1]},
             or_none(score_bias)});
        return std::pair(out.context, out.carry.defined()
                                          ? OptionalVar(out.carry)
                                          : OptionalVar());
      },
      py::arg("q"), py::arg("k"), py::arg("v"), py::arg("previous"),
      py::arg("weight"), py::arg("bias"), py::arg("coefficients"),
      py::arg("packing").none(false), py::arg("scale"),
      py::arg("softmax_scale") = 1.0, py::arg("dropout") = 0.0,
      py::arg("carry") = true, py::arg("shift") = kNoShift,
      py::arg("score_bias") = py::none(), Release(),
      R"(Computes attention with its evolving step as one operation.

    S = scale q k^T + score_bias,  L = evolve(previous, S, ...)
    context = dropout(softmax(softmax_scale L)) v

The same as attention_scores(), add(), evolve(), map_softmax(), dropout() and
attention_context() one after the other, without their maps in memory.

Args:
    q: queries, [total queries, heads * d], head after head.
    k: keys, [total keys, heads * d].
    v: values, [total keys, heads * e].
    previous: maps of the layer before, as in evolve(), or None.
    weight: [heads, heads, k, k], as in evolve(), or None.
    bias: [heads], as in evolve(), or None.
    coefficients: (a, b, p, s, w) of evolve().
    packing: heads and sequences, with what limits the keys.
    scale: factor of the products.
    softmax_scale: factor of the maps before the softmax.
    dropout: probability of zero for a cell, in [0, 1); 0 outside training.
    carry: whether L is returned.
    shift: (down, right), as in evolve().
    score_bias: flat maps that are added to the scores, or None.

Returns:
    (context, L): [total queries, heads * e], and flat maps or None.

Raises:
    ShapeError, DTypeError, InputError, ConfigError: as the operations it stands for.

Example:
    >>> from evolving_attention import functional as F
    >>> packing, plain = F.Packing(1, [0, 2]), (0.0, 0.0, 0.0, 1.0, 0.0)
    >>> q, k, v = [[0.0], [0.0]], [[1.0], [2.0]], [[1.0], [3.0]]
    >>> y, maps = F.fused_attention(q, k, v, None, None, None, plain, packing, 1.0)
    >>> y.numpy().tolist(), maps.numpy().tolist()
    ([[2.0], [2.0]], [0.0, 0.0, 0.0, 0.0])

Source: Wang et al., Evolving Attention with Residual Convolutions, ICML 2021.)");
}

}  // namespace ea
