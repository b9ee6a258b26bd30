// Functions on the rows of packed sequences for Python, one entry per op.
#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "bindings/ops.h"
#include "ops/batch_norm.h"
#include "ops/conv1d.h"
#include "ops/images.h"
#include "ops/weight_norm.h"

namespace ea {

namespace {

void bind_conv1d(py::module_& ops) {
  ops.def(
      "conv1d",
      [](const Var& x, const Var& weight, const OptionalVar& bias,
         const PackingPtr& packing, Whole<"conv1d: dilation"> dilation,
         bool causal) {
        return conv1d(x, weight, or_none(bias), packing, dilation.value,
                      causal);
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"),
      py::arg("packing").none(false), py::arg("dilation") = 1,
      py::arg("causal") = false, Release(),
      R"(Convolves each packed sequence along its tokens.

    y[t, o] = bias[o] + sum over c, j of weight[o, c, j] x[t + j dilation - reach, c]

reach is (kernel - 1) dilation where causal, else half of that. Rows outside the
sequence are 0, whatever lies beside it in the batch.

Args:
    x: [total tokens, in].
    weight: [out, in, kernel]; kernel is odd unless causal.
    bias: [out], or None.
    packing: the sequences; its heads do not matter.
    dilation: distance of two taps, 1 or more.
    causal: whether no row sees a later one.

Returns:
    [total tokens, out] in the type of x.

Raises:
    ShapeError: rows, weight or bias do not fit, or a centred kernel is even.
    DTypeError: the tensors differ in type.
    ConfigError: dilation is below 1 or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 3])
    >>> x, pair = [[1.0], [2.0], [3.0]], [[[1.0, 1.0]]]
    >>> F.conv1d(x, pair, None, packing, causal=True).numpy().tolist()
    [[1.0], [3.0], [5.0]]

Source: van den Oord et al., WaveNet, 2016.)");
}

void bind_batch_norm(py::module_& ops) {
  ops.def(
      "batch_norm",
      [](const Var& x, const Var& weight, const Var& bias,
         const OptionalVar& mean, const OptionalVar& variance, bool training,
         double momentum, double eps, const OptionalVar& residual,
         bool rectify) {
        const RunningStatistics running{or_none(mean), or_none(variance)};
        const auto last = [](const Var& v) {
          return v.defined() && v.rank() == 4 ? channels_last(v) : v;
        };
        const Var y =
            batch_norm(last(x), weight, bias, running, training, momentum, eps,
                       last(or_none(residual)), rectify);
        return x.rank() == 4 ? channels_first(y) : y;
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"),
      py::arg("running_mean") = py::none(),
      py::arg("running_variance") = py::none(), py::arg("training") = false,
      py::arg("momentum") = 0.1, py::arg("eps") = 1e-5,
      py::arg("residual") = py::none(), py::arg("rectify") = false, Release(),
      R"(Normalises every channel over all tokens of a packed batch or pixels of images.

    y = (x - mean) / sqrt(variance + eps) * weight + bias + residual

With rectify y is max(that, 0), in the same pass over x. In training mean and variance
are the batch's, and the running ones move towards them by the momentum; otherwise the
running ones are used.

Args:
    x: [tokens, channels] or [n, channels, height, width]; two tokens or pixels or
        more in training.
    weight: [channels].
    bias: [channels].
    running_mean: [channels], float32 (float64 for float64), changed in place in
        training; None in training: not kept.
    running_variance: the same for the variance.
    training: whether the batch's statistics are used.
    momentum: in [0, 1], the weight of the batch in the running statistics.
    eps: what is added to the variance, 0 or more.
    residual: in the shape and the type of x, or None.
    rectify: whether numbers below 0 become 0.

Returns:
    The shape and the type of x.

Raises:
    ShapeError: a tensor does not fit.
    DTypeError: the tensors differ in type.
    InputError: one of the running statistics is missing, or training has one token or
        pixel.
    ConfigError: momentum or eps is out of range.

Example:
    >>> from evolving_attention import functional as F
    >>> x, one, zero = [[1.0], [3.0]], [1.0], [0.0]
    >>> F.batch_norm(x, one, zero, training=True, eps=0.0).numpy().tolist()
    [[-1.0], [1.0]]

Source: Ioffe and Szegedy, ICML 2015.)");
}

}  // namespace

void bind_sequence_ops(py::module_& ops) {
  bind_conv1d(ops);
  ops.def("weight_norm", &weight_norm, py::arg("v"), py::arg("g"), Release(),
          R"(Gives every row of a weight a length of its own.

    y[o] = g[o] v[o] / |v[o]|, the norm over all axes but the first

Args:
    v: directions, [out, ...].
    g: lengths, [out] or [out, 1, ..., 1].

Returns:
    [out, ...] in the type of v; a row of zeros gives NaN.

Raises:
    ShapeError: v has fewer than two axes, or g does not fit.
    DTypeError: v and g differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> F.weight_norm([[3.0, 4.0]], [10.0]).numpy().tolist()
    [[6.0, 8.0]]

Source: Salimans and Kingma, Weight Normalization, NeurIPS 2016.)");
  bind_batch_norm(ops);
}

}  // namespace ea
