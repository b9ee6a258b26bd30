// The convolution over heads on AMX tiles.
//
// A row of a block consists of lines of cells, [row][line][cell]. A cell is a
// pair of bfloat16: in forward the upper and the lower part of one head's
// float, whose sum is as exact as float32, in backward two heads. The lines of
// one row of results, (row shift u, line), follow each other, so that a tile
// reads up to 16 of them for 16 cells. It is multiplied by a tile of weights
// [output head][line] for each column shift v. Their sums z_v [output head]
// [cell] are added, each moved by v: tiles that begin at a multiple of 64 bytes
// are loaded several times faster than moved ones. Each sum adds its terms in
// one order.
#pragma once

#include "kernels/cpu/simd/amx-inl.h"
#include "kernels/cpu/simd/map_taps-inl.h"

#if defined(__AVX512F__)

namespace ea::simd::EA_TARGET {
namespace {

// Returns the upper and the lower part of floats as pairs of bfloat16.
EA_INLINE Vf parts_of(Vf v) {
  const Vi upper = (Vi)v & set_int(-0x10000);
  return rounded_pair(v - (Vf)upper, (Vf)upper);
}

// Rows of lines of n_k cells and zeros up to whole vectors.
struct Lines {
  float* data;
  std::int64_t each, width;  // each: lines of a row

  Lines(float* memory, std::int64_t lines, std::int64_t n_k)
      : data(aligned(memory)), each(lines), width(whole_lines(n_k)) {}
  // Returns the floats of memory for `rows` rows.
  static std::int64_t size(std::int64_t lines, std::int64_t n_k,
                           std::int64_t rows) {
    return rows * lines * whole_lines(n_k) + kLine;
  }
  EA_INLINE float* at(std::int64_t line, std::int64_t i) const {
    return data + (i * each + line) * width;
  }
};

// Tiles of weights [group of output heads][tile of lines][column shift]. All
// have `depth` lines; the last begins early and has zeros for lines of the one
// before. `adjoint` takes lines of two heads, otherwise each is one.
template <>
class TapWeights<Tiles> {
 public:
  template <typename T>
  TapWeights(const T* weight, const T* bias, std::int64_t heads, std::int64_t k,
             bool adjoint)
      : k_(k),
        each_(adjoint ? ceil_div(heads, 2) : heads),
        tiles_(ceil_div(k * each_, kLanes)),
        depth_(tiles_ == 0 ? 0 : ceil_div(k * each_, tiles_)),
        memory_((heads * k * tiles_ * kLanes + heads) *
                    static_cast<std::int64_t>(sizeof(float)) +
                1) {
    const auto fill = [&](std::int64_t tile, std::int64_t v, std::int64_t o,
                          bfloat16* to) {
      for (std::int64_t i = line(tile); i < line(tile) + kLanes; ++i) {
        const bool mine = i >= tile * depth_ && i < line(tile) + depth_;
        const std::int64_t c = i % each_, tap = i / each_ * k + v;
        for (int part = 0; part < 2; ++part) {
          const std::int64_t in = adjoint ? 2 * c + part : c;
          store_one(
              to++,
              mine ? tap_weight(weight, heads, k, adjoint, o, in, tap) : 0.0f);
        }
      }
    };
    const Groups groups(heads, kLanes);
    float* to = memory_.as<float>();
    for (std::int64_t g = 0; g < groups.count; ++g) {
      for (std::int64_t t = 0; t < k * tiles_; ++t) {
        for (std::int64_t o = groups.begin(g); o < groups.begin(g + 1); ++o) {
          fill(t / k, t % k, o, reinterpret_cast<bfloat16*>(to));
          to += kLanes;
        }
      }
    }
    for (std::int64_t o = 0; o < heads; ++o) {
      *to++ = bias == nullptr ? 0.0f : load_one(bias + o);
    }
  }
  std::int64_t shifts() const { return k_; }
  std::int64_t tiles() const { return tiles_; }
  std::int64_t depth() const { return depth_; }
  // Returns the weights of the group that begins with this head.
  const float* of_group(std::int64_t head) const {
    return memory_.as<float>() + head * k_ * tiles_ * kLanes;
  }
  const float* bias(std::int64_t heads) const { return of_group(heads); }
  // Returns the first line of a shift's tile.
  EA_INLINE std::int64_t line(std::int64_t tile) const {
    const std::int64_t last = k_ * each_ - depth_;
    return tile * depth_ < last ? tile * depth_ : last;
  }

