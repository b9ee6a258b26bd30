// Tensor methods that sort along an axis.
#include "ops/ordering.h"

#include "bindings/ops.h"
#include "bindings/tensor.h"

namespace ea {

namespace {

Ordered sorted_along(const char* op, const Var& x, const AxisArgument& axis,
                     const AxisArgument& dim, bool descending,
                     std::optional<std::int64_t> k = {}) {
  const ReleasedGil release;
  return ordered(op, x, axis_of(axis, dim).value_or(-1), descending, k);
}

py::object as_pair(const Ordered& found) {
  return py::module_::import("evolving_attention.array_types")
      .attr("Sorted")(found.values, Var(found.indices));
}

constexpr const char* kSort =
    R"(Sorts the elements along an axis.

    values[..., j, ...] = x[..., indices[..., j, ...], ...], in ascending order

Equal elements keep their order; NaN counts as the largest value. The gradient goes back
to the elements. x stays as it is.

Args:
    axis, dim: the axis; negative numbers count from the last; None: the last.
    descending: whether the largest element comes first.

Returns:
    The pair (values, indices) in the shape of x: the elements, and where they were
    along the axis, int64.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> values, indices = Tensor([3.0, 1.0, 2.0]).sort(descending=True)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0, 1.0], [0, 2, 1]))";

constexpr const char* kArgSort =
    R"(Finds the indices that sort the elements along an axis.

    y = x.sort(axis, descending).indices

Args:
    axis, dim: the axis; negative numbers count from the last; None: the last.
    descending: whether the largest element comes first.

Returns:
    Tensor of int64 in the shape of x.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([3.0, 1.0, 2.0]).argsort().tolist()
    [1, 2, 0])";

constexpr const char* kTopK =
    R"(Takes the k largest elements along an axis, or the smallest.

    values[..., j, ...] = x[..., indices[..., j, ...], ...], the largest first

Equal elements keep their order; NaN counts as the largest value. The gradient goes back
to the elements that were taken.

Args:
    k: the number of elements, at most the size of the axis.
    axis, dim: the axis; negative numbers count from the last; None: the last.
    largest: False: the smallest elements, the smallest first.

Returns:
    The pair (values, indices) in the shape of x, but for the axis of size k: the
    elements, and where they were along the axis, int64.

Raises:
    ShapeError: there is no such axis, or it has fewer than k elements.
    ConfigError: axis and dim are both given, or k is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> best = Tensor([[0.1, 0.7, 0.2]]).topk(2)
    >>> best.indices.tolist()
    [[1, 2]])";

}  // namespace

void bind_ordering(py::class_<Var>& c) {
  c.def(
       "sort",
       [](const Var& x, const AxisArgument& axis, bool descending,
          const AxisArgument& dim) {
         return as_pair(sorted_along("sort", x, axis, dim, descending));
       },
       py::arg("axis") = py::none(), py::arg("descending") = false,
       py::kw_only(), py::arg("dim") = py::none(), kSort)
      .def(
          "argsort",
          [](const Var& x, const AxisArgument& axis, bool descending,
             const AxisArgument& dim) {
            const ReleasedGil release;
            const int a = axis_of(axis, dim).value_or(-1);
            return Var(to_device(order_of("argsort", x.data(), a, descending),
                                 x.device()));
          },
          py::arg("axis") = py::none(), py::arg("descending") = false,
          py::kw_only(), py::arg("dim") = py::none(), kArgSort)
      .def(
          "topk",
          [](const Var& x, Whole<"topk: k"> k, const AxisArgument& axis,
             bool largest, const AxisArgument& dim) {
            return as_pair(
                sorted_along("topk", x, axis, dim, largest, k.value));
          },
          py::arg("k"), py::arg("axis") = py::none(), py::arg("largest") = true,
          py::kw_only(), py::arg("dim") = py::none(), kTopK);
}

}  // namespace ea
