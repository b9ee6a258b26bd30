// Differentiable functions for Python: one entry an op.
#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "bindings/numpy.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/evolve.h"
#include "ops/feed_forward.h"
#include "ops/fused_attention.h"
#include "ops/gather.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/losses.h"
#include "ops/map_conv.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"
#include "ops/unpack_maps.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Release = py::call_guard<py::gil_scoped_release>;
using OptionalVar = std::optional<Var>;

Var or_none(const OptionalVar& v) { return v ? *v : Var(); }

Tensor integers(const py::object& object, const char* name) {
  return optional_integers(object, name);
}

void bind_activation(py::module_& m, const char* name, Activation kind,
                     const char* doc) {
  m.def(
      name, [kind](const Var& x) { return activation(x, kind); }, py::arg("x"),
      Release(), doc);
}

void bind_pointwise(py::module_& m) {
  m.def("add", &add, py::arg("a"), py::arg("b"), Release(), "a + b");
  m.def("sub", &sub, py::arg("a"), py::arg("b"), Release(), "a - b");
  m.def("mul", &mul, py::arg("a"), py::arg("b"), Release(), "a * b");
  m.def("div", &div, py::arg("a"), py::arg("b"), Release(), "a / b");
  m.def("scale", &scale, py::arg("x"), py::arg("alpha"), Release(), "alpha x");
  m.def("axpby", &axpby, py::arg("alpha"), py::arg("x"), py::arg("beta"),
        py::arg("z"), Release(), "alpha x + beta z, equal shapes");
  m.def(
      "cast",
      [](const Var& x, const std::string& dtype) {
        return cast(x, parse_dtype(dtype));
      },
      py::arg("x"), py::arg("dtype"), Release(), "x in another type");
  bind_activation(m, "gelu", Activation::gelu, "x Phi(x), Phi by erf");
  bind_activation(m, "gelu_tanh", Activation::gelu_tanh,
                  "0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))");
  bind_activation(m, "relu", Activation::relu, "max(x, 0)");
  bind_activation(m, "tanh", Activation::tanh, "tanh(x)");
  bind_activation(m, "sigmoid", Activation::sigmoid, "1 / (1 + exp(-x))");
  bind_activation(m, "exp", Activation::exp, "exp(x)");
  bind_activation(m, "log", Activation::log, "natural logarithm");
  bind_activation(m, "sqrt", Activation::sqrt, "square root");
  m.def(
      "leaky_relu",
      [](const Var& x, double slope) {
        return activation(x, Activation::leaky_relu, slope);
      },
      py::arg("x"), py::arg("slope") = 0.01, Release(),
      "x where x > 0, else slope x");
  m.def(
      "dropout",
      [](const Var& x, double p, bool training) {
        return dropout(x, dropout_rate(p, training));
      },
      py::arg("x"), py::arg("p"), py::arg("training") = true, Release(),
      "zeroes elements with probability p, scales the rest by 1 / (1 - p)");
}

void bind_shape(py::module_& m) {
  m.def(
      "reshape",
      [](const Var& x, const std::vector<std::int64_t>& sizes) {
        Shape shape;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          shape.append(0);
          shape[static_cast<int>(i)] = sizes[i];
        }
        return reshape(x, shape);
      },
      py::arg("x"), py::arg("shape"), Release(), "x in another shape");
  m.def("transpose", &transpose, py::arg("x"), py::arg("axis_a"),
        py::arg("axis_b"), Release(), "x with two axes exchanged");
  m.def("slice", &slice, py::arg("x"), py::arg("axis"), py::arg("begin"),
        py::arg("end"), Release(), "a range of one axis");
  m.def("concat", &concat, py::arg("xs"), py::arg("axis"), Release(),
        "tensors one after another along an axis");
  m.def("sum", &sum, py::arg("x"), py::arg("axis") = py::none(),
        py::arg("keepdims") = false, Release(), "sum over an axis, or all");
  m.def("mean", &mean, py::arg("x"), py::arg("axis") = py::none(),
        py::arg("keepdims") = false, Release(), "mean over an axis, or all");
}

