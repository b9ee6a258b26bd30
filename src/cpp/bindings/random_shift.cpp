// The scope that moves the streams of random ops, as Python's `with` has it.
#include "tensor/random_shift.h"

#include <memory>
#include <optional>
#include <utility>

#include "bindings/numpy.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Every `with` block makes a scope of its own.
struct ShiftBlock {
  Tensor shift;
  std::optional<RandomShift> scope;

  explicit ShiftBlock(Tensor number) : shift(std::move(number)) {
    const RandomShift checked(shift);
  }
  void enter() {
    EA_CHECK_AS(ConfigError, !scope.has_value(), "RandomShift",
                "entered already; make one for each block");
    scope.emplace(shift);
  }
};

}  // namespace

void bind_random_shift(py::module_& m) {
  py::class_<ShiftBlock>(
      m, "RandomShift",
      "with RandomShift(shift): every dropout that this thread begins draws "
      "stream + shift, an int64 number beside the tensors, as it is when a "
      "kernel runs. The backward reads the same tensor. DTypeError, ShapeError "
      "where it is something else.")
      .def(py::init([](const Var& shift) {
             return std::make_unique<ShiftBlock>(shift.data());
           }),
           py::arg("shift"))
      .def("__enter__", [](ShiftBlock& self) { self.enter(); })
      .def("__exit__",
           [](ShiftBlock& self, const py::args&) { self.scope.reset(); });
}

}  // namespace ea
