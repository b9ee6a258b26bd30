// Functions of layers for Python: products, norms, rows by index, losses.
#include <pybind11/stl.h>

#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/feed_forward.h"
#include "ops/gather.h"
#include "ops/gemm.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/losses.h"
#include "ops/rms_norm.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"

namespace ea {

namespace {

void bind_affine(py::module_& m) {
  m.def(
      "linear",
      [](const Var& x, const Var& w, const OptionalVar& b) {
        return linear(x, w, or_none(b));
      },
      py::arg("x"), py::arg("weight"), py::arg("bias") = py::none(), Release(),
      R"(Applies an affine map to the last axis.

    y = x W^T + b

Args:
    x: [..., in].
    weight: W, [out, in].
    bias: b, [out], or None.

Returns:
    [..., out] in the type of x.

Raises:
    ShapeError: the weight or the bias does not fit.
    DTypeError: the three differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> weight = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> F.linear([[2.0, 3.0]], weight, [0.0, 0.0, 1.0]).numpy().tolist()
    [[2.0, 3.0, 6.0]])");
  m.def(
      "linear_activation",
      [](const Var& x, const Var& w, const OptionalVar& b,
         const std::string& kind) {
        return linear_activation(x, w, or_none(b), parse_activation(kind));
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("activation"),
      Release(),
      R"(Applies an affine map and an activation as one operation.

    y = f(x W^T + b)

The result has the bits of linear() followed by the activation.

Args:
    x: [..., in].
    weight: W, [out, in].
    bias: b, [out], or None.
    activation: f: "gelu", "gelu_new" or "gelu_pytorch_tanh" (both GELU by tanh),
        "relu", "leaky_relu" or "tanh".

Returns:
    [..., out] in the type of x.

Raises:
    ShapeError: the weight or the bias does not fit.
    DTypeError: the tensors differ in type.
    ConfigError: the activation is not known.

Example:
    >>> from evolving_attention import functional as F
    >>> weight = [[1.0, 1.0], [-1.0, -1.0]]
    >>> F.linear_activation([[1.0, 2.0]], weight, None, "relu").numpy().tolist()
    [[3.0, 0.0]])");
}

void bind_feed_forward(py::module_& m) {
  m.def(
      "feed_forward",
      [](const Var& x, const Var& w1, const OptionalVar& b1,
         const std::string& kind, const Var& w2, const OptionalVar& b2) {
        return feed_forward(x, w1, or_none(b1), parse_activation(kind), w2,
                            or_none(b2));
      },
      py::arg("x"), py::arg("weight_1"), py::arg("bias_1"),
      py::arg("activation"), py::arg("weight_2"), py::arg("bias_2"), Release(),
      R"(Applies a transformer's feed-forward block as one operation.

    y = f(x W1^T + b1) W2^T + b2

Backward computes f again from its argument, which spares the memory of the widest
activation of a layer.

Args:
    x: [..., in].
    weight_1: W1, [wide, in].
    bias_1: b1, [wide], or None.
    activation: f, as in linear_activation().
    weight_2: W2, [out, wide].
    bias_2: b2, [out], or None.

Returns:
    [..., out] in the type of x.

Raises:
    ShapeError: a weight or a bias does not fit.
    DTypeError: the tensors differ in type.
    ConfigError: the activation is not known.

Example:
    >>> from evolving_attention import functional as F
    >>> w1, w2 = [[1.0], [-1.0]], [[1.0, 10.0]]
    >>> F.feed_forward([[2.0]], w1, None, "relu", w2, [0.5]).numpy().tolist()
    [[2.5]])");
}

void bind_products_and_norms(py::module_& m) {
  m.def(
      "matmul", &matmul, py::arg("a"), py::arg("b"),
      py::arg("transpose_a") = false, py::arg("transpose_b") = false, Release(),
      R"(Multiplies vectors, matrices and batches of matrices, as np.matmul does.

    y = op(a) op(b), op(m) = m^T where the flag is set, else m

Args:
    a: [..., m, k], or [..., k, m] with transpose_a; [k] is one row.
    b: [..., k, n], or [..., n, k] with transpose_b; [k] is one column.
    transpose_a: read a transposed.
    transpose_b: read b transposed.

Returns:
    [..., m, n] in the type of a and b, without m or n where a or b is a vector; the
    leading axes broadcast.

Raises:
    ShapeError: inner sizes differ, leading axes do not broadcast, or an operand has
        no axes, or is a vector to be transposed.
    DTypeError: types differ.

Example:
    >>> from evolving_attention import functional as F
    >>> F.matmul([[1.0, 2.0]], [[3.0, 4.0]], transpose_b=True).numpy().tolist()
    [[11.0]])");
  m.def(
      "layer_norm",
      [](const Var& x, const Var& w, const Var& b, double eps,
         const OptionalVar& r) { return layer_norm(x, w, b, eps, or_none(r)); },
      py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("eps") = 1e-12,
      py::arg("residual") = py::none(), Release(),
      R"(Normalises the last axis to mean 0 and variance 1, then scales and shifts it.

    y = (s - mean(s)) / sqrt(var(s) + eps) * weight + bias, s = x + residual

Args:
    x: [..., width].
    weight: [width].
    bias: [width].
    eps: what is added to the variance.
    residual: [..., width] as x, or None (then s = x).

Returns:
    [..., width] in the type of x.

Raises:
    ShapeError: weight, bias or residual does not fit.
    DTypeError: the tensors differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> F.layer_norm([[1.0, 3.0]], [1.0, 1.0], [0.0, 5.0]).numpy().tolist()
    [[-1.0, 6.0]]

Source: Ba et al., Layer Normalization, 2016.)");
}

void bind_rms_norm(py::module_& m) {
  m.def(
      "rms_norm", &rms_norm, py::arg("x"), py::arg("weight"),
      py::arg("eps") = 1e-6, Release(),
      R"(Scales the last axis to mean square 1, then by a weight; no mean, no shift.

    y = x / sqrt(mean(x^2) + eps) * weight

Args:
    x: [..., width].
    weight: [width].
    eps: what is added to the mean square.

Returns:
    [..., width] in the type of x. Sums are in float32 for bfloat16 too.

Raises:
    ShapeError: the weight does not fit.
    DTypeError: the tensors differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> F.rms_norm([[1.0, 7.0]], [5.0, 10.0], eps=0.0).numpy().tolist()
    [[1.0, 14.0]]

Source: Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019.)");
}

void bind_dropout_layer_norm(py::module_& m) {
  m.def(
      "dropout_layer_norm",
      [](const Var& x, const Var& residual, const Var& weight, const Var& bias,
         double eps, double p, bool training) {
        return dropout_layer_norm(x, residual, weight, bias, eps,
                                  dropout_rate(p, training));
      },
      py::arg("x"), py::arg("residual"), py::arg("weight"), py::arg("bias"),
      py::arg("eps") = 1e-12, py::arg("p") = 0.1, py::arg("training") = true,
      Release(),
      R"(Adds a residual to the dropout of a tensor and normalises the last axis.

    y = layer_norm(dropout(x, p, training) + residual, weight, bias, eps)

Bit-identical to the two operations in sequence.

Args:
    x: [..., width].
    residual: [..., width] as x.
    weight: [width].
    bias: [width].
    eps: what is added to the variance.
    p: probability of zero, in [0, 1).
    training: False: no dropout.

Returns:
    [..., width] in the type of x.

Raises:
    ShapeError: residual, weight or bias does not fit.
    DTypeError: the tensors differ in type.
    ConfigError: p is out of range.

Example:
    >>> from evolving_attention import functional as F
    >>> x, residual, one, zero = [[1.0, 1.0]], [[0.0, 2.0]], [1.0] * 2, [0.0] * 2
    >>> y = F.dropout_layer_norm(x, residual, one, zero, training=False)
    >>> y.numpy().tolist()
    [[-1.0, 1.0]])");
}

void bind_gather(py::module_& m) {
  m.def(
      "embedding",
      [](const Var& weight, const py::object& ids, std::int64_t padding_id) {
        return embedding(weight, optional_integers(ids, "ids", /*masks=*/false),
                         "ids", padding_id);
      },
      py::arg("weight"), py::arg("ids"), py::arg("padding_id") = -1,
      R"(Looks rows of a table up by id.

    y[...] = weight[ids[...]]

Backward keeps the gradient of the rows that were used alone: Tensor.row_grad.

Args:
    weight: the table, [rows, width].
    ids: [...] of integers from 0 to rows - 1.
    padding_id: the row that no gradient reaches; negative: none.

Returns:
    [..., width] in the type of the table.

Raises:
    ShapeError: the table is no matrix.
    DTypeError: ids are not integers.
    InputError: an id is outside the table; says which.

Example:
    >>> from evolving_attention import functional as F
    >>> F.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 0, 1]).numpy().tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])");
  m.def(
      "gather_rows",
      [](const Var& x, const py::object& index) {
        return gather_rows(x,
                           optional_integers(index, "index", /*masks=*/false));
      },
      py::arg("x"), py::arg("index"),
      R"(Takes rows by index; -1 gives a row of zeros.

    y[...] = x[index[...]] where index >= 0, else 0

Args:
    x: [rows, ...].
    index: [...] of integers from -1 to rows - 1.

Returns:
    The shape of index followed by that of a row of x, in the type of x.

Raises:
    ShapeError: x has no axis.
    DTypeError: indices are not integers.
    InputError: an index is out of range; says which.

Example:
    >>> from evolving_attention import functional as F
    >>> F.gather_rows([[1.0, 2.0], [3.0, 4.0]], [1, -1]).numpy().tolist()
    [[3.0, 4.0], [0.0, 0.0]])");
}

