// The weight gradient of a convolution: sums over tokens of dy times the rows
// of x that a tap pairs with dy.
#pragma once

#include "kernels/cpu/simd/conv1d-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// A run of rows that one tap pairs: `rows` rows of dy from row `a`, with as
// many rows of x from row `b`.
struct Run {
  std::int64_t a, b, rows;
};

// Copies dy to `columns` as the cells of a tile of dweight: columns[t, i] is
// dy[t, i] as a float, or the pair of dy[t, i] and dy[t + 1, i] (0 after the
// last row).
template <typename M>
void copy_columns(const typename M::T* dy, std::int64_t stride,
                  std::int64_t rows, std::int64_t width, float* columns) {
  for (std::int64_t t = 0; t < rows; ++t, columns += kTileRows, dy += stride) {
    for_vectors(width, [&](std::int64_t i, auto part) {
      Vf cell = load(dy + i, part);
#if defined(__AVX512F__)
      if constexpr (M::kPairs) {
        cell = pair_of(cell,
                       t + 1 < rows ? load(dy + stride + i, part) : set(0.0f));
      }
#endif
      store(columns + i, cell, part);
    });
  }
}

// Loads the cells of one row of x, or of two, from b; the last of kVectors
// vectors holds `last` columns.
template <typename M, int kVectors>
EA_INLINE void load_rows(const typename M::T* b,
                         [[maybe_unused]] std::int64_t stride,
                         [[maybe_unused]] std::int64_t rows, Part last,
                         Vf (&cells)[kVectors]) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const typename M::T* at = b + v * kLanes;
    cells[v] = v + 1 < kVectors ? load(at) : load(at, last);
#if defined(__AVX512F__)
    if constexpr (M::kPairs) {
      Vf second = set(0.0f);
      if (rows > 1) {
        second = v + 1 < kVectors ? load(at + stride) : load(at + stride, last);
      }
      cells[v] = pair_of(cells[v], second);
    }
#endif
  }
}

// Computes a tile of dweight for one tap: C [kRows, kVectors vectors] (+)= sum
// over the runs of dy[., i] x[., columns]. `columns` is [., kTileRows], x [.,
// stride].
template <typename M, int kRows, int kVectors>
void weight_tile(const Run* runs, std::int64_t count, const float* columns,
                 const typename M::T* x, std::int64_t stride, bool add,
                 float* c, std::int64_t c_stride, Part last) {
  Vf sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const float* at = c + i * c_stride + v * kLanes;
      sum[i][v] = !add ? set(0) : v + 1 < kVectors ? load(at) : load(at, last);
    }
  }
  constexpr std::int64_t kStep = M::kPairs ? 2 : 1;
  for (const Run* run = runs; run < runs + count; ++run) {
    const float* a = columns + run->a * kTileRows;
    const typename M::T* b = x + run->b * stride;
    const float* const end = a + run->rows / kStep * kStep * kTileRows;
    for (; a < end; a += kStep * kTileRows, b += kStep * stride) {
      Vf cells[kVectors];
      load_rows<M, kVectors>(b, stride, kStep, last, cells);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const Vf value = set(cell_at(a + i));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sum[i][v] = M::Cells::add(sum[i][v], value, cells[v]);
        }
      }
    }
    if (kStep == 1 || run->rows % kStep == 0) continue;
    // One row is left; the second half of its cells belongs to another run.
    Vf cells[kVectors];
    load_rows<M, kVectors>(b, stride, 1, last, cells);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const Vf value = (Vf)((Vi)set(cell_at(a + i)) & 0xffff);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[i][v] = M::Cells::add(sum[i][v], value, cells[v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* at = c + i * c_stride + v * kLanes;
      if (v + 1 < kVectors) {
        store(at, sum[i][v]);
      } else {
        store(at, sum[i][v], last);
      }
    }
  }
}

// Partition of dweight into blocks of tokens, whose sums are combined, and
// ranges of output channels. A job computes its sums, [range, taps, in], in
// chunks of tokens whose rows stay in the L2 cache.
struct WeightJobs {
  static constexpr std::int64_t kChunk = 128;    // tokens
  static constexpr std::int64_t kBlock = 2048;   // tokens, at least
  static constexpr std::int64_t kMaxBlocks = 8;  // bounds the memory
  std::int64_t tokens, blocks, range, ranges;

  WeightJobs(std::int64_t total, std::int64_t out) : tokens(total) {
    blocks = total / kBlock;
    blocks = blocks < 1 ? 1 : blocks > kMaxBlocks ? kMaxBlocks : blocks;
    // With few tokens, ranges are many and narrow, and each reads all of x from
    // cache. With many tokens, ranges are wide, because x comes from memory.
    range = (blocks == 1 ? 1 : 4) * kTileRows;
    ranges = ceil_div(out, range);
  }
};