 private:
  std::int64_t k_, each_, tiles_, depth_;
  Scratch memory_;
};

// Computes z_v of 16 cells for kShifts column shifts from v on. Those of a
// shift are `next` after those of the one before.
template <int kShifts>
void convolve_tile(const float* x, std::int64_t stride,
                   const TapWeights<Tiles>& w, const float* weights,
                   std::int64_t outputs, float* z, std::int64_t next,
                   std::int64_t z_stride) {
  constexpr std::make_integer_sequence<int, kShifts> all;
  constexpr int kLeft = kSumTiles, kRight = kSumTiles + 1;
  for_tiles(all, [&](auto v) { zero_tile<v>(); });
  for (std::int64_t t = 0; t < w.tiles(); ++t) {
    load_tile<kRight>(x + w.line(t) * stride, stride);
    const float* const of_tile = weights + t * w.shifts() * outputs * kLanes;
    for_tiles(all, [&](auto v) {
      load_tile<kLeft>(of_tile + v * outputs * kLanes, kLanes);
      add_products<v, kLeft, kRight>();
    });
  }
  for_tiles(all, [&](auto v) { store_tile<v>(z + v * next, z_stride); });
}

// Sums z [column shift][output head] of one row, between zeros.
struct ShiftedSums {
  std::int64_t outputs, before, width;
  Scratch memory;
  float* data;

  ShiftedSums(std::int64_t shifts, std::int64_t heads, std::int64_t pad,
              const Lines& x)
      : outputs(heads),
        before(whole_lines(pad)),
        width(before + x.width + before),
        memory((shifts * heads * width + kLine) *
               static_cast<std::int64_t>(sizeof(float))),
        data(aligned(memory.as<float>())) {
    clear(data, shifts * heads * width);
  }
  EA_INLINE float* at(std::int64_t v, std::int64_t o) const {
    return data + (v * outputs + o) * width + before;
  }
};

// Convolves all heads: cell (i, j) of y is the sum of the taps (u, v) of cells
// (i + u, j + v - left) of x, which are zero outside its n_k columns.
inline void convolve(const Lines& x, std::int64_t left, std::int64_t pad,
                     std::int64_t heads, std::int64_t n_k,
                     const TapWeights<Tiles>& w, std::int64_t rows,
                     const Convolved& y) {
  const Groups groups(heads, kLanes), shifts(w.shifts(), kSumTiles);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    const std::int64_t first = groups.begin(g);
    const std::int64_t outputs = groups.begin(g + 1) - first;
    const ShiftedSums z(w.shifts(), outputs, pad, x);
    const TileSetup setup(outputs, w.depth(), kSumTiles);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t s = 0; s < shifts.count; ++s) {
        const std::int64_t v = shifts.begin(s);
        const float* const weights = w.of_group(first) + v * outputs * kLanes;
        with_count<kSumTiles>(shifts.begin(s + 1) - v, [&](auto count) {
          for (std::int64_t j = 0; j < x.width; j += kLanes) {
            convolve_tile<count>(x.at(0, i) + j, x.width, w, weights, outputs,
                                 z.at(v, 0) + j, outputs * z.width, z.width);
          }
        });
      }
      for (std::int64_t o = 0; o < outputs; ++o) {
        const float* const from = z.at(0, o) - left;
        float* const to = y.row(first + o, i);
        const Vf bias = set(w.bias(heads)[first + o]);
        for_vectors(n_k, [&](std::int64_t j, auto part) {
          Vf sum = bias;
          for (std::int64_t v = 0; v < w.shifts(); ++v) {
            sum += load(from + v * (outputs * z.width + 1) + j, part);
          }
          store(to + j, sum, part);
        });
      }
    }
  }
}

// Returns the floats of memory that in_lines() needs.
template <>
EA_INLINE std::int64_t cells_size<Tiles>(std::int64_t heads, std::int64_t,
                                         std::int64_t n_k, std::int64_t rows) {
  return Lines::size(ceil_div(heads, 2), n_k, rows);
}

// Copies a block of bfloat16 to lines of two heads each.
inline Lines in_lines(const Padded<bfloat16>& x, std::int64_t heads,
                      float* memory) {
  const std::int64_t n_k = x.width - x.radius;
  const Lines to(memory, ceil_div(heads, 2), n_k);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t h = 0; h < heads; h += 2) {
      const bfloat16* const from = x.head(h) + x.radius + i * x.width;
      float* const line = to.at(h / 2, i);
      for_vectors(n_k, [&](std::int64_t j, auto part) {
        const Vf second =
            h + 1 < heads ? load(from + x.head_stride + j, part) : set(0.0f);
        store(line + j, pair_of(load(from + j, part), second), part);
      });
      clear(line + n_k, to.width - n_k);
    }
  }
  return to;
}

// As for the other cells, with lines in `memory`.
inline void convolve_gradient(const Padded<bfloat16>& g, const ConvSizes& s,
                              const std::int64_t*, const TapWeights<Tiles>& w,
                              std::int64_t rows, float* memory,
                              const Convolved& y) {
  convolve(in_lines(g, s.heads, memory), s.r - s.right, s.pad, s.heads,
           g.width - g.radius, w, rows, y);
}

}  // namespace
}  // namespace ea::simd::EA_TARGET

#endif
