// Searches lists, tuples and dicts of Python for tensors and arrays.
#pragma once

#include "bindings/bind.h"
#include "runtime/check.h"

namespace ea {

// Whether f holds for the object, or for an entry of a list, tuple or dict.
// Throws ShapeError below `levels` of them: a list may hold itself.
template <typename F>
bool any_within(const py::handle& object, F f, int levels = 64) {
  EA_CHECK(levels >= 0, "array",
           "lists are nested in more than 64 levels, or hold themselves; an "
           "array has at most 64 axes");
  if (py::isinstance<py::dict>(object)) {
    return any_within(object.attr("values")().cast<py::list>(), f, levels - 1);
  }
  if (!py::isinstance<py::tuple>(object) && !py::isinstance<py::list>(object)) {
    return f(object);
  }
  for (const py::handle entry : object) {
    if (any_within(entry, f, levels - 1)) return true;
  }
  return false;
}

inline bool has_gradient(const py::handle& object) {
  return py::isinstance<Var>(object) && object.cast<Var>().requires_grad();
}

}  // namespace ea