void bind_cross_entropy(py::module_& m) {
  m.def(
      "cross_entropy",
      [](const Var& logits, const py::object& labels, double smoothing,
         std::int64_t ignore, const OptionalVar& weight,
         const std::string& reduction) {
        const Reduction how = parse_reduction(reduction, "cross_entropy");
        const Tensor classes = optional_integers(labels, "labels");
        const Var scales = or_none(weight);
        if (!scales.defined() && how == Reduction::mean) {
          return cross_entropy(logits, classes, smoothing, ignore);
        }
        return weighted_cross_entropy(
            logits, classes, scales.defined() ? scales.data() : Tensor(),
            smoothing, ignore, how);
      },
      py::arg("logits"), py::arg("labels"), py::arg("label_smoothing") = 0.0,
      py::arg("ignore_index") = kIgnoreIndex, py::kw_only(),
      py::arg("weight") = py::none(), py::arg("reduction") = "mean",
      R"(Computes the cross entropy of classes.

    l[n] = -sum over classes c of w[c] t[n, c] log softmax(x[n])[c]
    t[n, c] = (1 - e) [c = labels[n]] + e / classes
    loss = sum over rows of l[n] / sum over rows of w[labels[n]]

with x the logits, e the label smoothing and w the weights; as in PyTorch.

Args:
    logits: [rows, classes].
    labels: [rows] of integers from 0 to classes - 1, or ignore_index.
    label_smoothing: e, in [0, 1).
    ignore_index: the label of rows that do not count.
    weight: w, [classes], numbers from 0; by default ones.
    reduction: "mean" for the loss, "sum" for the sum of l, "none" for l.

Returns:
    0-d, with "none" [rows]; float32 (float64 for float64 logits).

Raises:
    ShapeError: logits are no matrix, or there is not one label for each row or
        not one weight for each class.
    DTypeError: labels are not integers; True and False count as 1 and 0.
    InputError: a label or weight is out of range; says which.
    ConfigError: label_smoothing is out of range, or the reduction is unknown.

Example:
    >>> from evolving_attention import functional as F
    >>> loss = F.cross_entropy([[0.0, 0.0], [9.0, 0.0]], [1, -100])
    >>> round(loss.item(), 4)
    0.6931)");
}

