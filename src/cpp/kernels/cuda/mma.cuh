// The tensor-core tile product D = A B + C, bfloat16 into float32, by one warp.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "runtime/bfloat16.h"

namespace ea::cuda {

// A 16 x 16 (rows m, columns k), B 16 x 8 (rows k, columns n), C and D 16 x 8,
// spread over the lanes of a warp. With g = lane / 4 and t = lane % 4 a lane
// holds, low half of a register first:
//   a[0]: A[g, 2t..2t+1]      a[1]: A[g + 8, 2t..2t+1]
//   a[2]: A[g, 2t+8..2t+9]    a[3]: A[g + 8, 2t+8..2t+9]
//   b[0]: B[2t..2t+1, g]      b[1]: B[2t+8..2t+9, g]
//   c[0..1]: C[g, 2t..2t+1]   c[2..3]: C[g + 8, 2t..2t+1]
struct FragmentA {
  std::uint32_t a[4];
};
struct FragmentB {
  std::uint32_t b[2];
};
struct FragmentC {
  float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
};

inline constexpr int kTileM = 16, kTileN = 8, kTileK = 16;

// Row and column, within the tile, of element i of this lane's FragmentC.
__device__ inline int row_of_c(int lane, int i) { return lane / 4 + i / 2 * 8; }
__device__ inline int column_of_c(int lane, int i) {
  return lane % 4 * 2 + i % 2;
}

// Loads four tiles of 8 x 8 bfloat16 from shared memory. Lane 8 i + r passes
// the address of row r of tile i, aligned to 16 bytes. Register i of a lane
// receives row lane / 4, columns 2 (lane % 4) and the next, of tile i, or of
// its transpose if kTurned.
template <bool kTurned>
__device__ inline void load_tiles(const bfloat16* row, std::uint32_t (&to)[4]) {
#if defined(__CUDACC__)
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTurned) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "r"(address)
        : "memory");
  } else {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "r"(address)
        : "memory");
  }
#else
  emulation::load_tiles(row, kTurned, to);
#endif
}

// c += a b. All 32 lanes must take part. Products are exact, sums in float32.
__device__ inline void mma(FragmentC& c, const FragmentA& a,
                           const FragmentB& b) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.c[0]), "+f"(c.c[1]), "+f"(c.c[2]), "+f"(c.c[3])
      : "r"(a.a[0]), "r"(a.a[1]), "r"(a.a[2]), "r"(a.a[3]), "r"(b.b[0]),
        "r"(b.b[1]));
#else
  emulation::mma_m16n8k16(c.c, a.a, b.b);
#endif
}

}  // namespace ea::cuda
