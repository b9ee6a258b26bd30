// The weight gradient of the convolution over heads, on padded blocks of rows.
//
// The gradient of a weight is the sum over all cells of gradient times shifted
// input. The sums of a few heads and taps stay in registers during the loop
// over cells.
#pragma once

#include "kernels/cpu/simd/map_taps-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

#if defined(__AVX512F__)
constexpr int kSumHeads = 6, kSumTaps = 4;  // 24 of 32 registers
#else
constexpr int kSumHeads = 4, kSumTaps = 3;  // 12 of 16
#endif

// sums[t][o] (a vector each) += g[o][p] x[offset[t] + p] over positions p.
template <typename Cells, int O, int T>
void correlate_vectors(const typename Cells::Map* g, std::int64_t g_stride,
                       const typename Cells::Map* x, const std::int64_t* offset,
                       std::int64_t positions, float* sums) {
  Vf sum[T][O];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 6
    for (int o = 0; o < O; ++o) sum[t][o] = load(sums + (t * O + o) * kLanes);
  }
  const auto step = [&](std::int64_t p, auto part) {
    Vf in[T];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) in[t] = Cells::load(x + offset[t] + p, part);
#pragma GCC unroll 6
    for (int o = 0; o < O; ++o) {
      const Vf gradient = Cells::load(g + o * g_stride + p, part);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        sum[t][o] = Cells::add(sum[t][o], gradient, in[t]);
      }
    }
  };
  constexpr std::int64_t kStep = Cells::kValues * kLanes;
  std::int64_t p = 0;
  for (; p + kStep <= positions; p += kStep) step(p, Full{});
  if (p < positions) step(p, typename Cells::Rest(positions - p));
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 6
    for (int o = 0; o < O; ++o) store(sums + (t * O + o) * kLanes, sum[t][o]);
  }
}

// Sums of products of gradients g and inputs x for all taps and heads, kept as
// vectors until finish(): [group of heads][tap][head of group].
template <typename Cells = Floats>
class WeightSums {
 public:
  using Map = typename Cells::Map;
  static std::int64_t size(std::int64_t heads, std::int64_t taps) {
    return heads * taps * kLanes;
  }

  WeightSums(float* memory, std::int64_t heads, std::int64_t taps)
      : sums_(memory), taps_(taps), groups_(heads, kSumHeads) {
    for (std::int64_t i = 0; i < heads * taps; ++i) {
      store(sums_ + i * kLanes, set(0.0f));
    }
  }

  // Adds the sums over `rows` rows of a block: gradients g with a halo of
  // `halo` rows, and x such that x + offset[tap] is the input of the block's
  // first cell.
  void add(const Padded<Map>& g, std::int64_t halo, const Map* x,
           const std::int64_t* offset, std::int64_t rows) {
    const Map* first = g.data + g.radius + halo * g.width;
    const std::int64_t positions = rows * g.width - g.radius;
    constexpr std::int64_t kChunk = 512;  // gradients of all heads fit the L1
    for (std::int64_t p = 0; p < positions; p += kChunk) {
      const std::int64_t n = positions - p < kChunk ? positions - p : kChunk;
      add_chunk(first + p, g.head_stride, x + p, offset, n);
    }
  }

  // Reduces the sums to dweight[o][tap].
  void finish(float* dweight) const {
    for (std::int64_t i = 0; i < groups_.count; ++i) {
      const std::int64_t first = groups_.begin(i);
      const std::int64_t outputs = groups_.begin(i + 1) - first;
      const float* at = sums_ + first * taps_ * kLanes;
      for (std::int64_t t = 0; t < taps_; ++t) {
        for (std::int64_t o = 0; o < outputs; ++o) {
          dweight[(first + o) * taps_ + t] = reduce_add(load(at));
          at += kLanes;
        }
      }
    }
  }

 private:
  void add_chunk(const Map* g, std::int64_t g_stride, const Map* x,
                 const std::int64_t* offset, std::int64_t n) {
    for (std::int64_t t = 0; t < taps_; t += kSumTaps) {
      for (std::int64_t i = 0; i < groups_.count; ++i) {
        const std::int64_t o = groups_.begin(i);
        const std::int64_t outputs = groups_.begin(i + 1) - o;
        add_block(taps_ - t, outputs, g + o * g_stride, g_stride, x, offset + t,
                  n, sums_ + (o * taps_ + t * outputs) * kLanes);
      }
    }
  }

  static void add_block(std::int64_t taps, std::int64_t outputs, const Map* g,
                        std::int64_t g_stride, const Map* x,
                        const std::int64_t* offset, std::int64_t n,
                        float* sums) {
    with_count<kSumTaps>(taps, [&](auto t) {
      with_count<kSumHeads>(outputs, [&](auto o) {
        correlate_vectors<Cells, o, t>(g, g_stride, x, offset, n, sums);
      });
    });
  }

  float* sums_;
  std::int64_t taps_;
  Groups groups_;
};

// Adds to dbias[o] the sum of g[o] over `rows` rows of the block.
EA_INLINE void add_cells(const Padded<float>& g, std::int64_t heads,
                         std::int64_t halo, std::int64_t rows, float* dbias) {
  for (std::int64_t o = 0; o < heads; ++o) {
    const float* const at = g.head(o) + g.radius + halo * g.width;
    dbias[o] +=
        sum_over(rows * g.width - g.radius,
                 [&](std::int64_t p, auto part) { return load(at + p, part); });
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