void bind_losses(py::module_& m) {
  m.def(
      "binary_cross_entropy_with_logits",
      [](const Var& logits, const Var& targets, const std::string& reduction) {
        return binary_cross_entropy(
            logits, targets.data(),
            parse_reduction(reduction, "binary_cross_entropy_with_logits"));
      },
      py::arg("logits"), py::arg("targets"), py::kw_only(),
      py::arg("reduction") = "mean", Release(),
      R"(Computes the cross entropy of decisions between yes and no.

    l = -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))),   loss = mean of l

with x the logits and y the targets; no gradient goes to the targets.

Args:
    logits: [...].
    targets: [...] in the shape of logits, numbers from 0 (no) to 1 (yes).
    reduction: "mean", "sum", or "none" for l.

Returns:
    0-d, with "none" [...]; float32 (float64 for float64 logits).

Raises:
    ShapeError: the shapes differ.
    InputError: a target is out of range; says which.
    ConfigError: the reduction is unknown.

Example:
    >>> from evolving_attention import functional as F
    >>> loss = F.binary_cross_entropy_with_logits([0.0, 9.0], [1.0, 1.0])
    >>> round(loss.item(), 4)
    0.3466)");
  m.def("mse_loss", &mse_loss, py::arg("prediction"), py::arg("target"),
        Release(),
        R"(Computes the mean squared error.

    loss = mean of (prediction - target)^2

Args:
    prediction: [...].
    target: [...] in the shape of prediction.

Returns:
    0-d, float32 (float64 for a float64 prediction).

Raises:
    ShapeError: the shapes differ.

Example:
    >>> from evolving_attention import functional as F
    >>> F.mse_loss([1.0, 2.0], [1.0, 4.0]).item()
    2.0)");
}

