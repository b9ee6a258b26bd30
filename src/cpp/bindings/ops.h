// The functions of evolving_attention._core.ops: what the files that bind them
// share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "autograd/var.h"
#include "bindings/bind.h"

namespace ea {

using Release = py::call_guard<py::gil_scoped_release>;
using OptionalVar = std::optional<Var>;

// No shift of a convolution of maps.
inline constexpr std::array<std::int64_t, 2> kNoShift{0, 0};

inline Var or_none(const OptionalVar& v) { return v ? *v : Var(); }

// Summary and formula, arguments, and the rest of a docstring whose function is
// one of ops and a method: the method has no x.
std::string doc_of(bool method, const std::string& head, const std::string& x,
                   const std::string& arguments, const std::string& rest,
                   const std::string& example);

// Called by bind_ops in this order, which is that of op_names().
void bind_array_ops(py::module_& ops);
void bind_pointwise_ops(py::module_& ops);  // by bind_array_ops
void bind_selection_ops(py::module_& ops);
void bind_layer_ops(py::module_& ops);
void bind_attention_ops(py::module_& ops);
void bind_map_ops(py::module_& ops);
void bind_fused_attention(py::module_& ops);
void bind_sequence_ops(py::module_& ops);
void bind_image_ops(py::module_& ops);

}  // namespace ea