void bind_layers(py::module_& m) {
  m.def(
      "linear",
      [](const Var& x, const Var& w, const OptionalVar& b) {
        return linear(x, w, or_none(b));
      },
      py::arg("x"), py::arg("weight"), py::arg("bias") = py::none(), Release(),
      "x W^T + b; weight (out, in), bias (out,)");
  m.def(
      "linear_activation",
      [](const Var& x, const Var& w, const OptionalVar& b,
         const std::string& kind) {
        return linear_activation(x, w, or_none(b), parse_activation(kind));
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("activation"),
      Release(), "activation of x W^T + b: gelu, gelu_new, relu or tanh");
  m.def(
      "feed_forward",
      [](const Var& x, const Var& w1, const OptionalVar& b1,
         const std::string& kind, const Var& w2, const OptionalVar& b2) {
        return feed_forward(x, w1, or_none(b1), parse_activation(kind), w2,
                            or_none(b2));
      },
      py::arg("x"), py::arg("weight_1"), py::arg("bias_1"),
      py::arg("activation"), py::arg("weight_2"), py::arg("bias_2"), Release(),
      "activation of x W1^T + b1, times W2^T, plus b2");
  m.def("matmul", &matmul, py::arg("a"), py::arg("b"),
        py::arg("transpose_a") = false, py::arg("transpose_b") = false,
        Release(), "product of matrices, or of equal batches of them");
  m.def(
      "layer_norm",
      [](const Var& x, const Var& w, const Var& b, double eps,
         const OptionalVar& r) { return layer_norm(x, w, b, eps, or_none(r)); },
      py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("eps") = 1e-12,
      py::arg("residual") = py::none(), Release(),
      "layer norm of x (+ residual) over the last axis");
  m.def(
      "dropout_layer_norm",
      [](const Var& x, const Var& residual, const Var& weight, const Var& bias,
         double eps, double p, bool training) {
        return dropout_layer_norm(x, residual, weight, bias, eps,
                                  dropout_rate(p, training));
      },
      py::arg("x"), py::arg("residual"), py::arg("weight"), py::arg("bias"),
      py::arg("eps") = 1e-12, py::arg("p") = 0.1, py::arg("training") = true,
      Release(), "layer norm of dropout(x) + residual over the last axis");
  m.def("softmax", &softmax, py::arg("x"), Release(),
        "softmax over the last axis");
  m.def(
      "embedding",
      [](const Var& weight, const py::object& ids, std::int64_t padding_id) {
        return embedding(weight, integers(ids, "ids"), "ids", padding_id);
      },
      py::arg("weight"), py::arg("ids"), py::arg("padding_id") = -1,
      "rows of a table by id; no gradient reaches that of padding_id");
  m.def(
      "gather_rows",
      [](const Var& x, const py::object& index) {
        return gather_rows(x, integers(index, "index"));
      },
      py::arg("x"), py::arg("index"), "x[index] along axis 0; -1 gives zeros");
  m.def(
      "cross_entropy",
      [](const Var& logits, const py::object& labels, double smoothing,
         std::int64_t ignore) {
        return cross_entropy(logits, integers(labels, "labels"), smoothing,
                             ignore);
      },
      py::arg("logits"), py::arg("labels"), py::arg("label_smoothing") = 0.0,
      py::arg("ignore_index") = kIgnoreIndex,
      "mean cross entropy; logits (rows, classes), labels (rows,)");
  m.def("mse_loss", &mse_loss, py::arg("prediction"), py::arg("target"),
        Release(), "mean squared error");
}

constexpr std::array<std::int64_t, 2> kNoShift{0, 0};

void bind_maps(py::module_& m) {
  m.def("attention_scores", &attention_scores, py::arg("q"), py::arg("k"),
        py::arg("packing").none(false), py::arg("scale"), Release(),
        "flat maps scale q k^T; q, k (tokens, heads d)");
  m.def("attention_context", &attention_context, py::arg("p"), py::arg("v"),
        py::arg("packing").none(false), Release(), "P v; (tokens, heads d)");
  m.def(
      "map_softmax",
      [](const Var& x, const PackingPtr& packing, double scale,
         const OptionalVar& mask) {
        return map_softmax(x, packing, scale, mask ? mask->data() : Tensor());
      },
      py::arg("x"), py::arg("packing").none(false), py::arg("scale") = 1.0,
      py::arg("key_mask") = py::none(), Release(),
      "softmax over the keys of maps; key_mask uint8 (total keys,)");
  m.def(
      "map_conv",
      [](const Var& x, const Var& weight, const Var& bias,
         const PackingPtr& packing, const std::array<std::int64_t, 2>& shift) {
        return map_conv(x, weight, bias, packing, {shift[0], shift[1]});
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"),
      py::arg("packing").none(false), py::arg("shift") = kNoShift, Release(),
      "k x k convolution of maps, heads as channels; the result is moved by "
      "shift = (down, right)");
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
  m.def("evolve", with(evolve), py::arg("previous"), py::arg("scores"),
        py::arg("weight"), py::arg("bias"), py::arg("coefficients"),
        py::arg("packing").none(false), py::arg("shift") = kNoShift, Release(),
        "p M + s S + w ReLU(Conv(a M + b S)), coefficients (a, b, p, s, w); "
        "the convolution's result is moved by shift = (down, right)");
  m.def("evolve_composite", with(evolve_composite), py::arg("previous"),
        py::arg("scores"), py::arg("weight"), py::arg("bias"),
        py::arg("coefficients"), py::arg("packing").none(false),
        py::arg("shift") = kNoShift, Release(),
        "evolve() spelled out in other ops");
}

void bind_fused_attention(py::module_& m) {
  m.def(
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
      "context (tokens, heads d) and carried maps: attention_scores, add (of "
      "score_bias), evolve, map_softmax, dropout and attention_context in one "
      "op");
}

std::vector<std::int64_t> offsets_of(const py::object& object) {
  const Tensor t = integers(object, "offsets");
  const auto* values = t.data<std::int64_t>();
  return {values, values + t.numel()};
}

std::shared_ptr<Packing> make_packing(Whole<"Packing: num_heads"> heads,
                                      const py::object& q, const py::object& k,
                                      bool causal, const OptionalVar& mask) {
  PackingPtr made = std::make_shared<const Packing>(
      heads.value, offsets_of(q), offsets_of(k.is_none() ? q : k));
  if (causal) made = Packing::causal(made);
  if (mask) made = Packing::masked(made, mask->data());
  return std::const_pointer_cast<Packing>(made);
}

void bind_packing(py::module_& m) {
  py::class_<Packing, std::shared_ptr<Packing>>(
      m, "Packing",
      "Where the sequences of a packed batch and their attention maps lie.")
      .def(py::init(&make_packing), py::arg("num_heads"), py::arg("offsets"),
           py::arg("key_offsets") = py::none(), py::arg("causal") = false,
           py::arg("key_mask") = py::none(),
           "causal: row i sees keys up to i + keys - queries; key_mask: uint8 "
           "(total keys,), keys with 0 are seen by no row.")
      .def_property_readonly("num_heads", &Packing::heads)
      .def_property_readonly("num_sequences", &Packing::sequences)
      .def_property_readonly("causal", &Packing::is_causal)
      .def_property_readonly("map_elements", &Packing::map_elements)
      .def_property_readonly("offsets",
                             [](const Packing& p) { return p.q_offsets(); })
      .def_property_readonly("key_offsets",
                             [](const Packing& p) { return p.k_offsets(); })
      .def(
          "pad",
          [](const PackingPtr& self, const Var& maps) {
            return unpack_maps(maps, self);
          },
          py::arg("maps"), Release(),
          "Flat maps as [sequences, heads, queries, keys], zeros outside.");
}

}  // namespace

void bind_ops(py::module_& m) {
  bind_packing(m);
  py::module_ ops = m.def_submodule("ops", "Differentiable functions.");
  bind_pointwise(ops);
  bind_shape(ops);
  bind_layers(ops);
  bind_maps(ops);
  bind_map_ops(ops);
  bind_fused_attention(ops);
  bind_sequence_ops(ops);
  m.def("op_names", [ops] {
    py::list names;
    for (const auto& item : ops.attr("__dict__").cast<py::dict>()) {
      const auto name = item.first.cast<std::string>();
      if (name.rfind("__", 0) != 0) names.append(name);
    }
    return names;
  });
}

}  // namespace ea
