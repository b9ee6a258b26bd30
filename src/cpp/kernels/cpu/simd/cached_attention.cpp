// SIMD attention over cached rows (kernels/cached_attention.h): the keys and
// values are read where they lie, once.
#include "kernels/cached_attention.h"

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr std::int64_t kWide = 4 * kLanes;  // columns of a sum in registers

// p = softmax(scale q . k), rounded as T is.
template <typename T>
EA_INLINE void probabilities(const T* q, const T* k, std::int64_t d,
                             std::int64_t stride, const std::int64_t* rows,
                             std::int64_t n, float scale, float* p) {
  for (std::int64_t t = 0; t < n; ++t) {
    const T* key = k + rows[t] * stride;
    p[t] = scale * sum_over(d, [&](std::int64_t i, auto part) {
             return load(q + i, part) * load(key + i, part);
           });
  }
  const Vf top = set(max_over(
      n, [&](std::int64_t t, auto part) { return load(p + t, part); }));
  const float total = sum_over(n, [&](std::int64_t t, auto part) {
    const Vf e = exp(load(p + t, part) - top);
    store(p + t, e, part);
    return e;
  });
  const Vf inverse = set(1.0f / total);
  for_vectors(n, [&](std::int64_t t, auto part) {
    store(p + t, as_stored(load(p + t, part) * inverse, q), part);
  });
}

// y = sum of p_t v_t, over `d` columns.
template <typename T>
EA_INLINE void mix(const float* p, const T* v, std::int64_t d,
                   std::int64_t stride, const std::int64_t* rows,
                   std::int64_t n, T* y) {
  std::int64_t i = 0;
  for (; i + kWide <= d; i += kWide) {
    Vf sums[4] = {set(0), set(0), set(0), set(0)};
    for (std::int64_t t = 0; t < n; ++t) {
      const T* value = v + rows[t] * stride + i;
      for (int j = 0; j < 4; ++j) {
        sums[j] = fma(set(p[t]), load(value + j * kLanes), sums[j]);
      }
    }
    for (int j = 0; j < 4; ++j) store(y + i + j * kLanes, sums[j]);
  }
  for_vectors(d - i, [&](std::int64_t rest, auto part) {
    Vf sum = set(0);
    for (std::int64_t t = 0; t < n; ++t) {
      sum = fma(set(p[t]), load(v + rows[t] * stride + i + rest, part), sum);
    }
    store(y + i + rest, sum, part);
  });
}

template <typename T>
void run_for(const CachedAttention::Args& args) {
  const std::int64_t n = args.q.shape[0], width = args.q.shape[1];
  const std::int64_t d = width / args.heads;
  const std::int64_t* offsets = args.offsets.as<std::int64_t>();
  const std::int64_t* rows = args.rows.as<std::int64_t>();
  const std::int64_t total = offsets[n] - offsets[0];
  const Scratch scratch(args.heads * total * 4);
  const float scale = static_cast<float>(args.scale);
  const std::int64_t mean = n > 0 ? ceil_div(total, n) : 0;
  parallel_chunks(
      n * args.heads, items_per_job(2 * mean * d),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t job = begin; job < end; ++job) {
          const std::int64_t b = job / args.heads, h = job % args.heads;
          const std::int64_t at = h * d, place = b * width + at;
          const std::int64_t count = offsets[b + 1] - offsets[b];
          float* p = scratch.as<float>() + h * total + offsets[b] - offsets[0];
          const std::int64_t* mine = rows + offsets[b];
          probabilities(args.q.as<T>() + place, args.k.as<T>() + at, d, width,
                        mine, count, scale, p);
          mix(p, args.v.as<T>() + at, d, width, mine, count,
              args.y.as<T>() + place);
        }
      });
}

}  // namespace

template <>
void run<CachedAttention>(const CachedAttention::Args& args) {
  if (args.q.dtype == DType::bf16) return run_for<bfloat16>(args);
  run_for<float>(args);
}

}  // namespace ea::simd::EA_TARGET
