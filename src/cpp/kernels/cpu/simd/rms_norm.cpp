// SIMD root mean square normalisation (kernels/rms_norm.h).
#include "kernels/rms_norm.h"

#include "kernels/cpu/simd/row_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename T>
void run_forward(const RmsNormForward::Args& args) {
  const std::int64_t rows = args.x.shape[0], width = args.x.shape[1];
  const T* weight = args.weight.as<T>();
  float* all_rrms = args.rrms.as<float>();
  const float inverse = 1.0f / static_cast<float>(width);
  const float eps = static_cast<float>(args.eps);
  parallel_each(rows, items_per_job(width), [&](std::int64_t r) {
    const T* x = args.x.as<T>() + r * width;
    T* y = args.y.as<T>() + r * width;
    const float squares = sum_over(width, [&](std::int64_t i, auto part) {
      const Vf v = load(x + i, part);
      return v * v;
    });
    const float rrms = 1.0f / sqrt(set(squares * inverse + eps))[0];
    all_rrms[r] = rrms;
    for_vectors(width, [&](std::int64_t i, auto part) {
      const Vf h = load(x + i, part) * set(rrms);
      store(y + i, h * load(weight + i, part), part);
    });
  });
}

// Computes one row of dx and adds the row's part of dweight.
template <typename T>
EA_INLINE void backward_row(const T* dy, const T* x, const T* weight,
                            float rrms, T* dx, float* dweight,
                            std::int64_t width) {
  const float sum_gh = sum_over(width, [&](std::int64_t i, auto part) {
    const Vf d = load(dy + i, part);
    const Vf h = load(x + i, part) * set(rrms);
    store(dweight + i, fma(d, h, load(dweight + i, part)), part);
    return d * load(weight + i, part) * h;
  });
  const Vf mean_gh = set(sum_gh / static_cast<float>(width));
  for_vectors(width, [&](std::int64_t i, auto part) {
    const Vf h = load(x + i, part) * set(rrms);
    const Vf g = load(dy + i, part) * load(weight + i, part);
    store(dx + i, set(rrms) * fnma(h, mean_gh, g), part);
  });
}

template <typename T>
void run_backward(const RmsNormBackward::Args& args) {
  const std::int64_t width = args.x.shape[1];
  const float* all_rrms = args.rrms.as<float>();
  const Blocks blocks(args.x.shape[0], width);
  const Scratch scratch(blocks.count * width * 4);  // sums of dy h
  float* partial = scratch.as<float>();
  parallel_for(blocks.count, [&](std::int64_t b) {
    float* dweight = partial + b * width;
    __builtin_memset(dweight, 0, static_cast<std::size_t>(width) * 4);
    const std::int64_t first = b * blocks.size;
    for (std::int64_t r = first; r < first + blocks.rows_of(b); ++r) {
      backward_row(args.dy.as<T>() + r * width, args.x.as<T>() + r * width,
                   args.weight.as<T>(), all_rrms[r],
                   args.dx.as<T>() + r * width, dweight, width);
    }
  });
  combine_rows(partial, args.dweight.as<T>(), 1, blocks.count, width);
}

}  // namespace

EA_RUN(RmsNormForward, run_forward, x)
EA_RUN(RmsNormBackward, run_backward, x)

}  // namespace ea::simd::EA_TARGET
