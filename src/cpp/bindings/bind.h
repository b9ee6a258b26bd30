// The parts of the Python module, one function per file.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include "autograd/var.h"
#include "bindings/gil.h"

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
// Throws InputError for a tensor that takes the place of a number and would
// lose its gradient.
void check_no_gradient(const py::handle& number);

// Converts the current exception to a Python exception, by the same rules as in
// calls.
void raise_from_import();

// Shortens the errors of wrong calls, for all functions and classes that the
// module has by now; one jump is all that other calls pay.
void tell_wrong_calls(py::module_& m);

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

// Reads a number as pybind11 does, but no tensor whose gradient would get lost;
// visible in every file for the same reason.
template <>
struct type_caster<double> {
  PYBIND11_TYPE_CASTER(double, make_caster<long double>::name);

  bool load(handle source, bool convert) {
    ea::check_no_gradient(source);
    make_caster<long double> number;  // reads with the precision of double
    if (!number.load(source, convert)) return false;
    value = static_cast<double>(cast_op<long double>(number));
    return true;
  }

  static handle cast(double number, return_value_policy, handle) {
    return PyFloat_FromDouble(number);
  }
};

}  // namespace pybind11::detail
