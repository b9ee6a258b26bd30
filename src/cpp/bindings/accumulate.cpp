// Products and running sums of tensors.
#include "ops/accumulate.h"

#include "bindings/ops.h"
#include "bindings/tensor.h"

namespace ea {

void bind_accumulate(py::class_<Var>& c) {
  def_numpy_reduction<over_joined, prod>(
      c, "prod", R"(Multiplies elements over one axis, several or all.

    y[...] = product of x[..., i, ...] over i

The gradient of an element is the product of the others, also where elements are 0.

Args:
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.
    dtype, out: None, as np.prod(tensor) hands them over.

Returns:
    Tensor in the type of x, without the axes; of all elements a 0-d one, of no elements
    1. Integers have products of int64.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, an axis stands twice, or dtype or out is
        not None.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).prod(axis=1).tolist()
    [2.0, 12.0])");
  c.def(
      "cumsum",
      [](const Var& x, const AxisArgument& axis, const AxisArgument& dim,
         const py::object& dtype, const py::object& out) {
        check_unused(dtype, "dtype");
        check_unused(out, "out");
        return cumsum(x, axis_of(axis, dim));
      },
      py::arg("axis") = py::none(), py::kw_only(), py::arg("dim") = py::none(),
      py::arg("dtype") = py::none(), py::arg("out") = py::none(), Release(),
      R"(Computes the cumulative sum along an axis.

    y[..., k, ...] = sum of x[..., i, ...] over i <= k

Args:
    axis, dim: the axis; negative numbers count from the last; None: all elements, in
        row-major order.
    dtype, out: None, as np.cumsum(tensor) hands them over.

Returns:
    Tensor in the shape and type of x; without an axis one of all elements. Integers
    have sums of int64.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, or dtype or out is not None.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).cumsum(-1).tolist()
    [[1.0, 3.0], [3.0, 7.0]])");
}

}  // namespace ea
