// SIMD weight normalisation, a row at a time (kernels/weight_norm.h).
#include "kernels/weight_norm.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(r) for every row, in jobs of several rows.
template <typename Fn>
void for_rows(const TensorView& v, Fn&& fn) {
  parallel_chunks(v.shape[0], items_per_job(v.shape[1]),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r) fn(r);
                  });
}

template <typename T>
void run_forward(const WeightNormForward::Args& args) {
  const std::int64_t width = args.v.shape[1];
  for_rows(args.v, [&](std::int64_t r) {
    const T* v = args.v.as<T>() + r * width;
    T* w = args.w.as<T>() + r * width;
    const float squares = sum_over(width, [&](std::int64_t i, auto part) {
      const Vf x = load(v + i, part);
      return x * x;
    });
    const float norm = sqrt(set(squares))[0];
    args.norm.as<float>()[r] = norm;
    const Vf scale = set(load_one(args.g.as<T>() + r) / norm);
    for_vectors(width, [&](std::int64_t i, auto part) {
      store(w + i, load(v + i, part) * scale, part);
    });
  });
}

template <typename T>
void run_backward(const WeightNormBackward::Args& args) {
  const std::int64_t width = args.v.shape[1];
  for_rows(args.v, [&](std::int64_t r) {
    const T* v = args.v.as<T>() + r * width;
    const T* dw = args.dw.as<T>() + r * width;
    T* dv = args.dv.as<T>() + r * width;
    const float norm = args.norm.as<float>()[r];
    const float along =
        sum_over(width,
                 [&](std::int64_t i, auto part) {
                   return load(dw + i, part) * load(v + i, part);
                 }) /
        norm;
    store_one(args.dg.as<T>() + r, along);
    const Vf scale = set(load_one(args.g.as<T>() + r) / norm);
    const Vf share = set(along / norm);
    for_vectors(width, [&](std::int64_t i, auto part) {
      store(dv + i, scale * fnma(load(v + i, part), share, load(dw + i, part)),
            part);
    });
  });
}

}  // namespace

EA_RUN(WeightNormForward, run_forward, v)
EA_RUN(WeightNormBackward, run_backward, v)

}  // namespace ea::simd::EA_TARGET
