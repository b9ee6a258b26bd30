// Pointwise arithmetic: broadcast binary operations and axpby.
#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/elementwise.h"
#include "kernels/joined_axes.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

__device__ inline float apply(BinaryOp op, float a, float b) {
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

// Each operand is dense, or one number that applies to all elements.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(BinaryOp op, const T* a, const T* b, T* y, std::int64_t n,
                bool one_a, bool one_b, bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  float u[kPack<T>], v[kPack<T>];
  if (!one_a) load_pack(a + i, n - i, aligned, u);
  if (!one_b) load_pack(b + i, n - i, aligned, v);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    u[k] = apply(op, one_a ? static_cast<float>(*a) : u[k],
                 one_b ? static_cast<float>(*b) : v[k]);
  }
  store_pack(y + i, n - i, aligned, u);
}

// One element per thread; its offsets in a and b are computed from its index in
// y. Index has 32 bits where they suffice: a 64-bit division takes tens of
// instructions.
template <typename T, typename Index>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(BinaryOp op, const T* a, const T* b, T* y, std::int64_t n,
                   JoinedAxes axes) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  Index rest = static_cast<Index>(i);
#pragma unroll
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
    if (axis >= axes.rank) break;
    const Index size = static_cast<Index>(axes.size[axis]);
    const Index next = rest / size;
    const auto here = static_cast<std::int64_t>(rest - next * size);
    a += here * axes.u[axis];
    b += here * axes.v[axis];
    rest = next;
  }
  y[i] = T(apply(op, static_cast<float>(*a), static_cast<float>(*b)));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    axpby_kernel(float alpha, const T* x, float beta, const T* z, T* y,
                 std::int64_t n, bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  float u[kPack<T>], v[kPack<T>];
  load_pack(x + i, n - i, aligned, u);
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) u[k] *= alpha;
  if (z != nullptr) {
    load_pack(z + i, n - i, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) u[k] += beta * v[k];
  }
  store_pack(y + i, n - i, aligned, u);
}

template <typename T>
void binary_of(const Binary::Args& args) {
  const T* a = args.a.as<T>();
  const T* b = args.b.as<T>();
  T* y = args.y.as<T>();
  const std::int64_t n = args.y.numel();
  const JoinedAxes axes(args.y.shape, args.a.strides, args.b.strides);
  const bool one_a = axes.u[0] == 0;
  const bool one_b = axes.v[0] == 0;
  const bool dense_a = one_a || axes.u[0] == 1;
  const bool dense_b = one_b || axes.v[0] == 1;
  if (axes.rank <= 1 && dense_a && dense_b) {
    launch(current_stream(), blocks_for(n, kThreads * kPack<T>), kThreads, 0,
           flat_kernel<T>, args.op, a, b, y, n, one_a, one_b,
           packs_aligned(y) && (one_a || packs_aligned(a)) &&
               (one_b || packs_aligned(b)));
    return;
  }
  const bool narrow_index = n < (std::int64_t{1} << 32);
  launch(current_stream(), blocks_for(n, kThreads), kThreads, 0,
         narrow_index ? strided_kernel<T, std::uint32_t>
                      : strided_kernel<T, std::uint64_t>,
         args.op, a, b, y, n, axes);
}

template <typename T>
void axpby_of(const Axpby::Args& args) {
  const T* x = args.x.as<T>();
  const T* z = args.z.as<T>();
  T* y = args.y.as<T>();
  const std::int64_t n = args.y.numel();
  launch(current_stream(), blocks_for(n, kThreads * kPack<T>), kThreads, 0,
         axpby_kernel<T>, static_cast<float>(args.alpha), x,
         static_cast<float>(args.beta), z, y, n,
         packs_aligned(x) && packs_aligned(z) && packs_aligned(y));
}

}  // namespace

EA_RUN_CUDA(Binary, binary_of, y)
EA_RUN_CUDA(Axpby, axpby_of, y)

}  // namespace ea::cuda
