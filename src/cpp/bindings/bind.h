// The parts of the Python module, one function a file.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

namespace ea {

namespace py = pybind11;

// Dicts and lists as the stubs name them: dict[str, ...], list[...].
template <typename Value>
using DictOf = py::typing::Dict<py::str, Value>;
using AnyDict = DictOf<py::object>;
template <typename... Entries>
using ListOf = py::typing::List<py::typing::Tuple<Entries...>>;

// Turns the exception in flight into Python's, by the same rules as in calls.
void raise_from_import();

void bind_errors(py::module_& m);
void bind_runtime(py::module_& m);
void bind_devices(py::module_& m);
void bind_tensor(py::module_& m);
void bind_ops(py::module_& m);
void bind_attention(py::module_& m);
void bind_attention_layer(py::module_& m);
// Before bind_models: models are modules.
void bind_modules(py::module_& m);
void bind_models(py::module_& m);
void bind_optim(py::module_& m);
void bind_communicator(py::module_& m);

}  // namespace ea
