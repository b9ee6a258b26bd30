// SIMD pointwise arithmetic with broadcasting (kernels/elementwise.h).
#include "kernels/elementwise.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"
#include "kernels/joined_axes.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename T, typename Part>
EA_INLINE Vf load_strided(const T* p, std::int64_t stride, std::int64_t n,
                          Part part) {
  float lanes[kLanes] = {};
  const std::int64_t count = n < kLanes ? n : kLanes;
  for (std::int64_t i = 0; i < count; ++i) lanes[i] = load_one(p + i * stride);
  return load(lanes, part);
}

// Computes one row of n elements; strides 1 and 0 have their own loops.
template <typename T, typename Op>
void row(Op op, T* y, const T* a, std::int64_t stride_a, const T* b,
         std::int64_t stride_b, std::int64_t n) {
  if (stride_a == 1 && stride_b == 1) {
    for_vectors(n, [&](std::int64_t i, auto part) {
      store(y + i, op(load(a + i, part), load(b + i, part)), part);
    });
  } else if (stride_a == 1 && stride_b == 0) {
    const Vf right = set(load_one(b));
    for_vectors(n, [&](std::int64_t i, auto part) {
      store(y + i, op(load(a + i, part), right), part);
    });
  } else if (stride_a == 0 && stride_b == 1) {
    const Vf left = set(load_one(a));
    for_vectors(n, [&](std::int64_t i, auto part) {
      store(y + i, op(left, load(b + i, part)), part);
    });
  } else {
    for_vectors(n, [&](std::int64_t i, auto part) {
      const Vf left = load_strided(a + i * stride_a, stride_a, n - i, part);
      const Vf right = load_strided(b + i * stride_b, stride_b, n - i, part);
      store(y + i, op(left, right), part);
    });
  }
}

template <typename T, typename Op>
void run_binary(const Binary::Args& args, Op op) {
  const JoinedAxes axes(args.y.shape, args.a.strides, args.b.strides);
  const std::int64_t n = axes.size[0];
  std::int64_t rows = 1;
  for (int k = 1; k < axes.rank; ++k) rows *= axes.size[k];
  if (n == 0 || rows == 0) return;
  // A job takes several whole rows, or a segment of one long row.
  const std::int64_t segments = ceil_div(n, kGrain);
  const std::int64_t group = segments > 1 ? 1 : items_per_job(n);
  T* y = args.y.as<T>();
  const T* a = args.a.as<T>();
  const T* b = args.b.as<T>();
  parallel_chunks(
      rows * segments, group, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t r = item / segments;
          const std::int64_t from = item % segments * kGrain;
          const std::int64_t left = n - from;
          std::int64_t at_a = from * axes.u[0], at_b = from * axes.v[0];
          for (std::int64_t k = 1, rest = r; k < axes.rank; ++k) {
            const std::int64_t index = rest % axes.size[k];
            rest /= axes.size[k];
            at_a += index * axes.u[k];
            at_b += index * axes.v[k];
          }
          row(op, y + r * n + from, a + at_a, axes.u[0], b + at_b, axes.v[0],
              left < kGrain ? left : kGrain);
        }
      });
}

template <typename T>
void dispatch_binary(const Binary::Args& args) {
  switch (args.op) {
    case BinaryOp::add:
      return run_binary<T>(args, [](Vf a, Vf b) { return a + b; });
    case BinaryOp::sub:
      return run_binary<T>(args, [](Vf a, Vf b) { return a - b; });
    case BinaryOp::mul:
      return run_binary<T>(args, [](Vf a, Vf b) { return a * b; });
    case BinaryOp::div:
      return run_binary<T>(args, [](Vf a, Vf b) { return a / b; });
  }
}

template <typename T>
void run_axpby(const Axpby::Args& args) {
  const Vf alpha = set(static_cast<float>(args.alpha));
  const Vf beta = set(static_cast<float>(args.beta));
  const T* x = args.x.as<T>();
  const T* z = args.z.as<T>();
  T* y = args.y.as<T>();
  parallel_chunks(
      args.y.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        if (z == nullptr) {
          for_vectors(end - begin, [&](std::int64_t i, auto part) {
            store(y + begin + i, alpha * load(x + begin + i, part), part);
          });
        } else {
          for_vectors(end - begin, [&](std::int64_t i, auto part) {
            const Vf scaled = beta * load(z + begin + i, part);
            store(y + begin + i, fma(alpha, load(x + begin + i, part), scaled),
                  part);
          });
        }
      });
}

}  // namespace

EA_RUN(Binary, dispatch_binary, y)
EA_RUN(Axpby, run_axpby, y)

}  // namespace ea::simd::EA_TARGET
