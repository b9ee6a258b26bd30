// Reference for pointwise arithmetic: broadcast binary operations and axpby.
#include "kernels/elementwise.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Returns the offset of the first element of row `row`; rows are numbered over
// all axes but the last, row-major.
std::int64_t row_offset(const TensorView& t, std::int64_t row) {
  std::int64_t offset = 0;
  for (int axis = t.shape.rank() - 2; axis >= 0; --axis) {
    offset += row % t.shape[axis] * t.strides[axis];
    row /= t.shape[axis];
  }
  return offset;
}

template <typename A>
A apply(BinaryOp op, A a, A b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    default:
      return a / b;
  }
}

template <typename T>
void binary_of(const Binary::Args& args) {
  using A = Accumulator<T>;
  const int last = args.y.shape.rank() - 1;
  const std::int64_t width = last < 0 ? 1 : args.y.shape[last];
  const std::int64_t step_a = last < 0 ? 0 : args.a.strides[last];
  const std::int64_t step_b = last < 0 ? 0 : args.b.strides[last];
  const std::int64_t rows = width == 0 ? 0 : args.y.numel() / width;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* a = args.a.as<T>() + row_offset(args.a, row);
    const T* b = args.b.as<T>() + row_offset(args.b, row);
    T* y = args.y.as<T>() + row * width;
    for (std::int64_t i = 0; i < width; ++i) {
      y[i] = T(apply(args.op, A(a[i * step_a]), A(b[i * step_b])));
    }
  }
}

template <typename T>
void axpby_of(const Axpby::Args& args) {
  using A = Accumulator<T>;
  const A alpha = A(args.alpha);
  const A beta = A(args.beta);
  const T* x = args.x.as<T>();
  const T* z = args.z.as<T>();
  T* y = args.y.as<T>();
  for (std::int64_t i = 0; i < args.y.numel(); ++i) {
    const A scaled = alpha * A(x[i]);
    y[i] = T(args.z.defined() ? scaled + beta * A(z[i]) : scaled);
  }
}

}  // namespace

EA_RUN_REF(Binary, binary_of, y)
EA_RUN_REF(Axpby, axpby_of, y)

}  // namespace ea::ref
