// Tensors as Python numbers and lists: float(t), f"{t:.3f}", t.tolist().
#include <string>

#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "ops/arithmetic.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr const char* kItem =
    R"(Returns the value of a tensor with one element; synchronises with its device.

Returns:
    A float; of integer types an int, of bool a bool.

Raises:
    ShapeError: there are more elements, or none.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([2.5]).item(), Tensor(7).item()
    (2.5, 7))";

constexpr const char* kToList =
    R"(Returns the values as Python numbers in nested lists.

    y = [[x[0, 0], x[0, 1], ...], [x[1, 0], ...], ...]

Returns:
    A list; of a 0-d tensor the number itself.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]])";

constexpr const char* kNumel = R"(Returns the number of elements.

    y = shape[0] * shape[1] * ...

Returns:
    An int; size holds it too.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0, 3.0]]).numel()
    3)";

constexpr const char* kSize =
    R"(The number of elements; called, the sizes of the axes as in PyTorch.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([[1.0, 2.0, 3.0]])
    >>> x.size, x.size(), x.size(-1)
    (3, (1, 3), 3))";

constexpr const char* kToCpu =
    R"(Returns the tensor on the CPU, or the tensor itself if it is there.

    y = x.to("cpu")

Returns:
    Tensor in the shape and type of this one.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).cpu().device
    'cpu')";

py::object number(const Var& self) {
  EA_CHECK(self.numel() == 1, "item", "expected one element, got shape {}",
           self.shape());
  Tensor t;
  {
    const ReleasedGil release;
    t = to_device(self.data(), kCpu);
  }
  if (is_floating(t.dtype())) return py::float_(t.item());
  if (t.dtype() == DType::boolean) return py::bool_(t.item() != 0);
  return py::int_(*cast(contiguous(t), DType::i64).data<std::int64_t>());
}

// Not py::int_(number), which keeps a bool.
py::int_ as_int(const Var& self) { return number(self).attr("__int__")(); }

py::object to_list(const Var& self) {
  Tensor t;
  {
    const ReleasedGil release;
    t = to_device(self.data(), kCpu);
    if (t.dtype() == DType::bf16) t = cast(t, DType::f32);
  }
  return to_numpy(t).attr("tolist")();
}

bool truth(const Var& self) {
  EA_CHECK_AS(InputError, self.numel() == 1, "bool",
              "a tensor of {} elements (shape {}) is neither true nor false; "
              "expected one element: reduce it, for example by .sum() or "
              ".max(); use `is` to compare identity",
              self.numel(), self.shape());
  return number(self).attr("__bool__")().cast<bool>();
}

// Formats a 0-d tensor as its number; other tensors have no format but repr().
py::str formatted(const py::object& object, const std::string& spec) {
  const auto self = object.cast<Var>();
  if (self.numel() == 1 && (self.rank() == 0 || !spec.empty())) {
    return py::str(number(self).attr("__format__")(spec));
  }
  EA_CHECK_AS(InputError, spec.empty(), "format",
              "'{}' formats one number, the tensor has shape {}; expected one "
              "element, or no format",
              spec, self.shape());
  return py::str(object);
}

py::object size(const Var& self) {
  py::tuple shape(self.rank());
  for (int axis = 0; axis < self.rank(); ++axis) shape[axis] = self.dim(axis);
  return py::module_::import("evolving_attention.array_types")
      .attr("ElementCount")(self.numel(), shape);
}

}  // namespace

void bind_numbers(py::class_<Var>& c) {
  c.def("item", &number, kItem)
      .def("tolist", &to_list, kToList)
      .def("numel", &Var::numel, kNumel)
      .def_property_readonly("size", &size, kSize)
      .def(
          "cpu", [](const Var& self) { return to_device(self, kCpu); },
          py::call_guard<ReleasedGil>(), kToCpu)
      .def("__float__",
           [](const Var& self) { return py::float_(number(self)); })
      .def("__int__", &as_int)
      .def("__index__",
           [](const Var& self) {
             if (is_floating(self.dtype()) || self.numel() != 1) {
               throw py::type_error(
                   "only integer tensors with one element are an index");
             }
             return as_int(self);
           })
      .def("__bool__", &truth)
      .def(
          "__round__",
          [](const Var& self, const py::object& digits) -> py::object {
            return py::module_::import("builtins")
                .attr("round")(number(self), digits);
          },
          py::arg("ndigits") = py::none(),
          "Rounds the number of a tensor with one element.")
      .def("__format__", &formatted, py::arg("spec"));
}

}  // namespace ea
