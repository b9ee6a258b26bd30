// Tensor methods that change a shape, under PyTorch's and NumPy's names.
#include "ops/shape_ops.h"

#include <numeric>
#include <string>

#include "bindings/arguments.h"
#include "bindings/tensor.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Reads the whole numbers of a call f(2, 3) or f((2, 3)).
std::vector<std::int64_t> numbers_of(const py::args& args, const char* name) {
  py::sequence given = args;
  if (args.size() == 1 && py::isinstance<py::sequence>(args[0])) {
    // A tensor or an array of no axes is a number: it has no length.
    if (PySequence_Size(args[0].ptr()) >= 0) given = args[0];
    PyErr_Clear();
  }
  std::vector<std::int64_t> numbers;
  for (const py::object one : given) {  // owned: a tensor makes its elements
    numbers.push_back(whole_number(one, name));
  }
  return numbers;
}

Shape shape_of(const py::args& args) {
  const std::vector<std::int64_t> sizes = numbers_of(args, "reshape: shape");
  EA_CHECK(sizes.size() <= Shape::kMaxRank, "reshape", "at most {} axes",
           Shape::kMaxRank);
  Shape shape;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    shape.append(0);  // append() rejects -1, which is allowed here
    shape[static_cast<int>(i)] = sizes[i];
  }
  return shape;
}

std::vector<int> axes_of(const std::vector<std::int64_t>& numbers) {
  std::vector<int> axes;
  for (const std::int64_t one : numbers) axes.push_back(narrow(one));
  return axes;
}

Var reversed(const Var& x) {
  std::vector<int> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return permute(x, axes);
}

// Swaps two axes, permutes all axes, or reverses them if none are given.
Var transposed(const Var& self, const py::args& args, const py::object& axis_a,
               const py::object& axis_b) {
  std::vector<int> axes;
  if (args.size() != 1 || !args[0].is_none()) {  // np.transpose(x) passes None
    axes = axes_of(numbers_of(args, "transpose: axes"));
  }
  for (const auto& [axis, name] : {std::pair(axis_a, "transpose: axis_a"),
                                   std::pair(axis_b, "transpose: axis_b")}) {
    if (!axis.is_none()) axes.push_back(narrow(whole_number(axis, name)));
  }
  const ReleasedGil release;
  if (axes.empty()) return reversed(self);
  const bool pair = axes.size() == 2 && args.size() != 1;
  return pair ? transpose(self, axes[0], axes[1])
              : permute(self, axes, "transpose");
}

Var permuted(const Var& self, const py::args& args) {
  const std::vector<int> axes = axes_of(numbers_of(args, "permute: axes"));
  const ReleasedGil release;
  return permute(self, axes);
}

Var matrices_transposed(const Var& x) {
  EA_CHECK(x.rank() >= 2, "mT", "shape {} has no two axes to exchange",
           x.shape());
  return transpose(x, -2, -1);
}

Var squeeze(const Var& x, const AxisArgument& axis, const AxisArgument& dim) {
  const std::optional<int> given = axis_of(axis, dim);
  const int chosen = given ? normalize_axis(*given, x.rank(), "squeeze") : -1;
  EA_CHECK(chosen < 0 || x.dim(chosen) == 1, "squeeze",
           "axis {} of shape {} has size {}, expected 1", chosen, x.shape(),
           x.dim(chosen));
  Shape shape;
  for (int a = 0; a < x.rank(); ++a) {
    if (x.dim(a) != 1 || (given && a != chosen)) shape.append(x.dim(a));
  }
  return reshape(x, shape);
}

Var unsqueeze(const Var& x, const AxisArgument& axis, const AxisArgument& dim) {
  const std::optional<int> given = axis_of(axis, dim);
  EA_CHECK_AS(ConfigError, given.has_value(), "unsqueeze",
              "axis is missing; expected where the new axis stands");
  EA_CHECK(x.rank() < Shape::kMaxRank, "unsqueeze",
           "shape {} has {} axes, no more are possible", x.shape(), x.rank());
  const int at = normalize_axis(*given, x.rank() + 1, "unsqueeze");
  Shape shape;
  for (int a = 0; a <= x.rank(); ++a) {
    if (a == at) shape.append(1);
    if (a < x.rank()) shape.append(x.dim(a));
  }
  return reshape(x, shape);
}

Var flatten(const Var& x, Whole<"flatten: start_dim"> start,
            Whole<"flatten: end_dim"> end) {
  if (x.rank() == 0) return reshape(x, {1});
  const int first = normalize_axis(narrow(start.value), x.rank(), "flatten");
  const int last = normalize_axis(narrow(end.value), x.rank(), "flatten");
  EA_CHECK(first <= last, "flatten", "start_dim {} is after end_dim {}", first,
           last);
  Shape shape;
  std::int64_t size = 1;
  for (int a = 0; a < x.rank(); ++a) {
    if (a < first || a > last) {
      shape.append(x.dim(a));
      continue;
    }
    size *= x.dim(a);
    if (a == last) shape.append(size);
  }
  return reshape(x, shape);
}

