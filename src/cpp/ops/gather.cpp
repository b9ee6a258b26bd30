// Row selection with range checks; the backward adds rows back.
#include "ops/gather.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "kernels/gather.h"
#include "kernels/registry.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"
#include "runtime/fast_paths.h"

namespace ea {

namespace {

// Returns "name[3, 17]" for a flat position in an index of the given shape.
std::string place(std::string_view name, const Shape& shape,
                  std::int64_t flat) {
  Shape at = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  std::string text(name);
  for (int axis = 0; axis < at.rank(); ++axis) {
    text += (axis == 0 ? "[" : ", ") + std::to_string(at[axis]);
  }
  return at.rank() > 0 ? text + "]" : text;
}

void check_range(const char* op, std::string_view what, const Tensor& index,
                 std::int64_t low, std::int64_t size) {
  EA_CHECK_AS(DTypeError, index.dtype() == DType::i64, op,
              "{} must be int64, got {}", what, index.dtype());
  const auto* values = index.data<std::int64_t>();
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    EA_CHECK_AS(InputError, values[i] >= low && values[i] < size, op,
                "{} = {} is outside the table of {} rows; expected {} to {}",
                place(what, index.shape(), i), values[i], size, low, size - 1);
  }
}

// Returns the index with each `id` replaced by -1, which collect_rows() skips.
Tensor without(const Tensor& index, std::int64_t id) {
  const auto* values = index.data<std::int64_t>();
  if (id < 0 || std::count(values, values + index.numel(), id) == 0) {
    return index;
  }
  Tensor out = clone(index);
  auto* kept = out.data<std::int64_t>();
  std::replace(kept, kept + out.numel(), id, std::int64_t{-1});
  return out;
}

// Whether to keep the gradient of a table as rows when at most m of them are
// used; depends only on the shapes.
bool few_rows(const Shape& table, std::int64_t m) {
  return enabled(FastPath::sparse_embeddings) && table.rank() == 2 &&
         table[1] > 0 && m < table[0];
}

// `index` is checked and on the CPU; the kernels read a copy on x's device.
// `padding_id` is the row that gets no gradient, or -1.
Var gather(const char* name, const Var& x, const Tensor& index,
           std::int64_t padding_id) {
  const std::int64_t n = x.dim(0);
  std::int64_t width = 1;
  Shape shape = index.shape();
  for (int axis = 1; axis < x.rank(); ++axis) {
    width *= x.shape()[axis];
    shape.append(x.shape()[axis]);
  }
  const std::int64_t m = index.numel();
  const Tensor flat_index = reshape_view(index, {m});
  const Tensor on_device = to_device(flat_index, x.device());
  const Tensor y = empty({m, width}, x.dtype(), x.device());
  kernels::run<GatherRows>(
      {reshape_view(contiguous(x.data()), {n, width}), on_device, y});
  const Shape before = x.shape();
  // Also saves the host index if the backward may collect rows on the host.
  const Tensor for_rows = x.is_leaf() && few_rows(before, m)
                              ? without(flat_index, padding_id)
                              : Tensor();
  if (x.is_leaf() && x.rank() == 2) x.impl()->is_table = true;
  return record(
      name, reshape_view(y, shape), {x}, {on_device, for_rows},
      [before, m, n, width, padding_id](const Node& node, const Tensor& dy) {
        const Tensor rows = reshape_view(dy, {m, width});
        Var::Impl* leaf = node.edges()[0].leaf.get();
        if (leaf != nullptr && node.saved(1).defined()) {
          accumulate_rows(*leaf, collect_rows(node.saved(1), rows));
          return Node::Gradients(1);
        }
        const Tensor dx = empty({n, width}, dy.dtype(), dy.device());
        kernels::run<ScatterAddRows>({rows, node.saved(0), dx, padding_id});
        return Node::Gradients{reshape_view(dx, before)};
      });
}

}  // namespace

Var gather_rows(const Var& x, const Tensor& index) {
  EA_CHECK(x.rank() >= 1, "gather_rows", "expected at least one axis");
  const Tensor i = to_device(contiguous(index), kCpu);
  check_range("gather_rows", "index", i, -1, x.dim(0));
  return gather("gather_rows", x, i, -1);
}

Var gather_along(const Var& x, const Extent& e, const Tensor& index) {
  const Tensor at = clone(to_device(index, kCpu));  // row-major positions in x
  auto* place = at.data<std::int64_t>();
  const std::int64_t each = e.outer == 0 ? 0 : at.numel() / e.outer;
  for (std::int64_t p = 0; p < at.numel(); ++p) {
    place[p] = (p / each * e.n + place[p]) * e.inner + p % e.inner;
  }
  return gather_rows(reshape(x, {x.numel()}), at);
}

Var embedding(const Var& weight, const Tensor& ids, std::string_view what,
              std::int64_t padding_id) {
  EA_CHECK(weight.rank() == 2, "embedding",
           "weight has shape {}, expected (rows, width)", weight.shape());
  const Tensor i = to_device(contiguous(ids), kCpu);
  check_range("embedding", what, i, 0, weight.dim(0));
  return gather("embedding", weight, i, padding_id);
}

}  // namespace ea
