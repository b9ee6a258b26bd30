// Transposes matrices in blocks with one 16-byte vector per row.
#include "kernels/cpu/onednn/transpose.h"

#include <algorithm>
#include <cstring>

#include "runtime/threads.h"

namespace ea::onednn {

namespace {

template <typename T>
struct Block;

template <>
struct Block<bfloat16> {
  static constexpr int kSide = 8, kRounds = 3;
  typedef std::uint16_t Row __attribute__((vector_size(16)));
  static constexpr Row kLow{0, 8, 1, 9, 2, 10, 3, 11};
  static constexpr Row kHigh{4, 12, 5, 13, 6, 14, 7, 15};
};

template <>
struct Block<float> {
  static constexpr int kSide = 4, kRounds = 2;
  typedef std::uint32_t Row __attribute__((vector_size(16)));
  static constexpr Row kLow{0, 4, 1, 5};
  static constexpr Row kHigh{2, 6, 3, 7};
};

// Transposes the block at `from`, of which `rows` rows and `cols` columns
// exist. Rows of the result are written whole, padded with zeros.
template <typename T>
void copy_block(const T* from, std::int64_t stride, std::int64_t rows,
                std::int64_t cols, T* to, std::int64_t to_stride) {
  using B = Block<T>;
  constexpr int kSide = B::kSide;
  typename B::Row block[kSide] = {};
  if (rows >= kSide && cols >= kSide) {
    for (int i = 0; i < kSide; ++i) {
      std::memcpy(&block[i], from + i * stride, sizeof(block[i]));
    }
  } else {
    for (int i = 0; i < kSide && i < rows; ++i) {
      std::memcpy(&block[i], from + i * stride,
                  std::min<std::int64_t>(cols, kSide) * sizeof(T));
    }
  }
  // Each round interleaves row i with row i + half.
  for (int round = 0; round < B::kRounds; ++round) {
    typename B::Row next[kSide];
    for (int i = 0; i < kSide / 2; ++i) {
      const auto a = block[i], b = block[i + kSide / 2];
      next[2 * i] = __builtin_shuffle(a, b, B::kLow);
      next[2 * i + 1] = __builtin_shuffle(a, b, B::kHigh);
    }
    for (int i = 0; i < kSide; ++i) block[i] = next[i];
  }
  for (int j = 0; j < kSide && j < cols; ++j) {
    std::memcpy(static_cast<void*>(to + j * to_stride), &block[j],
                sizeof(block[j]));
  }
}

template <typename T>
void transpose_of(const T* from, std::int64_t stride, std::int64_t rows,
                  std::int64_t cols, T* to, std::int64_t to_stride) {
  constexpr std::int64_t kSide = Block<T>::kSide;
  constexpr std::int64_t kStrip = 32;  // columns per job: lines stay in L1
  constexpr std::int64_t kAhead = 16;  // rows: each is in a page of its own
  parallel_chunks(cols, kStrip, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < to_stride; i += kSide) {
      for (std::int64_t j = begin; j < end; j += kSide) {
        if (i + kAhead + kSide <= rows) {
          for (int row = 0; row < kSide; ++row) {
            __builtin_prefetch(from + (i + kAhead + row) * stride + j);
          }
        }
        copy_block(from + i * stride + j, stride, rows - i, end - j,
                   to + j * to_stride + i, to_stride);
      }
    }
  });
}

}  // namespace

void transpose_padded(const bfloat16* from, std::int64_t stride,
                      std::int64_t rows, std::int64_t cols, bfloat16* to,
                      std::int64_t to_stride) {
  transpose_of(from, stride, rows, cols, to, to_stride);
}

void transpose_padded(const float* from, std::int64_t stride, std::int64_t rows,
                      std::int64_t cols, float* to, std::int64_t to_stride) {
  transpose_of(from, stride, rows, cols, to, to_stride);
}

void copy_padded(const bfloat16* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t cols, bfloat16* to, std::int64_t to_rows,
                 std::int64_t to_cols) {
  for (std::int64_t i = 0; i < to_rows; ++i) {
    const std::int64_t used = i < rows ? cols : 0;
    std::memcpy(static_cast<void*>(to + i * to_cols), from + i * stride,
                used * sizeof(bfloat16));
    std::memset(static_cast<void*>(to + i * to_cols + used), 0,
                (to_cols - used) * sizeof(bfloat16));
  }
}

}  // namespace ea::onednn
