// The parts of the Python module, one function a file.
#pragma once

#include <pybind11/pybind11.h>

namespace ea {

namespace py = pybind11;

// Turns the exception in flight into Python's, by the same rules as in calls.
void raise_from_import();

void bind_errors(py::module_& m);
void bind_runtime(py::module_& m);
void bind_devices(py::module_& m);
void bind_tensor(py::module_& m);
void bind_ops(py::module_& m);
// Called by bind_ops, with the module of the ops.
void bind_map_ops(py::module_& ops);
void bind_sequence_ops(py::module_& ops);
void bind_attention(py::module_& m);
void bind_attention_layer(py::module_& m);
// Before bind_models: models are modules.
void bind_modules(py::module_& m);
void bind_models(py::module_& m);
void bind_optim(py::module_& m);
void bind_communicator(py::module_& m);

}  // namespace ea
