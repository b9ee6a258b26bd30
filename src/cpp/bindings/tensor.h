// The parts of Python's Tensor, one function a file.
#pragma once

#include <optional>

#include "autograd/var.h"
#include "bindings/arguments.h"

namespace ea {

void bind_gradients(py::class_<Var>& tensor);
void bind_ufuncs(py::class_<Var>& tensor);
void bind_indexing(py::class_<Var>& tensor);
void bind_comparisons(py::class_<Var>& tensor);
void bind_numbers(py::class_<Var>& tensor);
void bind_selections(py::class_<Var>& tensor);

using AxisArgument = std::optional<Whole<"axis">>;

// The axis by NumPy's name or by PyTorch's. Throws ConfigError for both.
std::optional<int> axis_of(const AxisArgument& axis, const AxisArgument& dim);

// Refuses an argument that NumPy's np.sum(t), np.mean(t), np.max(t) and
// np.min(t) hand to the method of a tensor, unless it is None. Throws
// ConfigError.
void check_unused(const py::object& word, const char* name);

}  // namespace ea
