// Shared helpers of the files that bind evolving_attention._core.ops.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "autograd/var.h"
#include "bindings/bind.h"

namespace ea {

using Release = py::call_guard<ReleasedGil>;
using OptionalVar = std::optional<Var>;

// Zero shift for convolutions of maps.
inline constexpr std::array<std::int64_t, 2> kNoShift{0, 0};

inline Var or_none(const OptionalVar& v) { return v ? *v : Var(); }

// Builds the docstring of a function that is both in ops and a method, from
// summary and formula, arguments and the rest; the method has no x.
std::string doc_of(bool method, const std::string& head, const std::string& x,
                   const std::string& arguments, const std::string& rest,
                   const std::string& example);

// Binds a function of x and its docstring, doc(method), to ops or to Tensor;
// the other pointer is null.
template <typename Fn, typename Doc, typename... Extra>
void def_both(py::module_* ops, py::class_<Var>* tensor, const char* name,
              Fn fn, const Doc& doc, const Extra&... extra) {
  if (ops != nullptr) {
    ops->def(name, fn, py::arg("x"), extra..., doc(false).c_str());
  }
  if (tensor != nullptr) tensor->def(name, fn, extra..., doc(true).c_str());
}

// Called by bind_ops in this order, the order of op_names().
void bind_array_ops(py::module_& ops);
void bind_pointwise_ops(py::module_& ops);  // called by bind_array_ops
void bind_selection_ops(py::module_& ops);
void bind_layer_ops(py::module_& ops);
void bind_attention_ops(py::module_& ops);
void bind_map_ops(py::module_& ops);
void bind_fused_attention(py::module_& ops);
void bind_sequence_ops(py::module_& ops);
void bind_image_ops(py::module_& ops);

}  // namespace ea
