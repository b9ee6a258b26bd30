// Tensor methods that split an axis into parts.
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Parts = py::typing::Tuple<Var, py::ellipsis>;
// One size for all parts, or the size of each.
using SplitArgument = std::variant<std::vector<Whole<"split: split_size">>,
                                   Whole<"split: split_size">>;

int axis_to_split(const char* op, const Var& x, const AxisArgument& axis,
                  const AxisArgument& dim) {
  return normalize_axis(axis_of(axis, dim).value_or(0), x.rank(), op);
}

Parts parts_of(const Var& x, int axis, const std::vector<std::int64_t>& sizes) {
  std::vector<Var> parts;
  {
    const ReleasedGil release;
    parts = split(x, axis, sizes);
  }
  return py::tuple(py::cast(parts));
}

// Returns the sizes of the parts of n elements: `size` each, the last one may
// be smaller.
std::vector<std::int64_t> equal_parts(std::int64_t n, std::int64_t size) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(n / size), size);
  if (n % size != 0 || n == 0) sizes.push_back(n % size);
  return sizes;
}

Parts split_axis(const Var& x, const SplitArgument& given,
                 const AxisArgument& axis, const AxisArgument& dim) {
  const int a = axis_to_split("split", x, axis, dim);
  const std::int64_t n = x.dim(a);
  if (const auto* each = std::get_if<1>(&given)) {
    EA_CHECK(each->value > 0, "split",
             "split_size is {}, expected at least 1 (shape {})", each->value,
             x.shape());
    return parts_of(x, a, equal_parts(n, each->value));
  }
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (const auto& one : std::get<0>(given)) {
    EA_CHECK(one.value >= 0 && one.value <= n, "split",
             "a part has size {}, expected 0 to {}, the size of axis {} (shape "
             "{})",
             one.value, n, a, x.shape());
    sizes.push_back(one.value);
    total += one.value;
  }
  EA_CHECK(total == n, "split",
           "the parts have {} elements together, expected {}, the size of axis "
           "{} (shape {})",
           total, n, a, x.shape());
  return parts_of(x, a, sizes);
}

Parts chunk(const Var& x, Whole<"chunk: chunks"> chunks,
            const AxisArgument& axis, const AxisArgument& dim) {
  const int a = axis_to_split("chunk", x, axis, dim);
  const std::int64_t n = x.dim(a);
  EA_CHECK_AS(ConfigError, chunks.value > 0, "chunk",
              "chunks is {}, expected at least 1", chunks.value);
  if (n == 0) {
    return parts_of(x, a, std::vector<std::int64_t>(chunks.value, 0));
  }
  // Rounded up, so that the parts hold all elements.
  const std::int64_t size = (n - 1) / chunks.value + 1;
  return parts_of(x, a, equal_parts(n, size));
}

Parts entries_of(const Var& x, int axis) {
  std::vector<Var> parts;
  {
    const ReleasedGil release;
    parts = unbind(x, axis);
  }
  return py::tuple(py::cast(parts));
}

constexpr const char* kSplit =
    R"(Splits an axis into parts of given sizes.

    y[k] = x[..., begin[k]:begin[k + 1], ...], begin[k] = the sum of the sizes before k

The parts are copies, with gradients. np.split() takes a number of parts, or their
bounds, instead of sizes.

Args:
    split_size: the size of all parts, of which the last may be smaller; or a list with
        the size of each.
    axis, dim: the axis; negative numbers count from the last; None: 0.

Returns:
    Tuple of tensors in the shape of x but for the axis.

Raises:
    ShapeError: there is no such axis, a size is not positive, or the listed sizes do
        not make up the axis.
    ConfigError: axis and dim are both given, or a size is not an integer.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0, 3.0])
    >>> [part.tolist() for part in x.split(2)]
    [[1.0, 2.0], [3.0]]
    >>> [part.tolist() for part in x.split([1, 2])]
    [[1.0], [2.0, 3.0]])";

constexpr const char* kChunk =
    R"(Splits an axis into a number of equal parts.

    y = split(x, size), size = n / chunks rounded up, for an axis of n elements

The last part may be smaller, and there are fewer parts if those hold all elements.

Args:
    chunks: the number of parts.
    axis, dim: the axis; negative numbers count from the last; None: 0.

Returns:
    Tuple of at most `chunks` tensors in the shape of x but for the axis.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, or chunks is not a positive integer.

Example:
    >>> from evolving_attention import Tensor
    >>> q, k = Tensor([[1.0, 2.0, 3.0, 4.0]]).chunk(2, dim=-1)
    >>> q.tolist(), k.tolist()
    ([[1.0, 2.0]], [[3.0, 4.0]]))";

constexpr const char* kUnbind =
    R"(Splits a tensor into its entries along an axis.

    y[i] = x[..., i, ...]

Args:
    axis, dim: the axis; negative numbers count from the last; None: 0.

Returns:
    Tuple of tensors without the axis, one for each entry.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> x, y = Tensor([[1.0, 2.0], [3.0, 4.0]]).unbind(-1)
    >>> x.tolist(), y.tolist()
    ([1.0, 3.0], [2.0, 4.0]))";

}  // namespace

void bind_split(py::class_<Var>& c) {
  c.def("split", &split_axis, py::arg("split_size"),
        py::arg("axis") = py::none(), py::kw_only(),
        py::arg("dim") = py::none(), kSplit)
      .def("chunk", &chunk, py::arg("chunks"), py::arg("axis") = py::none(),
           py::kw_only(), py::arg("dim") = py::none(), kChunk)
      .def(
          "unbind",
          [](const Var& x, const AxisArgument& axis, const AxisArgument& dim) {
            return entries_of(x, axis_to_split("unbind", x, axis, dim));
          },
          py::arg("axis") = py::none(), py::kw_only(),
          py::arg("dim") = py::none(), kUnbind)
      .def("__iter__", [](const Var& x) {
        if (x.rank() == 0) throw py::type_error("iteration over a 0-d tensor");
        return py::typing::Iterator<Var>(py::iter(entries_of(x, 0)));
      });
}

}  // namespace ea
