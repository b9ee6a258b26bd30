// The parts of Python's Tensor, one function per file.
#pragma once

#include <pybind11/stl.h>

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "autograd/var.h"
#include "bindings/arguments.h"

namespace ea {

void bind_gradients(py::class_<Var>& tensor);
void bind_ufuncs(py::class_<Var>& tensor);
void bind_indexing(py::class_<Var>& tensor);
void bind_comparisons(py::class_<Var>& tensor);
void bind_numbers(py::class_<Var>& tensor);
void bind_selections(py::class_<Var>& tensor);
void bind_shapes(py::class_<Var>& tensor);
void bind_split(py::class_<Var>& tensor);
void bind_statistics(py::class_<Var>& tensor);
void bind_accumulate(py::class_<Var>& tensor);
void bind_ordering(py::class_<Var>& tensor);
void bind_pointwise_methods(py::class_<Var>& tensor);
void bind_conversions(py::class_<Var>& tensor);
void bind_masks(py::class_<Var>& tensor);

// Narrows an axis to int; values out of range remain invalid axes.
int narrow(std::int64_t axis);

using AxisArgument = std::optional<Whole<"axis">>;

// Returns the axis, given under NumPy's name or PyTorch's. Throws ConfigError
// if both are given.
std::optional<int> axis_of(const AxisArgument& axis, const AxisArgument& dim);

// One axis, several axes, or all axes if none is given.
using AxesArgument =
    std::optional<std::variant<std::vector<Whole<"axis">>, Whole<"axis">>>;

// Reduces x over the axes, given under NumPy's name or PyTorch's. Throws
// ConfigError for both names, or for a repeated axis.
using AxisReduction = Var (*)(const Var&, std::optional<int>, bool);
Var over_axes(AxisReduction reduction, const Var& x, const AxesArgument& axis,
              const AxesArgument& dim, bool keepdims);

// Reduces x over one axis or all elements; several axes are merged into one
// first. Axes and errors are those of over_axes().
using JoinedReduction =
    std::function<Var(const Var&, std::optional<int>, bool)>;
Var over_joined(const JoinedReduction& reduction, const Var& x,
                const AxesArgument& axis, const AxesArgument& dim,
                bool keepdims);

// Binds softmax, or log_softmax and logsumexp, to ops or to Tensor; the other
// pointer is null.
void bind_softmax(py::module_* ops, py::class_<Var>* tensor);
void bind_log_sums(py::module_* ops, py::class_<Var>* tensor);

// Rejects an argument that np.sum(t), np.mean(t), np.max(t) and np.min(t) pass
// to the method of a tensor, unless it is None. Throws ConfigError.
void check_unused(const py::object& word, const char* name);

// Binds fn(x, axis, keepdims, dim, keepdim, more...) to ops or to Tensor.
template <typename Target, typename Fn, typename... More>
void def_reduction(Target& target, const char* name, Fn fn, const char* doc,
                   const More&... more) {
  const auto def = [&](const auto&... x) {
    target.def(name, fn, x..., py::arg("axis") = py::none(),
               py::arg("keepdims") = false, py::kw_only(),
               py::arg("dim") = py::none(), py::arg("keepdim") = false, more...,
               py::call_guard<ReleasedGil>(), doc);
  };
  if constexpr (std::is_same_v<Target, py::module_>) {
    def(py::arg("x"));
  } else {
    def();
  }
}

// Binds over_axes() or over_joined() of Fn to Tensor, with the dtype and out
// that NumPy passes.
template <auto Over, AxisReduction Fn>
void def_numpy_reduction(py::class_<Var>& tensor, const char* name,
                         const char* doc) {
  const auto run = [](const Var& x, const AxesArgument& axis, bool keepdims,
                      const AxesArgument& dim, bool keepdim,
                      const py::object& dtype, const py::object& out) {
    check_unused(dtype, "dtype");
    check_unused(out, "out");
    return Over(Fn, x, axis, dim, keepdims || keepdim);
  };
  def_reduction(tensor, name, run, doc, py::arg("dtype") = py::none(),
                py::arg("out") = py::none());
}

}  // namespace ea
