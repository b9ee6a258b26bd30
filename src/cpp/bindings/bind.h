// The parts of the Python module, one function per file.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include "autograd/var.h"

namespace ea {

namespace py = pybind11;

// Dicts and lists as named in the stubs: dict[str, ...], list[...].
template <typename Value>
using DictOf = py::typing::Dict<py::str, Value>;
using AnyDict = DictOf<py::object>;
using AnyTuple = py::typing::Tuple<py::object, py::ellipsis>;
template <typename... Entries>
using ListOf = py::typing::List<py::typing::Tuple<Entries...>>;

// Reads the operand of an op: a tensor, or anything from_python() takes. Throws
// what that throws, so that no call prints a list of C++ signatures.
Var var_of(const py::handle& object);

// Converts the current exception to a Python exception, by the same rules as in
// calls.
void raise_from_import();

void bind_errors(py::module_& m);
void bind_runtime(py::module_& m);
void bind_devices(py::module_& m);
void bind_tensor(py::module_& m);
void bind_ops(py::module_& m);
void bind_attention(py::module_& m);
void bind_attention_layer(py::module_& m);
// Called before bind_models(): models are modules.
void bind_modules(py::module_& m);
void bind_models(py::module_& m);
void bind_generation(py::module_& m);
void bind_optim(py::module_& m);
void bind_communicator(py::module_& m);

}  // namespace ea

namespace pybind11::detail {

// Accepts an array-like wherever a Tensor is expected. It must be visible in
// every file of the bindings: a file without it would compile a different
// caster with the same name and another size.
template <>
struct type_caster<ea::Var> : type_caster_base<ea::Var> {
  bool load(handle source, bool convert) {
    if (isinstance<ea::Var>(source)) {
      return type_caster_base<ea::Var>::load(source, convert);
    }
    if (!convert) return false;
    converted_ = ea::var_of(source);
    value = &converted_;
    return true;
  }

 private:
  ea::Var converted_;
};

}  // namespace pybind11::detail
