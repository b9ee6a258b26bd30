// The parts of Python's Tensor, one function a file.
#pragma once

#include <pybind11/stl.h>

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
void bind_pointwise_methods(py::class_<Var>& tensor);
void bind_conversions(py::class_<Var>& tensor);
void bind_masks(py::class_<Var>& tensor);

// An axis no tensor has stays one when it does not fit an int.
int narrow(std::int64_t axis);

using AxisArgument = std::optional<Whole<"axis">>;

// The axis by NumPy's name or by PyTorch's. Throws ConfigError for both.
std::optional<int> axis_of(const AxisArgument& axis, const AxisArgument& dim);

// One axis, several, or all when there is none.
using AxesArgument =
    std::optional<std::variant<std::vector<Whole<"axis">>, Whole<"axis">>>;

// Fn over the axes of x, by NumPy's name or by PyTorch's. Throws ConfigError
// for both names, or for an axis that stands twice.
using AxisReduction = Var (*)(const Var&, std::optional<int>, bool);
Var over_axes(AxisReduction reduction, const Var& x, const AxesArgument& axis,
              const AxesArgument& dim, bool keepdims);

// Of ops, or of Tensor: the other one is null.
void bind_softmax(py::module_* ops, py::class_<Var>* tensor);

// Refuses an argument that NumPy's np.sum(t), np.mean(t), np.max(t) and
// np.min(t) hand to the method of a tensor, unless it is None. Throws
// ConfigError.
void check_unused(const py::object& word, const char* name);

}  // namespace ea
