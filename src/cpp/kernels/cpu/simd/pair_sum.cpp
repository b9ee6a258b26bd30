// SIMD sums of query and key vectors for every cell (kernels/pair_sum.h).
#include "kernels/pair_sum.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Returns the first element of the vector [width] of cell (h, i, j) of sequence
// b.
EA_INLINE std::int64_t cell(const MapLayout& layout, std::int64_t b,
                            std::int64_t h, std::int64_t i, std::int64_t j,
                            std::int64_t width) {
  const std::int64_t row = h * layout.n_q(b) + i;
  return (layout.begin(b) + row * layout.n_k(b) + j) * width;
}

template <typename T>
void run_forward(const PairSum::Args& args) {
  const MapLayout& layout = args.layout;
  const std::int64_t step = args.u.shape[1], width = step / layout.heads;
  for_token_rows(
      layout, layout.q_offsets, layout.numel() * width,
      [&](std::int64_t b, std::int64_t h, std::int64_t i) {
        const T* u =
            args.u.as<T>() + (layout.q_offsets[b] + i) * step + h * width;
        const T* v = args.v.as<T>() + layout.k_offsets[b] * step + h * width;
        T* y = args.y.as<T>() + cell(layout, b, h, i, 0, width);
        for (std::int64_t j = 0; j < layout.n_k(b); ++j) {
          for_vectors(width, [&](std::int64_t e, auto part) {
            store(y + e, load(u + e, part) + load(v + e, part), part);
          });
          v += step;
          y += width;
        }
      });
}

// to[e] = sum over n vectors of dy, `step` elements apart, in their order.
template <typename T>
EA_INLINE void sum_vectors_of(const T* dy, std::int64_t n, std::int64_t step,
                              T* to, std::int64_t width) {
  for_vectors(width, [&](std::int64_t e, auto part) {
    Vf sum = set(0.0f);
    for (std::int64_t k = 0; k < n; ++k) sum += load(dy + k * step + e, part);
    store(to + e, sum, part);
  });
}

template <typename T>
void run_backward(const PairSumBackward::Args& args) {
  const MapLayout& layout = args.layout;
  const std::int64_t step = (args.du.defined() ? args.du : args.dv).shape[1];
  const std::int64_t width = step / layout.heads;
  const T* dy = args.dy.as<T>();
  const std::int64_t elements = layout.numel() * width;
  if (args.du.defined()) {
    for_token_rows(
        layout, layout.q_offsets, elements,
        [&](std::int64_t b, std::int64_t h, std::int64_t i) {
          sum_vectors_of(
              dy + cell(layout, b, h, i, 0, width), layout.n_k(b), width,
              args.du.as<T>() + (layout.q_offsets[b] + i) * step + h * width,
              width);
        });
  }
  if (args.dv.defined()) {
    for_token_rows(
        layout, layout.k_offsets, elements,
        [&](std::int64_t b, std::int64_t h, std::int64_t j) {
          sum_vectors_of(
              dy + cell(layout, b, h, 0, j, width), layout.n_q(b),
              layout.n_k(b) * width,
              args.dv.as<T>() + (layout.k_offsets[b] + j) * step + h * width,
              width);
        });
  }
}

}  // namespace

EA_RUN(PairSum, run_forward, y)
EA_RUN(PairSumBackward, run_backward, dy)

}  // namespace ea::simd::EA_TARGET
