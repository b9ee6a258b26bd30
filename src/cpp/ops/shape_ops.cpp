// Views and copies; their gradients are the inverse operations.
#include "ops/shape_ops.h"

#include <numeric>
#include <span>

#include "autograd/node.h"
#include "ops/extent.h"
#include "runtime/check.h"

namespace ea {

namespace {

Shape complete(const Shape& from, Shape to) {
  int unknown = -1;
  for (int axis = 0; axis < to.rank(); ++axis) {
    EA_CHECK(to[axis] >= -1, "reshape", "negative size {}", to[axis]);
    if (to[axis] == -1) {
      EA_CHECK(unknown < 0, "reshape", "only one size may be -1");
      unknown = axis;
    }
  }
  if (unknown >= 0) {
    to[unknown] = 1;
    const std::int64_t known = to.numel();  // throws on overflow
    EA_CHECK(known > 0 && from.numel() % known == 0, "reshape",
             "shape {} has {} elements, not a multiple of {}", from,
             from.numel(), known);
    to[unknown] = from.numel() / known;
  }
  EA_CHECK(to.numel() == from.numel(), "reshape",
           "shape {} has {} elements, shape {} has {}", from, from.numel(), to,
           to.numel());
  return to;
}

// Appends the ranges of x, which is a copy, to `parts`.
void append_halves(const Var& x, int axis, std::span<const std::int64_t> sizes,
                   std::vector<Var>* parts) {
  if (sizes.size() == 1) {
    parts->push_back(x);
    return;
  }
  const auto left = sizes.first(sizes.size() / 2);
  const auto right = sizes.subspan(left.size());
  const std::int64_t middle =
      std::accumulate(left.begin(), left.end(), std::int64_t{0});
  append_halves(slice(x, axis, 0, middle), axis, left, parts);
  append_halves(slice(x, axis, middle, x.dim(axis)), axis, right, parts);
}

}  // namespace

Var reshape(const Var& x, Shape shape) {
  shape = complete(x.shape(), shape);
  const Shape before = x.shape();
  const Var y =
      record("reshape", reshape_view(contiguous(x.data()), shape), {x},
             {Tensor()}, [before](const Node&, const Tensor& dy) {
               return Node::Gradients{reshape_view(dy, before)};
             });
  if (!x.node() || !x.node()->remakes()) return y;
  return remakable(y, [shape](const Node& node) {
    return reshape_view(node.input(0), shape);
  });
}

Var transpose(const Var& x, int axis_a, int axis_b) {
  const Tensor y = contiguous(transpose_view(x.data(), axis_a, axis_b));
  return record(
      "transpose", y, {x}, {}, [axis_a, axis_b](const Node&, const Tensor& dy) {
        return Node::Gradients{contiguous(transpose_view(dy, axis_a, axis_b))};
      });
}

Var permute(const Var& x, const std::vector<int>& axes, const char* op) {
  const Tensor y = contiguous(permute_view(x.data(), axes, op));
  std::vector<int> back(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int from = normalize_axis(axes[i], x.rank(), op);
    back[static_cast<std::size_t>(from)] = static_cast<int>(i);
  }
  return record(op, y, {x}, {}, [back](const Node&, const Tensor& dy) {
    return Node::Gradients{contiguous(permute_view(dy, back))};
  });
}

Var copied(const Var& x) {
  return record(
      "copied", clone(x.data()), {x}, {},
      [](const Node&, const Tensor& dy) { return Node::Gradients{dy}; });
}

Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end) {
  const Tensor y = clone(slice_view(x.data(), axis, begin, end));
  const Shape before = x.shape();
  return record("slice", y, {x}, {},
                [before, axis, begin, end](const Node&, const Tensor& dy) {
                  const Tensor dx = zeros(before, dy.dtype(), dy.device());
                  copy_into(dy, slice_view(dx, axis, begin, end));
                  return Node::Gradients{dx};
                });
}

std::vector<Var> split(const Var& x, int axis,
                       const std::vector<std::int64_t>& sizes) {
  std::vector<Var> parts;
  if (sizes.size() > 1 && recording({x})) {
    append_halves(x, axis, sizes, &parts);
    return parts;
  }
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Var> unbind(const Var& x, int axis) {
  const Extent e = extent_of(x.shape(), axis, "unbind");
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(e.n), 1);
  std::vector<Var> parts = split(x, axis, ones);
  for (Var& part : parts) part = reshape(part, e.dropped);
  return parts;
}

Var entry(const Var& x, int axis, std::int64_t i) {
  const Extent e = extent_of(x.shape(), axis, "slice");
  return reshape(slice(x, axis, i, i + 1), e.dropped);
}

Var concat(const std::vector<Var>& xs, int axis) {
  EA_CHECK(!xs.empty(), "concat", "expected at least one tensor");
  const Var& first = xs.front();
  const int a = normalize_axis(axis, first.rank(), "concat");
  if (xs.size() == 1) return first;
  Shape shape = first.shape();
  std::vector<std::int64_t> ends{shape[a]};
  for (std::size_t i = 1; i < xs.size(); ++i) {
    const Var& x = xs[i];
    EA_CHECK(x.rank() == first.rank(), "concat",
             "shapes {} and {} have different numbers of axes", first.shape(),
             x.shape());
    Shape expected = x.shape();
    expected[a] = first.shape()[a];
    EA_CHECK(expected == first.shape(), "concat",
             "shapes {} and {} differ outside axis {}", first.shape(),
             x.shape(), a);
    EA_CHECK_AS(DTypeError, first.dtype() == x.dtype(), "concat",
                "expected one dtype, got {} and {}", first.dtype(), x.dtype());
    EA_CHECK_AS(DeviceError, first.device() == x.device(), "concat",
                "expected one device, got {} and {}; use .to(device)",
                first.device(), x.device());
    shape[a] += x.dim(a);
    ends.push_back(shape[a]);
  }
  const Tensor y = empty(shape, first.dtype(), first.device());
  const auto begin = [](const std::vector<std::int64_t>& all, std::size_t i) {
    return i == 0 ? 0 : all[i - 1];
  };
  for (std::size_t i = 0; i < xs.size(); ++i) {
    copy_into(xs[i].data(), slice_view(y, a, begin(ends, i), ends[i]));
  }
  return record("concat", y, xs, {},
                [a, ends, begin](const Node& node, const Tensor& dy) {
                  Node::Gradients gradients(ends.size());
                  for (std::size_t i = 0; i < ends.size(); ++i) {
                    if (!node.wants(i)) continue;
                    gradients[i] =
                        clone(slice_view(dy, a, begin(ends, i), ends[i]));
                  }
                  return gradients;
                });
}

}  // namespace ea