// Finds the runs of tokens first .. last for which the row `shift` ahead lies
// in the same sequence; `sequence` is the first sequence that ends after
// `first`.
inline std::int64_t find_runs(const Conv1dTaps& taps, std::int64_t sequence,
                              std::int64_t shift, std::int64_t first,
                              std::int64_t last, Run* runs) {
  std::int64_t count = 0;
  for (; sequence < taps.sequences && taps.offsets[sequence] < last;
       ++sequence) {
    const std::int64_t begin = taps.offsets[sequence];
    const std::int64_t end = taps.offsets[sequence + 1];
    std::int64_t from = shift < 0 ? begin - shift : begin;
    std::int64_t to = shift > 0 ? end - shift : end;
    from = from < first ? first : from;
    to = to > last ? last : to;
    if (from < to) runs[count++] = {from - first, from + shift, to - from};
  }
  return count;
}

// Computes the sums of one job over tokens begin .. end, for output channels o
// .. o + range.
template <typename M>
void sum_products(const Conv1dBackward::Args& args, std::int64_t begin,
                  std::int64_t end, std::int64_t o, std::int64_t range,
                  float* sums) {
  using T = typename M::T;
  constexpr std::int64_t kChunk = WeightJobs::kChunk;
  const Conv1dTaps& taps = args.taps;
  const std::int64_t out = args.weight.shape[0], in = args.weight.shape[1],
                     count = args.weight.shape[2];
  const std::int64_t tiles = ceil_div(range, kTileRows);
  const Scratch memory(kChunk * static_cast<std::int64_t>(sizeof(Run)) +
                       tiles * kChunk * kTileRows * 4);
  Run* runs = memory.as<Run>();
  float* columns = reinterpret_cast<float*>(runs + kChunk);
  const auto rows_of = [=](std::int64_t tile) {
    const std::int64_t left = range - tile * kTileRows;
    return left < kTileRows ? left : std::int64_t{kTileRows};
  };
  std::int64_t sequence = 0;
  for (std::int64_t first = begin; first < end; first += kChunk) {
    const std::int64_t last = first + kChunk < end ? first + kChunk : end;
    const std::int64_t size =
        (last - first) * kTileRows;  // size of a tile's columns
    while (taps.offsets[sequence + 1] <= first) ++sequence;
    for (std::int64_t i = 0; i < tiles; ++i) {
      copy_columns<M>(args.dy.as<T>() + first * out + o + i * kTileRows, out,
                      last - first, rows_of(i), columns + i * size);
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t shift = j * taps.dilation - taps.reach;
      const std::int64_t found =
          find_runs(taps, sequence, shift, first, last, runs);
      for (std::int64_t col = 0; col < in; col += kPanel) {
        const std::int64_t left = in - col < kPanel ? in - col : kPanel;
        const bool wide = left > kLanes;
        const Part part(wide ? left - kLanes : left);
        for (std::int64_t i = 0; i < tiles; ++i) {
          float* c = sums + (i * kTileRows * count + j) * in + col;
          with_count<kTileRows>(rows_of(i), [&](auto n) {
            (wide ? weight_tile<M, n, 2>
                  : weight_tile<M, n, 1>)(runs, found, columns + i * size,
                                          args.x.as<T>() + col, in,
                                          first != begin, c, count * in, part);
          });
        }
      }
    }
  }
}

template <typename M>
void run_weight_gradient(const Conv1dBackward::Args& args) {
  using T = typename M::T;
  const std::int64_t out = args.weight.shape[0], in = args.weight.shape[1],
                     taps = args.weight.shape[2];
  const WeightJobs jobs(args.x.shape[0], out);
  const std::int64_t size = out * taps * in;
  const Scratch scratch(jobs.blocks * size * 4);
  float* partial = scratch.as<float>();  // [blocks, out, taps, in]
  if (jobs.tokens == 0) {
    __builtin_memset(partial, 0, static_cast<std::size_t>(size) * 4);
  }
  parallel_for(jobs.blocks * jobs.ranges, [&](std::int64_t job) {
    const std::int64_t block = job / jobs.ranges;
    const std::int64_t o = job % jobs.ranges * jobs.range;
    sum_products<M>(args, jobs.tokens * block / jobs.blocks,
                    jobs.tokens * (block + 1) / jobs.blocks, o,
                    out - o < jobs.range ? out - o : jobs.range,
                    partial + block * size + o * taps * in);
  });
  // Combines the blocks and transposes [out, taps, in] to [out, in, taps].
  parallel_chunks(out, items_per_job(jobs.blocks * taps * in),
                  [&](std::int64_t first, std::int64_t last) {
                    const Scratch memory(in * 4);
                    float* row = memory.as<float>();
                    for (std::int64_t o = first; o < last; ++o) {
                      for (std::int64_t j = 0; j < taps; ++j) {
                        combine_blocks(partial + (o * taps + j) * in,
                                       jobs.blocks, size, row, in);
                        T* to = args.dweight.as<T>() + o * in * taps + j;
                        for (std::int64_t c = 0; c < in; ++c) {
                          store_one(to + c * taps, row[c]);
                        }
                      }
                    }
                  });
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
