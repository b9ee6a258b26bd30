// Communication between processes: communicators, and sums of gradients.
#include "runtime/communicator.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/devices.h"
#include "bindings/numpy.h"
#include "optim/rank_sums.h"
#include "runtime/check.h"
#include "runtime/device_backend.h"

namespace ea {

namespace {

using Release = py::call_guard<ReleasedGil>;
using Extents = std::vector<std::int64_t>;

std::shared_ptr<Communicator> connect(const py::object& device, int size,
                                      int rank, const py::bytes& id) {
  const Device where = device_of_python(device);
  EA_CHECK_AS(ConfigError, size > 0 && rank >= 0 && rank < size, "communicator",
              "rank {} of {}, expected one from 0 to size - 1", rank, size);
  const std::string name = id;
  const ReleasedGil release;
  return device_backend(where).communicator(where.index, size, rank, name);
}

std::vector<std::optional<Var>> gather(
    Communicator& self, const std::optional<Var>& own,
    const std::vector<std::optional<Extents>>& shapes,
    const std::string& dtype) {
  std::vector<std::optional<Shape>> wanted;
  for (const auto& sizes : shapes) {
    if (!sizes) {
      wanted.emplace_back();
      continue;
    }
    Shape shape;
    for (const std::int64_t n : *sizes) shape.append(n);
    wanted.emplace_back(shape);
  }
  std::vector<std::optional<Var>> all;
  for (const Tensor& part : gather_ranks(self, own ? own->data() : Tensor(),
                                         parse_dtype(dtype), wanted)) {
    all.push_back(part.defined() ? std::optional(Var(part)) : std::nullopt);
  }
  return all;
}

}  // namespace

void bind_communicator(py::module_& m) {
  m.def(
      "exchange_library",
      [](const py::object& device) {
        return device_backend(device_of_python(device)).exchange_library();
      },
      py::arg("device"),
      "Returns the name, version and file of the library through which devices "
      "of several processes exchange memory.");
  m.def(
      "communicator_id",
      [](const py::object& device) {
        return py::bytes(
            device_backend(device_of_python(device)).communicator_id());
      },
      py::arg("device"),
      "Returns the name of a new communicator, for all its ranks.");
  py::class_<Communicator, std::shared_ptr<Communicator>>(
      m, "Communicator",
      "Connects devices of several processes. Exchanges run on a stream of "
      "their own, next to the stream of each device's other work.")
      .def(py::init(&connect), py::arg("device"), py::arg("size"),
           py::arg("rank"), py::arg("id"))
      .def_property_readonly(
          "device",
          [](const Communicator& self) { return name_of(self.device()); })
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("rank", &Communicator::rank)
      .def("join", &Communicator::precede_device, Release(),
           "Makes later work of the device wait for all exchanges so far.")
      .def("gather", &gather, py::arg("own"), py::arg("shapes"),
           py::arg("dtype"), Release(),
           "Returns the tensor of every rank, by rank. shapes has None for a "
           "rank that sends nothing.")
      .def(
          "busy", &Communicator::busy, Release(),
          "Returns the seconds since the last exchange was requested while one "
          "is pending, else 0.")
      .def("failure", &Communicator::failure, Release(),
           "Returns the library's error text, empty without an error.")
      .def("abort", &Communicator::abort, Release(),
           "Cancels all pending exchanges; data expected from other ranks is "
           "undefined afterwards.")
      .def("close", &Communicator::close, Release(),
           "Closes the communicator; all ranks must call it, with no exchange "
           "pending.");
  py::class_<GradientBucket>(
      m, "GradientBucket",
      "Parameters whose gradients are summed over ranks together.")
      .def(py::init<std::shared_ptr<Communicator>, std::vector<Var>>(),
           py::arg("ranks"), py::arg("members"))
      .def("clear", &GradientBucket::clear, "Discards the sums.")
      .def(
          "launch", &GradientBucket::launch, py::arg("givers"), py::arg("last"),
          Release(),
          "Takes the members' gradients and starts to send them; returns which "
          "members had one.")
      .def("hand_out", &GradientBucket::hand_out, py::arg("summed"), Release(),
           "Sets the members' gradients to the sums.");
}

}  // namespace ea
