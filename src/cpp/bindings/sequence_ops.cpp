// Functions on the rows of packed sequences, for Python: one entry an op.
#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "bindings/numpy.h"
#include "ops/batch_norm.h"
#include "ops/conv1d.h"
#include "ops/weight_norm.h"

namespace ea {

namespace {

using Release = py::call_guard<py::gil_scoped_release>;
using OptionalVar = std::optional<Var>;

Var or_none(const OptionalVar& v) { return v ? *v : Var(); }

}  // namespace

void bind_sequence_ops(py::module_& ops) {
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
      "convolution along each sequence, zeros beyond its ends; x (tokens, in), "
      "weight (out, in, kernel), bias (out,) or None");
  ops.def("weight_norm", &weight_norm, py::arg("v"), py::arg("g"), Release(),
          "g v / |v|, the norm over all axes but the first");
  ops.def(
      "batch_norm",
      [](const Var& x, const Var& weight, const Var& bias,
         const OptionalVar& mean, const OptionalVar& variance, bool training,
         double momentum, double eps) {
        return batch_norm(x, weight, bias, {or_none(mean), or_none(variance)},
                          training, momentum, eps);
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"),
      py::arg("running_mean") = py::none(),
      py::arg("running_variance") = py::none(), py::arg("training") = false,
      py::arg("momentum") = 0.1, py::arg("eps") = 1e-5, Release(),
      "normalises channels over all tokens; x (tokens, channels); the running "
      "statistics, float32 (channels,), change in place in training");
}

}  // namespace ea
