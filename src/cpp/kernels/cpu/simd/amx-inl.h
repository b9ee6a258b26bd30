// The products of tile-inl.h on AMX tiles: one instruction accumulates the
// products of 16 x 16 x 16 pairs of bfloat16.
//
// Instructions are given by name, as in Pairs. Each sum adds its terms in the
// order of depth, whatever the number of rows.
#pragma once

#include <utility>

#include "kernels/cpu/simd/tile-inl.h"

#if defined(__AVX512F__)

namespace ea::simd::EA_TARGET {
namespace {

constexpr int kTileCells = kLanes * kLanes;
constexpr int kMostTiles = 4;  // adjacent tiles of C: registers 0 to 3
constexpr int kSumTiles = 6;   // or registers 0 to 5; the others hold factors

// Configures the thread's tile registers for its lifetime, by default as 16
// rows of 64 bytes; then restores what was configured before. Only code that
// holds a TileSetup may use Tiles.
class TileSetup {
 public:
  TileSetup() : TileSetup(kLanes, kLanes, kMostTiles) {}
  // For sums [rows][16 floats] of products of a left factor [rows][depth pairs]
  // and a right one [depth][16 pairs]. Registers before `left` hold sums,
  // `left` holds a left factor, the later ones hold right factors.
  TileSetup(std::int64_t rows, std::int64_t depth, int left) {
    asm volatile("sttilecfg %0" : "=m"(before_));
    Config config{.palette = 1};
    for (int i = 0; i < 8; ++i) {
      config.bytes[i] = static_cast<std::uint16_t>(i == left ? 4 * depth : 64);
      config.rows[i] = static_cast<std::uint8_t>(i > left ? depth : rows);
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  // Without an earlier configuration this releases the registers.
  ~TileSetup() { asm volatile("ldtilecfg %0" : : "m"(before_)); }
  TileSetup(const TileSetup&) = delete;
  TileSetup& operator=(const TileSetup&) = delete;

 private:
  struct alignas(64) Config {
    std::uint8_t palette = 0, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  Config before_;
};

template <int kTile>
EA_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile, typename T>
EA_INLINE void load_tile(const T* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride * static_cast<std::int64_t>(sizeof(T))),
                 "i"(kTile)
               : "memory");
}
template <int kTile>
EA_INLINE void store_tile(float* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride * 4), "i"(kTile)
               : "memory");
}
template <int kSum, int kLeft, int kRight>
EA_INLINE void add_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(kSum), "i"(kLeft), "i"(kRight));
}

// Calls fn(tile) for each number of a sequence, as a constant.
template <int... kTile, typename Fn>
EA_INLINE void for_tiles(std::integer_sequence<int, kTile...>, Fn&& fn) {
  (fn(Always<kTile>{}), ...);
}

// Tag of products on AMX tiles; their cells are pairs.
struct Tiles : Pairs {};

// Copies rows i .. i + rows and cells k .. k + depth of A into a 16 x 16 block
// padded with zeros.
EA_INLINE void gather_left(const Factor& a, std::int64_t i, std::int64_t rows,
                           std::int64_t k, std::int64_t depth, float* block) {
  if (a.col == 1) {
    const Part part(depth);
    for (std::int64_t r = 0; r < kLanes; ++r) {
      const float* const from = a.data + (i + r) * a.row + k;
      store(block + r * kLanes, r < rows ? load(from, part) : set(0.0f));
    }
    return;
  }
  const Part part(rows);
  Vf cells[kLanes];
#pragma GCC unroll 16
  for (int d = 0; d < kLanes; ++d) {
    const float* const from = a.data + i + (k + d) * a.col;
    cells[d] = d < depth ? load(from, part) : set(0.0f);
  }
  transpose(cells);
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) store(block + r * kLanes, cells[r]);
}

// Computes up to 16 rows of C from row i, in kTiles tiles from column j.
template <int kTiles>
void tiles_of(const Factor& a, const float* packed, std::int64_t i,
              std::int64_t rows, std::int64_t depth, std::int64_t j,
              std::int64_t cols, float scale, float* c, std::int64_t c_stride) {
  constexpr int kLeft = kMostTiles;
  alignas(64) float block[kTileCells], other[kTileCells];
  constexpr std::make_integer_sequence<int, kTiles> all;
  for_tiles(all, [](auto tile) { zero_tile<tile>(); });
  for (std::int64_t k = 0; k < depth; k += kLanes) {
    const std::int64_t deep = depth - k < kLanes ? depth - k : kLanes;
    if (a.col == 1 && rows == kLanes && deep == kLanes) {
      load_tile<kLeft>(a.data + i * a.row + k, a.row);
    } else {
      gather_left(a, i, rows, k, deep, block);
      load_tile<kLeft>(block, kLanes);
    }
    for_tiles(all, [&](auto tile) {
      constexpr int kRight = kLeft + 1 + tile % 3;
      const std::int64_t col = j + tile * kLanes;
      const float* const b =
          packed + col / kPanel * kPanel * depth + col % kPanel + k * kPanel;
      if (deep == kLanes) {
        load_tile<kRight>(b, kPanel);
      } else {
        for (std::int64_t d = 0; d < kLanes; ++d) {
          store(other + d * kLanes,
                d < deep ? load(b + d * kPanel) : set(0.0f));
        }
        load_tile<kRight>(other, kLanes);
      }
      add_products<tile, kLeft, kRight>();
    });
  }
  for_tiles(all, [&](auto tile) {
    const std::int64_t left = cols - j - tile * kLanes;
    float* const to = c + i * c_stride + j + tile * kLanes;
    if (scale == 1.0f && rows == kLanes && left >= kLanes) {
      store_tile<tile>(to, c_stride);
      return;
    }
    store_tile<tile>(other, kLanes);
    const Part part(left < kLanes ? left : kLanes);
    for (std::int64_t r = 0; r < rows; ++r) {
      store(to + r * c_stride, load(other + r * kLanes) * set(scale), part);
    }
  });
}

template <>
void multiply<Tiles>(Factor a, const float* packed, std::int64_t rows,
                     std::int64_t depth, std::int64_t cols, float scale,
                     float* c, std::int64_t c_stride) {
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    const std::int64_t count = rows - i < kLanes ? rows - i : kLanes;
    for (std::int64_t j = 0; j < cols; j += kMostTiles * kLanes) {
      const std::int64_t tiles = (cols - j + kLanes - 1) / kLanes;
      with_count<kMostTiles>(tiles, [&](auto n) {
        tiles_of<n>(a, packed, i, count, depth, j, cols, scale, c, c_stride);
      });
    }
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET

#endif
