// The tree of parameters and buffers for Python, and layers that keep state.
#include "nn/layers.h"

#include <pybind11/stl.h>

#include <set>

#include "bindings/arguments.h"
#include "bindings/devices.h"
#include "bindings/numpy.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Release = py::call_guard<ReleasedGil>;

ListOf<py::str, Var> named_parameters(const Module& module) {
  py::list all;
  for (const Module::Parameter& p : module.parameters()) {
    all.append(py::make_tuple(p.name, p.var));
  }
  return all;
}

py::typing::List<py::str> additions(const Module& module) {
  py::list names;
  for (const Module::Parameter& p : module.parameters()) {
    if (p.addition) names.append(p.name);
  }
  return names;
}

ListOf<py::str, Var> named_buffers(const Module& module) {
  py::list all;
  for (const Module::Buffer& b : module.buffers()) {
    all.append(py::make_tuple(b.name, b.var));
  }
  return all;
}

std::unique_ptr<BatchNorm> make_batch_norm(
    Whole<"BatchNorm: channels"> channels, const std::string& dtype,
    double momentum, double eps) {
  EA_CHECK_AS(ConfigError, channels.value > 0, "BatchNorm",
              "channels {}, expected 1 or more", channels.value);
  const DType type = parse_dtype(dtype);
  EA_CHECK_AS(ConfigError, is_floating(type), "BatchNorm",
              "dtype must be float32, bfloat16 or float64, got {}", dtype);
  auto made = std::make_unique<BatchNorm>(channels.value, type, momentum, eps);
  made->allocate();
  return made;
}

}  // namespace

void bind_modules(py::module_& m) {
  py::class_<Module>(m, "Module", "A tree of named parameters and buffers.")
      .def("named_parameters", &named_parameters)
      .def("named_buffers", &named_buffers,
           "State that is saved with the parameters, but not optimized.")
      .def(
          "additions", &additions,
          "Returns the names of the parameters that the attention slots add to "
          "the plain model; checkpoints of the plain model lack them.")
      .def(
          "allocate", [](Module& self) { self.allocate(); }, Release(),
          "Allocates parameters and buffers that have no memory yet.")
      .def("initialize", &Module::initialize, py::arg("names"), Release(),
           "Draws initial values for the named parameters, each from a stream "
           "of its own name.")
      .def("train", &Module::train, py::arg("mode") = true)
      .def(
          "to",
          [](Module& self, const py::object& device) {
            const Device target = device_of_python(device);
            const ReleasedGil release;
            self.to(target);
          },
          py::arg("device"),
          "Moves parameters, gradients and buffers to a device.")
      .def_property_readonly("training", &Module::training)
      .def("set_recompute", &Module::set_recompute, py::arg("recompute"),
           "Sets whether backward recomputes the layers' activations.")
      .def_property_readonly("recomputes", &Module::recomputes);
  py::class_<BatchNorm, Module>(m, "BatchNorm",
                                "Batch norm over packed tokens; its parameters "
                                "are zero until initialize() "
                                "or loading.")
      .def(py::init(&make_batch_norm), py::arg("channels"),
           py::arg("dtype") = "float32", py::arg("momentum") = 0.1,
           py::arg("eps") = 1e-5)
      .def("__call__", &BatchNorm::operator(), py::arg("x"), Release());
}

}  // namespace ea
