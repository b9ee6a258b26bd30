// Searches lists, tuples and dicts of Python for tensors and arrays.
#pragma once

#include "bindings/bind.h"

namespace ea {

// Whether f holds for the object, or for an entry of a list, tuple or dict.
template <typename F>
bool any_within(const py::handle& object, F f) {
  if (py::isinstance<py::dict>(object)) {
    return any_within(object.attr("values")().cast<py::list>(), f);
  }
  if (!py::isinstance<py::tuple>(object) && !py::isinstance<py::list>(object)) {
    return f(object);
  }
  for (const py::handle entry : object) {
    if (any_within(entry, f)) return true;
  }
  return false;
}

inline bool has_gradient(const py::handle& object) {
  return py::isinstance<Var>(object) && object.cast<Var>().requires_grad();
}

}  // namespace ea
