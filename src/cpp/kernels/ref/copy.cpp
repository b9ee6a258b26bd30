// Reference for copies, conversions and fills.
#include "kernels/copy.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Returns the offset of the i-th element in row-major order.
std::int64_t element_offset(const TensorView& t, std::int64_t i) {
  std::int64_t offset = 0;
  for (int axis = t.shape.rank() - 1; axis >= 0; --axis) {
    offset += i % t.shape[axis] * t.strides[axis];
    i /= t.shape[axis];
  }
  return offset;
}

}  // namespace

template <>
void run<Copy>(const Copy::Args& args) {
  visit_dtype(args.x.dtype, Copy::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = args.y.numel();
    for (std::int64_t i = 0; i < n; ++i) {
      args.y.as<T>()[element_offset(args.y, i)] =
          args.x.as<const T>()[element_offset(args.x, i)];
    }
  });
}

template <>
void run<Cast>(const Cast::Args& args) {
  visit_dtype(args.x.dtype, Cast::name, [&](auto from) {
    using From = typename decltype(from)::type;
    visit_dtype(args.y.dtype, Cast::name, [&](auto to) {
      using To = typename decltype(to)::type;
      const std::int64_t n = args.y.numel();
      for (std::int64_t i = 0; i < n; ++i) {
        args.y.as<To>()[i] = convert<To>(args.x.as<const From>()[i]);
      }
    });
  });
}

template <>
void run<Fill>(const Fill::Args& args) {
  visit_dtype(args.y.dtype, Fill::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t n = args.y.numel();
    for (std::int64_t i = 0; i < n; ++i) {
      args.y.as<T>()[i] = convert<T>(args.value);
    }
  });
}

}  // namespace ea::ref
