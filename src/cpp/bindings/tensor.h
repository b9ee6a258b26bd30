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

}  // namespace ea
