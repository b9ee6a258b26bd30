// Copies of tensors: in another type, or in new memory.
#include <string>

#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/arithmetic.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

void bind_type(py::class_<Var>& c, const char* name, DType dtype) {
  const std::string type(name_of(dtype));
  const std::string doc = "Converts the values to " + type + R"(.

    y = x, rounded to the nearest value of a floating type, truncated to an integer

Returns:
    [...] in the shape of x; this tensor itself where nothing changes.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.5]).)" + name +
                          "().dtype\n    '" + type + "'";
  c.def(
      name, [dtype](const Var& x) { return cast(x, dtype); }, Release(),
      doc.c_str());
}

void bind_astype(py::class_<Var>& c) {
  c.def(
      "astype",
      [](const Var& self, const py::object& dtype, bool copy) {
        const DType wanted = dtype_of_python(dtype);
        const ReleasedGil release;
        const bool same = self.dtype() == wanted;
        return same && copy ? copied(self) : cast(self, wanted);
      },
      py::arg("dtype"), py::kw_only(), py::arg("copy") = true,
      R"(Returns a copy of the values in an element type.

    y = x, rounded to the nearest value of a floating type, truncated to an integer

Args:
    dtype: the type, as for Tensor().
    copy: False: where the type stays, returns this tensor itself.

Returns:
    [...] in the shape of x.

Raises:
    DTypeError: the type is not known.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.5]).astype("float64").dtype
    'float64')");
}

void bind_copies(py::class_<Var>& c) {
  c.def("clone", &copied, Release(),
        R"(Returns a copy.

    y = x; differentiable

Returns:
    [...] in the shape and type of x.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0])
    >>> y = x.clone()
    >>> y.copy_([2.0])
    >>> x.tolist()
    [1.0])");
  c.def(
      "contiguous",
      [](const Var& x) { return x.data().is_contiguous() ? x : copied(x); },
      Release(),
      R"(Returns the values in row-major memory.

    y = x; differentiable

Returns:
    [...] in the shape and type of x; this tensor itself where its memory is so.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0]]).T.contiguous().tolist()
    [[1.0], [2.0]])");
  c.def(
      "requires_grad_",
      [](const py::object& self, const py::object& requires_grad) {
        self.attr("requires_grad") = requires_grad;
        return self.cast<Var>();
      },
      py::arg("requires_grad") = true,
      R"(Sets whether backward() gives the tensor a gradient, in place.

    self.requires_grad = requires_grad

Args:
    requires_grad: True or False.

Returns:
    This tensor.

Raises:
    InputError: an operation has made the tensor, or the value is no bool.
    DTypeError: the element type has no gradient.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).requires_grad_().requires_grad
    True)");
}

}  // namespace

void bind_conversions(py::class_<Var>& c) {
  bind_type(c, "float", DType::f32);
  bind_type(c, "double", DType::f64);
  bind_type(c, "bfloat16", DType::bf16);
  bind_astype(c);
  bind_copies(c);
}

}  // namespace ea