Var softmax_along(const Var& x, const AxisArgument& axis,
                  const AxisArgument& dim) {
  const int last = x.rank() - 1;
  const int a =
      normalize_axis(axis_of(axis, dim).value_or(-1), x.rank(), "softmax");
  if (a == last) return softmax(x);
  return transpose(softmax(transpose(x, a, last)), a, last);
}

}  // namespace

void bind_softmax(py::module_* m, py::class_<Var>* c) {
  const auto doc = [](bool method) {
    return doc_of(
        method, R"(Normalises one axis to probabilities.

    y_i = exp(x_i) / sum of exp(x_j) over j)",
        "[..., n] of a floating type.",
        R"(    axis, dim: the axis; negative numbers count from the last; None: the last.
)",
        R"(    [..., n] in the type of x.

Raises:
    ShapeError: x has no such axis.
    DTypeError: x is not a floating-point tensor.
    ConfigError: axis and dim are both given.
)",
        method ? R"(    >>> Tensor([0.0, 0.0]).softmax(-1).tolist()
    [0.5, 0.5])"
               : R"(    >>> F.softmax([[0.0, 0.0, 0.0, 0.0]]).tolist()
    [[0.25, 0.25, 0.25, 0.25]])");
  };
  def_both(m, c, "softmax", &softmax_along, doc, py::arg("axis") = py::none(),
           py::kw_only(), py::arg("dim") = py::none(), Release());
}

void bind_layer_ops(py::module_& ops) {
  bind_affine(ops);
  bind_feed_forward(ops);
  bind_products_and_norms(ops);
  bind_rms_norm(ops);
  bind_dropout_layer_norm(ops);
  bind_softmax(&ops, nullptr);
  bind_log_sums(&ops, nullptr);
  bind_gather(ops);
  bind_cross_entropy(ops);
  bind_losses(ops);
}

}  // namespace ea
