// The rows of I = a M + b S that a strip of fused attention's forward holds, as
// its convolution reads them.
#pragma once

#include "kernels/cpu/simd/amx_taps-inl.h"
#include "kernels/cpu/simd/fused_rows-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Moves `count` floats at `from` to the front.
EA_INLINE void to_front(float* front, std::int64_t from, std::int64_t count) {
  __builtin_memmove(front, front + from,
                    static_cast<std::size_t>(count) * sizeof(float));
}

template <typename Taps>
class Window;

// Rows of floats, head after head.
template <>
class Window<Floats> {
 public:
  static std::int64_t size(const FusedSizes& s, std::int64_t n_k,
                           std::int64_t rows) {
    return padded_size(s.heads, s.pad, n_k, rows);
  }
  Window(float* memory, std::int64_t* offset, const FusedSizes& s,
         std::int64_t n_k, std::int64_t rows)
      : x_(memory, s.pad, n_k, rows),
        offset_(offset),
        heads_(s.heads),
        n_k_(n_k) {
    for (std::int64_t h = 0; h < heads_; ++h) clear(x_.head(h), s.pad);
    clear_end(x_, heads_);
    tap_offsets(x_, heads_, s.k, offset_);
  }
  EA_INLINE float* row(std::int64_t h, std::int64_t i) const {
    return x_.head(h) + x_.radius + i * x_.width;
  }
  // Returns where the scores of rows from i on are computed: in place.
  Scores scores(std::int64_t h, std::int64_t i, float*) const {
    return {row(h, i), x_.width};
  }
  template <typename P>
  EA_INLINE static void put(float* to, Vf cells, P part) {
    store(to, cells, part);
  }
  void clear_row(std::int64_t h, std::int64_t i) const {
    clear(row(h, i), x_.width);
  }
  void end_row(float* row) const { clear(row + n_k_, x_.radius); }
  void rows_to_front(std::int64_t first, std::int64_t count) const {
    for (std::int64_t h = 0; h < heads_; ++h) {
      to_front(row(h, 0), first * x_.width, count * x_.width);
    }
  }
  Convolved convolved(const TapWeights<Floats>& weights, std::int64_t rows,
                      float* memory) const {
    const Convolved z(memory, x_, rows);
    convolve(x_, offset_, heads_, weights, rows, z);
    return z;
  }

 private:
  Padded<float> x_;
  std::int64_t* offset_;
  std::int64_t heads_, n_k_;
};

#if defined(__AVX512F__)
// Lines of heads, as two bfloat16 each.
template <>
class Window<Tiles> {
 public:
  static std::int64_t size(const FusedSizes& s, std::int64_t n_k,
                           std::int64_t rows) {
    return Lines::size(s.heads, n_k, rows);
  }
  Window(float* memory, std::int64_t*, const FusedSizes& s, std::int64_t n_k,
         std::int64_t)
      : x_(memory, s.heads, n_k), heads_(s.heads), n_k_(n_k), pad_(s.pad) {}
  EA_INLINE float* row(std::int64_t h, std::int64_t i) const {
    return x_.at(h, i);
  }
  Scores scores(std::int64_t, std::int64_t, float* memory) const {
    return {memory, n_k_};
  }
  template <typename P>
  EA_INLINE static void put(float* to, Vf cells, P part) {
    store(to, parts_of(cells), part);
  }
  void clear_row(std::int64_t h, std::int64_t i) const {
    clear(row(h, i), x_.width);
  }
  void end_row(float* row) const { clear(row + n_k_, x_.width - n_k_); }
  void rows_to_front(std::int64_t first, std::int64_t count) const {
    const std::int64_t row = x_.each * x_.width;
    to_front(x_.data, first * row, count * row);
  }
  Convolved convolved(const TapWeights<Tiles>& weights, std::int64_t rows,
                      float* memory) const {
    const Convolved z(memory, n_k_, rows);
    convolve(x_, pad_, pad_, heads_, n_k_, weights, rows, z);
    return z;
  }

 private:
  Lines x_;
  std::int64_t heads_, n_k_, pad_;
};
#endif

}  // namespace
}  // namespace ea::simd::EA_TARGET