constexpr const char* kShapes = R"(
Args:
    *args: the sizes, or one sequence of them; one may be -1 and is computed from the
        others.

Returns:
    Tensor of that shape.

Raises:
    ShapeError: the sizes do not make up the number of elements, or two are -1.
    ConfigError: a size is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0, 2.0, 3.0, 4.0]).)";

void bind_reshape(py::class_<Var>& c, const char* name, const char* summary) {
  const std::string doc = std::string(summary) +
                          "\n\n    y[k] = x[k], k counting through all "
                          "elements\n" +
                          kShapes + name + "(2, -1).shape\n    (2, 2)";
  c.def(
      name,
      [](const Var& self, const py::args& shape) {
        return reshape(self, shape_of(shape));
      },
      doc.c_str());
}

void bind_orders(py::class_<Var>& c) {
  c.def("transpose", &transposed, py::arg("axis_a") = py::none(),
        py::arg("axis_b") = py::none(),
        R"(Exchanges two axes, or puts all of them in another order.

    y[..., j, ..., i, ...] = x[..., i, ..., j, ...]

Args:
    *args: two axes to exchange, as in PyTorch; or all axes in their new order, as in
        NumPy; none: all in reverse. Negative numbers count from the last.
    axis_a, axis_b: the two axes by name.

Returns:
    A copy with the sizes in the new order.

Raises:
    ShapeError: there is no such axis, or one is missing or stands twice.
    ConfigError: an axis is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([[[1.0, 2.0, 3.0]]])
    >>> x.transpose(1, 2).shape, x.transpose(2, 0, 1).shape
    ((1, 3, 1), (3, 1, 1)))")
      .def("permute", &permuted,
           R"(Reorders the axes.

    y[i[axes[0]], i[axes[1]], ...] = x[i[0], i[1], ...]

Args:
    *args: all axes in their new order, or one sequence of them; negative numbers count
        from the last.

Returns:
    A copy with the sizes in the new order.

Raises:
    ShapeError: there is no such axis, or one is missing or stands twice.
    ConfigError: an axis is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[[1.0, 2.0, 3.0]]]).permute(2, 0, 1).shape
    (3, 1, 1))")
      .def_property_readonly(
          "T", &reversed,
          R"(A copy of the tensor with its axes in reverse order.

Write transposed values by ``x.copy_(values.T)``, not into ``x.T``.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0, 3.0]]).T.shape
    (3, 1))")
      .def_property_readonly(
          "mT", &matrices_transposed,
          R"(A copy of the tensor with its last two axes exchanged.

Raises:
    ShapeError: it has fewer than two.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[[1.0, 2.0, 3.0]]]).mT.shape
    (1, 3, 1))");
}

void bind_sizes_of_one(py::class_<Var>& c) {
  c.def("squeeze", &squeeze, py::arg("axis") = py::none(), py::kw_only(),
        py::arg("dim") = py::none(),
        R"(Removes axes of size 1.

    y[..., ...] = x[..., 0, ...]

Args:
    axis, dim: the axis; negative numbers count from the last; None: all of size 1.

Returns:
    Tensor without the axes.

Raises:
    ShapeError: there is no such axis, or its size is not 1.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[[1.0, 2.0]]]).squeeze(0).shape
    (1, 2))")
      .def("unsqueeze", &unsqueeze, py::arg("axis") = py::none(), py::kw_only(),
           py::arg("dim") = py::none(),
           R"(Inserts an axis of size 1, as x[:, None] does.

    y[..., 0, ...] = x[..., ...]

Args:
    axis, dim: where it stands in the result; negative numbers count from the last.

Returns:
    Tensor with one axis more.

Raises:
    ShapeError: there is no such place, or no more axes are possible.
    ConfigError: axis and dim are both given, or none of them.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0, 2.0]).unsqueeze(-1).shape
    (2, 1))")
      .def("flatten", &flatten, py::arg("start_dim") = 0,
           py::arg("end_dim") = -1,
           R"(Joins neighbouring axes into one, in row-major order.

    y[..., i n + j, ...] = x[..., i, j, ...] for a second axis of size n

Args:
    start_dim: the first of them; negative numbers count from the last.
    end_dim: the last of them.

Returns:
    Tensor with one axis in their place.

Raises:
    ShapeError: there is no such axis, or start_dim is behind end_dim.
    ConfigError: one of them is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[[1.0], [2.0]]]).flatten(1).shape
    (1, 2))");
}

}  // namespace

void bind_shapes(py::class_<Var>& c) {
  bind_reshape(c, "reshape",
               "Returns the elements in another shape, in row-major order.");
  bind_reshape(c, "view", "Does what reshape() does, by PyTorch's name.");
  bind_orders(c);
  bind_sizes_of_one(c);
}

}  // namespace ea
