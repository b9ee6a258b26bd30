// Views and copies; their gradients are the inverse operations.
#include "ops/shape_ops.h"

#include "autograd/node.h"
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

Var concat(const std::vector<Var>& xs, int axis) {
  EA_CHECK(!xs.empty(), "concat", "expected at least one tensor");
  if (xs.size() == 1) return xs[0];
  // Joining two at a time keeps the number of inputs of a node fixed; lists
  // here are short.
  const Var left = concat({xs.begin(), xs.end() - 1}, axis);
  const Var& right = xs.back();
  const int a = normalize_axis(axis, left.rank(), "concat");
  Shape shape = left.shape();
  shape[a] = left.shape()[a] + right.dim(a);
  Shape expected = right.shape();
  EA_CHECK(expected.rank() == shape.rank(), "concat",
           "shapes {} and {} have different numbers of axes", left.shape(),
           right.shape());
  expected[a] = shape[a];
  EA_CHECK(expected == shape, "concat",
           "shapes {} and {} differ outside axis {}", left.shape(),
           right.shape(), a);
  EA_CHECK_AS(DTypeError, left.dtype() == right.dtype(), "concat",
              "expected one dtype, got {} and {}", left.dtype(), right.dtype());
  EA_CHECK_AS(DeviceError, left.device() == right.device(), "concat",
              "expected one device, got {} and {}; use .to(device)",
              left.device(), right.device());
  const Tensor y = empty(shape, left.dtype(), left.device());
  const std::int64_t cut = left.shape()[a];
  const std::int64_t end = shape[a];
  copy_into(left.data(), slice_view(y, a, 0, cut));
  copy_into(right.data(), slice_view(y, a, cut, end));
  return record("concat", y, {left, right}, {},
                [a, cut, end](const Node&, const Tensor& dy) {
                  return Node::Gradients{clone(slice_view(dy, a, 0, cut)),
                                         clone(slice_view(dy, a, cut, end))};
                });
}

}  // namespace ea
