// Packs matrices into panels, in elements of 4 bytes: a pair of bfloat16 that
// are neighbours in depth.
#include "kernels/cpu/onednn/panels.h"

#include <algorithm>
#include <cstring>

#include "runtime/bfloat16.h"
#include "runtime/threads.h"

namespace ea::onednn {

namespace {

typedef std::uint32_t Vec __attribute__((vector_size(16)));
typedef std::uint16_t Halves __attribute__((vector_size(16)));

// panel [depth, 64] = transpose of `cols` rows of `depth` elements; `stride`
// in bytes.
void turn(const char* from, std::int64_t stride, std::int64_t cols,
          std::int64_t depth, std::uint32_t* panel) {
  constexpr std::int64_t kRun = 16;  // elements: one cache line of each row
  constexpr std::int64_t kAhead = 12;
  const std::int64_t whole = depth / 4 * 4, quads = cols / 4 * 4;
  for (std::int64_t d0 = 0; d0 < whole; d0 += kRun) {
    const std::int64_t end = std::min(d0 + kRun, whole);
    for (std::int64_t j = 0; j < quads; j += 4) {
      const char* row = from + j * stride;
      if (j + kAhead + 4 <= cols) {
        for (int i = 0; i < 4; ++i) {
          __builtin_prefetch(row + (kAhead + i) * stride + d0 * 4);
        }
      } else if (d0 + kRun < whole) {
        const char* next = from + (j + kAhead - quads) * stride;
        for (int i = 0; i < 4 && j + kAhead >= quads; ++i) {
          __builtin_prefetch(next + i * stride + (d0 + kRun) * 4);
        }
      }
      for (std::int64_t d = d0; d < end; d += 4) {
        Vec r[4];
        for (int i = 0; i < 4; ++i) {
          std::memcpy(&r[i], row + i * stride + d * 4, sizeof(Vec));
        }
        const Vec a = __builtin_shuffle(r[0], r[1], Vec{0, 4, 1, 5});
        const Vec b = __builtin_shuffle(r[2], r[3], Vec{0, 4, 1, 5});
        const Vec c = __builtin_shuffle(r[0], r[1], Vec{2, 6, 3, 7});
        const Vec e = __builtin_shuffle(r[2], r[3], Vec{2, 6, 3, 7});
        const Vec out[4] = {__builtin_shuffle(a, b, Vec{0, 1, 4, 5}),
                            __builtin_shuffle(a, b, Vec{2, 3, 6, 7}),
                            __builtin_shuffle(c, e, Vec{0, 1, 4, 5}),
                            __builtin_shuffle(c, e, Vec{2, 3, 6, 7})};
        for (int i = 0; i < 4; ++i) {
          std::memcpy(panel + (d + i) * kPanel + j, &out[i], sizeof(Vec));
        }
      }
    }
  }
  for (std::int64_t j = 0; j < cols; ++j) {  // the rest, after all quads
    for (std::int64_t d = j < quads ? whole : 0; d < depth; ++d) {
      std::memcpy(panel + d * kPanel + j, from + j * stride + d * 4, 4);
    }
  }
}

// panel [pairs, 64, 2] = rows 2 i and 2 i + 1 of `cols` bfloat16, interleaved.
void interleave(const char* from, std::int64_t stride, std::int64_t cols,
                std::int64_t pairs, std::uint32_t* panel) {
  for (std::int64_t d = 0; d < pairs; ++d) {
    const char* even = from + 2 * d * stride;
    const char* odd = even + stride;
    std::uint32_t* to = panel + d * kPanel;
    std::int64_t j = 0;
    for (; j + 8 <= cols; j += 8) {
      Halves a, b;
      std::memcpy(&a, even + j * 2, sizeof(a));
      std::memcpy(&b, odd + j * 2, sizeof(b));
      const Halves low =
          __builtin_shuffle(a, b, Halves{0, 8, 1, 9, 2, 10, 3, 11});
      const Halves high =
          __builtin_shuffle(a, b, Halves{4, 12, 5, 13, 6, 14, 7, 15});
      std::memcpy(to + j, &low, sizeof(low));
      std::memcpy(to + j + 4, &high, sizeof(high));
    }
    for (; j < cols; ++j) {
      std::memcpy(to + j, even + j * 2, 2);
      std::memcpy(reinterpret_cast<char*>(to + j) + 2, odd + j * 2, 2);
    }
  }
}

// Pairs the last row of an odd depth with zeros.
void last_half(const char* from, std::int64_t step, std::int64_t cols,
               std::uint32_t* to) {
  for (std::int64_t j = 0; j < cols; ++j) {
    to[j] = 0;
    std::memcpy(to + j, from + j * step, 2);
  }
}

void one_panel(const Problem& p, std::int64_t col, std::uint32_t* panel) {
  constexpr std::int64_t size = sizeof(bfloat16);
  const std::int64_t cols = std::min(kPanel, p.n - col);
  const std::int64_t depth = p.k / 2;
  const std::int64_t rows = panel_depth(p.k) / 2;
  const std::int64_t stride = p.b_stride * size;
  const char* from = static_cast<const char*>(p.b) + b_offset(p, 0, col) * size;
  if (cols < kPanel) std::memset(panel, 0, rows * kPanel * 4);
  if (p.transpose_b) {
    turn(from, stride, cols, depth, panel);
  } else {
    interleave(from, stride, cols, depth, panel);
  }
  std::int64_t done = depth;
  if (p.k % 2 != 0) {
    const std::int64_t step = p.transpose_b ? stride : size;
    const char* last =
        from + (p.transpose_b ? (p.k - 1) * size : (p.k - 1) * stride);
    last_half(last, step, cols, panel + done * kPanel);
    ++done;
  }
  std::memset(panel + done * kPanel, 0, (rows - done) * kPanel * 4);
}

}  // namespace

std::int64_t panel_depth(std::int64_t k) { return round_up(k, 32); }

std::int64_t panels_bytes(std::int64_t k, std::int64_t n) {
  return round_up(n, kPanel) * panel_depth(k) *
         static_cast<std::int64_t>(sizeof(bfloat16));
}

Panels::Panels(const Problem& p)
    : operand(p), data(static_cast<std::size_t>(panels_bytes(p.k, p.n))) {
  const std::int64_t bytes = panels_bytes(p.k, 1);
  char* const panels = static_cast<char*>(data.data());
  parallel_for(ceil_div(p.n, kPanel), [&](std::int64_t i) {
    one_panel(p, i * kPanel,
              reinterpret_cast<std::uint32_t*>(panels + i * bytes));
  });
}

}  // namespace ea::onednn
