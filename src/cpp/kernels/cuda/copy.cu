// Copies between layouts, conversions and fills, of any element type.
#include "kernels/copy.h"
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/joined_axes.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

// Copies one element per thread as a word of its size, whatever its type.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const Word* x, Word* y, std::int64_t n, JoinedAxes axes) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  std::int64_t rest = i;
#pragma unroll
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
    if (axis >= axes.rank) break;
    const std::int64_t next = rest / axes.size[axis];
    const std::int64_t here = rest - next * axes.size[axis];
    x += here * axes.u[axis];
    y += here * axes.v[axis];
    rest = next;
  }
  *y = *x;
}

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(const From* x, To* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = convert<To>(x[i]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(T* y, T value, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = value;
}

template <typename Word>
void copy_as(const Copy::Args& args) {
  const std::int64_t n = args.y.numel();
  launch(current_stream(), blocks_for(n, kThreads), kThreads, 0,
         copy_kernel<Word>, args.x.as<const Word>(), args.y.as<Word>(), n,
         JoinedAxes(args.y.shape, args.x.strides, args.y.strides));
}

}  // namespace

template <>
void run<Copy>(const Copy::Args& args) {
  switch (size_of(args.y.dtype)) {
    case 1:
      return copy_as<std::uint8_t>(args);
    case 2:
      return copy_as<std::uint16_t>(args);
    case 4:
      return copy_as<std::uint32_t>(args);
    default:
      return copy_as<std::uint64_t>(args);
  }
}

template <>
void run<Cast>(const Cast::Args& args) {
  const std::int64_t n = args.y.numel();
  visit_dtype(args.x.dtype, Cast::name, [&](auto from) {
    using From = typename decltype(from)::type;
    visit_dtype(args.y.dtype, Cast::name, [&](auto to) {
      using To = typename decltype(to)::type;
      launch(current_stream(), blocks_for(n, kThreads), kThreads, 0,
             cast_kernel<From, To>, args.x.as<const From>(), args.y.as<To>(),
             n);
    });
  });
}

template <>
void run<Fill>(const Fill::Args& args) {
  const std::int64_t n = args.y.numel();
  visit_dtype(args.y.dtype, Fill::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(current_stream(), blocks_for(n, kThreads), kThreads, 0,
           fill_kernel<T>, args.y.as<T>(), convert<T>(args.value), n);
  });
}

}  // namespace ea::cuda
